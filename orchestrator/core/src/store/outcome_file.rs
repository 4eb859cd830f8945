//! The file in a run's directory that says how it ended.

use super::{layout::CampaignDir, manifest::check_manifest};
use crate::{ids::RunId, outcome::Outcome};
use camino::Utf8Path;
use serde::{Deserialize, Serialize};

/// Its name.
pub const OUTCOME: &str = "outcome.json";

/// How a run ended, as recorded in its directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeFile {
    /// Number of the attempt.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Digest of its records, if it succeeded.
    pub records: Option<String>,
    /// Wall-clock time of the program and of its restart, seconds.
    pub wall_s: f64,
    /// Digest of the manifest of its directory; `None` in those of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub manifest: Option<String>,
}

/// Reads how the run of a directory ended.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn read_outcome(run: &Utf8Path) -> Result<OutcomeFile, String> {
    let text = std::fs::read(run.join(OUTCOME)).map_err(|error| format!("{OUTCOME}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{OUTCOME}: {error}"))
}

/// The outcome of an attempt whose directory has its final name, and everything that was sealed in it.
pub fn sealed_outcome(campaign: &CampaignDir, run: &RunId, attempt: u32) -> Option<OutcomeFile> {
    [campaign.run(run), campaign.failed(run, attempt)].iter().find_map(|dir| {
        let file = read_outcome(dir).ok().filter(|file| file.attempt == attempt)?;
        let is_whole = file.manifest.as_ref().is_none_or(|digest| check_manifest(dir, digest).is_ok());
        is_whole.then_some(file)
    })
}
