//! Errors; each names the file and how to correct the problem.

use cvc_delta_rules::InvalidRule;
use cvc_image::ImageError;
use std::{
    io,
    path::{Path, PathBuf},
};

/// An error, with the file or directory that caused it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct DeltaError {
    /// The file or directory.
    pub path: PathBuf,
    /// The problem.
    pub kind: DeltaErrorKind,
}

/// Returns the message of an image error without the path, which [`DeltaError`] already shows.
fn without_path(error: &ImageError) -> String {
    let text = error.to_string();
    let path = format!("{}: ", error.path.display());
    text.strip_prefix(&path).unwrap_or(&text).to_owned()
}

/// The problem.
#[derive(Debug, thiserror::Error)]
pub enum DeltaErrorKind {
    /// A system call failed.
    #[error("cannot {verb}: {error}")]
    Io {
        /// What was attempted, such as `read`.
        verb: &'static str,
        /// The operating system's error.
        error: io::Error,
    },
    /// An image cannot be read.
    #[error("{}", without_path(.0))]
    Image(ImageError),
    /// The file is a temporary file of DMTCP: the checkpoint is still being written, or DMTCP was killed during it.
    #[error("a temporary file of DMTCP: this checkpoint was never finished")]
    Temporary,
    /// The directory contains no files to store.
    #[error("no file in it")]
    Empty,
    /// The path is something else than a file, directory or symbolic link.
    #[error("{0}, which cannot be stored")]
    Special(&'static str),
    /// The file changed while it was read.
    #[error("it was changed while it was read")]
    Changed,
    /// A setting is invalid.
    #[error(transparent)]
    Rule(#[from] InvalidRule),
    /// The state contains other processes than the series.
    #[error("the image of another run: its process is {found}, and the series has {known}")]
    OtherRun {
        /// Unique pid of the image, as DMTCP assigns it.
        found: String,
        /// Unique pids in the series.
        known: String,
    },
    /// The two compared states are of different runs.
    #[error(
        "it has no process in common with {older}: these are checkpoints of two runs, or of two programs"
    )]
    NoCommonProcess {
        /// The earlier state.
        older: PathBuf,
    },
    /// The file is neither a state file nor another file of a series.
    #[error("not a file of cvc delta: {0}")]
    NotOurs(&'static str),
    /// The file was written by a newer version of cvc.
    #[error("written in version {found} of the format; this cvc reads up to {known}")]
    Newer {
        /// Format version of the file.
        found: u32,
        /// Newest format version that this cvc can read.
        known: u32,
    },
    /// The checksum of a part of the file does not match.
    #[error("damaged: {part}: checksum mismatch")]
    Damaged {
        /// Name and position of the damaged part.
        part: String,
    },
    /// A file that is needed to restore a state is missing.
    #[error("missing: state {state} needs it")]
    MissingLink {
        /// The state that cannot be restored without it.
        state: u32,
    },
    /// The file with the hashes of a state is missing.
    #[error("missing: it is needed to add the next state")]
    MissingHashes,
    /// The hashes in the file are of another state than its name says.
    #[error("the hashes of another state")]
    OtherHashes,
    /// The directory contains states that the manifest does not list.
    #[error(
        "manifest.json does not list {0}: the manifest is older than these states, or they belong to another series"
    )]
    UnknownStates(String),
    /// The base found has other content than the base that the delta was made against.
    #[error(
        "not the base of {of}: that delta was made against a state with the digest {expected}, but this state has {found}"
    )]
    WrongBase {
        /// Name of the delta.
        of: String,
        /// Digest of the base that the delta was made against.
        expected: String,
        /// Digest of the base found.
        found: String,
    },
    /// The series has no state with this number.
    #[error("no state {asked}: the series has {known}")]
    NoState {
        /// The requested number.
        asked: u32,
        /// The existing numbers.
        known: String,
    },
    /// The state has no file with this name.
    #[error("no file `{asked}` in this state: it has {known}")]
    NoFile {
        /// The requested name.
        asked: String,
        /// The existing names.
        known: String,
    },
    /// The file has no block at this address.
    #[error("no block at {0}")]
    NoBlock(String),
    /// The restored data differ from the stored data.
    #[error("restored with the digest {found} instead of {expected}")]
    Differs {
        /// Digest recorded when the state was stored.
        expected: String,
        /// Digest of the restored data.
        found: String,
    },
    /// The stored data differ from the file that they are compared with.
    #[error("its bytes differ from the stored ones")]
    OtherBytes,
    /// The destination exists already.
    #[error("exists")]
    Exists,
    /// Another cvc process is changing the series.
    #[error("another cvc changes this series")]
    Busy,
}

impl DeltaError {
    pub(crate) fn new(path: &Path, kind: DeltaErrorKind) -> Self {
        Self {
            path: path.to_owned(),
            kind,
        }
    }

    pub(crate) fn io(path: &Path, verb: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(path, DeltaErrorKind::Io { verb, error })
    }

    /// Returns whether the error concerns stored hashes (missing, damaged, or of another state), which can be computed again from the stored state.
    pub(crate) fn is_of_hashes(&self) -> bool {
        matches!(
            self.kind,
            DeltaErrorKind::MissingHashes
                | DeltaErrorKind::OtherHashes
                | DeltaErrorKind::NotOurs(_)
                | DeltaErrorKind::Damaged { .. }
        )
    }

    /// Returns whether the disk or the user's quota is full.
    pub(crate) fn is_full_disk(&self) -> bool {
        let DeltaErrorKind::Io { error, .. } = &self.kind else {
            return false;
        };
        matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }

    pub(crate) fn damaged(path: &Path, part: impl Into<String>) -> Self {
        Self::new(path, DeltaErrorKind::Damaged { part: part.into() })
    }

    /// Returns how to correct the problem, if there is a general way.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match &self.kind {
            DeltaErrorKind::Image(error) => error.hint(),
            DeltaErrorKind::Temporary => "take a checkpoint that DMTCP has finished",
            DeltaErrorKind::Empty => {
                "name a directory with the images of a checkpoint, or one image"
            }
            DeltaErrorKind::Changed => {
                "copy the images away before the next checkpoint overwrites them"
            }
            DeltaErrorKind::OtherRun { .. } => {
                "begin a new series for it: a delta saves space only between checkpoints of the same processes"
            }
            DeltaErrorKind::NoCommonProcess { .. } => {
                "give checkpoints of one run: those of different runs have hardly any blocks in common"
            }
            DeltaErrorKind::Newer { .. } => "use a newer cvc",
            DeltaErrorKind::Damaged { .. } => {
                "restore the file from a backup; states and files that do not need the damaged part can still be restored"
            }
            DeltaErrorKind::MissingLink { .. } => {
                "restore the file from a backup; states that do not need it can still be restored"
            }
            DeltaErrorKind::MissingHashes | DeltaErrorKind::OtherHashes => {
                "`cvc delta verify` computes the hashes again from the stored state"
            }
            DeltaErrorKind::UnknownStates(_) => {
                "restore the latest manifest.json, or move these files elsewhere: until then no state is added or removed"
            }
            DeltaErrorKind::NoFile { .. } => {
                "`cvc delta show` with the file of the state lists its files"
            }
            DeltaErrorKind::WrongBase { .. } => {
                "files of two series were mixed up: put the correct file back"
            }
            DeltaErrorKind::NotOurs(_) => {
                "`cvc delta make` makes a series; `cvc delta show` lists its contents"
            }
            DeltaErrorKind::Exists => "give a path that does not exist yet",
            DeltaErrorKind::Busy => "wait for it, or end it",
            DeltaErrorKind::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull => {
                "make room, and try again: no partial file was left"
            }
            _ => return None,
        })
    }
}
