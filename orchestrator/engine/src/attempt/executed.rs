//! The result of executing a run.

use crate::run::RunFailure;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::record::Record;

/// The result of executing a run.
#[derive(Debug)]
pub(super) struct Executed {
    pub outcome: Outcome,
    pub records: Vec<Record>,
    pub facts: serde_json::Value,
    pub wall_s: f64,
    /// The user cut it off: it has no outcome.
    pub interrupted: bool,
    /// A shepherd was killed and may have left its processes.
    pub shepherd_lost: bool,
    /// Something asked its shepherd or its program for an end.
    pub told_to_end: bool,
}

/// A run that failed before there was anything to measure.
pub(super) fn failed(failure: RunFailure) -> Executed {
    Executed {
        outcome: failure.into(),
        records: Vec::new(),
        facts: serde_json::Value::Null,
        wall_s: 0.0,
        interrupted: false,
        shepherd_lost: false,
        told_to_end: false,
    }
}

/// A run that the user cut off.
pub(super) fn interrupted() -> Executed {
    Executed {
        outcome: Outcome::Failed {
            cause: Cause::Timeout,
            detail: "cut off by the user".into(),
        },
        records: Vec::new(),
        facts: serde_json::Value::Null,
        wall_s: 0.0,
        interrupted: true,
        shepherd_lost: false,
        told_to_end: false,
    }
}
