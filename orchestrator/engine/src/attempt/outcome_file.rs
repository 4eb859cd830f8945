//! The file that records how a run ended, and the final name of its directory.

use super::{
    executed::{Executed, failed},
    run_failure::RunFailure,
};
use camino::Utf8Path;
use cvc_core::{
    ids::{RunId, short_digest},
    outcome::{Cause, Outcome},
    store::{CampaignDir, StoreError, remove_all},
};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, fs};

/// How a run ended, as recorded in its directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeFile {
    /// Number of the attempt.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Digest of its records, if it succeeded.
    pub records: Option<String>,
    /// Wall-clock time, seconds.
    pub wall_s: f64,
}

/// File in a run's directory that says how it ended.
const OUTCOME: &str = "outcome.json";

/// The outcome of a run whose directory has its final name already.
pub fn sealed_outcome(campaign: &CampaignDir, run: &RunId, attempt: u32) -> Option<OutcomeFile> {
    [campaign.run(run), campaign.failed(run, attempt)]
        .iter()
        .filter_map(|dir| serde_json::from_slice::<OutcomeFile>(&std::fs::read(dir.join(OUTCOME)).ok()?).ok())
        .find(|file| file.attempt == attempt)
}

/// Records how a run ended.
pub(super) fn conclude(dir: &CampaignDir, run: &RunId, attempt: u32, executed: &Executed) -> Result<OutcomeFile, StoreError> {
    let partial = dir.partial(run);
    fs::create_dir_all(&partial).map_err(StoreError::io("make", &partial))?;
    let mut text = Vec::new();
    for record in &executed.records {
        serde_json::to_writer(&mut text, record).map_err(|e| StoreError::damaged(&partial, 0, e.to_string()))?;
        text.push(b'\n');
    }
    let digest = short_digest(&text);
    let put = |name: &str, bytes: &[u8]| {
        let path = partial.join(name);
        fs::write(&path, bytes).map_err(StoreError::io("write", &path))
    };
    put("records.jsonl", &text)?;
    put("facts.json", &serde_json::to_vec_pretty(&executed.facts).unwrap_or_default())?;
    let records = (executed.outcome == Outcome::Succeeded).then_some(digest);
    let file = OutcomeFile { attempt, outcome: executed.outcome.clone(), records, wall_s: executed.wall_s };
    put(OUTCOME, &serde_json::to_vec_pretty(&file).unwrap_or_default())?;
    Ok(file)
}

/// The directory of an attempt that failed before anything of it could be brought here.
pub fn conclude_failed(dir: &CampaignDir, run: &RunId, attempt: u32, cause: Cause, detail: String) -> Result<OutcomeFile, StoreError> {
    remove_all(&dir.partial(run))?;
    let file = conclude(dir, run, attempt, &failed(RunFailure { cause, detail }))?;
    seal(dir, run, &file)?;
    Ok(file)
}

/// Gives a complete directory its final name.
pub fn seal(dir: &CampaignDir, run: &RunId, file: &OutcomeFile) -> Result<(), StoreError> {
    let partial = dir.partial(run);
    sync_directory(&partial)?;
    let last = if file.outcome == Outcome::Succeeded { dir.run(run) } else { dir.failed(run, file.attempt) };
    remove_all(&last)?;
    fs::rename(&partial, &last).map_err(StoreError::io("rename to", &last))?;
    sync_directory(&dir.runs())
}

/// Makes sure that the files of a directory, and their names, survive a loss of power.
fn sync_directory(directory: &Utf8Path) -> Result<(), StoreError> {
    let fail = |e| StoreError::io("sync", directory)(e);
    let mut seen = HashSet::new();
    for name in ["records.jsonl", "facts.json", OUTCOME] {
        let path = directory.join(name);
        if path.is_file() && seen.insert(path.clone()) {
            fs::File::open(&path).and_then(|f| f.sync_all()).map_err(fail)?;
        }
    }
    fs::File::open(directory).and_then(|d| d.sync_all()).map_err(fail)
}
