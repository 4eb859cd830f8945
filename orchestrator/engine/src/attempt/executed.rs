//! The result of executing a run.

use crate::run::RunFailure;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::record::Record;
use cvc_core::store::KeptCheckpoint;
use std::time::Instant;

/// The result of executing a run.
#[derive(Debug)]
pub(super) struct Executed {
    pub outcome: Outcome,
    pub records: Vec<Record>,
    pub facts: serde_json::Value,
    pub wall_s: f64,
    /// The user has interrupted the run: it has no outcome.
    pub interrupted: bool,
    /// The file system of the run's files is gone: they stay where they are.
    pub files_lost: bool,
    /// A shepherd was killed, and its processes may still be running.
    pub shepherd_lost: bool,
    /// The end of the run's shepherd or program was requested.
    pub end_requested: bool,
    /// When the program and its restarts had ended; `None` if the run failed or was interrupted before that.
    pub over: Option<Instant>,
    /// The checkpoint that is kept for the next attempt, if the run lost a node and a checkpoint exists.
    pub kept: Option<Box<KeptCheckpoint>>,
}

impl Executed {
    /// Returns how long a run that began at this time used its nodes, seconds: until the end of its restarts. Later measurements, for example of
    /// other ways to store its checkpoints, are not a cost of the run.
    pub fn used_s(&self, began: Instant) -> f64 {
        let over = self.over.unwrap_or_else(Instant::now);
        over.saturating_duration_since(began).as_secs_f64()
    }
}

/// Returns the result of a run that failed before anything could be measured.
pub(super) fn failed(failure: RunFailure) -> Executed {
    Executed {
        outcome: failure.into(),
        records: Vec::new(),
        facts: serde_json::Value::Null,
        wall_s: 0.0,
        interrupted: false,
        files_lost: false,
        shepherd_lost: false,
        end_requested: false,
        over: None,
        kept: None,
    }
}

/// Returns the result of a run that the user has interrupted.
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
        files_lost: false,
        shepherd_lost: false,
        end_requested: false,
        over: None,
        kept: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn measurements_after_the_restart_check_are_no_cost_of_the_run() {
        let now = Instant::now();
        let began = now.checked_sub(Duration::from_secs(60)).expect("a time");
        let mut executed = interrupted();
        assert!(executed.used_s(began) >= 60.0, "it did not come as far");
        executed.over = now.checked_sub(Duration::from_secs(50));
        assert!((executed.used_s(began) - 10.0).abs() < 1e-6);
    }
}
