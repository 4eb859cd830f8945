//! Whether records are those that runs wrote: every reader of results says what is missing, damaged or changed.

use crate::{Index, error::AnalysisError, fill::run_records, row::row, words::RecordsState};
use camino::Utf8Path;
use cvc_core::{ids::RunId, outcome::Outcome, plan::Plan, units::counted};
use cvc_journal::{CampaignState, RunState};
use std::fs;

/// Runs that are named for each state at most.
const NAMED: usize = 3;

row! {
    /// A run that succeeded, and whose records are not those that it wrote.
    pub struct UnsoundRecords {
        /// The run.
        run: String,
        /// Their state.
        records: RecordsState,
        /// More of it, in words.
        records_detail: Option<String>,
    }
}

impl Index {
    /// Runs whose records are missing, damaged or changed, in the order of the plan.
    pub fn unsound_records(&self) -> Result<Vec<UnsoundRecords>, AnalysisError> {
        self.read(
            "SELECT id AS run, records, records_detail FROM runs WHERE records IN ('missing', 'damaged', 'changed') ORDER BY seq",
            [],
        )
    }
}

/// The same without an index: reads the records of every run that succeeded and whose directory is there, and compares their digests.
pub fn unsound_records(
    campaign: &Utf8Path,
    plan: &Plan,
    state: &CampaignState,
) -> Vec<UnsoundRecords> {
    let one = |run: &RunId| {
        let Some(RunState::Finished {
            outcome: Outcome::Succeeded,
            records: written,
            ..
        }) = state.run(run)
        else {
            return None;
        };
        let dir = campaign.join("runs").join(run.as_str());
        let path = dir.join("records.jsonl");
        let written = written.as_deref().filter(|digest| !digest.is_empty());
        // a digest that is right needs no second look
        if let (Some(written), Ok(bytes)) = (written, fs::read(&path))
            && blake3::hash(&bytes).to_hex().starts_with(written)
        {
            return None;
        }
        let ((records, records_detail), _) = run_records(&path, written);
        (records != RecordsState::Ok && dir.is_dir()).then(|| UnsoundRecords {
            run: run.to_string(),
            records,
            records_detail,
        })
    };
    plan.runs.iter().filter_map(|run| one(&run.id)).collect()
}

/// What is said of them, on one line; `None` if there are none.
pub fn describe_unsound(name: &str, found: &[UnsoundRecords]) -> Option<String> {
    if found.is_empty() {
        return None;
    }
    let parts: Vec<String> = [
        RecordsState::Missing,
        RecordsState::Damaged,
        RecordsState::Changed,
    ]
    .into_iter()
    .filter_map(|state| {
        let runs: Vec<&str> = found
            .iter()
            .filter(|of| of.records == state)
            .map(|of| of.run.as_str())
            .collect();
        let more = match runs.len() {
            0 => return None,
            n if n > NAMED => format!(", and {} more", n - NAMED),
            _ => String::new(),
        };
        let fate = if state == RecordsState::Changed {
            "differ from the digest in the journal; they count"
        } else {
            "left out"
        };
        let named = runs[..runs.len().min(NAMED)].join(", ");
        Some(format!("{} {state} ({named}{more}): {fate}", runs.len()))
    })
    .collect();
    Some(format!(
        "{name}: records of {} are not as they were written: {}",
        counted(found.len(), "run"),
        parts.join("; ")
    ))
}
