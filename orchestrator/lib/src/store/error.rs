//! What can go wrong with the files of a campaign.

use std::{io, path::Path, path::PathBuf};

/// A file of a campaign that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system said no.
    #[error("cannot {verb} {}", path.display())]
    Io {
        /// What was tried: "read", "write", ...
        verb: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{} is damaged{}: {detail}", path.display(), line.map(|l| format!(" in line {l}")).unwrap_or_default())]
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
    /// SQLite said no.
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

impl StoreError {
    /// For `map_err`: an input or output error with its path.
    pub fn io(verb: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path, source }
    }
}
