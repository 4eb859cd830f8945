//! Errors of exports.

use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_index::error::AnalysisError;

/// An export that failed; nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The target of the export exists.
    #[error("{path} exists")]
    Exists {
        /// The existing path.
        path: Utf8PathBuf,
        /// Whether the target is an earlier export without additions.
        is_export: bool,
    },
    /// The directory of an export contains files that are not from an export.
    #[error("{dir} contains {file}, which is not from an export")]
    Foreign {
        /// The directory of the export.
        dir: Utf8PathBuf,
        /// One such file, relative to the directory.
        file: String,
    },
    /// No run has one of these identifier prefixes.
    #[error("{campaign} has no run whose identifier begins with {runs}")]
    NoRun {
        /// The campaign's directory.
        campaign: Utf8PathBuf,
        /// The prefixes.
        runs: String,
    },
    /// The target exists and is not an artefact of cvc.
    #[error("{path} exists and is not an artifact of cvc")]
    NoArtifact {
        /// The existing path.
        path: Utf8PathBuf,
    },
    /// A file of the campaign is too large to remove names from it.
    #[error("{path} has more than {max_bytes} bytes")]
    TooLarge {
        /// The file.
        path: Utf8PathBuf,
        /// Maximum length, bytes.
        max_bytes: u64,
    },
    /// The name of a report's file is not portable, or would break the manifest.
    #[error("the name of {path:?} contains a backslash or a control character")]
    Name {
        /// The file.
        path: Utf8PathBuf,
    },
    /// A file of an earlier export has changed since the export.
    #[error("{dir} contains {file}, which has changed since the export")]
    Edited {
        /// The directory of the export.
        dir: Utf8PathBuf,
        /// The changed file, relative to the directory.
        file: String,
    },
    /// A value does not have the type of its column.
    #[error("table {table}, column {column}: {}", match text {
        Some(text) => format!("`{}` is not of type {of}", cvc_core::visible::visible(text)),
        None => "a row has no value".to_owned(),
    })]
    Unfit {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The type of its values.
        of: &'static str,
        /// The value; `None` if a value is missing in a column that requires one.
        text: Option<String>,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index cannot be read.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
}

impl ExportError {
    /// Returns how to correct the problem, if there is a general way.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists {
                is_export: true, ..
            } => Some("add --replace to replace an earlier export".into()),
            Self::NoRun { .. } => {
                Some("`cvc status --json` lists the identifiers; by default, the last failed runs are packed".into())
            }
            Self::Exists { .. } => {
                Some("choose a directory that does not exist or is empty".into())
            }
            Self::Name { .. } => Some("rename it, or write the report again".into()),
            Self::Foreign { .. } | Self::Edited { .. } => {
                Some("move it elsewhere, or choose another directory: --replace would delete it".into())
            }
            Self::NoArtifact { .. } => {
                Some("choose a file that does not exist: --replace replaces only an earlier artifact".into())
            }
            Self::TooLarge { .. } => {
                Some("use --csv or --ro-crate, which have no such limit but keep all names".into())
            }
            Self::Unfit { .. } => {
                Some("use --csv, which writes it unchanged; `cvc fsck` lists damage".into())
            }
            Self::Store(_) | Self::Analysis(_) => None,
        }
    }
}
