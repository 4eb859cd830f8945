//! Checks all files of a campaign.

use super::{journal::OldJournal, problem::Findings, runs};
use cvc_core::store::{CampaignDir, StoreError};

/// Checks a campaign. `tell` is called with the number of directories done and to do.
///
/// # Errors
/// When a file cannot be read, or was written by a newer cvc.
pub fn check(dir: &CampaignDir, tell: impl FnMut(usize, usize)) -> Result<Findings, StoreError> {
    let old = OldJournal::read(dir)?;
    let salvaged = old.salvage(dir);
    let mut problems = old.problems(dir, &salvaged);
    let directories = runs::check(dir, &salvaged.state, &mut problems, tell)?;
    Ok(Findings {
        entries: old.entries.len(),
        directories,
        problems,
        state: salvaged.state,
    })
}
