//! What can go wrong, each with the file and a remedy.

use cvc_delta_rules::InvalidRule;
use cvc_image::ImageError;
use std::{
    io,
    path::{Path, PathBuf},
};

/// An error with the file that it is about.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct DeltaError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: DeltaErrorKind,
}

/// What is wrong with an image; its path stands before that already.
fn without_path(error: &ImageError) -> String {
    let text = error.to_string();
    let path = format!("{}: ", error.path.display());
    text.strip_prefix(&path).unwrap_or(&text).to_owned()
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum DeltaErrorKind {
    /// The operating system refused.
    #[error("cannot {verb}: {error}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// An image cannot be read.
    #[error("{}", without_path(.0))]
    Image(ImageError),
    /// DMTCP still writes it, or was killed while it did.
    #[error("a temporary file of DMTCP: this checkpoint was never finished")]
    Temporary,
    /// Nothing to store.
    #[error("no file in it")]
    Empty,
    /// Not a file, directory or symbolic link.
    #[error("{0}, which cannot be stored")]
    Special(&'static str),
    /// It was changed while it was read.
    #[error("it was changed while it was read")]
    Changed,
    /// A setting that cannot be.
    #[error(transparent)]
    Rule(#[from] InvalidRule),
    /// A state of other processes than the series has.
    #[error("the image of another run: its process is {found}, and the series has {known}")]
    OtherRun {
        /// Unique pid of the image.
        found: String,
        /// Unique pids that the series has.
        known: String,
    },
    /// A state that is compared with one of another run.
    #[error("no process of it is in {older}: they are checkpoints of two runs, or of two programs")]
    NoCommonProcess {
        /// The state before.
        older: PathBuf,
    },
    /// Neither a state file nor anything else of a series.
    #[error("not a file of cvc delta: {0}")]
    NotOurs(&'static str),
    /// Written by a newer version.
    #[error("written in version {found} of the format; this cvc reads up to {known}")]
    Newer {
        /// The file's version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A part of it is not what was written.
    #[error("damaged: {part}: its checksum is another")]
    Damaged {
        /// Which part, with its place.
        part: String,
    },
    /// A file that a state needs is not there.
    #[error("missing: state {state} needs it")]
    MissingLink {
        /// The state that cannot be restored.
        state: u32,
    },
    /// The hashes of a state are not there.
    #[error("missing: the next state is compared with it")]
    MissingHashes,
    /// A file of hashes belongs to another state than its name says.
    #[error("the hashes of another state")]
    OtherHashes,
    /// The manifest is older than states that are there.
    #[error(
        "manifest.json does not know {0}: it is older than these states, or they are of another series"
    )]
    UnknownStates(String),
    /// A base with another content than the delta was made against.
    #[error(
        "not the base of {of}: that was made against a state with the digest {expected}, and this one has {found}"
    )]
    WrongBase {
        /// The delta.
        of: String,
        /// Digest of its base.
        expected: String,
        /// Digest of what is there.
        found: String,
    },
    /// There is no such state.
    #[error("no state {asked}: it has {known}")]
    NoState {
        /// What was asked for.
        asked: u32,
        /// What there is.
        known: String,
    },
    /// The state has no such file.
    #[error("no file `{asked}` in this state: it has {known}")]
    NoFile {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// There is no such block.
    #[error("no block at {0}")]
    NoBlock(String),
    /// What was restored is not what was stored.
    #[error("restored with the digest {found} instead of {expected}")]
    Differs {
        /// Digest when it was stored.
        expected: String,
        /// Digest now.
        found: String,
    },
    /// What is stored differs from a file that it is compared with.
    #[error("its bytes differ from what is stored")]
    OtherBytes,
    /// Something is there already.
    #[error("exists")]
    Exists,
    /// Another cvc changes the series.
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

    /// Whether hashes are missing, damaged or of another state: they can be made again from what is stored.
    pub(crate) fn is_of_hashes(&self) -> bool {
        matches!(
            self.kind,
            DeltaErrorKind::MissingHashes
                | DeltaErrorKind::OtherHashes
                | DeltaErrorKind::NotOurs(_)
                | DeltaErrorKind::Damaged { .. }
        )
    }

    /// Whether the disk is full, or the user's part of it.
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

    /// What to do about it.
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
                "begin a new series for it: a delta pays only between checkpoints of the same processes"
            }
            DeltaErrorKind::NoCommonProcess { .. } => {
                "give checkpoints of one run: between others nothing changes, everything differs"
            }
            DeltaErrorKind::Newer { .. } => "use a newer cvc",
            DeltaErrorKind::Damaged { .. } => {
                "bring the file back from a copy; what does not need the damaged part can still be restored"
            }
            DeltaErrorKind::MissingLink { .. } => {
                "bring the file back from a copy; states that do not need it can still be restored"
            }
            DeltaErrorKind::MissingHashes | DeltaErrorKind::OtherHashes => {
                "`cvc delta verify` makes the hashes again from what is stored"
            }
            DeltaErrorKind::UnknownStates(_) => {
                "bring the latest manifest.json back, or move these files elsewhere: nothing is added or removed until then"
            }
            DeltaErrorKind::NoFile { .. } => {
                "`cvc delta show` with the file of the state lists its files"
            }
            DeltaErrorKind::WrongBase { .. } => {
                "files of two series were mixed: bring the right one back"
            }
            DeltaErrorKind::NotOurs(_) => {
                "`cvc delta make` makes a series; `cvc delta show` says what is in one"
            }
            DeltaErrorKind::Exists => "name a place that does not exist yet",
            DeltaErrorKind::Busy => "wait for it, or end it",
            DeltaErrorKind::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull => {
                "make room, and try again: nothing was half-written"
            }
            _ => return None,
        })
    }
}
