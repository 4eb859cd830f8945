//! Writes all files of a state, packet by packet: each packet that is needed is decompressed once, and its blocks are written wherever they occur.
//!
//! Data common to several files are stored once, so the blocks of a packet may occur in many files. Writing file by file would decompress packets
//! several times. The hashes of blocks are collected in any order; the digests of the files are computed from them at the end.

use crate::{
    codec,
    error::{DeltaError, DeltaErrorKind},
    frame::Unpacker,
    hash::{Hash, hash_all},
    link::{Link, LinkPart, LinkPlace, parts_of},
    signature,
    source::STORED_MODE,
};
use cvc_os::beneath::Beneath;
use rayon::prelude::*;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Maximum total length of the packets that all cores decompress at a time, bytes. A longer packet is decompressed alone.
const TOGETHER: u64 = 64 << 20;
/// Bytes that are written at a time.
const PIECE: usize = 1 << 20;
/// Number of runs, or of blocks to hash, that one core processes at a time.
const EACH: usize = 64;
/// Number of output files that stay open. Each further file is opened again for each group of runs. Processes are usually limited to 1024 open files.
const OPEN: usize = 256;

/// Blocks that are adjacent both in a packet and in an output file.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Number of the first block among the blocks of all files of the state.
    number: u64,
    /// Number of the first block among the stored blocks.
    stored: u32,
    blocks: u16,
    /// Whether these blocks are the first data written at their place. If not, they are combined by XOR with the data that are there.
    is_first: bool,
    /// Whether these blocks are the last data for their place, so that the blocks there are then complete.
    is_last: bool,
}

/// A run to which more blocks may be added.
#[derive(Clone, Copy, Debug)]
struct Open {
    run: Run,
    packet: usize,
    image: usize,
    /// End of the run in the output file, bytes.
    end: u64,
    bytes: usize,
}

/// The packets to decompress and the runs to write.
struct Plan {
    /// For each file of the chain and each packet that is needed, its runs by ascending block numbers.
    runs: Vec<BTreeMap<usize, Vec<Run>>>,
    /// Bytes of the output files that come from no stored block: frames and zeros.
    other_bytes: u64,
}

/// An output file.
struct Output<'a> {
    root: &'a Beneath,
    name: &'a Path,
    /// Its path, for error messages.
    place: PathBuf,
    open: Option<File>,
}

/// Writes all files of a chain's state into the directory `root`, and checks them. Error messages name the files by their paths below `to`.
/// `progress` receives the number of bytes written.
pub fn write(
    files: &[Link],
    root: &Beneath,
    to: &Path,
    progress: &dyn Fn(u64),
) -> Result<(), DeltaError> {
    let link = &files[0];
    let Plan { runs, other_bytes } = plan(files)?;
    let images = &link.file.summary().images;
    let mut outputs = Vec::with_capacity(images.len());
    let mut frames = Vec::with_capacity(images.len());
    for (image, entry) in images.iter().enumerate() {
        let name = Path::new(&entry.name);
        let place = to.join(name);
        // fails if two names denote the same file: writing both would damage it
        let file = root
            .create_new(name)
            .map_err(DeltaError::io(&place, "write"))?;
        frames.push(write_frame(link, image, &file, &place)?);
        outputs.push(Output {
            root,
            name,
            place,
            open: (image < OPEN).then_some(file),
        });
    }
    progress(other_bytes);
    // bytes that are not written are zero
    let blocks = link.firsts.last().copied().unwrap_or(0);
    let mut hashes = vec![Hash::of(&[]); index(blocks)];
    // bases first; a block has at most one part in each file, so no two cores write to the same block
    for (at, packets) in runs.into_iter().enumerate().rev() {
        let mut packets = packets.into_iter().peekable();
        while packets.peek().is_some() {
            let mut bytes = 0_u64;
            let mut batch = Vec::new();
            while let Some((packet, runs)) = packets.next_if(|(packet, _)| {
                bytes = bytes.saturating_add(files[at].file.packet_bytes(*packet));
                batch.is_empty() || bytes <= TOGETHER
            }) {
                batch.push((packet, runs));
            }
            let written: Vec<Result<Vec<Hash>, DeltaError>> = batch
                .par_iter()
                .map(|(packet, runs)| write_packet(files, at, *packet, runs, &outputs))
                .collect();
            for ((_, runs), found) in batch.iter().zip(written) {
                let found = found?;
                let mut found = &found[..];
                let mut bytes = 0;
                for run in runs.iter().filter(|run| run.is_last) {
                    let (own, rest) = found.split_at(usize::from(run.blocks));
                    let from = index(run.number);
                    hashes[from..from + own.len()].copy_from_slice(own);
                    bytes += within(files, at, run).1.len() as u64;
                    found = rest;
                }
                progress(bytes);
            }
        }
    }
    finish(link, &outputs, &frames, &hashes)
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("there is a reference for each block")
}

/// Determines which packets are needed, and where their blocks are written.
fn plan(files: &[Link]) -> Result<Plan, DeltaError> {
    let link = &files[0];
    let size = link.file.summary().block_bytes;
    let mut runs: Vec<BTreeMap<usize, Vec<Run>>> = vec![BTreeMap::new(); files.len()];
    let mut open: Vec<Option<Open>> = vec![None; files.len()];
    let mut other_bytes = 0_u64;
    let mut parts: Vec<LinkPart> = Vec::new();
    for (image, first) in link.firsts[..link.firsts.len() - 1].iter().enumerate() {
        let layout = link.file.layout(image);
        other_bytes = other_bytes.saturating_add(layout.bytes);
        let blocks = layout.extents.iter().flat_map(|extent| extent.cut(size));
        for (number, block) in blocks.enumerate() {
            let place = LinkPlace {
                at: 0,
                image,
                block,
                number,
            };
            parts.clear();
            parts_of(files, place, &mut parts)?;
            if !parts.is_empty() {
                other_bytes = other_bytes.saturating_sub(u64::from(block.bytes));
            }
            for (n, (at, stored)) in parts.iter().enumerate() {
                let (packet, _, bytes) = files[*at].file.place(*stored);
                let run = Run {
                    number: first + number as u64,
                    stored: *stored,
                    blocks: 1,
                    is_first: n + 1 == parts.len(),
                    is_last: n == 0,
                };
                let new = Open {
                    run,
                    packet,
                    image,
                    end: block.offset + u64::from(block.bytes),
                    bytes,
                };
                match &mut open[*at] {
                    Some(open) if open.takes(&new, block.offset) => {
                        open.run.blocks += 1;
                        open.end = new.end;
                        open.bytes += bytes;
                    }
                    other => {
                        if let Some(done) = other.replace(new) {
                            runs[*at].entry(done.packet).or_default().push(done.run);
                        }
                    }
                }
            }
        }
    }
    for (runs, done) in runs.iter_mut().zip(open) {
        if let Some(done) = done {
            runs.entry(done.packet).or_default().push(done.run);
        }
    }
    Ok(Plan { runs, other_bytes })
}

impl Open {
    /// Returns whether `next`, a block at this offset in an output file, directly continues the run.
    fn takes(&self, next: &Self, offset: u64) -> bool {
        let run = &self.run;
        (self.image, self.packet, self.end) == (next.image, next.packet, offset)
            && (run.is_first, run.is_last) == (next.run.is_first, next.run.is_last)
            && run.stored + u32::from(run.blocks) == next.run.stored
            && run.number + u64::from(run.blocks) == next.run.number
            && run.blocks < u16::MAX
            && self.bytes + next.bytes <= PIECE
    }
}

/// Writes the bytes outside the extents of a file, and sets its length. Returns the hash of the frame.
fn write_frame(link: &Link, image: usize, to: &File, place: &Path) -> Result<Hash, DeltaError> {
    let layout = link.file.layout(image);
    let mut frame = Unpacker::new(link.file.path(), link.file.frame(image))?;
    let mut buffer = Vec::new();
    let mut at = 0;
    let extents = layout.extents.iter();
    let ends = extents.map(|extent| (extent.offset, extent.bytes));
    for (offset, bytes) in ends.chain([(layout.bytes, 0)]) {
        while at < offset {
            let left = usize::try_from(offset - at).unwrap_or(usize::MAX);
            buffer.resize(left.min(PIECE), 0);
            frame.take(&mut buffer)?;
            to.write_all_at(&buffer, at)
                .map_err(DeltaError::io(place, "write"))?;
            at += buffer.len() as u64;
        }
        at = offset + bytes;
    }
    to.set_len(layout.bytes)
        .map_err(DeltaError::io(place, "write"))?;
    Ok(frame.hash())
}

/// Returns the packet that contains a run, and the range of the run in it, bytes.
fn within(files: &[Link], at: usize, run: &Run) -> (usize, std::ops::Range<usize>) {
    let file = &files[at].file;
    let (packet, from, _) = file.place(run.stored);
    let (_, last, bytes) = file.place(run.stored + u32::from(run.blocks) - 1);
    (packet, from..last + bytes)
}

/// Decompresses a packet and writes its runs. Returns the hashes of the blocks that are complete afterwards, in the order of the runs.
fn write_packet(
    files: &[Link],
    at: usize,
    packet: usize,
    runs: &[Run],
    outputs: &[Output<'_>],
) -> Result<Vec<Hash>, DeltaError> {
    let unpacked = files[at].file.packet(packet)?;
    let known = hash_stored(files, at, runs, &unpacked);
    let written: Result<Vec<Vec<Hash>>, DeltaError> = runs
        .par_chunks(EACH)
        .map(|runs| {
            let mut writer = Writer {
                files,
                at,
                unpacked: &unpacked,
                known: &known,
                outputs,
                opened: None,
                buffer: Vec::new(),
            };
            let mut hashes = Vec::new();
            for run in runs {
                writer.write(run, &mut hashes)?;
            }
            Ok(hashes)
        })
        .collect();
    Ok(written?.concat())
}

/// Hashes of stored blocks, beginning with block `first`. Blocks whose hash is not needed have the hash of zeros.
struct Known {
    first: u32,
    hashes: Vec<Hash>,
}

impl Known {
    fn of(&self, run: &Run) -> &[Hash] {
        let from = (run.stored - self.first) as usize;
        &self.hashes[from..from + usize::from(run.blocks)]
    }
}

/// Returns the hashes of the blocks of a packet that are written unchanged. Each block is hashed once, even if it is written to several places.
fn hash_stored(files: &[Link], at: usize, runs: &[Run], unpacked: &[u8]) -> Known {
    let plain = || runs.iter().filter(|run| run.is_first && run.is_last);
    let first = plain().map(|run| run.stored).min().unwrap_or(0);
    let end = plain().map(|run| run.stored + u32::from(run.blocks)).max();
    let mut is_wanted = vec![false; (end.unwrap_or(first) - first) as usize];
    for run in plain() {
        let from = (run.stored - first) as usize;
        is_wanted[from..from + usize::from(run.blocks)].fill(true);
    }
    let wanted: Vec<u32> = (first..)
        .zip(&is_wanted)
        .filter_map(|(n, is_wanted)| is_wanted.then_some(n))
        .collect();
    let hashed: Vec<Hash> = wanted
        .par_chunks(EACH)
        .flat_map_iter(|wanted| {
            let mut hashes = Vec::with_capacity(wanted.len());
            let blocks = wanted.iter().map(|n| {
                let (_, from, bytes) = files[at].file.place(*n);
                &unpacked[from..from + bytes]
            });
            hash_all(blocks, &mut hashes);
            hashes
        })
        .collect();
    let mut hashes = vec![Hash::of(&[]); is_wanted.len()];
    for (n, hash) in wanted.iter().zip(hashed) {
        hashes[(n - first) as usize] = hash;
    }
    Known { first, hashes }
}

/// Writes the runs of a packet.
struct Writer<'a> {
    files: &'a [Link],
    at: usize,
    unpacked: &'a [u8],
    known: &'a Known,
    outputs: &'a [Output<'a>],
    /// The last opened file among those that do not stay open.
    opened: Option<(usize, File)>,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    /// Writes a run. If this completes its blocks in the output file, appends their hashes to `hashes`.
    fn write(&mut self, run: &Run, hashes: &mut Vec<Hash>) -> Result<(), DeltaError> {
        let numbered = self.files[0].numbered(run.number);
        let (image, block, _) = numbered.expect("it was planned");
        let output = &self.outputs[image];
        let failed = |verb| DeltaError::io(&output.place, verb);
        let (_, range) = within(self.files, self.at, run);
        let own = &self.unpacked[range.clone()];
        if output.open.is_none() && self.opened.as_ref().is_none_or(|(n, _)| *n != image) {
            let file = output.open_again().map_err(failed("write"))?;
            self.opened = Some((image, file));
        }
        let opened = self.opened.as_ref().map(|(_, file)| file);
        let file = output.open.as_ref().or(opened).expect("opened above");
        if run.is_first {
            file.write_all_at(own, block.offset)
                .map_err(failed("write"))?;
            if run.is_last {
                hashes.extend_from_slice(self.known.of(run));
            }
            return Ok(());
        }
        self.buffer.resize(own.len(), 0);
        file.read_exact_at(&mut self.buffer, block.offset)
            .map_err(failed("read"))?;
        codec::xor(&mut self.buffer, own);
        file.write_all_at(&self.buffer, block.offset)
            .map_err(failed("write"))?;
        if run.is_last {
            let blocks = (run.stored..run.stored + u32::from(run.blocks)).map(|n| {
                let (_, from, bytes) = self.files[self.at].file.place(n);
                let from = from - range.start;
                &self.buffer[from..from + bytes]
            });
            hash_all(blocks, hashes);
        }
        Ok(())
    }
}

impl Output<'_> {
    fn open_again(&self) -> io::Result<File> {
        self.root.open_to_write(self.name)
    }
}

/// Checks the digests of all files, sets their permissions, and waits until the data are on disk.
fn finish(
    link: &Link,
    outputs: &[Output<'_>],
    frames: &[Hash],
    hashes: &[Hash],
) -> Result<(), DeltaError> {
    let images = &link.file.summary().images;
    for (n, entry) in images.iter().enumerate() {
        let own = &hashes[index(link.firsts[n])..index(link.firsts[n + 1])];
        let found = signature::digest(link.file.layout(n), frames[n], own);
        if found != entry.digest {
            return Err(DeltaError::new(
                &link.file.path().join(&entry.name),
                DeltaErrorKind::Differs {
                    expected: entry.digest.clone(),
                    found,
                },
            ));
        }
    }
    for (output, entry) in outputs.iter().zip(images) {
        let finish = |file: &File| {
            file.set_permissions(fs::Permissions::from_mode(entry.mode & STORED_MODE))?;
            file.sync_all()
        };
        match &output.open {
            Some(file) => finish(file),
            None => output.open_again().and_then(|file| finish(&file)),
        }
        .map_err(DeltaError::io(&output.place, "write"))?;
    }
    Ok(())
}
