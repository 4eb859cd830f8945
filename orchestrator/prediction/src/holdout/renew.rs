//! Updates the predictions of a campaign, in their file and in the index.

use super::{FILE, derive};
use camino::Utf8Path;
use cvc_core::plan::Split;
use cvc_core::store::{StoreError, write_whole};
use cvc_index::Index;
use cvc_index::error::AnalysisError;
use std::{fs, io};

/// Rebuilds the index of a campaign's directory and opens it. If the plan divides its points into training and held-out ones, the predictions are
/// rebuilt, in the index and in `predictions.jsonl`.
///
/// # Errors
/// The campaign's files cannot be read, or the index cannot be written.
pub fn rebuild_index(campaign: &Utf8Path) -> Result<Index, AnalysisError> {
    Index::rebuild(campaign, |index, plan| {
        renew(campaign, index, plan.predict.as_ref())
    })
}

/// Makes predictions from an index that is otherwise complete, writes `predictions.jsonl`, and adds them to the index. For a campaign without
/// predictions, the file is removed.
fn renew(campaign: &Utf8Path, index: Index, split: Option<&Split>) -> Result<(), AnalysisError> {
    let file = campaign.join(FILE);
    let Some(split) = split else {
        return match fs::remove_file(&file) {
            Err(e) if e.kind() != io::ErrorKind::NotFound && file.exists() => {
                Err(StoreError::io("remove", &file)(e).into())
            }
            Ok(()) | Err(_) => Ok(()),
        };
    };
    let lines = derive(&index, split);
    let mut text = String::new();
    for line in &lines {
        // these types always serialise, because their numbers are finite
        text.push_str(&serde_json::to_string(line).unwrap_or_default());
        text.push('\n');
    }
    match write_whole(&file, text.as_bytes()) {
        // in a read-only campaign, the report is made without the file
        Err(error) if error.is_read_only() => {}
        written => written?,
    }
    index.add_predictions(split, &lines)
}
