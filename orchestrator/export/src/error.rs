//! Why something cannot be exported.

use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_index::error::AnalysisError;

/// Nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Something is where the export is to be.
    #[error("{path} exists")]
    Exists {
        /// What is there.
        path: Utf8PathBuf,
        /// Whether an export wrote it, with nothing added.
        is_export: bool,
    },
    /// An export has files that it did not write.
    #[error("{dir} has {file}, which no export wrote")]
    Foreign {
        /// The export.
        dir: Utf8PathBuf,
        /// Such a file, relative to it.
        file: String,
    },
    /// Something is where an artefact is to be.
    #[error("{path} exists, and is no artifact of cvc")]
    NoArtifact {
        /// What is there.
        path: Utf8PathBuf,
    },
    /// A file of the campaign from which names cannot be taken.
    #[error("{path} has more than {max_bytes} bytes")]
    TooLarge {
        /// Which file.
        path: Utf8PathBuf,
        /// Most that are read.
        max_bytes: u64,
    },
    /// A file of a report whose name is another on other systems, or breaks the list of files.
    #[error("{path:?}: its name has a backslash or a control character")]
    Name {
        /// Which file.
        path: Utf8PathBuf,
    },
    /// A file of an earlier export that was changed since.
    #[error("{dir} has {file}, which was changed since it was exported")]
    Edited {
        /// The export.
        dir: Utf8PathBuf,
        /// Such a file, relative to it.
        file: String,
    },
    /// A value that does not have the type of its column.
    #[error("table {table}, column {column}: {}", match text {
        Some(text) => format!("`{}` is no {of}", cvc_core::visible::visible(text)),
        None => "a row has no value".to_owned(),
    })]
    Unfit {
        /// The table.
        table: String,
        /// Its column.
        column: String,
        /// The type of its values.
        of: &'static str,
        /// What stands there instead; `None`: nothing, though every row must have a value.
        text: Option<String>,
    },
    /// A file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
}

impl ExportError {
    /// How to correct it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists {
                is_export: true, ..
            } => Some("--replace takes the place of an earlier export".into()),
            Self::Exists { .. } => {
                Some("no export wrote it: name a directory that does not exist or is empty".into())
            }
            Self::Name { .. } => Some("rename it, or write the report anew".into()),
            Self::Foreign { .. } | Self::Edited { .. } => {
                Some("move it elsewhere, or name another directory: --replace keeps nothing".into())
            }
            Self::NoArtifact { .. } => {
                Some("name a file that does not exist: only an earlier artifact is replaced".into())
            }
            Self::TooLarge { .. } => {
                Some("--csv and --ro-crate have no such limit, and leave all names in".into())
            }
            Self::Unfit { .. } => {
                Some("--csv writes it as it is; cvc fsck shows what is damaged".into())
            }
            Self::Store(_) | Self::Analysis(_) => None,
        }
    }
}
