//! How often a run is tried: which attempts count, and when no further one follows.

use cvc_core::campaign::RunSettings;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_journal::{Attempt, CampaignState, RunState};
use std::collections::HashMap;

/// Maximum number of times that a run may be lost with its agent or nodes, or with its controller, before it counts as failed.
const MAX_LOST: u32 = 3;
/// Maximum number of attempts lost to reclaimed nodes that do not count.
const MAX_RECLAIMED: u32 = 8;

/// The consequence of losing an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The run is repeated, and the attempt does not count.
    Again,
    /// It was lost this often, which counts as a failure.
    TooOften(u32),
}

/// The attempts that runs may have.
pub(super) struct Retries<'a> {
    settings: &'a RunSettings,
    /// Attempts that do not count, because the user has requested further ones.
    forgiven: HashMap<RunId, u32>,
}

impl<'a> Retries<'a> {
    pub(super) fn new(settings: &'a RunSettings) -> Self {
        Self {
            settings,
            forgiven: HashMap::new(),
        }
    }

    /// Forgives the past attempts of a run.
    pub(super) fn forgive(&mut self, run: RunId, attempts: u32) {
        self.forgiven.insert(run, attempts);
    }

    fn forgiven(&self, run: &RunId) -> u32 {
        self.forgiven.get(run).copied().unwrap_or(0)
    }

    /// Judges the loss of an attempt with its agent or nodes, by those before it, also in earlier sessions.
    pub(super) fn judge_loss(&self, state: &CampaignState, run: &RunId) -> Loss {
        self.judge_losses(state, run, |attempt| attempt.lost)
    }

    /// Judges an attempt whose controller ended with it without a request to stop, by those before it.
    pub(super) fn judge_end_of_controller(&self, state: &CampaignState, run: &RunId) -> Loss {
        self.judge_losses(state, run, |attempt| attempt.with_controller)
    }

    fn judge_losses(
        &self,
        state: &CampaignState,
        run: &RunId,
        counts: impl Fn(&Attempt) -> bool,
    ) -> Loss {
        let forgiven = self.forgiven(run);
        let losses = count(state, run, |a| counts(a) && a.number > forgiven).saturating_add(1);
        if losses <= MAX_LOST {
            Loss::Again
        } else {
            Loss::TooOften(losses)
        }
    }

    /// Whether a failed run has no attempt left.
    pub(super) fn used_up(&self, state: &CampaignState, run: &RunId, attempt: u32) -> bool {
        let cannot_help = |a: &Attempt| a.number == attempt && a.not_again.is_some();
        let is_left_out = attempt > self.forgiven(run) && count(state, run, cannot_help) > 0;
        is_left_out || self.is_last(state, run, attempt)
    }

    /// Whether the campaign allows no attempt after this one.
    pub(super) fn is_last(&self, state: &CampaignState, run: &RunId, attempt: u32) -> bool {
        attempt
            .saturating_sub(self.forgiven(run))
            .saturating_sub(blameless(state, run))
            > self.settings.retries
    }

    /// Number of past attempts of a run, or `None` if it needs no further one.
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
            // recovery has closed all other open ones
            Some(RunState::Open { attempt, .. }) => Some(attempt.saturating_sub(1)),
        }
    }
}

/// Number of attempts that failed through no fault of the run.
fn blameless(state: &CampaignState, run: &RunId) -> u32 {
    let failed = |cause: Cause| {
        count(
            state,
            run,
            |a| matches!(a.outcome, Some(Outcome::Failed { cause: c, .. }) if c == cause),
        )
    };
    // a run whose nodes are reclaimed again and again is a problem of the plan
    failed(Cause::Reclaimed).min(MAX_RECLAIMED) + failed(Cause::Budget)
}

fn count(state: &CampaignState, run: &RunId, counts: impl Fn(&Attempt) -> bool) -> u32 {
    let attempts = state.runs.get(run).map_or(&[][..], |h| &h.attempts);
    u32::try_from(attempts.iter().filter(|a| counts(a)).count()).unwrap_or(u32::MAX)
}
