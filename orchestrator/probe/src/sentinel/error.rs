//! Why a node cannot do what it was asked.

use super::metadata::MetadataError;
use std::{io, path::PathBuf};

/// What could not be done, with the path.
#[derive(Debug, thiserror::Error)]
pub enum SentinelError {
    /// A path could not be looked at, read or listed.
    #[error("{}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A path could not be changed; `what` is what was tried, as in `remove` or `make the directory`.
    #[error("cannot {what} {}: {error}", path.display())]
    Change {
        /// What was tried.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A path is not of the kind that the request needs.
    #[error("{}: expected {expected}", path.display())]
    Unexpected {
        /// Which.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// A path has to stay.
    #[error("{}: not removed, {why}", path.display())]
    NotRemovable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// The path below which patterns are looked for.
    #[error("{}: the path is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    /// A pattern leads elsewhere.
    #[error("`{pattern}`: expected a pattern without `..`, absolute or below {base}")]
    PatternElsewhere {
        /// The pattern.
        pattern: String,
        /// The directory that it is below.
        base: String,
    },
    /// A pattern that cannot be read.
    #[error("`{pattern}`: {error}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Why.
        error: glob::PatternError,
    },
    /// A directory that a pattern leads through could not be read.
    #[error("{0}")]
    Glob(glob::GlobError),
    /// A pattern that matches more than anybody means.
    #[error("`{pattern}` matches more than {most} files below {base}")]
    TooManyFiles {
        /// The pattern.
        pattern: String,
        /// How many may match.
        most: usize,
        /// The directory that it is below.
        base: String,
    },
    /// `cp` failed.
    #[error("cannot copy {} to {}: {message}", from.display(), to.display())]
    Copy {
        /// The source.
        from: PathBuf,
        /// The target.
        to: PathBuf,
        /// What it says.
        message: String,
    },
    /// `cp` could not be started.
    #[error("cannot start cp: {0}")]
    CopyStart(io::Error),
    /// A request about a run that could match others.
    #[error("the marker of a run is missing")]
    NoMarker,
    /// Guarding takes a process that goes on.
    #[error("only a sentinel that keeps running can guard a run")]
    Unguarded,
    /// The metadata service of the cloud.
    #[error("{0}")]
    Metadata(#[from] MetadataError),
    /// A checkpoint image.
    #[error("{0}")]
    Image(#[from] cvc_image::ImageError),
    /// A checkpoint of a series could not be read.
    #[error("{0}")]
    Series(cvc_delta::DeltaError),
    /// A checkpoint of a series follows others that this sentinel has not read.
    #[error(
        "checkpoint {number} cannot be compared with those before it: this sentinel knows {known} of them, because it was started anew or the run \
         was ended; hint: run the point again, and see with `cvc doctor` whether the connection to the node breaks"
    )]
    SeriesLost {
        /// Its number.
        number: u32,
        /// Those that are known.
        known: usize,
    },
    /// It panicked.
    #[error("internal error (please report): the sentinel failed at `{0}`")]
    Panicked(&'static str),
}
