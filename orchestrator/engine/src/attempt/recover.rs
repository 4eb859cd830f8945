//! Recovery after a controller was killed: what of its last run is still alive, and what is already complete.

use crate::run::{DESCRIPTION, SHEPHERD, SiteContext, begun_tmp_dir, marker, work_dir};
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::point::Point;
use cvc_core::store::{
    CampaignDir, OutcomeFile, StoreError, remove_all, remove_torn, sealed_outcome,
};
use cvc_os::proc::{self, ProcessId};
use std::{
    fs,
    time::{Duration, Instant},
};

/// Ends everything that is left of a run: its shepherd with all below it, and all processes with its marker or working in its directory.
pub(super) fn end_leftovers(
    campaign: &CampaignDir,
    run: &RunId,
    shepherd: Option<ProcessId>,
    work: &Utf8Path,
) -> Vec<u32> {
    let tmp = begun_tmp_dir(campaign, run);
    let mark = format!("CVC_RUN={}", marker(campaign, run));
    let begin = Instant::now();
    let mut ended: Vec<u32> = Vec::new();
    // it has no marker, because it may wait before it knows its run
    let shepherds: Vec<ProcessId> = shepherd
        .into_iter()
        .chain(written_shepherd(campaign, run))
        .collect();
    loop {
        let mut alive: Vec<ProcessId> = proc::marked(&mark);
        alive.extend(proc::restarted_in(&[
            work.as_std_path(),
            campaign.partial(run).as_std_path(),
            tmp.as_std_path(),
        ]));
        for shepherd in shepherds.iter().filter(|shepherd| shepherd.is_alive()) {
            alive.extend(proc::descendants(shepherd.pid));
            alive.push(*shepherd);
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
    let _ = remove_all(&tmp);
    ended.sort_unstable();
    ended.dedup();
    ended
}

/// Ends what is left of a run that was open when its engine was killed, and removes it unless it was complete.
pub fn recover_run<'b>(
    dir: &CampaignDir,
    context_of: impl Fn(&str) -> Option<&'b SiteContext>,
    run: &RunId,
    attempt: u32,
    shepherd: Option<ProcessId>,
) -> Result<(Vec<u32>, Option<OutcomeFile>), StoreError> {
    let partial = dir.partial(run);
    // the point may have left the plan; what its run was started with says where it worked
    let work = recorded_point(&partial)
        .and_then(|point| Some(work_dir(context_of(&point.site)?, dir, &point, run)))
        .unwrap_or_else(|| dir.work(run));
    let ended = end_leftovers(dir, run, shepherd, &work);
    let whole = sealed_outcome(dir, run, attempt);
    if whole.is_none() {
        // if the run was complete, what is left of its work is what the campaign keeps
        remove_all(&work)?;
        remove_all(&partial)?;
        remove_torn(dir, run, attempt)?;
    }
    Ok((ended, whole))
}

/// The shepherd of a run whose engine was killed before it could report it.
fn written_shepherd(campaign: &CampaignDir, run: &RunId) -> Option<ProcessId> {
    serde_json::from_slice(&fs::read(campaign.partial(run).join(SHEPHERD)).ok()?).ok()
}

fn recorded_point(partial: &Utf8Path) -> Option<Point> {
    let text = fs::read(partial.join(DESCRIPTION)).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    serde_json::from_value(value.get("point")?.clone()).ok()
}
