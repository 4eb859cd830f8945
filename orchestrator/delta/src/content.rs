//! Reads the uncompressed content of a file, one window at a time.

use crate::{
    error::{DeltaError, DeltaErrorKind},
    layout::{DeltaBlock, DeltaLayout},
    source::SourceFile,
};
use cvc_delta_rules::{Addressing, BlockSize};
use cvc_image::{Header, Image, ReadOptions, read_image_with};
use cvc_os::regular;
use rayon::prelude::*;
use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

/// Bytes that are held in memory at a time.
const WINDOW: u64 = 16 << 20;
/// Bytes that one core reads at a time.
const PIECE: usize = 1 << 20;
/// Number of blocks that one core processes at a time.
const TOGETHER: usize = 64;
/// Bytes that one core reads and processes at a time; small enough for its cache.
const STRETCH: usize = 256 << 10;

/// An opened file of a checkpoint.
pub struct Content {
    pub layout: DeltaLayout,
    /// The headers of the image; `None` if the file is not an image.
    pub image: Option<Image>,
    reader: Reader,
}

enum Reader {
    /// Read at arbitrary offsets, by all cores.
    Plain(File),
    /// Decompressed sequentially, from the beginning.
    Gzip(Box<flate2::read::MultiGzDecoder<io::BufReader<File>>>),
}

/// A part of the content in memory, and the blocks that lie completely within it.
pub struct Window<'a> {
    /// Offset of this part in the content, bytes.
    pub offset: u64,
    pub bytes: &'a [u8],
    pub blocks: &'a [DeltaBlock],
}

impl Window<'_> {
    pub fn of(&self, block: &DeltaBlock) -> &[u8] {
        let from = self.place(block.offset);
        &self.bytes[from..from + block.bytes as usize]
    }

    /// Returns the bytes outside the blocks, in the order of the file.
    pub fn between(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        let ends = self
            .blocks
            .iter()
            .map(|b| (self.place(b.offset), b.bytes as usize))
            .chain([(self.bytes.len(), 0)]);
        ends.filter_map(move |(from, bytes)| {
            let before = at..from;
            at = from + bytes;
            (!before.is_empty()).then(|| &self.bytes[before])
        })
    }

    fn place(&self, offset: u64) -> usize {
        usize::try_from(offset - self.offset).expect("within a window")
    }
}

/// A part of the content that one core processes.
struct Stretch {
    offset: u64,
    bytes: usize,
    /// All blocks of this part; none is cut.
    blocks: Vec<DeltaBlock>,
}

/// Divides a content into [`Stretch`]es.
struct Stretches<'a> {
    blocks: std::iter::Peekable<Box<dyn Iterator<Item = DeltaBlock> + 'a>>,
    at: u64,
    end: u64,
}

impl<'a> Stretches<'a> {
    fn new(layout: &'a DeltaLayout, size: BlockSize) -> Self {
        let blocks = layout.extents.iter().flat_map(move |e| e.cut(size));
        let blocks: Box<dyn Iterator<Item = DeltaBlock> + 'a> = Box::new(blocks);
        Self {
            blocks: blocks.peekable(),
            at: 0,
            end: layout.bytes,
        }
    }

    /// Returns the next stretches, about `bytes` bytes in total.
    fn take(&mut self, bytes: u64) -> Vec<Stretch> {
        let end = self.at.saturating_add(bytes).min(self.end);
        let mut taken = Vec::new();
        while self.at < end {
            let offset = self.at;
            let full = offset + STRETCH as u64;
            let mut blocks = Vec::with_capacity(TOGETHER);
            // a block that is longer than a stretch becomes a stretch of its own; so does a part of a frame
            while let Some(block) = self.blocks.next_if(|block| {
                let is_first = blocks.is_empty() && block.offset == offset;
                is_first || block.offset + u64::from(block.bytes) <= full
            }) {
                self.at = block.offset + u64::from(block.bytes);
                blocks.push(block);
            }
            let next = self.blocks.peek().map_or(self.end, |block| block.offset);
            if self.at < next {
                self.at = next.min(full.max(self.at));
            }
            taken.push(Stretch {
                offset,
                bytes: usize::try_from(self.at - offset).expect("a stretch or a block"),
                blocks,
            });
        }
        taken
    }
}

impl Content {
    /// Opens a file and, if it is an image, reads its headers.
    pub fn open(file: &SourceFile, addressing: Addressing) -> Result<Self, DeltaError> {
        let path = &file.path;
        let is_named_image = file.name.ends_with(".dmtcp");
        // the file was listed as a regular file; if a pipe has replaced it, opening must not block
        let opened = regular::open_named(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if file.version.is_some() => {
                DeltaError::new(path, DeltaErrorKind::Changed)
            }
            _ => DeltaError::io(path, "open")(error),
        })?;
        let found = opened.metadata().map_err(DeltaError::io(path, "read"))?;
        file.require_unchanged(&found)?;
        // blocks of a compressed stream never repeat, with either addressing
        let is_read = is_named_image
            && (addressing == Addressing::Address
                || is_gzip(&opened).map_err(DeltaError::io(path, "read"))?);
        if !is_read {
            return Ok(Self {
                layout: DeltaLayout::by_index(file.bytes),
                image: None,
                reader: Reader::Plain(opened),
            });
        }
        let image = read_image_with(path, ReadOptions { areas: true })
            .map_err(|error| DeltaError::new(path, DeltaErrorKind::Image(error)))?;
        let reader = if image.gzip {
            Reader::Gzip(Box::new(flate2::read::MultiGzDecoder::new(
                io::BufReader::with_capacity(PIECE, opened),
            )))
        } else {
            Reader::Plain(opened)
        };
        if addressing == Addressing::Index {
            return Ok(Self {
                layout: DeltaLayout::by_index(image.uncompressed_bytes),
                image: None,
                reader,
            });
        }
        let layout = DeltaLayout::of_image(&image);
        layout.check(path)?;
        Ok(Self {
            layout,
            image: Some(image),
            reader,
        })
    }

    /// Returns whether the file is gzip-compressed, so that it can only be read sequentially.
    pub fn is_gzip(&self) -> bool {
        matches!(self.reader, Reader::Gzip(_))
    }

    /// Returns DMTCP's identifier of the process in the image: host, pid and time.
    pub fn unique_pid(&self) -> Option<String> {
        match &self.image.as_ref()?.header {
            Header::V4(header) => Some(format!(
                "{:x}-{}-{:x}",
                header.upid.hostid, header.upid.pid, header.upid.time
            )),
            Header::V2(_) => None,
        }
    }

    /// Returns a reader of the whole content, from the beginning.
    pub fn sequential(self) -> Box<dyn Read> {
        match self.reader {
            Reader::Plain(file) => Box::new(io::BufReader::with_capacity(PIECE, file)),
            Reader::Gzip(stream) => stream,
        }
    }

    /// Calls `to` with the whole content, in order, in windows that end between blocks.
    pub fn windows(
        &mut self,
        path: &Path,
        size: BlockSize,
        mut to: impl FnMut(Window<'_>) -> Result<(), DeltaError>,
    ) -> Result<(), DeltaError> {
        let mut buffer = Vec::new();
        let mut blocks: Vec<DeltaBlock> = Vec::new();
        let mut offset = 0;
        let layout = std::mem::take(&mut self.layout);
        let mut all = layout.extents.iter().flat_map(|e| e.cut(size)).peekable();
        let mut result = Ok(());
        while offset < layout.bytes && result.is_ok() {
            blocks.clear();
            let mut end = offset;
            while let Some(block) = all.peek() {
                let block_end = block.offset + u64::from(block.bytes);
                if block_end > offset + WINDOW && !blocks.is_empty() {
                    break;
                }
                // a frame that is longer than a window is passed on without blocks
                if block.offset > offset + WINDOW {
                    break;
                }
                end = block_end;
                blocks.push(*block);
                all.next();
            }
            if blocks.is_empty() {
                end = (offset + WINDOW).min(layout.bytes);
            } else if all.peek().is_none() && layout.bytes - end <= WINDOW {
                end = layout.bytes;
            }
            buffer.resize(usize::try_from(end - offset).expect("a window"), 0);
            result = self.fill(path, offset, &mut buffer).and_then(|()| {
                to(Window {
                    offset,
                    bytes: &buffer,
                    blocks: &blocks,
                })
            });
            offset = end;
        }
        drop(all);
        self.layout = layout;
        result
    }

    fn fill(&mut self, path: &Path, offset: u64, buffer: &mut [u8]) -> Result<(), DeltaError> {
        let read = match &mut self.reader {
            Reader::Plain(file) => buffer
                .par_chunks_mut(PIECE)
                .enumerate()
                .try_for_each(|(n, piece)| file.read_exact_at(piece, offset + (n * PIECE) as u64)),
            Reader::Gzip(stream) => stream.read_exact(buffer),
        };
        read.map_err(|error| cannot_read(path, error))
    }

    /// Reads the whole content once and returns the results of `of` for all blocks, in the order of the file. `between` receives the bytes outside
    /// the blocks, in the same order; `progress` receives the number of bytes read.
    ///
    /// Each core processes data right after reading them, while they are in its cache. `between` runs while the next stretches are read.
    pub fn map_blocks<T: Send>(
        &mut self,
        path: &Path,
        size: BlockSize,
        of: impl Fn(&[&[u8]], &mut Vec<T>) + Sync,
        mut between: impl FnMut(&[u8]) -> Result<(), DeltaError> + Send,
        progress: &dyn Fn(u64),
    ) -> Result<Vec<T>, DeltaError> {
        let mut made = Vec::with_capacity(usize::try_from(self.layout.blocks(size)).unwrap_or(0));
        let Reader::Plain(file) = &self.reader else {
            self.windows(path, size, |window| {
                made.par_extend(window.blocks.par_chunks(TOGETHER).flat_map_iter(|blocks| {
                    let blocks: Vec<&[u8]> = blocks.iter().map(|b| window.of(b)).collect();
                    let mut made = Vec::with_capacity(blocks.len());
                    of(&blocks, &mut made);
                    made
                }));
                window.between().try_for_each(&mut between)?;
                progress(window.bytes.len() as u64);
                Ok(())
            })?;
            return Ok(made);
        };
        let mut stretches = Stretches::new(&self.layout, size);
        let read = |stretches: &[Stretch]| -> Vec<io::Result<(Vec<T>, Vec<u8>)>> {
            stretches
                .par_iter()
                .map_init(Vec::new, |buffer: &mut Vec<u8>, stretch| {
                    buffer.resize(stretch.bytes, 0);
                    file.read_exact_at(buffer, stretch.offset)?;
                    let window = Window {
                        offset: stretch.offset,
                        bytes: buffer,
                        blocks: &stretch.blocks,
                    };
                    let blocks: Vec<&[u8]> = stretch.blocks.iter().map(|b| window.of(b)).collect();
                    let mut made = Vec::with_capacity(blocks.len());
                    of(&blocks, &mut made);
                    let mut frame = Vec::new();
                    window
                        .between()
                        .for_each(|bytes| frame.extend_from_slice(bytes));
                    Ok((made, frame))
                })
                .collect()
        };
        let mut frames: Vec<Vec<u8>> = Vec::new();
        loop {
            let next = stretches.take(WINDOW);
            let bytes: usize = next.iter().map(|s| s.bytes).sum();
            let before = std::mem::take(&mut frames);
            let (now, handed) = rayon::join(
                || read(&next),
                || before.iter().try_for_each(|bytes| between(bytes)),
            );
            handed?;
            for stretch in now {
                let (own, frame) = stretch.map_err(|error| cannot_read(path, error))?;
                made.extend(own);
                frames.push(frame);
            }
            if next.is_empty() {
                return Ok(made);
            }
            progress(bytes as u64);
        }
    }

    /// Calls `to` with each block of `wanted`, which is sorted by offset. Reads only these blocks, unless the file is gzip-compressed.
    pub fn blocks(
        &mut self,
        path: &Path,
        size: BlockSize,
        wanted: &[DeltaBlock],
        mut to: impl FnMut(&DeltaBlock, &[u8]) -> Result<(), DeltaError>,
    ) -> Result<(), DeltaError> {
        if self.is_gzip() {
            let mut wanted = wanted.iter().peekable();
            return self.windows(path, size, |window| {
                for block in window.blocks {
                    if wanted.next_if_eq(&block).is_some() {
                        to(block, window.of(block))?;
                    }
                }
                Ok(())
            });
        }
        let mut buffer = Vec::new();
        let mut left = wanted;
        while !left.is_empty() {
            let mut bytes = 0_u64;
            let fits = left.iter().take_while(|block| {
                bytes += u64::from(block.bytes);
                bytes <= WINDOW
            });
            let (now, later) = left.split_at(fits.count().max(1));
            left = later;
            buffer.resize(now.iter().map(|b| b.bytes as usize).sum(), 0);
            self.fill_blocks(path, now, &mut buffer)?;
            let mut rest = &buffer[..];
            for block in now {
                let (bytes, after) = rest.split_at(block.bytes as usize);
                to(block, bytes)?;
                rest = after;
            }
        }
        Ok(())
    }

    /// Reads the blocks into `buffer`, one after another; adjacent blocks with one read.
    fn fill_blocks(
        &self,
        path: &Path,
        blocks: &[DeltaBlock],
        buffer: &mut [u8],
    ) -> Result<(), DeltaError> {
        let Reader::Plain(file) = &self.reader else {
            return Ok(());
        };
        let mut stretches: Vec<(u64, &mut [u8])> = Vec::new();
        let mut rest = buffer;
        for neighbours in blocks.chunk_by(|a, b| a.offset + u64::from(a.bytes) == b.offset) {
            let bytes = neighbours.iter().map(|b| b.bytes as usize).sum();
            let (stretch, after) = rest.split_at_mut(bytes);
            stretches.push((neighbours[0].offset, stretch));
            rest = after;
        }
        stretches
            .into_par_iter()
            .try_for_each(|(offset, stretch)| file.read_exact_at(stretch, offset))
            .map_err(|error| cannot_read(path, error))
    }
}

/// Returns whether a file begins with the magic bytes of gzip.
fn is_gzip(file: &File) -> io::Result<bool> {
    let mut first = [0; 2];
    match file.read_exact_at(&mut first, 0) {
        Ok(()) => Ok(first == [0x1f, 0x8b]),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Converts a read error. The length of the file was determined before, so an early end means that the file has changed.
fn cannot_read(path: &Path, error: io::Error) -> DeltaError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => DeltaError::new(path, DeltaErrorKind::Changed),
        _ => DeltaError::io(path, "read")(error),
    }
}
