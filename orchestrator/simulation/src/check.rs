//! What must be so when a campaign is done, whatever happened.

use crate::world::World;
use camino::Utf8Path;
use cvc_controller::runner::Summary;
use cvc_core::{
    fsck,
    journal::{CampaignState, RunState},
    outcome::Outcome,
    plan::Plan,
    store::{CampaignDir, sealed_outcome},
};
use std::{collections::BTreeSet, fs};

pub(crate) fn check(world: &World, plan: &Plan, campaigns: &Utf8Path, summary: Summary, machines: &Utf8Path) {
    let dir = CampaignDir::new(campaigns, &plan.campaign);
    check_runs(world, plan, &dir, &summary);
    check_journal(world, &dir);
    match fsck::check(&dir, |_, _| {}) {
        Ok(findings) if !findings.is_damaged() && findings.problems.is_empty() => {}
        Ok(findings) => world.is_wrong(format!("cvc fsck finds {:?}", findings.problems)),
        Err(error) => world.is_wrong(format!("cvc fsck: {error}")),
    }
    let sites: Vec<String> = world.lock().machines.keys().cloned().collect();
    for site in sites {
        let (agent, live) = world.machine(&site, |machine| (machine.agent.as_ref().map(|agent| agent.pid), machine.live.clone()));
        if let Some(pid) = agent {
            world.is_wrong(format!("{site}: agent {pid} is left"));
        }
        if !live.is_empty() {
            world.is_wrong(format!("{site}: processes are left: {live:?}"));
        }
        let left: Vec<_> =
            fs::read_dir(machines.join(&site).join(".cvc/spool")).into_iter().flatten().flatten().map(|e| e.path()).collect();
        if !left.is_empty() {
            world.is_wrong(format!("{site}: {left:?} is left"));
        }
    }
}

/// Each run has one end, which is one that really was, and its directory.
fn check_runs(world: &World, plan: &Plan, dir: &CampaignDir, summary: &Summary) {
    let state = match CampaignState::read(&dir.journal()) {
        Ok(state) => state,
        Err(error) => return world.is_wrong(format!("the journal cannot be read: {error}")),
    };
    let ended = world.lock().ended.clone();
    let (mut succeeded, mut failed) = (0, 0);
    for run in plan.runs.iter().map(|run| &run.id) {
        let of_run = ended.get(run).cloned().unwrap_or_default();
        match state.run(run) {
            Some(RunState::Finished { attempt, outcome, .. }) => {
                let is_success = *outcome == Outcome::Succeeded;
                *(if is_success { &mut succeeded } else { &mut failed }) += 1;
                let Some(file) = sealed_outcome(dir, run, *attempt) else {
                    world.is_wrong(format!("run {run} ended, and has no whole directory"));
                    continue;
                };
                if file.outcome != *outcome {
                    world.is_wrong(format!("run {run}: the journal has {outcome:?}, its directory {:?}", file.outcome));
                }
                let really = of_run.iter().any(|end| end.attempt == *attempt && end.succeeded && end.wall_s == file.wall_s);
                if is_success && !really {
                    world.is_wrong(format!("run {run} never had the end that is recorded ({}): {of_run:?}", file.wall_s));
                }
            }
            Some(other @ (RunState::Open { .. } | RunState::Abandoned { .. })) if summary.skipped == 0 => {
                world.is_wrong(format!("run {run} has no end: {other:?}"));
            }
            Some(RunState::Open { .. } | RunState::Abandoned { .. }) => {}
            None if summary.skipped == 0 => world.is_wrong(format!("run {run} was never begun")),
            None => {}
        }
    }
    // a failed run that might have been tried again, but for its point that was set aside, counts as skipped
    if succeeded != summary.succeeded || failed < summary.failed || failed > summary.failed + summary.skipped {
        world.is_wrong(format!("{succeeded} runs succeeded and {failed} failed, and cvc says {summary:?}"));
    }
}

/// A run that has succeeded is never begun again.
fn check_journal(world: &World, dir: &CampaignDir) {
    let text = fs::read_to_string(dir.journal()).unwrap_or_default();
    let mut done = BTreeSet::new();
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let Some(run) = event["run"].as_str() else { continue };
        match event["event"].as_str() {
            Some("run-intended") if done.contains(run) => world.is_wrong(format!("run {run} is begun after it has succeeded")),
            Some("run-finished") if event["outcome"]["result"] == "succeeded" && !done.insert(run.to_owned()) => {
                world.is_wrong(format!("run {run} succeeds twice"));
            }
            _ => {}
        }
    }
}
