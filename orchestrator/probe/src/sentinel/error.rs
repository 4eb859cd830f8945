//! Errors of requests to a node.

use super::metadata::MetadataError;
use std::{io, path::PathBuf};

/// A failed action of a request, with the path.
#[derive(Debug, thiserror::Error)]
pub enum SentinelError {
    /// A path could not be examined, read or listed.
    #[error("{}: {error}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A path could not be changed; `what` is the action, as in `remove` or `make the directory`.
    #[error("cannot {what} {}: {error}", path.display())]
    Change {
        /// The action.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A path is not of the kind that the request needs.
    #[error("{}: expected {expected}", path.display())]
    Unexpected {
        /// The path.
        path: PathBuf,
        /// The expected kind.
        expected: &'static str,
    },
    /// A path must not be removed.
    #[error("{}: not removed, {why}", path.display())]
    NotRemovable {
        /// The path.
        path: PathBuf,
        /// The reason.
        why: &'static str,
    },
    /// The base directory of patterns is not UTF-8.
    #[error("{}: the path is not UTF-8", .0.display())]
    NotUtf8(PathBuf),
    /// A signal number does not exist.
    #[error("there is no signal {0}")]
    Signal(i32),
    /// A pattern leads out of its base directory.
    #[error("`{pattern}`: expected a pattern without `..`, absolute or below {base}")]
    PatternElsewhere {
        /// The pattern.
        pattern: String,
        /// The base directory of patterns.
        base: String,
    },
    /// A pattern has invalid syntax.
    #[error("`{pattern}`: {error}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        error: glob::PatternError,
    },
    /// A directory on the path of a pattern could not be read.
    #[error("{0}")]
    Glob(glob::GlobError),
    /// A pattern matches too many files.
    #[error("`{pattern}` matches more than {most} files below {base}")]
    TooManyFiles {
        /// The pattern.
        pattern: String,
        /// Maximum number of matches.
        most: usize,
        /// The base directory of patterns.
        base: String,
    },
    /// `cp` failed.
    #[error("cannot copy {} to {}: {message}", from.display(), to.display())]
    Copy {
        /// The source.
        from: PathBuf,
        /// The target.
        to: PathBuf,
        /// Message of `cp`.
        message: String,
    },
    /// `cp` could not be started.
    #[error("cannot start cp: {0}")]
    CopyStart(io::Error),
    /// A program that administers a file system failed.
    #[error("`{command}`: {message}")]
    Program {
        /// Command line of the program.
        command: String,
        /// Output of the program.
        message: String,
    },
    /// A request without a valid run marker is refused, because it could match the processes of other runs.
    #[error("the marker of a run is missing")]
    NoMarker,
    /// A process that answers a single request cannot guard a run.
    #[error("only a sentinel that keeps running can guard a run")]
    Unguarded,
    /// The cloud's metadata service failed.
    #[error("{0}")]
    Metadata(#[from] MetadataError),
    /// A checkpoint image could not be read.
    #[error("{0}")]
    Image(#[from] cvc_image::ImageError),
    /// A checkpoint of a series could not be read.
    #[error("{0}")]
    Series(cvc_delta::DeltaError),
    /// This sentinel has not read the predecessors of a checkpoint of a series.
    #[error(
        "checkpoint {number} cannot be compared with the previous ones: this sentinel has read only {known} of them, because it was restarted or \
         the run was ended; hint: run the point again, and check with `cvc doctor` whether the connection to the node breaks"
    )]
    SeriesLost {
        /// Number of the checkpoint.
        number: u32,
        /// Number of checkpoints read until now.
        known: usize,
    },
    /// The code that handles a request panicked.
    #[error("internal error (please report): the sentinel failed at `{0}`")]
    Panicked(&'static str),
}
