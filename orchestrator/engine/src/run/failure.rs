//! Why a run has failed.

use cvc_core::outcome::{Cause, Outcome};

/// Why a run has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    /// Kind of failure.
    pub cause: Cause,
    /// Details of the failure.
    pub detail: String,
}

impl RunFailure {
    /// Creates a failure of this kind.
    pub fn new(cause: Cause, detail: impl Into<String>) -> Self {
        Self {
            cause,
            detail: detail.into(),
        }
    }
}

impl From<RunFailure> for Outcome {
    fn from(RunFailure { cause, detail }: RunFailure) -> Self {
        Self::Failed { cause, detail }
    }
}
