//! Detects records that are missing, damaged, or changed since the run wrote them. Every command that shows results reports such records.

use crate::{Index, error::AnalysisError, fill::run_records, row::row, words::RecordsState};
use camino::Utf8Path;
use cvc_core::{ids::RunId, outcome::Outcome, plan::Plan, units::counted};
use cvc_journal::{CampaignState, RunState};
use std::fs;

/// Maximum number of runs that a message names for each state.
const NAMED: usize = 3;

row! {
    /// A successful run whose records are missing, damaged or changed.
    pub struct UnsoundRecords {
        /// The run.
        run: String,
        /// State of its records.
        records: RecordsState,
        /// Details about the state.
        records_detail: Option<String>,
    }
}

impl Index {
    /// Returns the runs whose records are missing, damaged or changed, in the order of the plan.
    pub fn unsound_records(&self) -> Result<Vec<UnsoundRecords>, AnalysisError> {
        self.read(
            "SELECT id AS run, records, records_detail FROM runs WHERE records IN ('missing', 'damaged', 'changed') ORDER BY seq",
            [],
        )
    }
}

/// Detects such runs without an index: reads the records of every successful run that has a directory, and compares their digests with the journal.
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
        // records with the recorded digest need no further check
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

/// Describes unsound records in one line; `None` if there are none.
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
