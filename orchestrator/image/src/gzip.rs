//! Reads a gzip-compressed image: decompresses it once, into one buffer that is parsed in place. Memory use does not depend on the size of the
//! image.

use super::{
    PAGE,
    error::ImageErrorKind,
    source::{ImageSource, Page},
};
use flate2::{Decompress, FlushDecompress, Status};
use std::{fs::File, io::Read};

/// Number of compressed bytes read at a time.
const INPUT: usize = 128 * 1024;
/// Number of decompressed bytes held at a time: small enough for a core's cache.
const OUTPUT: usize = 256 * 1024;
/// log2 of gzip's window.
const WINDOW_BITS: u8 = 15;
/// The first bytes of a gzip member.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

pub(super) struct GzipSource {
    file: File,
    input: Box<[u8]>,
    input_at: usize,
    input_len: usize,
    input_ended: bool,
    inflate: Decompress,
    stream_ended: bool,
    output: Box<[u8]>,
    output_at: usize,
    output_len: usize,
    /// Offset of the next byte to return in the uncompressed image.
    at: u64,
    /// Number of compressed bytes consumed so far. The next field is the number that had been consumed before `output` was last filled.
    inflated: u64,
    inflated_before: u64,
    /// Buffer for a page that is not contiguous in `output`.
    page: Box<[u8; PAGE]>,
}

impl GzipSource {
    /// Creates a source; `file` must be positioned at its beginning.
    pub(super) fn new(file: File) -> Self {
        // The input is read once, sequentially. This is only a hint, so errors are ignored.
        let _ = nix::fcntl::posix_fadvise(
            &file,
            0,
            0,
            nix::fcntl::PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL,
        );
        Self {
            file,
            input: vec![0; INPUT].into_boxed_slice(),
            input_at: 0,
            input_len: 0,
            input_ended: false,
            inflate: Decompress::new_gzip(WINDOW_BITS),
            stream_ended: false,
            output: vec![0; OUTPUT].into_boxed_slice(),
            output_at: 0,
            output_len: 0,
            at: 0,
            inflated: 0,
            inflated_before: 0,
            page: Box::new([0; PAGE]),
        }
    }

    /// Reads until at least `wanted` bytes of input are available, or the file ends.
    fn fill_input(&mut self, wanted: usize) -> Result<(), ImageErrorKind> {
        if self.input_at > 0 {
            self.input.copy_within(self.input_at..self.input_len, 0);
            self.input_len -= self.input_at;
            self.input_at = 0;
        }
        while self.input_len < wanted && !self.input_ended {
            match self.file.read(&mut self.input[self.input_len..]) {
                Ok(0) => self.input_ended = true,
                Ok(n) => self.input_len += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageErrorKind::Io(error)),
            }
        }
        Ok(())
    }

    /// Decompresses until `output` is not empty or the stream has ended.
    fn fill_output(&mut self) -> Result<(), ImageErrorKind> {
        self.output_at = 0;
        self.output_len = 0;
        self.inflated_before = self.inflated;
        while self.output_len == 0 && !self.stream_ended {
            if self.input_at == self.input_len && !self.input_ended {
                self.fill_input(1)?;
            }
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(
                    &self.input[self.input_at..self.input_len],
                    &mut self.output,
                    FlushDecompress::None,
                )
                .map_err(|error| ImageErrorKind::GzipCorrupt(error.to_string()))?;
            let consumed = usize::try_from(self.inflate.total_in() - in_before)
                .expect("at most the input buffer");
            self.output_len = usize::try_from(self.inflate.total_out() - out_before)
                .expect("at most the output buffer");
            self.input_at += consumed;
            self.inflated += consumed as u64;
            match status {
                Status::StreamEnd => self.end_of_member()?,
                Status::Ok | Status::BufError => {
                    if self.output_len == 0 && self.input_at == self.input_len && self.input_ended {
                        return Err(ImageErrorKind::GzipEndsEarly);
                    }
                    if consumed == 0 && self.output_len == 0 && self.input_at < self.input_len {
                        return Err(ImageErrorKind::GzipCorrupt("no progress".to_owned()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Prepares for what follows a member: DMTCP writes one member, parallel compressors write several, and tapes are padded with zeros.
    fn end_of_member(&mut self) -> Result<(), ImageErrorKind> {
        self.fill_input(MAGIC.len())?;
        let rest = &self.input[self.input_at..self.input_len];
        if rest.starts_with(&MAGIC) {
            self.inflate = Decompress::new_gzip(WINDOW_BITS);
            return Ok(());
        }
        loop {
            if self.input[self.input_at..self.input_len]
                .iter()
                .any(|&byte| byte != 0)
            {
                return Err(ImageErrorKind::GzipTrailing);
            }
            self.input_at = self.input_len;
            if self.input_ended {
                break;
            }
            self.fill_input(1)?;
        }
        self.stream_ended = true;
        Ok(())
    }

    fn ready(&self) -> usize {
        self.output_len - self.output_at
    }
}

impl ImageSource for GzipSource {
    fn page(&mut self) -> Result<Page<'_>, ImageErrorKind> {
        if self.ready() == 0 {
            self.fill_output()?;
        }
        if self.ready() >= PAGE {
            let from = self.output_at;
            self.output_at += PAGE;
            self.at += PAGE as u64;
            return Ok(Page::from_slice(&self.output[from..from + PAGE]));
        }
        let mut have = 0;
        while have < PAGE {
            if self.ready() == 0 {
                self.fill_output()?;
                if self.ready() == 0 {
                    break;
                }
            }
            let take = self.ready().min(PAGE - have);
            self.page[have..have + take]
                .copy_from_slice(&self.output[self.output_at..self.output_at + take]);
            self.output_at += take;
            self.at += take as u64;
            have += take;
        }
        Ok(Page::from_slice(&self.page[..have]))
    }

    fn skip(&mut self, bytes: u64) -> Result<u64, ImageErrorKind> {
        self.pass(bytes, &mut |_| ())
    }

    fn pass(&mut self, bytes: u64, to: &mut dyn FnMut(&[u8])) -> Result<u64, ImageErrorKind> {
        let mut left = bytes;
        while left > 0 {
            if self.ready() == 0 {
                self.fill_output()?;
                if self.ready() == 0 {
                    break;
                }
            }
            let take = usize::try_from(left)
                .unwrap_or(usize::MAX)
                .min(self.ready());
            to(&self.output[self.output_at..self.output_at + take]);
            self.output_at += take;
            self.at += take as u64;
            left -= take as u64;
        }
        Ok(bytes - left)
    }

    fn offset(&self) -> u64 {
        self.at
    }

    fn file_offset(&self) -> f64 {
        let share = if self.output_len == 0 {
            1.0
        } else {
            self.output_at as f64 / self.output_len as f64
        };
        self.inflated_before as f64 + (self.inflated - self.inflated_before) as f64 * share
    }

    fn finish(&mut self) -> Result<u64, ImageErrorKind> {
        if self.ready() == 0 {
            // Also reads the trailer, at which zlib checks checksum and length.
            self.fill_output()?;
        }
        match self.ready() as u64 {
            0 => Ok(self.at),
            count => Err(ImageErrorKind::TrailingBytes {
                count,
                exact: false,
            }),
        }
    }
}
