//! Reasons why a cell cannot be recomputed.

use cvc_model::FitError;

/// Reasons why a cell cannot be recomputed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRecomputable {
    /// It was measured.
    #[error("a measurement")]
    Measurement,
    /// The authors chose it: an input of the calculation.
    #[error("chosen by the authors: an input of the calculation")]
    Input,
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl From<FitError> for NotRecomputable {
    fn from(refusal: FitError) -> Self {
        Self::Other(refusal.to_string())
    }
}
