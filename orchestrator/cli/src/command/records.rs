//! Warnings about records that have changed since runs wrote them, for every command that reads results.

use crate::{failure::Failure, output::note};
use camino::Utf8Path;
use cvc_index::{Index, UnsoundRecords, describe_unsound};

/// Warns about runs of a campaign whose records are missing, damaged or changed, and returns them.
pub(super) fn warn_of_index(
    campaign: &Utf8Path,
    index: &Index,
) -> Result<Vec<UnsoundRecords>, Failure> {
    let found = index.unsound_records()?;
    warn(campaign, &found);
    Ok(found)
}

/// Warns about the given runs of a campaign, whose records are missing, damaged or changed.
pub(super) fn warn(campaign: &Utf8Path, found: &[UnsoundRecords]) {
    let Some(text) = describe_unsound(campaign.as_str(), found) else {
        return;
    };
    let hint = match campaign.as_str().starts_with('@') {
        true => "they were in this state when the baseline was saved".to_owned(),
        false => format!("`cvc fsck {campaign}` shows what is damaged"),
    };
    note(format_args!("warning: {text}\n  hint: {hint}"));
}
