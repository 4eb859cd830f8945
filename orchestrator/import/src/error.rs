//! Why something cannot be imported.

use camino::Utf8PathBuf;
use cvc_core::{source::SourceError, store::StoreError};

/// Nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file is wrong at some place.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Not a file that can be imported.
    #[error("{file} is no table that can be imported")]
    Unknown {
        /// The file.
        file: Utf8PathBuf,
    },
    /// The file has no run.
    #[error("{file} has no result that can be imported")]
    Nothing {
        /// The file.
        file: Utf8PathBuf,
    },
    /// The name cannot be one of a campaign.
    #[error("`{name}` is not a valid campaign name")]
    Name {
        /// The name.
        name: String,
    },
    /// A campaign of this name is there.
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
    /// How to correct it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Source(error) => error.hint.clone(),
            Self::Unknown { .. } => Some(
                "give a description (.toml), a CSV table (.csv) or a report of ReFrame (.json)"
                    .into(),
            ),
            Self::Nothing { .. } => Some(
                "a table needs a column of a quantity: one that ends in _s, _bytes, _mib or _usd, or one that its description names"
                    .into(),
            ),
            Self::Name { .. } => Some(
                "use small letters, digits, `-` and `_`, beginning with a letter or digit: --as NAME"
                    .into(),
            ),
            Self::Exists { .. } => Some(
                "import it under another name: --as NAME; --replace takes the place of an earlier import"
                    .into(),
            ),
            Self::Store(_) => None,
        }
    }
}
