//! Errors of images.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// An image that cannot be read: which file, where in it, what is wrong. [`ImageError::hint`] says how to fix it.
#[derive(Debug)]
pub struct ImageError {
    /// The image, or the directory that could not be listed.
    pub path: PathBuf,
    /// Where: an offset in the uncompressed image. None when the problem is the file as a whole.
    pub offset: Option<u64>,
    /// Is the file gzip'd? Then `offset` is a position in the inflated content and not in the file.
    pub gzip: bool,
    /// What is wrong.
    pub kind: ImageErrorKind,
}

/// The ways in which an image can be wrong.
#[derive(Debug, thiserror::Error)]
pub enum ImageErrorKind {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// Not a regular file (a directory, a device, ...).
    #[error("expected a file, found {0}")]
    NotAFile(&'static str),
    /// No bytes at all.
    #[error("the file is empty, expected a checkpoint image")]
    Empty,
    /// Neither gzip nor the DMTCP magic.
    #[error("not a checkpoint image: expected `DMTCP_CHECKPOINT_IMAGE_v`, found {found}")]
    NotAnImage {
        /// The first bytes, made printable.
        found: String,
    },
    /// A DMTCP image of a version that this reader does not know.
    #[error(
        "unknown image version: expected `DMTCP_CHECKPOINT_IMAGE_v2.0` or `..._v4.0`, found {found}"
    )]
    UnknownVersion {
        /// The first line, made printable.
        found: String,
    },
    /// The second signature is missing or wrong.
    #[error("wrong second signature: expected `{expected}`, found {found}")]
    SecondSignature {
        /// The signature that the format asks for.
        expected: &'static str,
        /// What is there instead, made printable.
        found: String,
    },
    /// v4 stores its header twice, and here the copies say different things.
    #[error("the two copies of the file header differ")]
    HeaderCopiesDiffer,
    /// The image ends before its end marker.
    #[error(
        "the image is truncated: expected {expected}, found the end after {present} of {needed} bytes"
    )]
    Truncated {
        /// The missing part.
        expected: &'static str,
        /// Its length in bytes.
        needed: u64,
        /// Number of bytes that are there.
        present: u64,
    },
    /// The gzip stream ends before its trailer.
    #[error("the gzip stream ends early: expected more compressed data or the gzip trailer")]
    GzipEndsEarly,
    /// The gzip stream is damaged (bad block, wrong checksum or length).
    #[error("the gzip stream is damaged: {0}")]
    GzipCorrupt(String),
    /// Something that is not gzip follows the gzip stream.
    #[error("expected the end of the file after the gzip stream, found other bytes")]
    GzipTrailing,
    /// Bytes after the end marker.
    #[error("expected the end of the image after its end marker, found {} byte(s) more", at_least(*count, *exact))]
    TrailingBytes {
        /// Number of bytes seen.
        count: u64,
        /// Are there no more than that? A stream is not inflated to its end just to count them.
        exact: bool,
    },
    /// An impossible number in a header.
    #[error("absurd area header: {field} is {value:#x}, expected {expected}")]
    Absurd {
        /// The field of the area header.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The possible range.
        expected: &'static str,
    },
    /// A run of a region without the region.
    #[error("expected a parent header before this child header")]
    ChildWithoutParent,
    /// A run outside of the region that it is said to belong to.
    #[error(
        "child header {start:#x}-{end:#x} lies outside of its parent {parent_start:#x}-{parent_end:#x}"
    )]
    ChildOutsideParent {
        /// Start address of the run.
        start: u64,
        /// End address of the run.
        end: u64,
        /// Start address of the region.
        parent_start: u64,
        /// End address of the region.
        parent_end: u64,
    },
    /// More regions than are kept in memory.
    #[error("the image lists more than {limit} regions, expected no more than a process can map")]
    TooManyRegions {
        /// The limit.
        limit: usize,
    },
    /// The bytes that the headers account for are not the length of the image.
    #[error("the headers account for {accounted} bytes, but the image has {length}")]
    SizeIdentity {
        /// File header, area headers, data and end marker.
        accounted: u64,
        /// Length of the uncompressed image.
        length: u64,
    },
    /// The message of another process about an image that it could not read, with path and place.
    #[error("{0}")]
    Remote(String),
}

fn at_least(count: u64, exact: bool) -> String {
    if exact {
        count.to_string()
    } else {
        format!("at least {count}")
    }
}

impl ImageError {
    /// An I/O error about `path` as a whole.
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            offset: None,
            gzip: false,
            kind: ImageErrorKind::Io(error),
        }
    }

    /// How to fix it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match &self.kind {
            ImageErrorKind::Io(_) => "check the path, the permissions and the file system",
            ImageErrorKind::NotAFile(_) => {
                "give an image (`ckpt_*.dmtcp`) or the directory that holds the images"
            }
            ImageErrorKind::Empty => {
                "the checkpoint did not start to write this image, or the disk was full: take the checkpoint again"
            }
            ImageErrorKind::NotAnImage { .. } => {
                "images are named `ckpt_*.dmtcp`, plain or gzip'd; other compressions are to be undone first"
            }
            ImageErrorKind::UnknownVersion { .. } => "images of DMTCP 2.1 to 4.x can be read",
            ImageErrorKind::SecondSignature { .. } | ImageErrorKind::HeaderCopiesDiffer => {
                "the start of the file is damaged: copy it again from where it was written, or take the checkpoint again"
            }
            ImageErrorKind::Truncated { .. } | ImageErrorKind::GzipEndsEarly => {
                "the image was still being written, its copy was cut short, or the disk was full: wait, copy it again, or take the checkpoint again"
            }
            ImageErrorKind::GzipCorrupt(_) => {
                "`gzip -t` should say the same; copy the file again from where it was written"
            }
            ImageErrorKind::GzipTrailing => {
                "something was appended to the file; copy it again from where it was written"
            }
            ImageErrorKind::TrailingBytes { .. } => {
                "an image ends with its end marker; was something appended, or an older, longer file not cut off?"
            }
            ImageErrorKind::Absurd { .. }
            | ImageErrorKind::ChildWithoutParent
            | ImageErrorKind::ChildOutsideParent { .. } => {
                "the image is damaged here, or an earlier header has a wrong size; `mtcp_restart --simulate` reads the same headers"
            }
            ImageErrorKind::TooManyRegions { .. } => {
                "the image is damaged, or made to exhaust memory"
            }
            ImageErrorKind::Remote(_) => "`cvc image` on that machine says how to fix it",
            ImageErrorKind::SizeIdentity { .. } => {
                "the file changed while it was read: wait until the checkpoint is complete"
            }
        }
    }

    /// May the image become readable by waiting for its writer?
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        matches!(
            self.kind,
            ImageErrorKind::Empty
                | ImageErrorKind::Truncated { .. }
                | ImageErrorKind::GzipEndsEarly
        )
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ImageErrorKind::Remote(text) = &self.kind {
            return f.write_str(text);
        }
        write!(f, "{}: {}", self.path.display(), self.kind)?;
        match (self.offset, self.gzip) {
            (Some(offset), true) => write!(f, " (at offset {offset} of the uncompressed stream)"),
            (Some(offset), false) => write!(f, " (at offset {offset})"),
            (None, _) => Ok(()),
        }
    }
}

impl std::error::Error for ImageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ImageErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The first bytes of something unexpected, made printable and short.
pub(super) fn printable(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(32)];
    let end = shown
        .iter()
        .rposition(|&b| b != 0)
        .map_or(0, |last| last + 1);
    if end == 0 && !shown.is_empty() {
        "zero bytes".to_owned()
    } else {
        format!("`{}`", shown[..end].escape_ascii())
    }
}
