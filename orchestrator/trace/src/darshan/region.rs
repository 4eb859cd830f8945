//! A region of a log as a stream of bytes, inflated as they are asked for.

use super::header::{DarshanCompression, Extent};
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, Read, Seek, SeekFrom};

const INPUT_BYTES: usize = 128 << 10;
const OUTPUT_BYTES: usize = 256 << 10;
/// How many bytes can be looked at together.
pub(super) const MAX_PEEK_BYTES: usize = OUTPUT_BYTES / 2;

/// Memory that one region after the other uses.
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
                    result: match result {
                        Ok(Status::StreamEnd) => Ok(true),
                        Ok(Status::Ok | Status::BufError) => Ok(false),
                        Err(error) => Err(error.to_string()),
                    },
                }
            }
            Self::Bzip2(bzip2) => {
                let (taken, given) = (bzip2.total_in(), bzip2.total_out());
                let result = bzip2.decompress(input, output);
                Step {
                    taken: (bzip2.total_in() - taken) as usize,
                    given: (bzip2.total_out() - given) as usize,
                    result: match result {
                        Ok(status) => Ok(matches!(status, bzip2::Status::StreamEnd)),
                        Err(error) => Err(error.to_string()),
                    },
                }
            }
            Self::Copy => {
                let bytes = input.len().min(output.len());
                output[..bytes].copy_from_slice(&input[..bytes]);
                Step {
                    taken: bytes,
                    given: bytes,
                    result: Ok(true),
                }
            }
        }
    }
}

/// What one call of a decoder did.
struct Step {
    taken: usize,
    given: usize,
    /// Whether a stream has come to its end.
    result: Result<bool, String>,
}

/// Why a region gives no more bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All of it is there.
    Whole,
    /// So many bytes of it are no longer in the file.
    CutOff(u64),
    /// The last of its streams does not come to its end.
    Unfinished,
    /// The decoder cannot go on.
    Damaged(String),
}

/// A region that is read from its beginning to its end. Every rank that writes one adds a stream of its own, and they follow each other as one.
pub(super) struct Region<'a, R> {
    source: &'a mut R,
    buffers: &'a mut Buffers,
    compression: DarshanCompression,
    decoder: Decoder,
    /// Whether the decoder is between two streams.
    between: bool,
    /// Compressed bytes that are not read from the file yet.
    left: u64,
    cut_off: u64,
    input: (usize, usize),
    output: (usize, usize),
    end: Option<End>,
}

impl<'a, R: Read + Seek> Region<'a, R> {
    /// # Errors
    /// When the system cannot move to its beginning.
    pub(super) fn open(
        source: &'a mut R,
        buffers: &'a mut Buffers,
        compression: DarshanCompression,
        extent: Extent,
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

    /// The next bytes: at least `bytes`, which is at most [`MAX_PEEK_BYTES`], or all that the region still has.
    ///
    /// # Errors
    /// When the system cannot read the file.
    #[inline]
    pub(super) fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        while self.output.1 - self.output.0 < bytes && self.end.is_none() {
            self.fill()?;
        }
        Ok(&self.buffers.output[self.output.0..self.output.1])
    }

    /// Goes past `bytes` that were looked at.
    #[inline]
    pub(super) fn skip(&mut self, bytes: usize) {
        self.output.0 = (self.output.0 + bytes).min(self.output.1);
    }

    /// Goes past `bytes`, also many. Whether the region had them.
    ///
    /// # Errors
    /// When the system cannot read the file.
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

    /// Why it ended, once it has given its last byte.
    pub(super) fn end(&self) -> Option<&End> {
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
        match step.result {
            Err(problem) => self.end = Some(End::Damaged(problem)),
            // an empty input is no stream
            _ if stuck && input.is_empty() && self.left == 0 => {
                self.end = Some(match self.cut_off {
                    0 if self.between => End::Whole,
                    0 => End::Unfinished,
                    bytes => End::CutOff(bytes),
                });
            }
            Ok(true) => {
                self.between = true;
                match &mut self.decoder {
                    Decoder::Zlib(zlib) => zlib.reset(true),
                    Decoder::Bzip2(_) => self.decoder = Decoder::new(self.compression),
                    Decoder::Copy => {}
                }
            }
            Ok(false) if stuck && !input.is_empty() => {
                self.end = Some(End::Damaged("it does not go on".to_owned()));
            }
            Ok(false) => self.between &= step.taken == 0,
        }
        Ok(())
    }
}

/// Reads once, and again when a signal came in between.
fn read(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
