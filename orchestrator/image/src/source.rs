//! Input of the parser: reads or skips pages of an uncompressed image, independent of how it is stored.

use super::{PAGE, error::ImageErrorKind};

/// An uncompressed image, read once from the beginning.
pub(super) trait ImageSource {
    /// Returns the next page. It is shorter than [`PAGE`] only at the end of the image, and empty after it.
    fn page(&mut self) -> Result<Page<'_>, ImageErrorKind>;

    /// Skips `bytes` bytes. Returns the number skipped, which is less only at the end of the image.
    fn skip(&mut self, bytes: u64) -> Result<u64, ImageErrorKind>;

    /// Calls `to` with the next `bytes` bytes, in pieces. Returns their number, which is less only at the end of the image.
    fn pass(&mut self, bytes: u64, to: &mut dyn FnMut(&[u8])) -> Result<u64, ImageErrorKind>;

    /// Returns the offset of the next page in the uncompressed image.
    fn offset(&self) -> u64;

    /// Returns the number of bytes of the file read so far. In a compressed file the number is known only after each decompressed piece, and is
    /// interpolated linearly within it.
    fn file_offset(&self) -> f64;

    /// Checks that the image has ended. Returns the length of the uncompressed image, bytes.
    fn finish(&mut self) -> Result<u64, ImageErrorKind>;
}

/// A page; incomplete if the image ends within it.
pub(super) enum Page<'a> {
    /// A complete page.
    Full(&'a [u8; PAGE]),
    /// The remaining bytes of an image that ends within the page.
    Cut(&'a [u8]),
}

impl<'a> Page<'a> {
    /// Creates a page from at most [`PAGE`] bytes.
    pub(super) fn from_slice(slice: &'a [u8]) -> Self {
        match slice.try_into() {
            Ok(full) => Self::Full(full),
            Err(_) => Self::Cut(slice),
        }
    }

    /// Returns the complete page; otherwise an error that says what was expected.
    pub(super) fn full(self, expected: &'static str) -> Result<&'a [u8; PAGE], ImageErrorKind> {
        match self {
            Self::Full(page) => Ok(page),
            Self::Cut(part) => Err(ImageErrorKind::Truncated {
                expected,
                needed: PAGE as u64,
                present: part.len() as u64,
            }),
        }
    }
}
