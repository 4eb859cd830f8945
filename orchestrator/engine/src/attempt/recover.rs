//! After a controller was killed: what of its last run is still alive, and what was whole already.

use super::prepare::{marker, tmp_dir};
use camino::Utf8Path;
use cvc_core::{ids::RunId, outcome::Outcome, store::CampaignDir};
use cvc_probe::proc::{self, ProcessId};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How a run ended, as it lies in its directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeFile {
    pub attempt: u32,
    pub outcome: Outcome,
    pub records: Option<String>,
    pub wall_s: f64,
}

/// File in a run's directory that says how it ended.
pub(super) const OUTCOME: &str = "outcome.json";

/// The outcome of a run whose directory has its final name already.
pub fn sealed_outcome(campaign: &CampaignDir, run: &RunId, attempt: u32) -> Option<OutcomeFile> {
    [campaign.run(run), campaign.failed(run, attempt)]
        .iter()
        .filter_map(|dir| serde_json::from_slice::<OutcomeFile>(&std::fs::read(dir.join(OUTCOME)).ok()?).ok())
        .find(|file| file.attempt == attempt)
}

/// Ends everything that is left of a run: its shepherd with all below it, and whatever carries its mark or works in its directory.
pub(super) fn end_leftovers(campaign: &CampaignDir, run: &RunId, shepherd: Option<(u32, u64)>, work: &Utf8Path) -> Vec<u32> {
    let mark = format!("CVC_RUN={}", marker(campaign, run));
    let begin = Instant::now();
    let mut ended: Vec<u32> = Vec::new();
    loop {
        let mut alive: Vec<ProcessId> = proc::marked(&mark);
        alive.extend(proc::restarted_in(&[work.as_std_path(), campaign.partial(run).as_std_path(), tmp_dir(campaign, run).as_std_path()]));
        if let Some((pid, start_ticks)) = shepherd {
            let shepherd = ProcessId { pid, start_ticks };
            if shepherd.is_alive() {
                alive.extend(proc::descendants(pid));
                alive.push(shepherd);
            }
        }
        if alive.is_empty() || begin.elapsed() > Duration::from_secs(15) {
            break;
        }
        let segments = proc::shared_memory(&alive);
        proc::kill_all(&alive);
        proc::remove_files(&segments);
        ended.extend(alive.iter().map(|p| p.pid));
        std::thread::sleep(Duration::from_millis(20));
    }
    // the run's own: its name is made of the run's
    let _ = std::fs::remove_dir_all(tmp_dir(campaign, run));
    ended.sort_unstable();
    ended.dedup();
    ended
}
