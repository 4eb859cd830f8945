//! Reads a plain image: seeks to the headers and skips the data.

use super::{
    PAGE,
    error::ImageErrorKind,
    source::{ImageSource, Page},
};
use std::{fs::File, os::unix::fs::FileExt};

/// Bytes read at once. Two pages, because headers may follow each other without data in between (a parent, then its run of zeros).
const WINDOW: usize = 2 * PAGE;
/// Bytes of data read at a time, if the data are needed.
const PIECE: usize = 256 << 10;

pub(super) struct PlainSource {
    file: File,
    len: u64,
    /// Offset of the next byte to return. A wrong size in the image may set it beyond `len`, but the addition never overflows.
    at: u64,
    window: Box<[u8; WINDOW]>,
    window_at: u64,
    window_len: usize,
}

impl PlainSource {
    /// Creates a source; `len` is the length of the file when it was opened. Data appended later are ignored.
    pub(super) fn new(file: File, len: u64) -> Self {
        // Prevents the kernel from reading ahead after every header, that is, most of the data. This is only a hint, so errors are ignored.
        let _ = nix::fcntl::posix_fadvise(
            &file,
            0,
            0,
            nix::fcntl::PosixFadviseAdvice::POSIX_FADV_RANDOM,
        );
        Self {
            file,
            len,
            at: 0,
            window: Box::new([0; WINDOW]),
            window_at: 0,
            window_len: 0,
        }
    }

    fn fill_window(&mut self) -> Result<(), ImageErrorKind> {
        self.window_at = self.at;
        self.window_len = 0;
        let wanted = usize::try_from(self.len.saturating_sub(self.at))
            .unwrap_or(usize::MAX)
            .min(WINDOW);
        while self.window_len < wanted {
            match self.file.read_at(
                &mut self.window[self.window_len..wanted],
                self.at + self.window_len as u64,
            ) {
                Ok(0) => break, // cut off since it was opened
                Ok(n) => self.window_len += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageErrorKind::Io(error)),
            }
        }
        Ok(())
    }
}

impl ImageSource for PlainSource {
    fn page(&mut self) -> Result<Page<'_>, ImageErrorKind> {
        let window_end = self.window_at + self.window_len as u64;
        if self.at < self.window_at || self.at + PAGE as u64 > window_end {
            self.fill_window()?;
        }
        let from = usize::try_from(self.at - self.window_at).expect("within the window");
        let to = (from + PAGE).min(self.window_len);
        self.at += (to - from) as u64;
        Ok(Page::from_slice(&self.window[from..to]))
    }

    fn skip(&mut self, bytes: u64) -> Result<u64, ImageErrorKind> {
        let skipped = bytes.min(self.len.saturating_sub(self.at));
        self.at += skipped;
        Ok(skipped)
    }

    fn pass(&mut self, bytes: u64, to: &mut dyn FnMut(&[u8])) -> Result<u64, ImageErrorKind> {
        let wanted = bytes.min(self.len.saturating_sub(self.at));
        let mut buffer = vec![0; PIECE];
        let mut left = wanted;
        while left > 0 {
            let piece = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            match self.file.read_at(&mut buffer[..piece], self.at) {
                Ok(0) => break, // cut off since it was opened
                Ok(n) => {
                    to(&buffer[..n]);
                    self.at += n as u64;
                    left -= n as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageErrorKind::Io(error)),
            }
        }
        Ok(wanted - left)
    }

    fn offset(&self) -> u64 {
        self.at
    }

    fn file_offset(&self) -> f64 {
        self.at as f64
    }

    fn finish(&mut self) -> Result<u64, ImageErrorKind> {
        match self.len.saturating_sub(self.at) {
            0 => Ok(self.len),
            count => Err(ImageErrorKind::TrailingBytes { count, exact: true }),
        }
    }
}
