//! Errors of reading and writing a campaign's files.

use std::{io, path::Path, path::PathBuf};

/// Why a file of a campaign cannot be read or written. Exit code 7.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system reports an error.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// The action, as a verb: "read", "write", ...
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{} is damaged{}: {detail}", path.display(), line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Number of the damaged line, from 1.
        line: Option<usize>,
        /// The problem.
        detail: String,
    },
    /// A file was written by a newer cvc.
    #[error("{} has format {found}, but this cvc reads only formats up to {known}: use a newer cvc", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Format number of the file.
        found: u32,
        /// The newest format number that this cvc can read.
        known: u32,
    },
    /// The campaign's directory is a copy of another directory that still exists.
    #[error("{} is a copy of {}: each would treat the other's runs and machines as its own", path.display(), original.display())]
    Copied {
        /// The copy.
        path: PathBuf,
        /// The original.
        original: PathBuf,
    },
    /// Another process now owns a file that this process was writing.
    #[error("{} is no longer this cvc's: {what}; another cvc works on it, or it was moved", path.display())]
    Fenced {
        /// The file.
        path: PathBuf,
        /// The sign by which this was detected.
        what: String,
    },
    /// A journal has fewer entries than it had before, or its last synced entry has changed.
    #[error("{} was reset to an earlier state: {what}", path.display())]
    WentBack {
        /// The file.
        path: PathBuf,
        /// Description of the difference.
        what: String,
    },
    /// The file system has no locks, so that two controllers could run at once.
    #[error("cannot lock {}: its file system has no locks ({source})", path.display())]
    NoLocks {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another controller works on the campaign.
    #[error("{} is locked: another cvc is working on this campaign{holder}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Description of the holder, if known.
        holder: String,
        /// Number of signs of life of the holder, if it is on another machine and only these signs show whether it still exists.
        beat: Option<u64>,
    },
}

impl StoreError {
    /// Returns a function for `map_err` that adds verb and path to an I/O error.
    pub fn io(verb: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { verb, path, source }
    }

    /// Returns whether a disk is full, or a quota is used up.
    pub fn is_full_disk(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Damaged { path, .. }
            | Self::Newer { path, .. }
            | Self::Copied { path, .. }
            | Self::Fenced { path, .. }
            | Self::WentBack { path, .. }
            | Self::NoLocks { path, .. }
            | Self::Locked { path, .. } => path,
        }
    }

    /// Returns whether the file or its directory is read-only.
    pub fn is_read_only(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    }

    /// Creates an error about damaged content; line 0 stands for the whole file.
    pub fn damaged(path: impl AsRef<Path>, line: usize, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.as_ref().to_owned(),
            line: Some(line).filter(|l| *l > 0),
            detail: detail.into(),
        }
    }

    /// Creates an error about a file with a newer format.
    pub fn newer(path: impl AsRef<Path>, found: u32, known: u32) -> Self {
        Self::Newer {
            path: path.as_ref().to_owned(),
            found,
            known,
        }
    }
}
