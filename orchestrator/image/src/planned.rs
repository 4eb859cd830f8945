//! Images that do not exist yet.

/// An image whose content follows from a prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedImage {
    /// Bytes of data of each area, in the order of the file, without headers.
    Plain(Vec<u64>),
    /// Bytes of the file, compressed by gzip.
    Gzip(u64),
}
