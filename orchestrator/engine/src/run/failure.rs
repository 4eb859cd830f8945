//! Why a run is a failure.

use cvc_core::outcome::{Cause, Outcome};

/// Why a run is a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFailure {
    /// What kind of failure it is.
    pub cause: Cause,
    /// What happened.
    pub detail: String,
}

impl RunFailure {
    /// A failure of this kind.
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
