//! Records that are not as runs wrote them: every command that reads results says so.

use crate::{failure::Failure, output::note};
use camino::Utf8Path;
use cvc_index::{Index, UnsoundRecords, describe_unsound};

/// Says of which runs of a campaign the records are missing, damaged or changed. Returns whether there are any.
pub(super) fn warn_of_index(campaign: &Utf8Path, index: &Index) -> Result<bool, Failure> {
    Ok(warn(campaign, &index.unsound_records()?))
}

/// The same of runs that are known.
pub(super) fn warn(campaign: &Utf8Path, found: &[UnsoundRecords]) -> bool {
    let Some(text) = describe_unsound(campaign.as_str(), found) else {
        return false;
    };
    let hint = match campaign.as_str().starts_with('@') {
        true => "they were so when the baseline was saved".to_owned(),
        false => format!("`cvc fsck {campaign}` shows what is damaged"),
    };
    note(format_args!("warning: {text}\n  hint: {hint}"));
    true
}
