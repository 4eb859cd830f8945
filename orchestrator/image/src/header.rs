//! The file headers: v4 (4096 bytes, stored twice) and v2/v3 (the MTCP page after a part of variable length).

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

/// A line that stands in every image of a format. (By its own name, since serde would borrow a `&str` from what it reads.)
type Signature = &'static str;

/// Addresses from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Last address + 1.
    pub end: u64,
}

/// DMTCP's name for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniquePid {
    /// A digest of the host.
    pub hostid: u64,
    /// When the process was started, in DMTCP's own count.
    pub time: u64,
    /// Virtual pid: the one that the process sees.
    pub pid: i32,
    /// Number of restarts or checkpoints of the computation.
    pub generation: u32,
}

/// Header of a v4 image. Field names in JSON are DMTCP's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct V4Header {
    /// First line of the file, with its line end.
    #[serde(deserialize_with = "signature_v4")]
    pub signature: Signature,
    /// This process.
    pub upid: UniquePid,
    /// Its parent.
    pub uppid: UniquePid,
    /// The root process of the computation.
    pub comp_group: UniquePid,
    /// Virtual process id.
    pub pid: i32,
    /// Virtual id of the parent.
    pub ppid: i32,
    /// Virtual session id.
    pub sid: i32,
    /// Virtual process group.
    pub gid: i32,
    /// Virtual foreground process group; -1 where unknown.
    pub fgid: i32,
    /// 1 for the root of the process tree.
    pub is_root_of_process_tree: u32,
    /// Processes of the computation, launchers and proxies included.
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
    /// The reserved range that mtcp_restart is copied to; never stored.
    #[serde(flatten, with = "restore_buf")]
    pub restore_buf: Range,
    /// The vDSO; never stored.
    #[serde(flatten, with = "vdso")]
    pub vdso: Range,
    /// The vDSO's data; never stored.
    #[serde(flatten, with = "vvar")]
    pub vvar: Range,
    /// More of it on newer kernels; 0, 0 elsewhere.
    #[serde(flatten, with = "vvar_vclock")]
    pub vvar_vclock: Range,
    /// Program break at the checkpoint.
    pub saved_brk: u64,
    /// Highest address of the main stack + 1.
    pub end_of_stack: u64,
    /// Where a restart enters the process.
    pub post_restart_addr: u64,
    /// Name of the program.
    pub procname: Name,
    /// Absolute path of the executable; of the interpreter for a script.
    pub proc_self_exe: Name,
}

/// Which words the MTCP header of a v2 or v3 image has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum V2Release {
    /// 2.1 to 2.4 (layout A): no end of stack.
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

/// MTCP header of a v2 or v3 image: the words as they stand, and what they mean in the release that wrote them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct V2Header {
    /// The second signature, with its line end.
    #[serde(deserialize_with = "signature_mtcp")]
    pub signature: Signature,
    /// Pages before it.
    #[serde(rename = "dmtcp_pages")]
    pub dmtcp_pages: u64,
    /// The first words after the signature.
    pub words: [u64; 12],
    /// How the words are read.
    pub release: V2Release,
    /// Program break at the checkpoint.
    pub saved_brk: u64,
    /// Where mtcp_restart is copied to.
    #[serde(flatten, with = "restore_buf")]
    pub restore_buf: Range,
    /// The vDSO; never stored.
    #[serde(flatten, with = "vdso")]
    pub vdso: Range,
    /// The vDSO's data; never stored.
    #[serde(flatten, with = "vvar")]
    pub vvar: Range,
    /// Since 3.2.
    #[serde(flatten, with = "vvar_vclock_option")]
    pub vvar_vclock: Option<Range>,
    /// Highest address of the main stack + 1; since 2.5.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_of_stack: Option<u64>,
    /// Where a restart enters the process.
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
    /// End of the main stack, where the image says it.
    #[must_use]
    pub fn end_of_stack(&self) -> Option<u64> {
        match self {
            Self::V4(header) => Some(header.end_of_stack),
            Self::V2(header) => header.end_of_stack,
        }
    }

    /// Program break at the checkpoint.
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

/// A range as two entries of the object that it is in.
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

/// The same where it may be missing.
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
    /// Reads one copy of the header; its signature was looked at before.
    pub(super) fn decode(page: &[u8; PAGE]) -> Self {
        let mut c = Cursor { page, at: 32 };
        // The fields are evaluated in the order in which they are written here, which is the order of the file.
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

/// The words of an MTCP page. What they mean is only known once the layout of the areas is.
pub(super) fn mtcp_words(page: &[u8; PAGE]) -> [u64; 12] {
    let mut c = Cursor { page, at: 32 };
    std::array::from_fn(|_| c.u64())
}

impl V2Header {
    /// Gives the words their meaning.
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
        // Restore buffers are given by address and size.
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

/// 3.2 put the bounds of vvar_vclock before the restart entry point. Bounds are page aligned and ascending (or both 0 on
/// kernels without it) and an entry point follows; in 3.0 the first of them is the entry point and nothing follows it.
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
