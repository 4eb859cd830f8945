//! Checks all files of a campaign for damage.

use super::{journal::OldJournal, problem::FsckFindings, runs};
use cvc_core::store::{CampaignDir, StoreError};

/// Checks a campaign. `report` receives the number of directories checked and their total.
///
/// # Errors
/// A file cannot be read, or was written by a newer cvc.
pub fn check(
    dir: &CampaignDir,
    report: impl FnMut(usize, usize),
) -> Result<FsckFindings, StoreError> {
    let old = OldJournal::read(dir)?;
    let salvaged = old.salvage(dir);
    let mut problems = old.problems(dir, &salvaged);
    let directories = runs::check(dir, &salvaged.state, &mut problems, report)?;
    Ok(FsckFindings {
        entries: old.entries.len(),
        directories,
        problems,
        state: salvaged.state,
    })
}
