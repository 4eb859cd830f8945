//! What the parser reads from: pages and gaps of an uncompressed image, wherever it comes from.

use super::{PAGE, error::ImageErrorKind};

/// An uncompressed image, read once from front to back.
pub(super) trait Source {
    /// The next page. Shorter than [`PAGE`] only at the end of the image, empty behind it.
    fn page(&mut self) -> Result<Page<'_>, ImageErrorKind>;

    /// Passes over `bytes` bytes; gives back how many there were, which is less only at the end of the image.
    fn skip(&mut self, bytes: u64) -> Result<u64, ImageErrorKind>;

    /// Hands on `bytes` bytes, in pieces; gives back how many there were, which is less only at the end of the image.
    fn pass(&mut self, bytes: u64, to: &mut dyn FnMut(&[u8])) -> Result<u64, ImageErrorKind>;

    /// Where the next page starts in the uncompressed image.
    fn offset(&self) -> u64;

    /// Bytes of the file that it took to come here. Of a compressed file this is known after each piece that was inflated at once, and in between
    /// taken to grow evenly.
    fn file_offset(&self) -> f64;

    /// Makes sure that nothing follows; gives back the length of the uncompressed image.
    fn finish(&mut self) -> Result<u64, ImageErrorKind>;
}

/// A page, or what there is of it at the end.
pub(super) enum Page<'a> {
    /// All of it.
    Full(&'a [u8; PAGE]),
    /// The image ends within it.
    Cut(&'a [u8]),
}

impl<'a> Page<'a> {
    /// A page from a slice of at most [`PAGE`] bytes.
    pub(super) fn from_slice(slice: &'a [u8]) -> Self {
        match slice.try_into() {
            Ok(full) => Self::Full(full),
            Err(_) => Self::Cut(slice),
        }
    }

    /// The page, or an error that says what it should have been.
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
