//! The file in a run's directory that records the outcome.

use super::{
    atomic_file::remove_all, error::StoreError, kept_checkpoint::KeptCheckpoint,
    layout::CampaignDir, manifest::check_manifest,
};
use crate::{ids::RunId, outcome::Outcome};
use camino::Utf8Path;
use cvc_os::regular;
use serde::{Deserialize, Serialize};

/// Name of the file.
pub const OUTCOME: &str = "outcome.json";

/// The outcome of a run, as recorded in its directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeFile {
    /// Number of the attempt.
    pub attempt: u32,
    /// Outcome of the attempt.
    pub outcome: Outcome,
    /// Digest of the run's records, if it succeeded.
    pub records: Option<String>,
    /// Wall-clock time of the program and of its restart, seconds.
    pub wall_s: f64,
    /// Digest of the manifest of the run's directory; `None` in files of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest: Option<String>,
    /// The checkpoint from which the next attempt can continue, if the attempt was interrupted and left one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<Box<KeptCheckpoint>>,
}

/// Why an outcome file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutcomeError {
    /// It cannot be read.
    #[error("{OUTCOME}: {0}")]
    Read(std::io::Error),
    /// The file does not have the form of an outcome.
    #[error("{OUTCOME}: {0}")]
    Parse(serde_json::Error),
}

/// Reads the outcome from a run's directory.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn read_outcome(run: &Utf8Path) -> Result<OutcomeFile, OutcomeError> {
    let text = regular::read(run.join(OUTCOME).as_std_path()).map_err(OutcomeError::Read)?;
    serde_json::from_slice(&text).map_err(OutcomeError::Parse)
}

/// Returns the outcome of an attempt whose directory has its final name, and matches its manifest if it has one; otherwise `None`.
pub fn sealed_outcome(campaign: &CampaignDir, run: &RunId, attempt: u32) -> Option<OutcomeFile> {
    [campaign.run(run), campaign.failed(run, attempt)]
        .iter()
        .find_map(|dir| {
            let file = read_outcome(dir)
                .ok()
                .filter(|file| file.attempt == attempt)?;
            let is_whole = file
                .manifest
                .as_ref()
                .is_none_or(|digest| check_manifest(dir, digest).is_ok());
            is_whole.then_some(file)
        })
}

/// Removes the directory of an attempt that has its final name although the attempt has not ended. This happens if the machine loses power before the
/// content is on disk and the end is recorded.
///
/// # Errors
/// The directory cannot be removed.
pub fn remove_torn(campaign: &CampaignDir, run: &RunId, attempt: u32) -> Result<(), StoreError> {
    for dir in [campaign.run(run), campaign.failed(run, attempt)] {
        // the directory of another attempt is a result
        if read_outcome(&dir).is_ok_and(|file| file.attempt != attempt) {
            continue;
        }
        remove_all(&dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_directory_of_an_open_attempt_goes_and_that_of_another_attempt_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = CampaignDir::at(Utf8Path::from_path(root.path()).expect("UTF-8"));
        let run = RunId::of(b"run");
        let outcome = r#"{"attempt":1,"outcome":{"result":"succeeded"},"records":null,"wall_s":1.0,"manifest":"0"}"#;
        for (text, attempt, goes) in [(outcome, 1, true), ("", 1, true), (outcome, 2, false)] {
            std::fs::create_dir_all(dir.run(&run)).expect("makes");
            std::fs::write(dir.run(&run).join(OUTCOME), text).expect("writes");
            assert_eq!(sealed_outcome(&dir, &run, attempt), None);
            remove_torn(&dir, &run, attempt).expect("removes");
            assert_eq!(dir.run(&run).exists(), !goes, "{text} {attempt}");
        }
    }
}
