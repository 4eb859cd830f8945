//! The states of runs in words, by the journal and the directories of a campaign.

use cvc_core::{
    ids::PointId,
    outcome::Outcome,
    plan::{Plan, PlannedRun},
    store::CampaignDir,
};
use cvc_journal::{CampaignState, RunState};
use std::collections::{HashMap, HashSet};

/// The state of a run whose point needs no further one.
pub const NOT_NEEDED: &str = "not needed";

/// The state of a run that succeeded, and whose directory is gone.
pub const MISSING: &str = "missing";

/// What the journal and the directories say of runs.
#[derive(Debug)]
pub struct RunWords<'a> {
    state: &'a CampaignState,
    /// Points whose runs were all skipped, with the reason.
    skipped: HashMap<&'a PointId, &'a str>,
    /// Names in the directory of runs.
    directories: HashSet<String>,
}

impl<'a> RunWords<'a> {
    /// Reads the directories.
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
            directories,
        }
    }

    /// The state of a run in a word, with its reason.
    pub fn of_run(&self, run: &PlannedRun) -> (&'static str, Option<String>) {
        let quarantined = self.state.quarantined.contains(&run.point);
        match self.state.run(&run.id) {
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) if self.directories.contains(run.id.as_str()) => ("succeeded", None),
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) => (MISSING, Some("its directory is missing".into())),
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
                let detail = match not_again {
                    Some(why) => format!("{detail}; {why}"),
                    None => detail.clone(),
                };
                ("failed", Some(detail))
            }
            Some(RunState::Open { .. }) => ("open", None),
            Some(RunState::Abandoned { .. }) | None if quarantined => ("quarantined", None),
            Some(RunState::Abandoned { .. }) | None
                if self.state.decided.contains_key(&run.point) =>
            {
                (
                    NOT_NEEDED,
                    self.state
                        .decided
                        .get(&run.point)
                        .map(|decision| decision.reason.clone()),
                )
            }
            Some(RunState::Abandoned { .. }) => ("abandoned", None),
            None => match self.skipped.get(&run.point) {
                Some(reason) => ("skipped", Some((*reason).to_owned())),
                None => ("to do", None),
            },
        }
    }
}
