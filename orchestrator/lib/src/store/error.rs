//! What can go wrong with files of a campaign.

use camino::{Utf8Path, Utf8PathBuf};
use std::io;

/// A file of a campaign cannot be used. Exit code 7.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system said no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The file.
        path: Utf8PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The content is not what this program writes.
    #[error("{path}, line {line}: {problem}")]
    Damaged {
        /// The file.
        path: Utf8PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A newer version of cvc has written it.
    #[error("{path} has format {found}, which is newer than {known}: use the version of cvc that wrote it, or a later one")]
    Newer {
        /// The file.
        path: Utf8PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// Another controller works on the campaign.
    #[error("{path} is locked: another cvc is working on this campaign{holder}")]
    Locked {
        /// The lock file.
        path: Utf8PathBuf,
        /// Who holds it, if it says so.
        holder: String,
    },
}

impl StoreError {
    /// An error of the operating system.
    pub fn io(path: impl AsRef<Utf8Path>, action: &'static str, source: io::Error) -> Self {
        Self::Io { path: path.as_ref().to_owned(), action, source }
    }

    /// Damaged content.
    pub fn damaged(path: impl AsRef<Utf8Path>, line: usize, problem: impl Into<String>) -> Self {
        Self::Damaged { path: path.as_ref().to_owned(), line, problem: problem.into() }
    }

    /// A newer format.
    pub fn newer(path: impl AsRef<Utf8Path>, found: u32, known: u32) -> Self {
        Self::Newer { path: path.as_ref().to_owned(), found, known }
    }
}
