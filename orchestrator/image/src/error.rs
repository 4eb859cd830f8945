//! Errors of reading images.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// Why an image cannot be read: the file, the position, and the problem. [`ImageError::hint`] says how to correct it.
#[derive(Debug)]
pub struct ImageError {
    /// The image, or the directory that could not be listed.
    pub path: PathBuf,
    /// Position of the problem: an offset in the uncompressed image. `None` if the problem concerns the file as a whole.
    pub offset: Option<u64>,
    /// Whether the file is gzip-compressed. If so, `offset` is a position in the decompressed content, not in the file.
    pub gzip: bool,
    /// The problem.
    pub kind: ImageErrorKind,
}

/// The problems that an image can have.
#[derive(Debug, thiserror::Error)]
pub enum ImageErrorKind {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The path is not a regular file (a directory, a device, ...).
    #[error("expected a file, found {0}")]
    NotAFile(&'static str),
    /// The file is empty.
    #[error("the file is empty, expected a checkpoint image")]
    Empty,
    /// The file begins neither with gzip's magic bytes nor with DMTCP's.
    #[error("not a checkpoint image: expected `DMTCP_CHECKPOINT_IMAGE_v`, found {found}")]
    NotAnImage {
        /// The first bytes, in printable form.
        found: String,
    },
    /// The file is a DMTCP image of an unsupported version.
    #[error(
        "unknown image version: expected `DMTCP_CHECKPOINT_IMAGE_v2.0` or `..._v4.0`, found {found}"
    )]
    UnknownVersion {
        /// The first line, in printable form.
        found: String,
    },
    /// The second signature is missing or wrong.
    #[error("wrong second signature: expected `{expected}`, found {found}")]
    SecondSignature {
        /// The expected signature.
        expected: &'static str,
        /// The bytes at its position, in printable form.
        found: String,
    },
    /// The two copies of the header in a v4 image differ.
    #[error("the two copies of the file header differ")]
    HeaderCopiesDiffer,
    /// The image ends before its end marker.
    #[error(
        "the image is truncated: expected {expected}, found the end after {present} of {needed} bytes"
    )]
    Truncated {
        /// What was expected at the end, such as an area header.
        expected: &'static str,
        /// Its length, bytes.
        needed: u64,
        /// Number of these bytes that exist.
        present: u64,
    },
    /// The gzip stream ends before its trailer.
    #[error("the gzip stream ends early: expected more compressed data or the gzip trailer")]
    GzipEndsEarly,
    /// The gzip stream is damaged (bad block, wrong checksum or length).
    #[error("the gzip stream is damaged: {0}")]
    GzipCorrupt(String),
    /// Other data follow the gzip stream.
    #[error("expected the end of the file after the gzip stream, found other bytes")]
    GzipTrailing,
    /// More data follow the end marker.
    #[error("expected the end of the image after its end marker, found {} byte(s) more", at_least(*count, *exact))]
    TrailingBytes {
        /// Number of bytes seen.
        count: u64,
        /// Whether `count` is the exact number; a gzip stream is not decompressed to its end just to count bytes.
        exact: bool,
    },
    /// A number in an area header is impossible.
    #[error("invalid area header: {field} is {value:#x}, expected {expected}")]
    Absurd {
        /// The field of the area header.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The valid range.
        expected: &'static str,
    },
    /// A child (run) without a preceding parent (region).
    #[error("expected a parent header before this child header")]
    ChildWithoutParent,
    /// A child (run) that is not within its parent (region).
    #[error(
        "child header {start:#x}-{end:#x} is outside its parent {parent_start:#x}-{parent_end:#x}"
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
    /// The image has more regions than are kept in memory.
    #[error("the image lists more than {limit} regions, expected no more than a process can map")]
    TooManyRegions {
        /// The maximum number of regions.
        limit: usize,
    },
    /// The sizes in the headers do not add up to the length of the image.
    #[error("the headers account for {accounted} bytes, but the image has {length}")]
    SizeIdentity {
        /// Sum of the file header, area headers, data and end marker, bytes.
        accounted: u64,
        /// Length of the uncompressed image, bytes.
        length: u64,
    },
    /// The message of another process that could not read an image, including path and position.
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
    /// Creates an I/O error that concerns the whole file.
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self {
            path: path.to_owned(),
            offset: None,
            gzip: false,
            kind: ImageErrorKind::Io(error),
        }
    }

    /// Returns the message with its hint, as commands print it.
    #[must_use]
    pub fn with_hint(&self) -> String {
        format!("{self}\n  hint: {}", self.hint())
    }

    /// Returns how to correct the problem.
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
                "images are named `ckpt_*.dmtcp`, plain or gzip'd; decompress files in other formats first"
            }
            ImageErrorKind::UnknownVersion { .. } => "images of DMTCP 2.1 to 4.x can be read",
            ImageErrorKind::SecondSignature { .. } | ImageErrorKind::HeaderCopiesDiffer => {
                "the start of the file is damaged: copy it again from where it was written, or take the checkpoint again"
            }
            ImageErrorKind::Truncated { .. } | ImageErrorKind::GzipEndsEarly => {
                "the image was still being written, its copy was cut short, or the disk was full: wait, copy it again, or take the checkpoint again"
            }
            ImageErrorKind::GzipCorrupt(_) => {
                "`gzip -t` should report the same; copy the file again from where it was written"
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
            ImageErrorKind::Remote(_) => "`cvc image` on that machine shows the remedy",
            ImageErrorKind::SizeIdentity { .. } => {
                "the file changed while it was read: wait until the checkpoint is complete"
            }
        }
    }

    /// Returns whether the image may become readable when its writer has finished.
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

/// Returns the beginning of unexpected bytes in printable form.
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
