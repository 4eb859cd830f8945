//! The state of a campaign: a fold over its journal.

use super::event::{Entry, Event, Outcome};
use crate::ids::{PointId, RunId};
use std::collections::{BTreeSet, HashMap};

/// Where a run stands. A run that does not occur has not been tried.
#[derive(Clone, Debug, PartialEq)]
pub enum RunState {
    /// Intended or started, and no end is known: under way, or cut off with its controller.
    Open {
        /// Attempt under way.
        attempt: u32,
        /// Its shepherd, if it was started: process id and start ticks.
        shepherd: Option<(u32, u64)>,
    },
    /// Cut off with its controller and cleaned up; to be done again. Attempts that count so far.
    Abandoned {
        /// Attempts that ended by themselves before it.
        attempts: u32,
    },
    /// Ended.
    Finished {
        /// The attempt that ended.
        attempt: u32,
        /// How.
        outcome: Outcome,
        /// Digest of its records.
        records: Option<String>,
    },
}

/// The fold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignState {
    /// Every run that was tried.
    pub runs: HashMap<RunId, RunState>,
    /// Points that are not tried any more.
    pub quarantined: BTreeSet<PointId>,
    /// Whether the last controller came to the end of its plan.
    pub completed: bool,
    /// Digest of the last plan that was started.
    pub plan: Option<String>,
}

impl CampaignState {
    /// Folds a journal.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut state = Self::default();
        for entry in entries {
            state.apply(&entry.event);
        }
        state
    }

    /// Takes in one event.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Opened { .. } | Event::Interrupted { .. } => {}
            Event::Started { plan, .. } => {
                self.completed = false;
                self.plan = Some(plan.clone());
            }
            Event::RunIntended { run, attempt } => {
                self.runs.insert(run.clone(), RunState::Open { attempt: *attempt, shepherd: None });
            }
            Event::RunStarted { run, attempt, pid, start_ticks } => {
                self.runs.insert(run.clone(), RunState::Open { attempt: *attempt, shepherd: Some((*pid, *start_ticks)) });
            }
            Event::RunFinished { run, attempt, outcome, records } => {
                self.runs.insert(
                    run.clone(),
                    RunState::Finished { attempt: *attempt, outcome: outcome.clone(), records: records.clone() },
                );
            }
            Event::RunAbandoned { run, attempt, .. } => {
                self.runs.insert(run.clone(), RunState::Abandoned { attempts: attempt.saturating_sub(1) });
            }
            Event::PointQuarantined { point, .. } => {
                self.quarantined.insert(point.clone());
            }
            Event::PointReleased { point } => {
                self.quarantined.remove(point);
            }
            Event::Completed { .. } => self.completed = true,
        }
    }
}
