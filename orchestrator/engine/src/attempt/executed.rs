//! The result of executing a run.

use crate::run::RunFailure;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::record::Record;
use std::time::Instant;

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
    /// When its program and the check of its restart were over; `None` if it did not come as far.
    pub over: Option<Instant>,
}

impl Executed {
    /// How long a run that began then used its nodes, seconds: until the end of its restart check. What is measured after it, as other ways to store its
    /// checkpoints, is no cost of the run.
    pub fn used_s(&self, began: Instant) -> f64 {
        let over = self.over.unwrap_or_else(Instant::now);
        over.saturating_duration_since(began).as_secs_f64()
    }
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
        over: None,
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
        over: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_measured_after_the_restart_check_is_no_cost_of_the_run() {
        let now = Instant::now();
        let began = now.checked_sub(Duration::from_secs(60)).expect("a time");
        let mut executed = interrupted();
        assert!(executed.used_s(began) >= 60.0, "it did not come as far");
        executed.over = now.checked_sub(Duration::from_secs(50));
        assert!((executed.used_s(began) - 10.0).abs() < 1e-6);
    }
}
