//! Reasons why a cell cannot be recomputed.

use cvc_model::FitError;

/// Reasons why a cell cannot be recomputed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRecomputable {
    /// The authors measured the number.
    #[error("a measurement")]
    Measurement,
    /// The authors chose the number as an input of the calculation.
    #[error("chosen by the authors: an input of the calculation")]
    Input,
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl From<FitError> for NotRecomputable {
    fn from(refusal: FitError) -> Self {
        Self::Other(refusal.to_string())
    }
}
