//! Errors of keeping checkpoints on nodes.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A failed step of keeping a checkpoint.
#[derive(Debug, thiserror::Error)]
pub(super) enum LevelError {
    #[error("cannot {verb} {}: {error}", path.display())]
    Io {
        path: PathBuf,
        verb: &'static str,
        error: io::Error,
    },
    #[error("{}: {error}", path.display())]
    Encoding {
        path: PathBuf,
        error: serde_json::Error,
    },
    #[error("{0}")]
    Listing(#[from] cvc_delta::DeltaError),
    #[error("{}: the file was changed while it was copied", .0.display())]
    Changed(PathBuf),
    #[error("{}: the BLAKE3 digest of the content differs from the one recorded when it was kept", .0.display())]
    Damaged(PathBuf),
    #[error("{}: less content arrived than its table lists", .0.display())]
    Short(PathBuf),
    #[error("{what} {peer}: {error}")]
    Network {
        what: &'static str,
        peer: String,
        error: io::Error,
    },
    #[error("the data from {0} arrived damaged")]
    Garbled(String),
    #[error("the transfer did not end within {0} s")]
    Late(f64),
    #[error("no port was opened for `{0}`")]
    NotListening(String),
    #[error("{0} has no address")]
    NoAddress(String),
}

impl LevelError {
    /// Returns a function that adds path and verb to an I/O error.
    pub fn io(path: &Path, verb: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, verb, error }
    }

    pub fn encode(path: &Path, error: serde_json::Error) -> Self {
        Self::Encoding {
            path: path.to_owned(),
            error,
        }
    }

    /// Returns whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { error, .. } if error.kind() == io::ErrorKind::StorageFull)
    }
}
