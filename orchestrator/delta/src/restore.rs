//! Restores states from the files that store them.

use crate::{
    codec,
    content::Content,
    error::{DeltaError, DeltaErrorKind},
    file::{DeltaSummary, StateFile},
    frame::Unpacker,
    hash::{Hash, hash_all},
    layout::DeltaExtent,
    link::{Link, LinkPart, LinkPlace, parts_of},
    new_dir::NewDir,
    signature::{self, ImageSignature, Signature},
    source::{STORED_MODE, Source},
    whole,
};
use cvc_os::beneath::Beneath;
use rayon::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    ops::Range,
    path::Path,
};

/// Maximum size of the cache of decompressed packets, bytes. If the longest packets of a chain's files are longer in total, the cache has room for
/// one packet of each file.
const KEPT: u64 = 64 << 20;
/// Bytes that all cores assemble at a time.
const WINDOW: usize = 16 << 20;
/// Bytes of a frame that are decompressed at a time.
const PIECE: usize = 1 << 20;
/// Number of blocks that one core assembles at a time.
const TOGETHER: usize = 64;

/// The files that restore a state: its own file, the file of its base, and so on to a state that is stored in full.
#[derive(Debug)]
pub struct Chain {
    files: Vec<Link>,
    packets: Packets,
}

/// Cache of decompressed packets, by file of the chain and packet number.
#[derive(Debug, Default)]
struct Packets {
    /// Maximum size of the cache for the whole chain, bytes.
    most_bytes: u64,
    kept: HashMap<(usize, usize), (u64, Vec<u8>)>,
    bytes: u64,
    clock: u64,
}

/// A part of a file's content that is assembled at once.
#[derive(Debug, Default)]
struct Batch {
    /// Offset of the batch in the content, bytes.
    offset: u64,
    /// The bytes of the batch: frames are complete, blocks are filled in later.
    bytes: Vec<u8>,
    /// For each block its range in `bytes`, and the number of its parts: the stored blocks whose XOR it is.
    blocks: Vec<(Range<usize>, usize)>,
    parts: Vec<LinkPart>,
    packets: BTreeSet<(usize, usize)>,
    packet_bytes: u64,
}

/// Result of adding a block to a batch: whether there was room, so that it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Enough,
    Full,
}

impl Batch {
    /// Adds a block, unless the packets of all blocks in the batch would exceed `most` bytes.
    fn add(&mut self, files: &[Link], place: LinkPlace, most: u64) -> Result<Room, DeltaError> {
        let from = self.parts.len();
        parts_of(files, place, &mut self.parts)?;
        // usually remains empty: adjacent blocks are in the same packet
        let mut more: Vec<(usize, usize)> = Vec::new();
        let mut bytes = 0_u64;
        for (at, n) in &self.parts[from..] {
            let key = (*at, files[*at].file.place(*n).0);
            if !self.packets.contains(&key) && !more.contains(&key) {
                bytes = bytes.saturating_add(files[*at].file.packet_bytes(key.1));
                more.push(key);
            }
        }
        if self.packet_bytes.saturating_add(bytes) > most && !self.packets.is_empty() {
            self.parts.truncate(from);
            return Ok(Room::Full);
        }
        self.packet_bytes = self.packet_bytes.saturating_add(bytes);
        self.packets.extend(more);
        let begin = self.bytes.len();
        self.bytes.resize(begin + place.block.bytes as usize, 0);
        let parts = self.parts.len() - from;
        self.blocks.push((begin..self.bytes.len(), parts));
        Ok(Room::Enough)
    }

    /// Fills in the blocks, calls `to` with the bytes that lie within `range`, and empties the batch. Appends the hashes of the blocks to `hashes`,
    /// unless it is `None`.
    fn hand_on(
        &mut self,
        files: &[Link],
        packets: &mut Packets,
        hashes: Option<&mut Vec<Hash>>,
        range: &Range<u64>,
        to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
    ) -> Result<(), DeltaError> {
        packets.unpack(files, &self.packets)?;
        let mut blocks: Vec<(&mut [u8], &[LinkPart])> = Vec::with_capacity(self.blocks.len());
        let (mut at, mut rest, mut parts) = (0, &mut self.bytes[..], &self.parts[..]);
        for (place, count) in &self.blocks {
            let (own, later) = parts.split_at(*count);
            let (block, after) = rest[place.start - at..].split_at_mut(place.len());
            blocks.push((block, own));
            (at, rest, parts) = (place.end, after, later);
        }
        let packets = &*packets;
        let filled = blocks.par_chunks_mut(TOGETHER).flat_map_iter(|blocks| {
            let mut filled = Vec::with_capacity(blocks.len());
            for (block, parts) in blocks.iter_mut() {
                packets.fill(files, parts, block);
            }
            if hashes.is_some() {
                hash_all(blocks.iter().map(|(block, _)| &**block), &mut filled);
            }
            filled
        });
        let filled: Vec<Hash> = filled.collect();
        if let Some(hashes) = hashes {
            hashes.extend(filled);
        }
        let begin = self.offset;
        let end = begin + self.bytes.len() as u64;
        let (from, until) = (range.start.max(begin), range.end.min(end));
        if from < until {
            let within = |offset: u64| usize::try_from(offset - begin).expect("in the batch");
            to(&self.bytes[within(from)..within(until)])?;
        }
        self.offset = end;
        self.bytes.clear();
        self.blocks.clear();
        self.parts.clear();
        self.packets.clear();
        self.packet_bytes = 0;
        Ok(())
    }
}

impl Chain {
    /// Creates a chain from files in this order: the file of the state, of its base, and so on.
    ///
    /// # Errors
    /// A file is not the base of the previous file, or no file is stored in full.
    pub fn new(files: Vec<StateFile>) -> Result<Self, DeltaError> {
        for pair in files.windows(2) {
            let (of, base) = (&pair[0], &pair[1]);
            let expected = of.summary().base.as_ref();
            let found = &base.summary().digest;
            if expected.is_none_or(|e| e.digest != *found) {
                return Err(DeltaError::new(
                    base.path(),
                    DeltaErrorKind::WrongBase {
                        of: of.path().display().to_string(),
                        expected: expected.map_or_else(|| "none".to_owned(), |e| e.digest.clone()),
                        found: found.clone(),
                    },
                ));
            }
        }
        if let Some(last) = files.last().filter(|f| f.summary().base.is_some()) {
            return Err(DeltaError::new(
                last.path(),
                DeltaErrorKind::NotOurs("its base is not given"),
            ));
        }
        let mut files: Vec<Link> = files.into_iter().map(Link::new).collect();
        for at in 0..files.len() {
            let base = files.get(at + 1);
            let images = &files[at].file.summary().images;
            let in_base = images
                .iter()
                .map(|image| base.and_then(|base| base.names.get(&image.name).copied()));
            files[at].in_base = in_base.collect();
        }
        let packets = Packets {
            most_bytes: packets_at_most(&files),
            ..Packets::default()
        };
        Ok(Self { files, packets })
    }

    /// Returns the summary of the state.
    #[must_use]
    pub fn summary(&self) -> &DeltaSummary {
        self.files[0].file.summary()
    }

    /// Returns the number of files that the state needs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns whether the chain has no files; always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the block of an image that contains an address. In files that are not images, addresses are offsets.
    ///
    /// # Errors
    /// There is no such block, or it cannot be decompressed.
    pub fn block(&mut self, image: &str, address: u64) -> Result<Vec<u8>, DeltaError> {
        let link = &self.files[0];
        let none = || {
            DeltaError::new(
                link.file.path(),
                DeltaErrorKind::NoBlock(format!("{address:#x} of {image}")),
            )
        };
        let size = link.file.summary().block_bytes;
        let image = *link.names.get(image).ok_or_else(none)?;
        let (block, number) = link.numbers[image].at(address, size).ok_or_else(none)?;
        let place = LinkPlace {
            at: 0,
            image,
            block,
            number: usize::try_from(number).map_err(|_| none())?,
        };
        let mut parts = Vec::new();
        parts_of(&self.files, place, &mut parts)?;
        let packets = parts
            .iter()
            .map(|(at, n)| (*at, self.files[*at].file.place(*n).0))
            .collect();
        self.packets.unpack(&self.files, &packets)?;
        let mut bytes = vec![0; block.bytes as usize];
        self.packets.fill(&self.files, &parts, &mut bytes);
        Ok(bytes)
    }

    /// Calls `to` with the bytes in `range` of a file of the state; offsets are those in the uncompressed content. Decompresses only the packets that
    /// are needed, and checks their checksums. The digest of the file is not checked, because it covers the whole file. Bytes beyond the end of the
    /// file are omitted.
    ///
    /// # Errors
    /// The file does not exist, a packet is damaged, or `to` returns an error.
    pub fn read(
        &mut self,
        name: &str,
        range: Range<u64>,
        to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
    ) -> Result<(), DeltaError> {
        let images = &self.summary().images;
        let Some(image) = self.files[0].names.get(name).copied() else {
            let known: Vec<&str> = images.iter().map(|i| i.name.as_str()).collect();
            return Err(DeltaError::new(
                self.files[0].file.path(),
                DeltaErrorKind::NoFile {
                    asked: name.to_owned(),
                    known: known.join(", "),
                },
            ));
        };
        self.walk(image, &range, None, to).map(|_| ())
    }

    /// Calls `to` with the bytes in `range` of the state's file with the index `image`, and appends the hashes of the assembled blocks to `hashes`.
    /// Returns the hash of the part of the frame that was decompressed.
    fn walk(
        &mut self,
        image: usize,
        range: &Range<u64>,
        mut hashes: Option<&mut Vec<Hash>>,
        to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
    ) -> Result<Hash, DeltaError> {
        let Self { files, packets } = self;
        let most = packets.most_bytes;
        let file = &files[0].file;
        let size = file.summary().block_bytes;
        let layout = file.layout(image);
        let mut frame = Unpacker::new(file.path(), file.frame(image))?;
        let mut batch = Batch {
            offset: range.start.min(layout.bytes),
            ..Batch::default()
        };
        // bytes of the frame before this extent, and how many of them were decompressed or skipped
        let (mut frame_bytes, mut unpacked) = (0, 0);
        let mut at = 0;
        let end = DeltaExtent {
            offset: layout.bytes,
            start: 0,
            bytes: 0,
        };
        let extents = layout.extents.iter().zip(&files[0].extents[image]);
        for (extent, first) in extents.chain([(&end, &0)]) {
            let between = at.max(range.start)..extent.offset.min(range.end);
            if !between.is_empty() {
                if batch.bytes.is_empty() {
                    batch.offset = between.start;
                }
                frame.skip(frame_bytes + (between.start - at) - unpacked)?;
                let mut left = between.end - between.start;
                unpacked = frame_bytes + (between.start - at) + left;
                while left > 0 {
                    let now = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
                    let from = batch.bytes.len();
                    batch.bytes.resize(from + now, 0);
                    frame.take(&mut batch.bytes[from..])?;
                    left -= now as u64;
                    if batch.bytes.len() >= WINDOW {
                        batch.hand_on(files, packets, hashes.as_deref_mut(), range, to)?;
                    }
                }
            }
            frame_bytes += extent.offset - at;
            at = extent.offset + extent.bytes;
            let within = extent.offset.max(range.start)..at.min(range.end);
            if within.is_empty() {
                continue;
            }
            // from the block with the first byte of the range to the block with its last byte
            let number = |offset: u64| {
                (extent.start + (offset - extent.offset)) / size.bytes()
                    - extent.start / size.bytes()
            };
            for n in number(within.start)..=number(within.end - 1) {
                let block = extent.block(n, size);
                let place = LinkPlace {
                    at: 0,
                    image,
                    block,
                    number: usize::try_from(first + n).expect("checked when it was opened"),
                };
                if batch.bytes.is_empty() {
                    batch.offset = block.offset;
                }
                if batch.add(files, place, most)? == Room::Full {
                    batch.hand_on(files, packets, hashes.as_deref_mut(), range, to)?;
                    batch.add(files, place, most)?;
                }
                if batch.bytes.len() >= WINDOW {
                    batch.hand_on(files, packets, hashes.as_deref_mut(), range, to)?;
                }
            }
        }
        batch.hand_on(files, packets, hashes, range, to)?;
        Ok(frame.hash())
    }

    /// Calls `to` with the content of the state's file with the index `n`, and checks the digest of the file. Returns the hashes of its blocks.
    fn content(
        &mut self,
        n: usize,
        to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
    ) -> Result<Vec<Hash>, DeltaError> {
        let bytes = self.files[0].file.layout(n).bytes;
        let mut hashes = Vec::with_capacity(self.files[0].file.references(n).len());
        let frame = self.walk(n, &(0..bytes), Some(&mut hashes), to)?;
        let file = &self.files[0].file;
        let found = signature::digest(file.layout(n), frame, &hashes);
        let entry = &file.summary().images[n];
        if found == entry.digest {
            return Ok(hashes);
        }
        Err(DeltaError::new(
            &file.path().join(&entry.name),
            DeltaErrorKind::Differs {
                expected: entry.digest.clone(),
                found,
            },
        ))
    }

    /// Restores the state into a new directory `to`, which appears complete or not at all. `progress` receives the number of bytes written.
    ///
    /// # Errors
    /// The directory exists, a file is damaged, or writing fails.
    pub fn restore(&mut self, to: &Path, progress: &dyn Fn(u64)) -> Result<(), DeltaError> {
        if fs::symlink_metadata(to).is_ok() {
            return Err(DeltaError::new(to, DeltaErrorKind::Exists));
        }
        let new = NewDir::next_to(to).map_err(DeltaError::io(to, "write"))?;
        let root = Beneath::at(new.path()).map_err(DeltaError::io(to, "write"))?;
        whole::write(&self.files, &root, to, progress)?;
        for (name, target) in &self.summary().links {
            root.symlink(Path::new(target), Path::new(name))
                .map_err(DeltaError::io(&to.join(name), "write"))?;
        }
        // only the owner can read the directory, like the temporary directory that it was created as
        new.rename().map_err(DeltaError::io(to, "write"))
    }

    /// Restores the state in memory only, checks it, and returns its hashes. `progress` receives the number of bytes restored.
    ///
    /// # Errors
    /// A file is damaged.
    pub fn sign(&mut self, progress: &dyn Fn(u64)) -> Result<Signature, DeltaError> {
        self.check(None, progress)
    }

    /// Reads and checks everything. With `source`, also checks that the stored bytes equal those of `source`.
    ///
    /// # Errors
    /// A file is damaged or differs.
    pub fn verify(
        &mut self,
        source: Option<&Source>,
        progress: &dyn Fn(u64),
    ) -> Result<(), DeltaError> {
        self.check(source, progress).map(|_| ())
    }

    pub(crate) fn check(
        &mut self,
        source: Option<&Source>,
        progress: &dyn Fn(u64),
    ) -> Result<Signature, DeltaError> {
        if let Some(source) = source {
            let is_stored = |name: &str| self.summary().images.iter().any(|i| i.name == name);
            if let Some(other) = source.files.iter().find(|f| !is_stored(&f.name)) {
                return Err(DeltaError::new(&other.path, DeltaErrorKind::OtherBytes));
            }
            if source.links != self.summary().links {
                return Err(DeltaError::new(&source.path, DeltaErrorKind::OtherBytes));
            }
        }
        let mut signature = Signature {
            addressing: self.summary().addressing,
            block: self.summary().block_bytes,
            digest: Some(self.summary().digest.clone()),
            images: BTreeMap::new(),
        };
        for n in 0..self.summary().images.len() {
            let name = self.summary().images[n].name.clone();
            let Some(source) = source else {
                let hashes = self.content(n, &mut |bytes| {
                    progress(bytes.len() as u64);
                    Ok(())
                })?;
                signature.images.insert(name, self.signature_of(n, hashes));
                continue;
            };
            let differs = || DeltaError::new(&source.path.join(&name), DeltaErrorKind::OtherBytes);
            let mode = self.summary().images[n].mode;
            let file = source
                .files
                .iter()
                .find(|f| f.name == name && f.mode == mode & STORED_MODE)
                .ok_or_else(differs)?;
            let mut content = Content::open(file, self.summary().addressing)?.sequential();
            let hashes = self.content(n, &mut |bytes| {
                progress(bytes.len() as u64);
                let mut there = vec![0; bytes.len()];
                content.read_exact(&mut there).map_err(|_| differs())?;
                if there == bytes {
                    Ok(())
                } else {
                    Err(differs())
                }
            })?;
            if content
                .read(&mut [0])
                .map_err(DeltaError::io(&file.path, "read"))?
                > 0
            {
                return Err(differs());
            }
            signature.images.insert(name, self.signature_of(n, hashes));
        }
        Ok(signature)
    }

    fn signature_of(&self, n: usize, hashes: Vec<Hash>) -> ImageSignature {
        ImageSignature::new(
            self.files[0].file.layout(n),
            self.summary().block_bytes,
            hashes,
        )
    }
}

/// Returns the maximum size of the packet cache, bytes.
fn packets_at_most(files: &[Link]) -> u64 {
    let longest = files.iter().map(|link| {
        let packets = (0..link.file.packets()).map(|n| link.file.packet_bytes(n));
        packets.max().unwrap_or(0)
    });
    let all = longest.fold(0, |sum: u64, bytes| sum.saturating_add(bytes));
    KEPT.max(all)
}

impl Packets {
    /// Decompresses the requested packets that are not cached, on all cores. All requested packets are cached afterwards.
    fn unpack(
        &mut self,
        files: &[Link],
        wanted: &BTreeSet<(usize, usize)>,
    ) -> Result<(), DeltaError> {
        self.clock += 1;
        let mut missing = Vec::new();
        let mut bytes = 0_u64;
        for key in wanted {
            match self.kept.get_mut(key) {
                Some((used, _)) => *used = self.clock,
                None => {
                    bytes = bytes.saturating_add(files[key.0].file.packet_bytes(key.1));
                    missing.push(*key);
                }
            }
        }
        self.make_room(bytes);
        let unpacked: Vec<Result<Vec<u8>, DeltaError>> = missing
            .par_iter()
            .map(|(at, packet)| files[*at].file.packet(*packet))
            .collect();
        for (key, packet) in missing.into_iter().zip(unpacked) {
            let packet = packet?;
            self.bytes += packet.len() as u64;
            self.kept.insert(key, (self.clock, packet));
        }
        Ok(())
    }

    /// Removes the least recently used packets until `bytes` more bytes fit. Packets of the latest request are kept.
    fn make_room(&mut self, bytes: u64) {
        if self.bytes.saturating_add(bytes) <= self.most_bytes {
            return;
        }
        let mut old: Vec<(u64, (usize, usize))> = self
            .kept
            .iter()
            .filter(|(_, (used, _))| *used < self.clock)
            .map(|(key, (used, _))| (*used, *key))
            .collect();
        old.sort_unstable();
        for (_, key) in old {
            if self.bytes.saturating_add(bytes) <= self.most_bytes {
                return;
            }
            if let Some((_, packet)) = self.kept.remove(&key) {
                self.bytes -= packet.len() as u64;
            }
        }
    }

    /// Assembles a block as the XOR of its parts, whose packets are cached. `block` must be all zeros before the call.
    fn fill(&self, files: &[Link], parts: &[LinkPart], block: &mut [u8]) {
        for (number, (at, n)) in parts.iter().enumerate() {
            let (packet, within, bytes) = files[*at].file.place(*n);
            let part = &self.kept[&(*at, packet)].1[within..within + bytes];
            if number == 0 {
                block.copy_from_slice(part);
            } else {
                codec::xor(block, part);
            }
        }
    }
}
