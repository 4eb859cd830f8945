//! Descriptions of the states of runs, from the journal and the directories of a campaign.

use cvc_core::{
    ids::PointId,
    outcome::Outcome,
    plan::{Plan, PlannedRun},
    store::CampaignDir,
};
use cvc_journal::{CampaignState, RunState};
use serde::{Serialize, Serializer};
use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// The state of a run, as shown in all commands, pages and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunWord {
    /// The run succeeded.
    Succeeded,
    /// The run succeeded, but its directory is missing.
    Missing,
    /// The run failed, and is not retried automatically.
    Failed,
    /// The run is active, or was interrupted because its controller ended.
    Open,
    /// The run is not tried, because its point failed too often.
    Quarantined,
    /// The run is not needed: its point has enough runs.
    NotNeeded,
    /// The run was interrupted, and will be repeated.
    Abandoned,
    /// The run cannot be carried out here, because something is not installed.
    Skipped,
    /// The run has not been tried.
    ToDo,
}

/// The groups in which runs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunGroup {
    /// Succeeded, and the directory exists.
    Succeeded,
    /// Failed.
    Failed,
    /// Not tried: skipped or quarantined.
    Skipped,
    /// Still to be done, or active.
    Left,
    /// Not needed; excluded from the total.
    NotNeeded,
}

impl RunWord {
    /// Returns the word for the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Missing => "missing",
            Self::Failed => "failed",
            Self::Open => "open",
            Self::Quarantined => "quarantined",
            Self::NotNeeded => "not needed",
            Self::Abandoned => "abandoned",
            Self::Skipped => "skipped",
            Self::ToDo => "to do",
        }
    }

    /// Returns the group in which the state is counted.
    pub const fn group(self) -> RunGroup {
        match self {
            Self::Succeeded => RunGroup::Succeeded,
            Self::Failed => RunGroup::Failed,
            Self::Skipped | Self::Quarantined => RunGroup::Skipped,
            Self::NotNeeded => RunGroup::NotNeeded,
            Self::Missing | Self::Open | Self::Abandoned | Self::ToDo => RunGroup::Left,
        }
    }
}

impl fmt::Display for RunWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for RunWord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Determines the states of runs, from the journal and the directories of a campaign.
#[derive(Debug)]
pub struct RunWords<'a> {
    state: &'a CampaignState,
    /// Points that could not run, and none of whose runs was ever tried, with the reason.
    skipped: HashMap<&'a PointId, &'a str>,
    /// For each point whose runs are expected to fail, the reason.
    expected: HashMap<PointId, String>,
    /// Names of the existing run directories.
    directories: HashSet<String>,
}

impl<'a> RunWords<'a> {
    /// Reads the names of the run directories.
    pub fn of(dir: &CampaignDir, plan: &Plan, state: &'a CampaignState) -> Self {
        let directories = dir
            .runs()
            .read_dir_utf8()
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_owned())
            .collect();
        Self {
            state,
            skipped: state.never_tried(&plan.runs),
            expected: plan
                .points
                .iter()
                .filter_map(|p| Some((p.id.clone(), p.expected_failure.clone()?)))
                .collect(),
            directories,
        }
    }

    /// Returns why the program of a failed run was expected to fail; `None` if it was not. A failure that was caused by a machine is never expected.
    pub fn expected_of_program(&self, run: &PlannedRun) -> Option<&str> {
        let outcome = match self.state.run(&run.id)? {
            RunState::Finished { outcome, .. } => outcome,
            RunState::Open { .. } | RunState::Abandoned { .. } => return None,
        };
        self.expected_failure(run)
            .filter(|_| outcome.is_failure_of_program())
    }

    /// Returns why a run is expected to fail; `None` if it is not.
    pub fn expected_failure(&self, run: &PlannedRun) -> Option<&str> {
        self.expected.get(&run.point).map(String::as_str)
    }

    /// Returns the state of a run, and the reason for the state if there is one.
    pub fn of_run(&self, run: &PlannedRun) -> (RunWord, Option<String>) {
        let quarantined = self.state.quarantined.contains(&run.point);
        match self.state.run(&run.id) {
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) if self.directories.contains(run.id.as_str()) => (RunWord::Succeeded, None),
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) => (RunWord::Missing, Some("its directory is missing".into())),
            Some(RunState::Finished {
                attempt,
                outcome: Outcome::Failed { detail, .. },
                ..
            }) => {
                let attempts = self.state.runs.get(&run.id).map(|h| h.attempts.as_slice());
                let not_again = attempts
                    .unwrap_or_default()
                    .iter()
                    .rfind(|a| a.number == *attempt)
                    .and_then(|a| a.not_again.as_ref());
                let detail = match (self.expected_of_program(run), not_again) {
                    (Some(reason), _) => format!("{detail}; it was expected to fail: {reason}"),
                    (None, Some(why)) => format!("{detail}; {why}"),
                    (None, None) => detail.clone(),
                };
                (RunWord::Failed, Some(detail))
            }
            Some(RunState::Open { .. }) => (RunWord::Open, None),
            Some(RunState::Abandoned { .. }) | None if quarantined => (RunWord::Quarantined, None),
            Some(RunState::Abandoned { .. }) | None
                if self.state.decided.contains_key(&run.point) =>
            {
                (
                    RunWord::NotNeeded,
                    self.state
                        .decided
                        .get(&run.point)
                        .map(|decision| decision.reason.clone()),
                )
            }
            Some(RunState::Abandoned { .. }) => (RunWord::Abandoned, None),
            None => match self.skipped.get(&run.point) {
                Some(reason) => (RunWord::Skipped, Some((*reason).to_owned())),
                None => (RunWord::ToDo, None),
            },
        }
    }
}
