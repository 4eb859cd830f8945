//! Errors of a campaign's files.

use std::{io, path::Path, path::PathBuf};

/// A file of a campaign that cannot be read or written. Exit code 7.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io {
        /// What was tried: "read", "write", ...
        verb: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is damaged.
    #[error("{} is damaged{}: {detail}", path.display(), line.map(|l| format!(", line {l}")).unwrap_or_default())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which line of it, from 1.
        line: Option<usize>,
        /// What is wrong.
        detail: String,
    },
    /// A file was written by a newer cvc.
    #[error("{} has format {found}, and this cvc knows formats up to {known}: use a newer cvc", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// The directory of a campaign is a copy of another that is still there.
    #[error("{} is a copy of {}: both would take each other's runs and machines for their own", path.display(), original.display())]
    Copied {
        /// The copy.
        path: PathBuf,
        /// The original.
        original: PathBuf,
    },
    /// A file that this process was writing is somebody else's by now.
    #[error("{} is no longer this cvc's: {what}; another cvc works on it, or it was moved", path.display())]
    Fenced {
        /// Which file.
        path: PathBuf,
        /// How that is known.
        what: String,
    },
    /// A journal has less than it had.
    #[error("{} went back: {what}", path.display())]
    WentBack {
        /// Which file.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// The file system has no locks, so that nothing would keep two controllers apart.
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
        /// Its holder, if known.
        holder: String,
        /// How many signs of life it has given, if it is on another machine and only these tell whether it still lives.
        beat: Option<u64>,
    },
}

impl StoreError {
    /// For `map_err`: an input or output error with its path.
    pub fn io(verb: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { verb, path, source }
    }

    /// Whether the disk is full, or the user's part of it.
    pub fn is_full_disk(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    }

    /// The file that it is about.
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

    /// Whether a file or its directory may only be read.
    pub fn is_read_only(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        matches!(
            source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        )
    }

    /// Damaged content; line 0 stands for the file as a whole.
    pub fn damaged(path: impl AsRef<Path>, line: usize, detail: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.as_ref().to_owned(),
            line: Some(line).filter(|l| *l > 0),
            detail: detail.into(),
        }
    }

    /// A newer format.
    pub fn newer(path: impl AsRef<Path>, found: u32, known: u32) -> Self {
        Self::Newer {
            path: path.as_ref().to_owned(),
            found,
            known,
        }
    }
}
