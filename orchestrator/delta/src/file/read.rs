//! Reads the file of a state.

use super::{DeltaSummary, INDEX_ENTRY, MAGIC, Reference, WITH_MOVED, wire};
use crate::{
    codec,
    error::{DeltaError, DeltaErrorKind},
    hash::Hash,
    layout::{DeltaExtent, DeltaLayout},
};
use cvc_delta_rules::Transform;
use cvc_os::{beneath::is_plain, regular};
use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Length of the trailer, bytes: the offset of the tables, and the magic bytes.
const TRAILER: u64 = 16;
/// Maximum sum of all lengths in a head, bytes.
const MAX_BYTES: u64 = 1 << 60;
/// Maximum compression ratio: zstd can compress 128 KiB to four bytes.
const MAX_RATIO: u64 = 1 << 15;

/// An opened file of a state.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    file: File,
    summary: DeltaSummary,
    packets: Vec<Packet>,
    /// Start of each stored block in the uncompressed packets, bytes; one more entry for the end of the last block.
    starts: Vec<u64>,
    images: Vec<Tables>,
    file_bytes: u64,
}

#[derive(Debug)]
struct Packet {
    offset: u64,
    packed: u64,
    /// Start of this packet in the sequence of all uncompressed packets, bytes.
    start: u64,
    bytes: u64,
    hash: Hash,
}

#[derive(Debug)]
struct Tables {
    layout: DeltaLayout,
    frame: Vec<u8>,
    references: Vec<Reference>,
    /// For each block whose content the base has at another place, the number of that content's block among all blocks of the base.
    moved: Vec<u64>,
}

impl StateFile {
    /// Reads only the summary of a file.
    ///
    /// # Errors
    /// The file is not a state file, or its head is damaged.
    pub fn read_summary(path: &Path) -> Result<DeltaSummary, DeltaError> {
        let opened = Opened::new(path)?;
        let before = opened.read(opened.tables_at, wire::BEFORE as u64)?;
        let length = u64::from_le_bytes(before[..8].try_into().expect("eight bytes"));
        let head = length
            .checked_add(wire::BEFORE as u64)
            .filter(|bytes| *bytes <= opened.tables_bytes)
            .ok_or_else(|| DeltaError::damaged(path, "the head"))?;
        let head = opened.read(opened.tables_at, head)?;
        take_summary(path, &mut &head[..])
    }

    /// Opens a file and reads its tables.
    ///
    /// # Errors
    /// The file is not a state file, or its tables are damaged.
    pub fn open(path: &Path) -> Result<Self, DeltaError> {
        let opened = Opened::new(path)?;
        let tables = opened.read(opened.tables_at, opened.tables_bytes)?;
        let Opened {
            file,
            file_bytes,
            version,
            tables_at,
            ..
        } = opened;
        let mut rest = &tables[..];
        let summary = take_summary(path, &mut rest)?;
        let index = wire::take_section(path, &mut rest, "the index of packets")?;
        let packets = packets(path, &summary, tables_at, index)?;
        let lengths = wire::take_section(path, &mut rest, "the lengths of blocks")?;
        let starts = starts(path, &summary, &packets, lengths)?;
        let mut images = Vec::new();
        for entry in &summary.images {
            let mut table = |what: &str| {
                wire::take_section(path, &mut rest, &format!("{what} of {}", entry.name))
            };
            let frame = table("the frame")?.to_vec();
            let mut layout = DeltaLayout {
                bytes: entry.bytes,
                extents: Vec::new(),
            };
            let mut end = 0_u64;
            wire::expand(path, table("the extents")?, entry.blocks, |e: &[u8; 24]| {
                let [offset, start, bytes] = [0, 1, 2].map(|n| wire::number(e, n));
                // extents must not overlap or be empty: otherwise a small table could claim any number of them
                let is_next = bytes > 0 && offset >= end;
                end = offset.checked_add(bytes).filter(|_| is_next)?;
                layout.extents.push(DeltaExtent {
                    offset,
                    start,
                    bytes,
                });
                Some(())
            })?;
            layout.check(path)?;
            let wrong = || DeltaError::damaged(path, format!("the references of {}", entry.name));
            if layout.blocks(summary.block_bytes) != entry.blocks {
                return Err(wrong());
            }
            let (mut references, mut moves) = (Vec::new(), 0);
            wire::expand(path, table("the references")?, entry.blocks, |code| {
                references.push(Reference::of(u32::from_le_bytes(*code), &mut moves));
                Some(())
            })?;
            let (mut moved, mut expected) = (Vec::new(), 0_u64);
            if version >= WITH_MOVED {
                let table = table("the moved blocks")?;
                wire::expand(path, table, moves.into(), |jump: &[u8; 8]| {
                    let place = expected.wrapping_add(wire::number(jump, 0));
                    expected = place.wrapping_add(1);
                    moved.push(place);
                    Some(())
                })?;
            }
            let is_known = |reference: &Reference| match reference {
                Reference::Base | Reference::Moved(_) => summary.base.is_some(),
                Reference::Zero => true,
                Reference::Stored(n) => *n < summary.stored_blocks,
                Reference::Xored(n) => *n < summary.stored_blocks && summary.base.is_some(),
            };
            if references.len() as u64 != entry.blocks
                || moves as usize != moved.len()
                || !references.iter().all(is_known)
            {
                return Err(wrong());
            }
            images.push(Tables {
                layout,
                frame,
                references,
                moved,
            });
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            summary,
            packets,
            starts,
            images,
            file_bytes,
        })
    }

    /// Returns the summary of the state.
    #[must_use]
    pub fn summary(&self) -> &DeltaSummary {
        &self.summary
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the file, bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Returns the uncompressed size of the stored blocks, bytes.
    #[must_use]
    pub fn new_bytes(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Returns the number of packets.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    pub(crate) fn layout(&self, image: usize) -> &DeltaLayout {
        &self.images[image].layout
    }

    pub(crate) fn frame(&self, image: usize) -> &[u8] {
        &self.images[image].frame
    }

    pub(crate) fn references(&self, image: usize) -> &[Reference] {
        &self.images[image].references
    }

    pub(crate) fn moved(&self, image: usize) -> &[u64] {
        &self.images[image].moved
    }

    /// Returns the uncompressed length of a packet, bytes.
    pub(crate) fn packet_bytes(&self, number: usize) -> u64 {
        self.packets[number].bytes
    }

    /// Returns the packet that contains a stored block, and the block's offset and length in it, bytes.
    pub(crate) fn place(&self, block: u32) -> (usize, usize, usize) {
        let start = self.starts[block as usize];
        let bytes = self.starts[block as usize + 1] - start;
        let packet = self.packets.partition_point(|p| p.start <= start) - 1;
        let within = start - self.packets[packet].start;
        (
            packet,
            usize::try_from(within).expect("within a packet"),
            usize::try_from(bytes).expect("at most a block"),
        )
    }

    /// Reads, checks and decompresses a packet.
    pub(crate) fn packet(&self, number: usize) -> Result<Vec<u8>, DeltaError> {
        let packet = &self.packets[number];
        let damaged = || {
            DeltaError::damaged(
                &self.path,
                format!(
                    "packet {} of {}, at byte {}",
                    number + 1,
                    self.packets.len(),
                    packet.offset
                ),
            )
        };
        let mut packed = vec![0; usize::try_from(packet.packed).map_err(|_| damaged())?];
        self.file
            .read_exact_at(&mut packed, packet.offset)
            .map_err(DeltaError::io(&self.path, "read"))?;
        if Hash::of(&packed) != packet.hash {
            return Err(damaged());
        }
        let bytes = usize::try_from(packet.bytes).map_err(|_| damaged())?;
        let mut unpacked =
            codec::unpack(self.summary.codec, &packed, bytes).map_err(|_| damaged())?;
        if self.summary.transform == Transform::Shuffle {
            self.unshuffle(number, &mut unpacked);
        }
        Ok(unpacked)
    }

    /// Reverses the shuffle of a packet, block by block.
    fn unshuffle(&self, number: usize, unpacked: &mut [u8]) {
        let packet = &self.packets[number];
        let first = self.starts.partition_point(|s| *s < packet.start);
        for block in first..self.starts.len() - 1 {
            let from = self.starts[block] - packet.start;
            let to = self.starts[block + 1] - packet.start;
            if from >= packet.bytes {
                break;
            }
            let within = |at: u64| usize::try_from(at).expect("within a packet");
            codec::unshuffle(&mut unpacked[within(from)..within(to)]);
        }
    }
}

/// A file and the offset of its tables.
struct Opened<'a> {
    path: &'a Path,
    file: File,
    file_bytes: u64,
    version: u8,
    tables_at: u64,
    tables_bytes: u64,
}

impl<'a> Opened<'a> {
    fn new(path: &'a Path) -> Result<Self, DeltaError> {
        let file = regular::open(path).map_err(DeltaError::io(path, "open"))?;
        let file_bytes = file.metadata().map_err(DeltaError::io(path, "read"))?.len();
        let cut = || {
            DeltaError::new(
                path,
                DeltaErrorKind::NotOurs("it is cut off, or something else"),
            )
        };
        let mut opened = Self {
            path,
            file,
            file_bytes,
            version: 0,
            tables_at: 0,
            tables_bytes: 0,
        };
        if file_bytes < MAGIC.len() as u64 + TRAILER {
            return Err(cut());
        }
        (_, opened.version) = wire::after_magic(path, &opened.read(0, 8)?, &MAGIC)?;
        let trailer = opened.read(file_bytes - TRAILER, TRAILER)?;
        if trailer[8..15] != MAGIC[..7] {
            return Err(cut());
        }
        opened.tables_at = u64::from_le_bytes(trailer[..8].try_into().expect("eight bytes"));
        opened.tables_bytes = (file_bytes - TRAILER)
            .checked_sub(opened.tables_at)
            .filter(|bytes| *bytes >= wire::BEFORE as u64)
            .ok_or_else(|| DeltaError::damaged(path, "the place of the tables"))?;
        Ok(opened)
    }

    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, DeltaError> {
        let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.file
            .read_exact_at(&mut buffer, offset)
            .map_err(DeltaError::io(self.path, "read"))?;
        Ok(buffer)
    }
}

/// Reads the head and validates it: the sums over its files must not overflow, and no name may lead out of the directory.
fn take_summary(path: &Path, rest: &mut &[u8]) -> Result<DeltaSummary, DeltaError> {
    let head = wire::take_section(path, rest, "the head")?;
    let damaged = |what: &str| DeltaError::damaged(path, what);
    let summary: DeltaSummary = serde_json::from_slice(head).map_err(|_| damaged("the head"))?;
    let all = summary.images.iter().flat_map(|i| {
        [
            i.bytes,
            i.blocks,
            i.changed_bytes,
            i.moved_bytes,
            i.frame_bytes,
        ]
    });
    let sum = all.fold(0_u64, u64::saturating_add);
    if sum > MAX_BYTES {
        return Err(damaged("the lengths of files"));
    }
    if !has_plain_names(&summary) {
        return Err(damaged("the names of files"));
    }
    if summary.digest != summary.digest_of_files() {
        return Err(damaged("the names, permissions or links"));
    }
    Ok(summary)
}

/// Returns whether all names are relative, unique, and do not pass through a link or a file.
fn has_plain_names(summary: &DeltaSummary) -> bool {
    let links = summary.links.iter().map(|(name, _)| name);
    let names: Vec<&Path> = summary
        .images
        .iter()
        .map(|i| &i.name)
        .chain(links)
        .map(Path::new)
        .collect();
    let all: BTreeSet<&Path> = names.iter().copied().collect();
    let is_below_another = |name: &&Path| name.ancestors().skip(1).any(|above| all.contains(above));
    all.len() == names.len()
        && names.iter().all(|name| is_plain(name))
        && !names.iter().any(is_below_another)
}

/// Reads the index of packets. Each packet must have at least one byte in the file, which limits their number.
fn packets(
    path: &Path,
    summary: &DeltaSummary,
    tables_at: u64,
    index: &[u8],
) -> Result<Vec<Packet>, DeltaError> {
    let mut packets = Vec::new();
    let (mut start, mut end) = (0_u64, 0);
    let most = tables_at.min(summary.stored_blocks.into());
    wire::expand(path, index, most, |entry: &[u8; INDEX_ENTRY]| {
        let [offset, packed, bytes] = [0, 1, 2].map(|n| wire::number(entry, n));
        let is_next = offset >= end && packed > 0;
        end = offset.checked_add(packed).filter(|_| is_next)?;
        // no codec has a higher compression ratio
        if end > tables_at || bytes / MAX_RATIO > packed {
            return None;
        }
        packets.push(Packet {
            offset,
            packed,
            start,
            bytes,
            hash: Hash(entry[24..].try_into().expect("sixteen bytes")),
        });
        start = start.checked_add(bytes)?;
        Some(())
    })?;
    Ok(packets)
}

/// Returns the start of each stored block in the uncompressed packets, and the end of the last block. Every packet must end at the end of a block.
fn starts(
    path: &Path,
    summary: &DeltaSummary,
    packets: &[Packet],
    lengths: &[u8],
) -> Result<Vec<u64>, DeltaError> {
    let all = packets.last().map_or(0, |last| last.start + last.bytes);
    let (mut starts, mut at) = (vec![0_u64], 0_u64);
    wire::expand(path, lengths, all, |length| {
        let length = u64::from(u32::from_le_bytes(*length));
        at += length;
        starts.push(at);
        (length > 0 && length <= summary.block_bytes.bytes() && at <= all).then_some(())
    })?;
    let is_whole = at == all
        && starts.len() as u64 == u64::from(summary.stored_blocks) + 1
        && packets
            .iter()
            .all(|packet| starts.binary_search(&packet.start).is_ok());
    is_whole
        .then_some(starts)
        .ok_or_else(|| DeltaError::damaged(path, "the index of packets"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_through_others_are_refused() {
        let summary = |links: &[&str]| DeltaSummary {
            state: 1,
            base: None,
            addressing: cvc_delta_rules::Addressing::Index,
            block_bytes: cvc_delta_rules::BlockSize::PAGE,
            codec: cvc_delta_rules::Codec::None,
            transform: Transform::None,
            packet_blocks: 1,
            stored_blocks: 0,
            digest: String::new(),
            images: Vec::new(),
            links: links
                .iter()
                .map(|l| ((*l).to_owned(), "/x".to_owned()))
                .collect(),
        };
        assert!(has_plain_names(&summary(&["a", "b/c", "b/d"])));
        assert!(!has_plain_names(&summary(&["a", "a/x"])));
        assert!(!has_plain_names(&summary(&["a", "a/b/x"])));
        assert!(!has_plain_names(&summary(&["a", "a"])));
        for name in [
            "a//b", "a/./b", "./a", "a/", "/a", "../a", "a/../b", "", ".",
        ] {
            assert!(!has_plain_names(&summary(&[name])), "{name}");
        }
    }
}
