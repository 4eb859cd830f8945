//! Recovers after a controller was killed: ends the processes of its last run that are still alive, and detects whether the run was complete.

use crate::run::{DESCRIPTION, SHEPHERD, SiteContext, begun_tmp_dir, flush_dir, marker, work_dir};
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

/// Ends all processes left of a run: its shepherd with all descendants, and all processes that have its marker or work in its directory.
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
    // a shepherd has no marker, because it may start before its run is known
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
    // only this run uses this directory, whose name contains the run's
    let _ = remove_all(&tmp);
    ended.sort_unstable();
    ended.dedup();
    ended
}

/// Ends the processes of a run that was open when its engine was killed, and removes the run's files unless the run was complete.
pub fn recover_run<'b>(
    dir: &CampaignDir,
    context_of: impl Fn(&str) -> Option<&'b SiteContext>,
    run: &RunId,
    attempt: u32,
    shepherd: Option<ProcessId>,
) -> Result<(Vec<u32>, Option<OutcomeFile>), StoreError> {
    let partial = dir.partial(run);
    // the point may no longer be in the plan; the run's description names its directory
    let point = recorded_point(&partial);
    let of_point = point
        .as_ref()
        .and_then(|point| Some((point, context_of(&point.site)?)));
    let work = of_point.map(|(point, context)| work_dir(context, dir, point, run));
    let work = work.unwrap_or_else(|| dir.work(run));
    let flushed = of_point.and_then(|(point, context)| flush_dir(context, dir, point, run));
    let ended = end_leftovers(dir, run, shepherd, &work);
    let whole = sealed_outcome(dir, run, attempt);
    if whole.is_none() {
        // if the run was complete, the files to keep have already been stored
        remove_all(&work)?;
        flushed.iter().try_for_each(|dir| remove_all(dir))?;
        remove_all(&partial)?;
        remove_torn(dir, run, attempt)?;
    }
    Ok((ended, whole))
}

/// Reads a shepherd's process from the file in its run's directory, for a run whose engine was killed before it reported the shepherd. `None` if the
/// file is missing or unreadable.
fn written_shepherd(campaign: &CampaignDir, run: &RunId) -> Option<ProcessId> {
    serde_json::from_slice(&fs::read(campaign.partial(run).join(SHEPHERD)).ok()?).ok()
}

fn recorded_point(partial: &Utf8Path) -> Option<Point> {
    let text = fs::read(partial.join(DESCRIPTION)).ok()?;
    let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
    serde_json::from_value(value.get("point")?.clone()).ok()
}
