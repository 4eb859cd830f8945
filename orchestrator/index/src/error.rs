//! Errors of reading and reporting results. Files of the campaign itself have errors of their own.

use cvc_core::{render_error::RenderError, store::StoreError};
use std::path::{Path, PathBuf};

/// Results that cannot be read or reported. Exit code 7.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// SQLite refused the index.
    #[error("cannot use the index {}: delete it, and cvc rebuilds it from the journal", path.display())]
    Index {
        /// Which database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
    /// A report could not be rendered: a bug in cvc or its templates.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl AnalysisError {
    /// The file concerned, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Store(error) => Some(error.path()),
            Self::Index { path, .. } => Some(path),
            Self::Render(_) => None,
        }
    }
}
