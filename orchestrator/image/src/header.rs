//! The file headers: v4 (4096 bytes, stored twice), and v2/v3 (an MTCP page after a part of variable length).

use super::{PAGE, layout::Layout, name::Name};
use serde::{Deserialize, Serialize};

/// First bytes of every uncompressed image.
pub(super) const MAGIC: &[u8] = b"DMTCP_CHECKPOINT_IMAGE_v";
/// First line of a v4 image.
pub(super) const SIGNATURE_V4: &str = "DMTCP_CHECKPOINT_IMAGE_v4.0\n";
/// First line of a v2 or v3 image.
pub(super) const SIGNATURE_V2: &str = "DMTCP_CHECKPOINT_IMAGE_v2.0\n";
/// Start of the second part of a v2 or v3 image.
pub(super) const SIGNATURE_MTCP: &str = "MTCP_HEADER_v2.2\n";

/// A signature line, the same in every image of a format. (A named type, because serde would borrow a `&str` from its input.)
type Signature = &'static str;

/// Addresses from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Last address + 1.
    pub end: u64,
}

/// DMTCP's unique identifier of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniquePid {
    /// A digest of the host.
    pub hostid: u64,
    /// When the process was started, in DMTCP's own count.
    pub time: u64,
    /// Virtual pid: the pid that the process itself sees.
    pub pid: i32,
    /// Number of restarts or checkpoints of the computation.
    pub generation: u32,
}

/// Header of a v4 image. The field names in JSON are those of DMTCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct V4Header {
    /// First line of the file, including the line end.
    #[serde(deserialize_with = "signature_v4")]
    pub signature: Signature,
    /// The unique pid of this process.
    pub upid: UniquePid,
    /// The unique pid of its parent.
    pub uppid: UniquePid,
    /// The unique pid of the root process of the computation.
    pub comp_group: UniquePid,
    /// Virtual pid.
    pub pid: i32,
    /// Virtual pid of the parent.
    pub ppid: i32,
    /// Virtual session ID.
    pub sid: i32,
    /// Virtual process group ID.
    pub gid: i32,
    /// Virtual ID of the foreground process group; -1 if unknown.
    pub fgid: i32,
    /// 1 for the root of the process tree.
    pub is_root_of_process_tree: u32,
    /// Number of processes in the computation, including launchers and proxies.
    pub num_peers: u32,
    /// 0 = 32 bits, 1 = 64 bits.
    pub elf_type: u32,
    /// Offset in the vDSO.
    #[serde(rename = "clock_gettime_offset")]
    pub clock_gettime_offset: u64,
    /// Offset in the vDSO.
    #[serde(rename = "getcpu_offset")]
    pub getcpu_offset: u64,
    /// Offset in the vDSO.
    #[serde(rename = "gettimeofday_offset")]
    pub gettimeofday_offset: u64,
    /// Offset in the vDSO.
    #[serde(rename = "time_offset")]
    pub time_offset: u64,
    /// The reserved address range to which mtcp_restart is copied; never stored.
    #[serde(flatten, with = "restore_buf")]
    pub restore_buf: Range,
    /// The vDSO; never stored.
    #[serde(flatten, with = "vdso")]
    pub vdso: Range,
    /// The data of the vDSO; never stored.
    #[serde(flatten, with = "vvar")]
    pub vvar: Range,
    /// Further vDSO data on newer kernels; both bounds are 0 on other kernels.
    #[serde(flatten, with = "vvar_vclock")]
    pub vvar_vclock: Range,
    /// Program break at the checkpoint.
    pub saved_brk: u64,
    /// Highest address of the main stack + 1.
    pub end_of_stack: u64,
    /// Entry point for a restart.
    pub post_restart_addr: u64,
    /// Name of the program.
    pub procname: Name,
    /// Absolute path of the executable; for a script, of its interpreter.
    pub proc_self_exe: Name,
}

/// Releases with different words in the MTCP header of a v2 or v3 image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum V2Release {
    /// 2.1 to 2.4 (layout A): without the end of the stack.
    #[serde(rename = "2.1-2.4")]
    V2_4,
    /// 2.5 and 2.6 (layout B).
    #[serde(rename = "2.5-2.6")]
    V2_6,
    /// 3.0 (layout C without vvar_vclock).
    #[serde(rename = "3.0")]
    V3_0,
    /// 3.2 (layout C with vvar_vclock).
    #[serde(rename = "3.2")]
    V3_2,
}

/// MTCP header of a v2 or v3 image: the words as stored, and their interpretation for the release that wrote them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct V2Header {
    /// The second signature, including the line end.
    #[serde(deserialize_with = "signature_mtcp")]
    pub signature: Signature,
    /// Number of pages before the MTCP header.
    #[serde(rename = "dmtcp_pages")]
    pub dmtcp_pages: u64,
    /// The first words after the signature.
    pub words: [u64; 12],
    /// The release whose interpretation applies.
    pub release: V2Release,
    /// Program break at the checkpoint.
    pub saved_brk: u64,
    /// Address range to which mtcp_restart is copied.
    #[serde(flatten, with = "restore_buf")]
    pub restore_buf: Range,
    /// The vDSO; never stored.
    #[serde(flatten, with = "vdso")]
    pub vdso: Range,
    /// The data of the vDSO; never stored.
    #[serde(flatten, with = "vvar")]
    pub vvar: Range,
    /// Further vDSO data; since release 3.2.
    #[serde(flatten, with = "vvar_vclock_option")]
    pub vvar_vclock: Option<Range>,
    /// Highest address of the main stack + 1; since release 2.5.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_of_stack: Option<u64>,
    /// Entry point for a restart.
    pub post_restart_addr: u64,
}

/// The file header of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Header {
    /// DMTCP 4.0 and later.
    V4(Box<V4Header>),
    /// DMTCP 2.x and 3.x.
    V2(Box<V2Header>),
}

impl Header {
    /// Returns the highest address of the main stack + 1, if the image records it.
    #[must_use]
    pub fn end_of_stack(&self) -> Option<u64> {
        match self {
            Self::V4(header) => Some(header.end_of_stack),
            Self::V2(header) => header.end_of_stack,
        }
    }

    /// Returns the program break at the checkpoint.
    #[must_use]
    pub fn saved_brk(&self) -> u64 {
        match self {
            Self::V4(header) => header.saved_brk,
            Self::V2(header) => header.saved_brk,
        }
    }
}

fn known<'de, D: serde::Deserializer<'de>>(
    signature: &'static str,
    deserializer: D,
) -> Result<&'static str, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text == signature {
        Ok(signature)
    } else {
        Err(serde::de::Error::custom(format_args!(
            "unknown signature {text:?}"
        )))
    }
}

fn signature_v4<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static str, D::Error> {
    known(SIGNATURE_V4, deserializer)
}

fn signature_mtcp<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<&'static str, D::Error> {
    known(SIGNATURE_MTCP, deserializer)
}

/// Serialises a range as two entries (start, end) of the enclosing object.
macro_rules! flat_range {
    ($module:ident, $start:literal, $end:literal) => {
        mod $module {
            use super::Range;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            #[derive(Serialize, Deserialize)]
            struct Pair {
                #[serde(rename = $start)]
                start: u64,
                #[serde(rename = $end)]
                end: u64,
            }

            pub fn serialize<S: Serializer>(
                range: &Range,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                Pair {
                    start: range.start,
                    end: range.end,
                }
                .serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Range, D::Error> {
                Pair::deserialize(deserializer).map(|Pair { start, end }| Range { start, end })
            }
        }
    };
}

flat_range!(restore_buf, "restoreBuf.start", "restoreBuf.end");
flat_range!(vdso, "vdso.start", "vdso.end");
flat_range!(vvar, "vvar.start", "vvar.end");
flat_range!(vvar_vclock, "vvarVClock.start", "vvarVClock.end");

/// Serialises a range as `flat_range` does; a range that is absent has no entries.
mod vvar_vclock_option {
    use super::Range;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Pair {
        #[serde(
            rename = "vvarVClock.start",
            skip_serializing_if = "Option::is_none",
            default
        )]
        start: Option<u64>,
        #[serde(
            rename = "vvarVClock.end",
            skip_serializing_if = "Option::is_none",
            default
        )]
        end: Option<u64>,
    }

    pub fn serialize<S: Serializer>(
        range: &Option<Range>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Pair {
            start: range.map(|r| r.start),
            end: range.map(|r| r.end),
        }
        .serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Range>, D::Error> {
        let Pair { start, end } = Pair::deserialize(deserializer)?;
        Ok(start.zip(end).map(|(start, end)| Range { start, end }))
    }
}

/// Reads consecutive little-endian numbers of a page.
struct Cursor<'a> {
    page: &'a [u8; PAGE],
    at: usize,
}

impl Cursor<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.page[self.at..self.at + N].try_into().expect("N bytes");
        self.at += N;
        bytes
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }
    fn i32(&mut self) -> i32 {
        i32::from_le_bytes(self.bytes())
    }
    fn range(&mut self) -> Range {
        Range {
            start: self.u64(),
            end: self.u64(),
        }
    }
    fn upid(&mut self) -> UniquePid {
        UniquePid {
            hostid: self.u64(),
            time: self.u64(),
            pid: self.i32(),
            generation: self.u32(),
        }
    }
}

impl V4Header {
    /// Decodes one copy of the header. The caller has checked the signature.
    pub(super) fn decode(page: &[u8; PAGE]) -> Self {
        let mut c = Cursor { page, at: 32 };
        // The fields are evaluated in this order, which is the order in the file.
        Self {
            signature: SIGNATURE_V4,
            upid: c.upid(),
            uppid: c.upid(),
            comp_group: c.upid(),
            pid: c.i32(),
            ppid: c.i32(),
            sid: c.i32(),
            gid: c.i32(),
            fgid: c.i32(),
            is_root_of_process_tree: c.u32(),
            num_peers: c.u32(),
            elf_type: c.u32(),
            clock_gettime_offset: c.u64(),
            getcpu_offset: c.u64(),
            gettimeofday_offset: c.u64(),
            time_offset: c.u64(),
            restore_buf: c.range(),
            vdso: c.range(),
            vvar: c.range(),
            vvar_vclock: c.range(),
            saved_brk: c.u64(),
            end_of_stack: c.u64(),
            post_restart_addr: c.u64(),
            procname: Name::from_field(&page[256..1280]),
            proc_self_exe: Name::from_field(&page[1280..2304]),
        }
    }
}

/// Returns the words of an MTCP page. Their meaning depends on the layout of the areas.
pub(super) fn mtcp_words(page: &[u8; PAGE]) -> [u64; 12] {
    let mut c = Cursor { page, at: 32 };
    std::array::from_fn(|_| c.u64())
}

impl V2Header {
    /// Interprets the words for the release that the layout identifies.
    pub(super) fn interpret(dmtcp_pages: u64, words: [u64; 12], layout: Layout) -> Self {
        let release = match layout {
            Layout::A => V2Release::V2_4,
            Layout::B => V2Release::V2_6,
            Layout::C if has_vvar_vclock(&words) => V2Release::V3_2,
            Layout::C => V2Release::V3_0,
        };
        let range = |at: usize| Range {
            start: words[at],
            end: words[at + 1],
        };
        // Restore buffers are stored as address and size.
        let sized = |at: usize| Range {
            start: words[at],
            end: words[at].wrapping_add(words[at + 1]),
        };
        let (restore_buf, vdso, vvar, vvar_vclock, end_of_stack, post_restart_addr) = match release
        {
            V2Release::V2_4 => (sized(1), range(3), range(5), None, None, words[7]),
            V2Release::V2_6 => (sized(1), range(3), range(5), None, Some(words[7]), words[8]),
            V2Release::V3_0 => (sized(2), range(4), range(6), None, Some(words[1]), words[8]),
            V2Release::V3_2 => (
                sized(2),
                range(4),
                range(6),
                Some(range(8)),
                Some(words[1]),
                words[10],
            ),
        };
        Self {
            signature: SIGNATURE_MTCP,
            dmtcp_pages,
            words,
            release,
            saved_brk: words[0],
            restore_buf,
            vdso,
            vvar,
            vvar_vclock,
            end_of_stack,
            post_restart_addr,
        }
    }
}

/// Distinguishes release 3.2 from 3.0. Release 3.2 stores the bounds of vvar_vclock before the restart entry point: page-aligned and ascending, or
/// both 0 on kernels without it, followed by the nonzero entry point. In 3.0 the first of these words is the entry point, and no value follows it.
fn has_vvar_vclock(words: &[u64; 12]) -> bool {
    let page = PAGE as u64;
    words[8].is_multiple_of(page)
        && words[9].is_multiple_of(page)
        && words[8] <= words[9]
        && words[10] != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_3_0_and_3_2_are_distinguished() {
        let w3_0 = [
            0x5000,
            0x7fff_0000,
            0x7f00_0000,
            0x1000,
            0x7000,
            0x8000,
            0x3000,
            0x7000,
            0x7fa0_d1cf_3a70,
            0,
            0,
            0,
        ];
        let header = V2Header::interpret(1, w3_0, Layout::C);
        assert_eq!(
            (header.release, header.post_restart_addr, header.vvar_vclock),
            (V2Release::V3_0, 0x7fa0_d1cf_3a70, None)
        );
        let w3_2 = [
            0x5000,
            0x7fff_0000,
            0x7f00_0000,
            0x1000,
            0x7000,
            0x8000,
            0x3000,
            0x5000,
            0x5000,
            0x7000,
            0x7fa0_d1cf_3a70,
            0,
        ];
        let header = V2Header::interpret(1, w3_2, Layout::C);
        assert_eq!(
            header.vvar_vclock,
            Some(Range {
                start: 0x5000,
                end: 0x7000
            })
        );
        assert_eq!(header.post_restart_addr, 0x7fa0_d1cf_3a70);
        let no_vclock = [
            0x5000,
            0x7fff_0000,
            0x7f00_0000,
            0x1000,
            0x7000,
            0x8000,
            0x3000,
            0x7000,
            0,
            0,
            0x7fa0_d1cf_3a70,
            0,
        ];
        assert_eq!(
            V2Header::interpret(1, no_vclock, Layout::C).release,
            V2Release::V3_2
        );
    }
}
