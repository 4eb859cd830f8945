//! Reads a region of a log as a stream of bytes, decompressed on request.

use super::header::{DarshanCompression, RegionExtent};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, Read, Seek, SeekFrom};

const INPUT_BYTES: usize = 128 << 10;
const OUTPUT_BYTES: usize = 256 << 10;
/// Maximum number of bytes that can be examined at once.
pub(super) const MAX_PEEK_BYTES: usize = OUTPUT_BYTES / 2;

/// Buffers that are used by one region after another.
pub(super) struct Buffers {
    input: Box<[u8]>,
    output: Box<[u8]>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            input: vec![0; INPUT_BYTES].into(),
            output: vec![0; OUTPUT_BYTES].into(),
        }
    }
}

enum Decoder {
    Zlib(Decompress),
    Bzip2(bzip2::Decompress),
    Copy,
}

impl Decoder {
    fn new(compression: DarshanCompression) -> Self {
        match compression {
            DarshanCompression::Zlib => Self::Zlib(Decompress::new(true)),
            DarshanCompression::Bzip2 => Self::Bzip2(bzip2::Decompress::new(false)),
            DarshanCompression::None => Self::Copy,
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        match self {
            Self::Zlib(zlib) => {
                let (taken, given) = (zlib.total_in(), zlib.total_out());
                let result = zlib.decompress(input, output, FlushDecompress::None);
                Step {
                    taken: (zlib.total_in() - taken) as usize,
                    given: (zlib.total_out() - given) as usize,
                    state: match result {
                        Ok(Status::StreamEnd) => StreamState::Ended,
                        Ok(Status::Ok | Status::BufError) => StreamState::Continues,
                        Err(error) => StreamState::Damaged(error.to_string()),
                    },
                }
            }
            Self::Bzip2(bzip2) => {
                let (taken, given) = (bzip2.total_in(), bzip2.total_out());
                let result = bzip2.decompress(input, output);
                Step {
                    taken: (bzip2.total_in() - taken) as usize,
                    given: (bzip2.total_out() - given) as usize,
                    state: match result {
                        Ok(bzip2::Status::StreamEnd) => StreamState::Ended,
                        Ok(_) => StreamState::Continues,
                        Err(error) => StreamState::Damaged(error.to_string()),
                    },
                }
            }
            Self::Copy => {
                let bytes = input.len().min(output.len());
                output[..bytes].copy_from_slice(&input[..bytes]);
                Step {
                    taken: bytes,
                    given: bytes,
                    state: StreamState::Ended,
                }
            }
        }
    }
}

/// Result of one call of the decoder.
struct Step {
    taken: usize,
    given: usize,
    state: StreamState,
}

/// State of a compressed stream after a step.
enum StreamState {
    Continues,
    Ended,
    /// The stream is damaged; the decoder's message.
    Damaged(String),
}

/// Why a region has no more bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RegionEnd {
    /// It was read completely.
    Whole,
    /// This many bytes are missing at the end of the file.
    CutOff(u64),
    /// The last compressed stream has no end marker.
    Unfinished,
    /// The compressed data are damaged; the decoder's message.
    Damaged(String),
}

/// A region that is read sequentially. Every rank that wrote to it added a separate compressed stream; the streams are read as one.
pub(super) struct LogRegion<'a, R> {
    source: &'a mut R,
    buffers: &'a mut Buffers,
    compression: DarshanCompression,
    decoder: Decoder,
    /// Whether the decoder is between two streams.
    between: bool,
    /// Number of compressed bytes not read from the file yet.
    left: u64,
    cut_off: u64,
    input: (usize, usize),
    output: (usize, usize),
    end: Option<RegionEnd>,
}

impl<'a, R: Read + Seek> LogRegion<'a, R> {
    /// # Errors
    /// The system cannot seek to the beginning of the region.
    pub(super) fn open(
        source: &'a mut R,
        buffers: &'a mut Buffers,
        compression: DarshanCompression,
        extent: RegionExtent,
    ) -> io::Result<Self> {
        source.seek(SeekFrom::Start(extent.offset))?;
        Ok(Self {
            source,
            buffers,
            compression,
            decoder: Decoder::new(compression),
            between: true,
            left: extent.bytes,
            cut_off: 0,
            input: (0, 0),
            output: (0, 0),
            end: None,
        })
    }

    /// Returns the next bytes without consuming them: at least `bytes` (at most [`MAX_PEEK_BYTES`]), or all that remain.
    ///
    /// # Errors
    /// The system cannot read the file.
    #[inline]
    pub(super) fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.output.1 - self.output.0 < bytes && self.end.is_none() {
            self.fill()?;
        }
        Ok(&self.buffers.output[self.output.0..self.output.1])
    }

    /// Consumes `bytes` bytes, which must have been returned by `peek`.
    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.output.0 = (self.output.0 + bytes).min(self.output.1);
    }

    /// Skips `bytes` bytes, which may be any number. Returns whether the region had them.
    ///
    /// # Errors
    /// The system cannot read the file.
    pub(super) fn pass(&mut self, mut bytes: u64) -> io::Result<bool> {
        while bytes > 0 {
            let there = self.peek(1)?.len();
            if there == 0 {
                return Ok(false);
            }
            let passed = usize::try_from(bytes).map_or(there, |bytes| bytes.min(there));
            self.skip(passed);
            bytes -= passed as u64;
        }
        Ok(true)
    }

    /// Returns why the region ended; `None` before its end.
    pub(super) fn end(&self) -> Option<&RegionEnd> {
        self.end.as_ref()
    }

    fn fill(&mut self) -> io::Result<()> {
        let Buffers { input, output } = &mut *self.buffers;
        if self.output.0 == self.output.1 {
            self.output = (0, 0);
        } else if output.len() - self.output.1 < MAX_PEEK_BYTES {
            output.copy_within(self.output.0..self.output.1, 0);
            self.output = (0, self.output.1 - self.output.0);
        }
        if self.input.0 == self.input.1 && self.left > 0 {
            let bytes =
                usize::try_from(self.left).map_or(INPUT_BYTES, |left| left.min(INPUT_BYTES));
            let read = read(self.source, &mut input[..bytes])?;
            self.input = (0, read);
            self.left -= read as u64;
            if read == 0 {
                (self.cut_off, self.left) = (self.left, 0);
            }
        }
        let input = &input[self.input.0..self.input.1];
        let step = self.decoder.step(input, &mut output[self.output.1..]);
        self.input.0 += step.taken;
        self.output.1 += step.given;
        let stuck = step.taken == 0 && step.given == 0;
        match step.state {
            StreamState::Damaged(problem) => self.end = Some(RegionEnd::Damaged(problem)),
            // an empty input does not begin another stream
            _ if stuck && input.is_empty() && self.left == 0 => {
                self.end = Some(match self.cut_off {
                    0 if self.between => RegionEnd::Whole,
                    0 => RegionEnd::Unfinished,
                    bytes => RegionEnd::CutOff(bytes),
                });
            }
            StreamState::Ended => {
                self.between = true;
                match &mut self.decoder {
                    Decoder::Zlib(zlib) => zlib.reset(true),
                    Decoder::Bzip2(_) => self.decoder = Decoder::new(self.compression),
                    Decoder::Copy => {}
                }
            }
            StreamState::Continues if stuck && !input.is_empty() => {
                self.end = Some(RegionEnd::Damaged(
                    "no further data can be decoded".to_owned(),
                ));
            }
            StreamState::Continues => self.between &= step.taken == 0,
        }
        Ok(())
    }
}

/// Reads once; repeats the call if a signal interrupts it.
fn read(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
