//! Errors of reading and reporting results. Campaign files have their own errors.

use cvc_core::{render_error::RenderError, store::StoreError};
use std::path::{Path, PathBuf};

/// Results that cannot be read or reported. Exit code 7.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A file cannot be read or parsed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// SQLite cannot use the index.
    #[error("cannot use the index {}: delete it, and cvc rebuilds it from the journal", path.display())]
    Index {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A report could not be rendered: a bug in cvc or its templates.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl AnalysisError {
    /// Returns the file concerned, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Store(error) => Some(error.path()),
            Self::Index { path, .. } => Some(path),
            Self::Render(_) => None,
        }
    }
}
