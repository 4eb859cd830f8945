//! Gives states back from the files that store them.

use crate::{
    codec,
    content::Content,
    error::{DeltaError, DeltaErrorKind},
    file::{StateFile, Summary},
    frame::Unpacker,
    hash::{Hash, hash_all},
    layout::Extent,
    link::{Link, Part, Place, parts_of},
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

/// Bytes of unpacked packets that are kept for what may refer to them next. Where the packets of a chain are longer (all blocks as one stream),
/// one of each file is kept.
const KEPT: u64 = 64 << 20;
/// Bytes that are put together at a time, by all cores.
const WINDOW: usize = 16 << 20;
/// Bytes of a frame that are unpacked at a time.
const PIECE: usize = 1 << 20;
/// Blocks that one core puts together at a time.
const TOGETHER: usize = 64;

/// The files that restore a state: its own, its base's, and so on to one that is stored in full.
#[derive(Debug)]
pub struct Chain {
    files: Vec<Link>,
    packets: Packets,
}

/// Unpacked packets, by file of the chain and number.
#[derive(Debug, Default)]
struct Packets {
    /// What is kept at most, bytes: the same for all of a chain.
    most_bytes: u64,
    kept: HashMap<(usize, usize), (u64, Vec<u8>)>,
    bytes: u64,
    clock: u64,
}

/// Content that is put together at once.
#[derive(Debug, Default)]
struct Batch {
    /// Where it begins in the content.
    offset: u64,
    /// Frames are there, blocks are filled in.
    bytes: Vec<u8>,
    /// Where blocks are in it, and how many parts each has.
    blocks: Vec<(Range<usize>, usize)>,
    parts: Vec<Part>,
    packets: BTreeSet<(usize, usize)>,
    packet_bytes: u64,
}

impl Batch {
    /// Adds a block, unless its packets are too many with those of the others.
    fn add(&mut self, files: &[Link], place: Place, most: u64) -> Result<bool, DeltaError> {
        let from = self.parts.len();
        parts_of(files, place, &mut self.parts)?;
        // mostly none: blocks that are neighbours lie in the same packet
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
            return Ok(false);
        }
        self.packet_bytes = self.packet_bytes.saturating_add(bytes);
        self.packets.extend(more);
        let begin = self.bytes.len();
        self.bytes.resize(begin + place.block.bytes as usize, 0);
        let parts = self.parts.len() - from;
        self.blocks.push((begin..self.bytes.len(), parts));
        Ok(true)
    }

    /// Fills blocks in, adds their hashes if these are wanted, and hands on what is in the range. It is then empty.
    fn hand_on(
        &mut self,
        files: &[Link],
        packets: &mut Packets,
        hashes: Option<&mut Vec<Hash>>,
        range: &Range<u64>,
        to: &mut dyn FnMut(&[u8]) -> Result<(), DeltaError>,
    ) -> Result<(), DeltaError> {
        packets.unpack(files, &self.packets)?;
        let mut blocks: Vec<(&mut [u8], &[Part])> = Vec::with_capacity(self.blocks.len());
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
    /// Takes files in their order: of the state, of its base, and so on.
    ///
    /// # Errors
    /// Where a file is not the base of the one before it, or none is stored in full.
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

    /// What the state is.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        self.files[0].file.summary()
    }

    /// Number of files that the state needs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is none, which cannot be.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The block of an image that contains an address (of a file that is no image: an offset).
    ///
    /// # Errors
    /// Where there is none, or it cannot be unpacked.
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
        let place = Place {
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

    /// Hands on a stretch of a file of the state, bytes of its uncompressed content, and unpacks only the packets that it needs. What lies beyond
    /// the end of the file is left out. Each packet is compared with its checksum; the digest of the file is not, which needs all of it.
    ///
    /// # Errors
    /// Where there is no such file, a packet is damaged, or `to` refuses.
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

    /// Hands on what a range of the `image`th file of the state has, and adds the hashes of the blocks that it goes through. Returns the hash of
    /// the frame, as far as it was unpacked.
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
        // bytes of the frame that lie before, and how many of them were unpacked
        let (mut frame_bytes, mut unpacked) = (0, 0);
        let mut at = 0;
        let end = Extent {
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
            // from the block that has the first byte to the one that has the last one
            let number = |offset: u64| {
                (extent.start + (offset - extent.offset)) / size.bytes()
                    - extent.start / size.bytes()
            };
            for n in number(within.start)..=number(within.end - 1) {
                let block = extent.block(n, size);
                let place = Place {
                    at: 0,
                    image,
                    block,
                    number: usize::try_from(first + n).expect("checked when it was opened"),
                };
                if batch.bytes.is_empty() {
                    batch.offset = block.offset;
                }
                if !batch.add(files, place, most)? {
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

    /// Hands on the content of the `n`th file of the state, and checks its digest. Returns the hashes of its blocks.
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

    /// Restores the state as a directory that does not exist yet, and appears whole or not at all. `progress` is told bytes that were written.
    ///
    /// # Errors
    /// Where it exists, a file is damaged, or it cannot be written.
    pub fn restore(&mut self, to: &Path, progress: &dyn Fn(u64)) -> Result<(), DeltaError> {
        if fs::symlink_metadata(to).is_ok() {
            return Err(DeltaError::new(to, DeltaErrorKind::Exists));
        }
        let new = NewDir::beside(to).map_err(DeltaError::io(to, "write"))?;
        let root = Beneath::at(new.path()).map_err(DeltaError::io(to, "write"))?;
        whole::write(&self.files, &root, to, progress)?;
        for (name, target) in &self.summary().links {
            root.symlink(Path::new(target), Path::new(name))
                .map_err(DeltaError::io(&to.join(name), "write"))?;
        }
        // it stays its owner's alone, as the directory that it was made in
        new.rename().map_err(DeltaError::io(to, "write"))
    }

    /// Restores the state without writing it, checks it, and returns its hashes. `progress` is told bytes that were restored.
    ///
    /// # Errors
    /// What is damaged.
    pub fn sign(&mut self, progress: &dyn Fn(u64)) -> Result<Signature, DeltaError> {
        self.check(None, progress)
    }

    /// Reads everything and checks it; with `source`, also that it holds the same bytes.
    ///
    /// # Errors
    /// What is damaged or differs.
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

/// Bytes of packets that are kept at a time, at most.
fn packets_at_most(files: &[Link]) -> u64 {
    let longest = files.iter().map(|link| {
        let packets = (0..link.file.packets()).map(|n| link.file.packet_bytes(n));
        packets.max().unwrap_or(0)
    });
    let all = longest.fold(0, |sum: u64, bytes| sum.saturating_add(bytes));
    KEPT.max(all)
}

impl Packets {
    /// Unpacks what is not kept, by all cores; everything that is asked for is kept then.
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

    /// Removes those that were used longest ago, but none that was asked for last.
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

    /// Puts a block together of its parts, whose packets are kept. It is zero before.
    fn fill(&self, files: &[Link], parts: &[Part], block: &mut [u8]) {
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
