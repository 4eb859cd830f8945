//! Why something cannot be imported.

use camino::Utf8PathBuf;
use cvc_core::{source::SourceError, store::StoreError};
use std::path::PathBuf;

/// Nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file is wrong at some place.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Not a file that can be imported.
    #[error("{} is not a result of a known program", file.display())]
    Unknown {
        /// The file.
        file: PathBuf,
    },
    /// The file has no run.
    #[error("{file} has no result that can be imported{}", listed(reasons))]
    Nothing {
        /// The file.
        file: Utf8PathBuf,
        /// What was made of its parts.
        reasons: Vec<String>,
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
                "JSON is read of ReFrame (`runs`), HPCAdvisor (`datapoints`), Ramble (`experiments`) and hyperfine (`results`)"
                    .into(),
            ),
            Self::Nothing { file, .. } if file.extension() == Some("json") => None,
            Self::Nothing { .. } => Some(
                "a table needs a column of a quantity: one that ends in _s, _ms, _bytes, _mib, _mib_per_s or _usd, one with a unit in brackets, or one that its description names"
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

/// Reasons after a colon.
fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|reason| format!("; {reason}")).collect()
}
