//! What can go wrong while results are read and reported. Files of the campaign itself have errors of their own.

use cvc_core::store::StoreError;
use std::path::{Path, PathBuf};

/// Results that cannot be read or reported. Exit code 7.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// SQLite refused the index.
    #[error("the index {} cannot be used: delete it, it is rebuilt from the journal", path.display())]
    Index {
        /// Which database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A report could not be rendered: a mistake in cvc or its templates.
    #[error("cannot render {what}: {detail}")]
    Render {
        /// Which part.
        what: String,
        /// What went wrong.
        detail: String,
    },
}

impl AnalysisError {
    /// The file that it is about, if it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Store(error) => Some(error.path()),
            Self::Index { path, .. } => Some(path),
            Self::Render { .. } => None,
        }
    }
}
