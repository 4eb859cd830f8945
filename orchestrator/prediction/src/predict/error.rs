//! Errors of predictions.

use camino::Utf8PathBuf;
use cvc_core::store::StoreError;
use cvc_index::error::AnalysisError;

/// An error that prevents all predictions. If a single quantity cannot be predicted, that is not an error but a line with its reason.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// The files of a campaign cannot be read.
    #[error(transparent)]
    Store(#[from] AnalysisError),
    /// A table does not contain valid observations.
    #[error("{path}:{line}: {message}")]
    Csv {
        /// The file.
        path: Utf8PathBuf,
        /// The line, starting at 1.
        line: usize,
        /// The problem, with the column.
        message: String,
        /// How to correct it.
        hint: String,
    },
    /// A table does not exist or cannot be read.
    #[error("{path}: {message}")]
    Unreadable {
        /// The file.
        path: Utf8PathBuf,
        /// The system's error.
        message: String,
        /// How to correct it.
        hint: String,
    },
    /// A question is invalid.
    #[error("`{text}`: {message}")]
    Question {
        /// The question as written.
        text: String,
        /// The error.
        message: String,
        /// How to correct it.
        hint: String,
    },
    /// No model can be fitted to the observations.
    #[error("{message}")]
    Model {
        /// The problem.
        message: String,
        /// How to correct it.
        hint: String,
    },
}

impl PredictError {
    /// Returns the advice on how to correct the error, which is separate from the message.
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
