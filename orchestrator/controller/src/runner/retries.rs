//! Counts the attempts at a run, and decides whether another one follows.

use cvc_core::campaign::RunSettings;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_journal::{Attempt, CampaignState, RunState};
use std::collections::HashMap;

/// Maximum number of times that a run may be lost with its agent or nodes, or with its controller, before it counts as failed.
const MAX_LOST: u32 = 3;
/// Maximum number of attempts at a run that were lost to reclaimed nodes and do not count. Further lost attempts count.
const MAX_RECLAIMED: u32 = 8;

/// What follows from the loss of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeLoss {
    /// The run is repeated, and the attempt does not count.
    Again,
    /// The run was lost too often, this number of times, and counts as failed.
    TooOften(u32),
}

/// The attempts that runs may have.
pub(super) struct Retries<'a> {
    settings: &'a RunSettings,
    /// Number of past attempts of each run that no longer count, because the user has requested further ones.
    forgiven: HashMap<RunId, u32>,
}

impl<'a> Retries<'a> {
    pub(super) fn new(settings: &'a RunSettings) -> Self {
        Self {
            settings,
            forgiven: HashMap::new(),
        }
    }

    /// Excludes the past attempts at a run from the count of its attempts.
    pub(super) fn forgive(&mut self, run: RunId, attempts: u32) {
        self.forgiven.insert(run, attempts);
    }

    fn forgiven(&self, run: &RunId) -> u32 {
        self.forgiven.get(run).copied().unwrap_or(0)
    }

    /// Judges the loss of an attempt with its agent or nodes, by the number of previous losses of the run, including earlier sessions.
    pub(super) fn judge_loss(&self, state: &CampaignState, run: &RunId) -> NodeLoss {
        self.judge_losses(state, run, |attempt| attempt.lost)
    }

    /// Judges an attempt whose controller ended without a request to stop, by the number of previous attempts at the run with such an end.
    pub(super) fn judge_end_of_controller(&self, state: &CampaignState, run: &RunId) -> NodeLoss {
        self.judge_losses(state, run, |attempt| attempt.with_controller)
    }

    fn judge_losses(
        &self,
        state: &CampaignState,
        run: &RunId,
        counts: impl Fn(&Attempt) -> bool,
    ) -> NodeLoss {
        let forgiven = self.forgiven(run);
        let losses = count(state, run, |a| counts(a) && a.number > forgiven).saturating_add(1);
        if losses <= MAX_LOST {
            NodeLoss::Again
        } else {
            NodeLoss::TooOften(losses)
        }
    }

    /// Returns whether a failed run has no attempt left.
    pub(super) fn used_up(&self, state: &CampaignState, run: &RunId, attempt: u32) -> bool {
        let cannot_help = |a: &Attempt| a.number == attempt && a.not_again.is_some();
        let is_left_out = attempt > self.forgiven(run) && count(state, run, cannot_help) > 0;
        is_left_out || self.is_last(state, run, attempt)
    }

    /// Returns whether the campaign allows no attempt after this one.
    pub(super) fn is_last(&self, state: &CampaignState, run: &RunId, attempt: u32) -> bool {
        attempt
            .saturating_sub(self.forgiven(run))
            .saturating_sub(excused_failures(state, run))
            > self.settings.retries
    }

    /// Returns the number of past attempts of a run, or `None` if it needs no further one.
    pub(super) fn attempts_before(&self, state: &CampaignState, run: &RunId) -> Option<u32> {
        match state.run(run) {
            None => Some(0),
            Some(RunState::Abandoned { attempts }) => Some(*attempts),
            Some(RunState::Finished {
                outcome: Outcome::Succeeded,
                ..
            }) => None,
            Some(RunState::Finished {
                attempt,
                outcome: Outcome::Failed { .. },
                ..
            }) => (!self.used_up(state, run, *attempt)).then_some(*attempt),
            // recovery has closed all other open attempts
            Some(RunState::Open { attempt, .. }) => Some(attempt.saturating_sub(1)),
        }
    }
}

/// Returns the number of attempts that failed through no fault of the run.
fn excused_failures(state: &CampaignState, run: &RunId) -> u32 {
    let failed = |cause: Cause| {
        count(
            state,
            run,
            |a| matches!(a.outcome, Some(Outcome::Failed { cause: c, .. }) if c == cause),
        )
    };
    // a run whose nodes are reclaimed again and again points to a problem of the plan
    let continued = count(state, run, |a| {
        a.kept_bytes.is_some()
            && !matches!(
                a.outcome,
                Some(Outcome::Failed {
                    cause: Cause::Reclaimed | Cause::Budget,
                    ..
                })
            )
    });
    (failed(Cause::Reclaimed) + continued).min(MAX_RECLAIMED) + failed(Cause::Budget)
}

fn count(state: &CampaignState, run: &RunId, counts: impl Fn(&Attempt) -> bool) -> u32 {
    let attempts = state.runs.get(run).map_or(&[][..], |h| &h.attempts);
    u32::try_from(attempts.iter().filter(|a| counts(a)).count()).unwrap_or(u32::MAX)
}
