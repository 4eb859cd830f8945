//! The journal of a campaign and the state that it folds to: both change by one `write`.

use super::ledger::Ledger;
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::plan::Plan;
use cvc_core::store::StoreError;
use cvc_journal::{CampaignState, Entry, Event, Journal, Lineage, RunState};
use cvc_sites::error::CampaignError;

/// A journal with the state and the sums that follow from it.
pub(super) struct Journaled<'a> {
    journal: Journal,
    state: CampaignState,
    ledger: Ledger<'a>,
    /// Why an event could not be written: from then on nothing is, and so nothing more may be done.
    mute: Option<String>,
    /// Whether that is because somebody else has the journal by now.
    is_fenced: bool,
}

impl<'a> Journaled<'a> {
    /// Opens the journal of a campaign and folds what it has.
    pub(super) fn open(path: &Utf8Path, plan: &'a Plan) -> Result<Self, StoreError> {
        let mut state = CampaignState::default();
        let journal = Journal::open(path, &plan.campaign, |entry| {
            state
                .apply(entry)
                .map_err(|illegal| illegal.problem.to_string())
        })?;
        Ok(Self {
            journal,
            ledger: Ledger::of(plan, &state),
            state,
            mute: None,
            is_fenced: false,
        })
    }

    /// Appends an event, syncs it, and takes it into the state. An illegal event is a bug of cvc and is not written, because the journal
    /// could not be read again.
    pub(super) fn write(&mut self, event: Event) -> Result<(), CampaignError> {
        self.write_by(event, Journal::append)
    }

    /// The same without syncing: [`sync`](Self::sync), or the next event, must follow before anything is waited for.
    pub(super) fn write_unsynced(&mut self, event: Event) -> Result<(), CampaignError> {
        self.write_by(event, Journal::append_unsynced)
    }

    /// Puts on disk what is not there.
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
        self.ledger.take_in(&self.state, &entry.event);
        Ok(())
    }

    /// Writes nothing more, because of this.
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

    /// Checks that the journal is still this controller's, as each event does.
    ///
    /// # Errors
    /// When the campaign was moved, or another controller works on it.
    pub(super) fn check_owner(&mut self) -> Result<(), CampaignError> {
        // what was closed without a journal for another reason goes on
        if self.mute.is_some() && !self.is_fenced {
            return Ok(());
        }
        self.journal
            .check_owner()
            .map_err(|error| self.fall_silent(error))
    }

    /// Whether somebody else has the journal by now: what the campaign has elsewhere is theirs.
    pub(super) fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// The identity of the campaign.
    ///
    /// # Errors
    /// Never: an open journal has one.
    pub(super) fn lineage(&self) -> Result<&Lineage, CampaignError> {
        self.state
            .lineage
            .as_ref()
            .ok_or_else(|| CampaignError::internal("a journal without a lineage"))
    }

    /// The state of the campaign.
    pub(super) fn state(&self) -> &CampaignState {
        &self.state
    }

    /// What the campaign has spent.
    pub(super) fn ledger(&self) -> &Ledger<'a> {
        &self.ledger
    }

    /// Whether an event could not be written, so that nothing more may be done.
    pub(super) fn is_mute(&self) -> bool {
        self.mute.is_some()
    }

    /// Counts failed runs as not done, and returns the number of past attempts of each. The journal is unchanged: the numbering of attempts
    /// continues, because directories of earlier attempts keep their names.
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
