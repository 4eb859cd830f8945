//! The journal of a campaign and the state folded from it; both change with each `write`.

use super::ledger::Ledger;
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::plan::Plan;
use cvc_core::store::StoreError;
use cvc_journal::{CampaignState, Entry, Event, Journal, Lineage, RunState};
use cvc_sites::error::CampaignError;

/// A journal, the state folded from it, and the running sums of spending.
pub(super) struct Journaled<'a> {
    journal: Journal,
    state: CampaignState,
    ledger: Ledger<'a>,
    /// Why an event could not be written. After that no event is written, and the session must end.
    mute: Option<String>,
    /// Whether `mute` is set because another process now owns the journal.
    is_fenced: bool,
}

impl<'a> Journaled<'a> {
    /// Opens the journal of a campaign and folds its events.
    pub(super) fn open(path: &Utf8Path, plan: &'a Plan) -> Result<Self, StoreError> {
        let mut state = CampaignState::default();
        let journal = Journal::open(path, &plan.campaign, |entry| state.apply(entry))?;
        Ok(Self {
            journal,
            ledger: Ledger::of(plan, &state),
            state,
            mute: None,
            is_fenced: false,
        })
    }

    /// Appends an event, syncs it, and applies it to the state. An event that is illegal in this state is a bug of cvc and is not written, because
    /// the journal could not be read afterwards.
    pub(super) fn write(&mut self, event: Event) -> Result<(), CampaignError> {
        self.write_by(event, Journal::append)
    }

    /// Like [`write`](Self::write), but does not sync. [`sync`](Self::sync) or another event must follow before the caller waits for anything.
    pub(super) fn write_unsynced(&mut self, event: Event) -> Result<(), CampaignError> {
        self.write_by(event, Journal::append_unsynced)
    }

    /// Syncs the events that are not synced yet.
    pub(super) fn sync(&mut self) -> Result<(), CampaignError> {
        if self.mute.is_some() {
            return Ok(());
        }
        self.journal.sync().map_err(|error| self.fall_silent(error))
    }

    fn write_by(
        &mut self,
        event: Event,
        append: impl FnOnce(&mut Journal, Event) -> Result<Entry, StoreError>,
    ) -> Result<(), CampaignError> {
        self.state
            .check(&event)
            .map_err(|problem| CampaignError::internal(problem.to_string()))?;
        if self.is_fenced {
            self.journal.check_owner()?;
        }
        if let Some(why) = &self.mute {
            return Err(
                StoreError::io("append to", self.journal.path())(std::io::Error::other(
                    why.clone(),
                ))
                .into(),
            );
        }
        let entry = append(&mut self.journal, event).map_err(|error| self.fall_silent(error))?;
        self.state
            .apply(&entry)
            .map_err(|illegal| CampaignError::internal(illegal.to_string()))?;
        self.ledger.apply(&self.state, &entry.event);
        Ok(())
    }

    /// Stores the error as the reason why no event is written any more, and returns it for the caller.
    fn fall_silent(&mut self, error: StoreError) -> CampaignError {
        self.is_fenced = matches!(error, StoreError::Fenced { .. });
        self.mute = Some(match &error {
            StoreError::Io { source, .. } => {
                format!("{source} (nothing more is written in this session)")
            }
            other => other.to_string(),
        });
        error.into()
    }

    /// Checks, without writing, that this controller still owns the journal; each event that is written checks the same.
    ///
    /// # Errors
    /// The campaign was moved, or another controller works on it.
    pub(super) fn check_owner(&mut self) -> Result<(), CampaignError> {
        // if writing stopped for another reason, closing continues without a journal
        if self.mute.is_some() && !self.is_fenced {
            return Ok(());
        }
        self.journal
            .check_owner()
            .map_err(|error| self.fall_silent(error))
    }

    /// Returns whether another controller now owns the journal. The campaign's resources on other machines then belong to that controller.
    pub(super) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Returns the identity of the campaign.
    ///
    /// # Errors
    /// None in practice: an open journal always has a lineage.
    pub(super) fn lineage(&self) -> Result<&Lineage, CampaignError> {
        self.state
            .lineage
            .as_ref()
            .ok_or_else(|| CampaignError::internal("a journal without a lineage"))
    }

    /// Returns the state of the campaign.
    pub(super) fn state(&self) -> &CampaignState {
        &self.state
    }

    /// Returns the running sums of the campaign's spending.
    pub(super) fn ledger(&self) -> &Ledger<'a> {
        &self.ledger
    }

    /// Returns whether an event could not be written, so that no further side effect is allowed.
    pub(super) fn is_mute(&self) -> bool {
        self.mute.is_some()
    }

    /// Marks failed runs as not done, and returns the number of past attempts of each. The journal is not changed. The numbers of attempts continue,
    /// because the directories of past attempts keep their names.
    pub(super) fn reopen_failed(&mut self) -> Vec<(RunId, u32)> {
        let mut reopened = Vec::new();
        for (run, history) in &mut self.state.runs {
            if let RunState::Finished {
                attempt,
                outcome: Outcome::Failed { .. },
                ..
            } = history.state
            {
                reopened.push((run.clone(), attempt));
                history.state = RunState::Abandoned { attempts: attempt };
            }
        }
        reopened
    }
}
