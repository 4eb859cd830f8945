//! Why a cell cannot be recomputed.

use cvc_model::FitError;

/// Why a cell cannot be recomputed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Because {
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

impl From<FitError> for Because {
    fn from(refusal: FitError) -> Self {
        Self::Other(refusal.to_string())
    }
}
