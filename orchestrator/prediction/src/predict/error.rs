//! Errors of predictions.

use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_index::error::AnalysisError;

/// An error that prevents all predictions. A single quantity that cannot be predicted is not an error but a line with its reason.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// A file of a campaign.
    #[error(transparent)]
    Store(#[from] AnalysisError),
    /// A table that cannot be read as one of observations.
    #[error("{path}:{line}: {message}")]
    Csv {
        /// The file.
        path: Utf8PathBuf,
        /// The line in it, from 1.
        line: usize,
        /// What is wrong there, with the column.
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// A table that is not there or cannot be read.
    #[error("{path}: {message}")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// The system's error.
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// A question that makes no sense.
    #[error("`{text}`: {message}")]
    Question {
        /// The question as written.
        text: String,
        /// What is wrong with it.
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// Observations that no model can be made of.
    #[error("{message}")]
    Model {
        /// What is wrong.
        message: String,
        /// How to fix it.
        hint: String,
    },
}

impl PredictError {
    /// Returns how to fix it, apart from what is wrong.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Store(_) => None,
            Self::Csv { hint, .. }
            | Self::Unreadable { hint, .. }
            | Self::Question { hint, .. }
            | Self::Model { hint, .. } => Some(hint),
        }
    }
}

impl From<StoreError> for PredictError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into())
    }
}
