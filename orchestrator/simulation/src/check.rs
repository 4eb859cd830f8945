//! Conditions that must hold when a campaign is done, whatever faults occurred.

use crate::{campaigns::Campaign, world::World};
use camino::Utf8Path;
use cvc_controller::runner::Summary;
use cvc_core::outcome::Outcome;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::store::{CampaignDir, sealed_outcome};
use cvc_journal::fsck;
use cvc_journal::{CampaignState, RunState};
use jiff::Timestamp;
use std::{collections::BTreeSet, fs};

pub(crate) fn check(
    world: &World,
    file: &Campaign,
    campaigns: &Utf8Path,
    summary: Summary,
    machines: &Utf8Path,
) {
    let plan = &file.plan;
    let dir = CampaignDir::new(campaigns, &plan.campaign);
    check_runs(world, plan, &dir, &summary);
    check_journal(world, &dir);
    match fsck::check(&dir, |_, _| {}) {
        Ok(findings) if !findings.is_damaged() && findings.problems.is_empty() => {}
        Ok(findings) => world.is_wrong(format!("cvc fsck finds {:?}", findings.problems)),
        Err(error) => world.is_wrong(format!("cvc fsck: {error}")),
    }
    let names: Vec<String> = world.lock().machines.keys().cloned().collect();
    for name in names {
        for pid in world.machine(&name, |machine| {
            machine
                .agents
                .values()
                .map(|agent| agent.pid)
                .collect::<Vec<_>>()
        }) {
            world.is_wrong(format!("{name}: agent {pid} is left"));
        }
        let list = |dir: &Utf8Path| -> Vec<_> {
            dir.read_dir_utf8()
                .into_iter()
                .flatten()
                .flatten()
                .map(|e| e.path().to_owned())
                .collect()
        };
        let left: Vec<_> = list(&machines.join(&name))
            .iter()
            .flat_map(|base| list(&base.join("spool")))
            .collect();
        if !left.is_empty() {
            world.is_wrong(format!("{name}: {left:?} is left"));
        }
    }
    let live = world.lock().live.clone();
    if !live.is_empty() {
        world.is_wrong(format!("processes are left: {live:?}"));
    }
}

/// Checks that each run has one end, which really occurred, and its directory.
fn check_runs(world: &World, plan: &Plan, dir: &CampaignDir, summary: &Summary) {
    let state = match CampaignState::read(&dir.journal()) {
        Ok(state) => state,
        Err(error) => return world.is_wrong(format!("the journal cannot be read: {error}")),
    };
    let ended = world.lock().ended.clone();
    let (mut succeeded, mut failed) = (0, 0);
    let was_stopped = world.lock().was_stopped;
    let moved = world.lock().moved.clone();
    let stays = |planned: &&PlannedRun| {
        let point = plan.points.iter().find(|point| point.id == planned.point);
        point.is_some_and(|point| !was_stopped && !moved.contains(&point.point.site))
    };
    for run in plan.runs.iter().filter(stays).map(|planned| &planned.id) {
        let ends: Vec<_> = ended
            .get(run)
            .into_iter()
            .flatten()
            .filter(|end| end.succeeded)
            .collect();
        if ends.len() > 1 {
            world.is_wrong(format!(
                "run {run} is measured again after it has succeeded: {ends:?}"
            ));
        }
    }
    for run in plan.runs.iter().map(|run| &run.id) {
        let of_run = ended.get(run).cloned().unwrap_or_default();
        match state.run(run) {
            Some(RunState::Finished {
                attempt, outcome, ..
            }) => {
                let is_success = *outcome == Outcome::Succeeded;
                *(if is_success {
                    &mut succeeded
                } else {
                    &mut failed
                }) += 1;
                let Some(file) = sealed_outcome(dir, run, *attempt) else {
                    world.is_wrong(format!("run {run} ended, and has no whole directory"));
                    continue;
                };
                if file.outcome != *outcome {
                    world.is_wrong(format!(
                        "run {run}: the journal has {outcome:?}, its directory {:?}",
                        file.outcome
                    ));
                }
                let really = of_run.iter().any(|end| {
                    end.attempt == *attempt && end.succeeded && end.wall_s == file.wall_s
                });
                if is_success && !really {
                    world.is_wrong(format!(
                        "run {run} never had the end that is recorded ({}): {of_run:?}",
                        file.wall_s
                    ));
                }
            }
            Some(other @ (RunState::Open { .. } | RunState::Abandoned { .. }))
                if summary.skipped == 0 =>
            {
                world.is_wrong(format!("run {run} has no end: {other:?}"));
            }
            Some(RunState::Open { .. } | RunState::Abandoned { .. }) => {}
            None if summary.skipped == 0 => world.is_wrong(format!("run {run} was never begun")),
            None => {}
        }
    }
    // a failed run that could have been attempted again, but whose point was quarantined, counts as skipped
    if succeeded != summary.succeeded
        || failed < summary.failed
        || failed > summary.failed + summary.skipped
    {
        world.is_wrong(format!(
            "{succeeded} runs succeeded and {failed} failed, and cvc says {summary:?}"
        ));
    }
}

/// Checks that no run begins again after it has succeeded, and that time does not go back.
fn check_journal(world: &World, dir: &CampaignDir) {
    let text = fs::read_to_string(dir.journal()).unwrap_or_default();
    let (mut done, mut before) = (BTreeSet::new(), None);
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        let at: Option<Timestamp> = event["at"].as_str().and_then(|at| at.parse().ok());
        if at < before {
            world.is_wrong(format!("the journal goes back in time: {line}"));
        }
        before = at;
        let Some(run) = event["run"].as_str() else {
            continue;
        };
        match event["event"].as_str() {
            Some("run-intended") if done.contains(run) => {
                world.is_wrong(format!("run {run} is begun after it has succeeded"))
            }
            Some("run-finished")
                if event["outcome"]["result"] == "succeeded" && !done.insert(run.to_owned()) =>
            {
                world.is_wrong(format!("run {run} succeeds twice"));
            }
            _ => {}
        }
    }
}
