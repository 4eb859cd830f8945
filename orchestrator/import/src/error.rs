//! Errors of imports.

use camino::Utf8PathBuf;
use cvc_core::{source::SourceError, store::StoreError};
use std::path::PathBuf;

/// An import that failed; nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A problem at a position of a file.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The format of the file is unknown.
    #[error("{} is not a result of a known program", file.display())]
    Unknown {
        /// The file.
        file: PathBuf,
    },
    /// The file contains no runs that can be imported.
    #[error("{file} has no result that can be imported{}", listed(reasons))]
    Nothing {
        /// The file.
        file: Utf8PathBuf,
        /// Remarks that explain why.
        reasons: Vec<String>,
    },
    /// The campaign name is invalid.
    #[error("`{name}` is not a valid campaign name")]
    Name {
        /// The name.
        name: String,
    },
    /// A campaign with this name exists.
    #[error("{dir} exists")]
    Exists {
        /// Its directory.
        dir: Utf8PathBuf,
    },
    /// The campaign cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ImportError {
    /// Returns how to correct the problem, if there is a general way.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Source(error) => error.hint.clone(),
            Self::Unknown { .. } => Some(
                "supported JSON files are from ReFrame (`runs`), HPCAdvisor (`datapoints`), Ramble (`experiments`) and hyperfine (`results`)"
                    .into(),
            ),
            Self::Nothing { file, .. } if file.extension() == Some("json") => None,
            Self::Nothing { .. } => Some(
                "a table needs a column with a quantity: its name ends in _s, _ms, _bytes, _mib, _mib_per_s or _usd, has a unit in brackets, or is in the description"
                    .into(),
            ),
            Self::Name { .. } => Some(
                "use small letters, digits, `-` and `_`, beginning with a letter or digit: --as NAME"
                    .into(),
            ),
            Self::Exists { .. } => Some(
                "import it under another name with --as NAME, or replace an earlier import with --replace"
                    .into(),
            ),
            Self::Store(_) => None,
        }
    }
}

/// Returns the reasons after a colon; empty without reasons.
fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("; {reason}")).collect()
}
