//! The journal of a campaign and the state that it folds to: both change by one `write`.

use crate::error::CampaignError;
use camino::Utf8Path;
use cvc_core::{
    ids::RunId,
    journal::{CampaignState, Event, Journal, RunState},
    outcome::Outcome,
    store::StoreError,
};

/// A journal with the state that follows from it.
pub(super) struct Journaled {
    journal: Journal,
    state: CampaignState,
    mute: bool,
}

impl Journaled {
    /// Opens the journal of a campaign and folds what it has.
    pub(super) fn open(path: &Utf8Path, campaign: &str) -> Result<Self, StoreError> {
        let (journal, entries) = Journal::open(path, campaign)?;
        let state = CampaignState::of(&entries).map_err(|illegal| illegal.in_file(path))?;
        Ok(Self { journal, state, mute: false })
    }

    /// Appends an event, syncs it, and takes it into the state. An illegal event is a bug of cvc and is not written, because the journal
    /// could not be read again.
    pub(super) fn write(&mut self, event: Event) -> Result<(), CampaignError> {
        self.state.check(&event).map_err(CampaignError::internal)?;
        match self.journal.append(event) {
            Ok(entry) => self.state.apply(&entry).map_err(|illegal| CampaignError::internal(illegal.to_string())),
            Err(error) => {
                self.mute = true;
                Err(error.into())
            }
        }
    }

    /// The state of the campaign.
    pub(super) fn state(&self) -> &CampaignState {
        &self.state
    }

    /// Whether an event could not be written, so that nothing more may be done.
    pub(super) fn is_mute(&self) -> bool {
        self.mute
    }

    /// Counts failed runs as not done, and returns the number of past attempts of each. The journal is unchanged: the numbering of attempts
    /// continues, because directories of earlier attempts keep their names.
    pub(super) fn reopen_failed(&mut self) -> Vec<(RunId, u32)> {
        let mut reopened = Vec::new();
        for (run, history) in &mut self.state.runs {
            if let RunState::Finished { attempt, outcome: Outcome::Failed { .. }, .. } = history.state {
                reopened.push((run.clone(), attempt));
                history.state = RunState::Abandoned { attempts: attempt };
            }
        }
        reopened
    }
}
