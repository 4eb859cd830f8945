//! A campaign as it is now.

use cvc_core::{
    ids::PointId,
    plan::{Plan, PlannedRun},
    store::{CampaignDir, StoreError},
};
use cvc_journal::{CampaignState, spending};
use cvc_session::{
    campaigns::read_plan,
    run_words::{MISSING, NOT_NEEDED, RunWords},
};
use serde::Serialize;
use std::collections::HashMap;

/// Failures that are listed at most; the newest come first.
const MOST_FAILURES: usize = 50;

/// The progress of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointProgress {
    /// The point in a few words.
    pub point: String,
    /// Its identifier.
    pub id: String,
    /// Runs that succeeded.
    pub succeeded: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that are not tried: skipped, quarantined, not needed.
    pub left_out: usize,
    /// Runs that are still to be done.
    pub left: usize,
}

/// A run that is under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenRun {
    /// Its identifier.
    pub run: String,
    /// Its point in a few words.
    pub point: String,
    /// The attempt.
    pub attempt: u32,
    /// When it began, UTC.
    pub since: String,
    /// Its nodes; none on this machine.
    pub nodes: Vec<String>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedRun {
    /// Its identifier.
    pub run: String,
    /// Its point in a few words.
    pub point: String,
    /// When it ended, UTC.
    pub ended: String,
    /// Why.
    pub why: String,
}

/// A campaign as it is now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snapshot {
    /// Version of this form.
    pub schema: u32,
    /// Name of the campaign.
    pub campaign: String,
    /// Whether nothing is left to do.
    pub completed: bool,
    /// Share of the runs that are done or left out, percent.
    pub done_pct: f64,
    /// Runs that succeeded.
    pub succeeded: usize,
    /// Runs that failed.
    pub failed: usize,
    /// Runs that are still to be done.
    pub left: usize,
    /// When the last line of the journal was written, UTC.
    pub last_entry: Option<String>,
    /// What runs where.
    pub open: Vec<OpenRun>,
    /// What instances cost so far, US dollars, as far as prices are known; absent without instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Instances that are there, or may be.
    pub instances: u32,
    /// Every point.
    pub points: Vec<PointProgress>,
    /// The failures, newest first.
    pub failures: Vec<FailedRun>,
}

impl Snapshot {
    /// Reads a campaign; nothing of it is changed.
    ///
    /// # Errors
    /// When its plan or its journal cannot be read.
    pub fn read(dir: &CampaignDir) -> Result<Self, StoreError> {
        let plan = read_plan(dir)?;
        let state = CampaignState::read(&dir.journal())?;
        Ok(Self::of(dir, &plan, &state))
    }

    pub(crate) fn of(dir: &CampaignDir, plan: &Plan, state: &CampaignState) -> Self {
        let words = RunWords::of(dir, plan, state);
        let labels: HashMap<&PointId, String> = plan
            .points
            .iter()
            .map(|point| (&point.id, point.point.label()))
            .collect();
        let label = |run: &PlannedRun| labels.get(&run.point).cloned().unwrap_or_default();
        let mut points: HashMap<&PointId, PointProgress> = HashMap::new();
        let (mut open, mut failures) = (Vec::new(), Vec::new());
        for run in &plan.runs {
            let progress = points.entry(&run.point).or_insert_with(|| PointProgress {
                point: label(run),
                id: run.point.to_string(),
                succeeded: 0,
                failed: 0,
                left_out: 0,
                left: 0,
            });
            let (word, reason) = words.of_run(run);
            let last = state
                .runs
                .get(&run.id)
                .and_then(|history| history.attempts.last());
            match word {
                "succeeded" => progress.succeeded += 1,
                "failed" => {
                    progress.failed += 1;
                    failures.push(FailedRun {
                        run: run.id.to_string(),
                        point: label(run),
                        ended: time(last.and_then(|attempt| attempt.ended)),
                        why: reason.unwrap_or_default(),
                    });
                }
                "skipped" | "quarantined" | NOT_NEEDED => progress.left_out += 1,
                "open" => {
                    progress.left += 1;
                    open.extend(last.map(|attempt| OpenRun {
                        run: run.id.to_string(),
                        point: label(run),
                        attempt: attempt.number,
                        since: time(attempt.started),
                        nodes: attempt.nodes.iter().map(ToString::to_string).collect(),
                    }));
                }
                "to do" | "abandoned" | MISSING => progress.left += 1,
                _ => {}
            }
        }
        failures.sort_by(|a, b| b.ended.cmp(&a.ended));
        failures.truncate(MOST_FAILURES);
        let points: Vec<PointProgress> = plan
            .points
            .iter()
            .filter_map(|point| points.remove(&point.id))
            .collect();
        let sum = |of: fn(&PointProgress) -> usize| points.iter().map(of).sum::<usize>();
        let left = sum(|p| p.left);
        let spent = spending::campaign_cost(state, jiff::Timestamp::now());
        Self {
            schema: 1,
            campaign: plan.campaign.clone(),
            completed: state.completed,
            done_pct: if plan.runs.is_empty() {
                100.0
            } else {
                (plan.runs.len() - left) as f64 * 100.0 / plan.runs.len() as f64
            },
            succeeded: sum(|p| p.succeeded),
            failed: sum(|p| p.failed),
            left,
            last_entry: state.span.map(|(_, last)| format!("{last:.0}")),
            open,
            usd: (!spent.is_empty()).then(|| spending::total(spent.values()).usd),
            instances: state
                .leases
                .iter()
                .filter(|lease| lease.order.is_some() && !lease.released)
                .map(|lease| lease.instances().len() as u32)
                .sum(),
            points,
            failures,
        }
    }
}

fn time(at: Option<jiff::Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"))
}
