//! The current state of a campaign.

use cvc_core::{
    ids::PointId,
    plan::{Plan, PlannedRun},
    store::{CampaignDir, StoreError},
};
use cvc_journal::{CampaignState, spending};
use cvc_session::{
    campaigns::read_plan,
    progress::{Activity, CampaignProgress, RunCounts},
    run_words::{RunWord, RunWords},
};
use serde::Serialize;
use std::collections::HashMap;

/// Maximum number of failures in the list, newest first.
const MAX_FAILURES: usize = 50;

/// The progress of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SnapshotPoint {
    /// Identifier of the point.
    pub id: String,
    /// The factors in which the points differ, with this point's values; `-` if a factor does not apply.
    pub factors: Vec<(String, String)>,
    /// Numbers of the point's runs by state.
    #[serde(flatten)]
    pub counts: RunCounts,
    /// Mean wall time of the successful repeats so far, seconds.
    pub wall_s: Option<f64>,
    /// Mean latency of the checkpoints of the successful repeats so far, seconds.
    pub ckpt_latency_s: Option<f64>,
    /// Mean size of the checkpoints of the successful repeats so far, bytes.
    pub ckpt_stored_bytes: Option<f64>,
}

/// A run in progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenRun {
    /// Identifier of the run.
    pub run: String,
    /// Short description of the run's point.
    pub point: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// Time when the attempt began, UTC.
    pub since: String,
    /// Nodes of the run; empty on this machine.
    pub nodes: Vec<String>,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedRun {
    /// Identifier of the run.
    pub run: String,
    /// Short description of the run's point.
    pub point: String,
    /// Time when the run ended, UTC.
    pub ended: String,
    /// Reason of the failure.
    pub why: String,
}

/// The current state of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snapshot {
    /// Version of the JSON document.
    pub schema: u32,
    /// Name of the campaign.
    pub campaign: String,
    /// Whether all runs are finished.
    pub completed: bool,
    /// Whether a cvc process is running it.
    pub activity: Activity,
    /// Percentage of finished runs, rounded like in `cvc status`.
    pub done_pct: u64,
    /// Numbers of all runs by state.
    #[serde(flatten)]
    pub counts: RunCounts,
    /// Estimated time of the remaining runs one after another, seconds; absent if no run has ended, or no run remains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// Time of the last line in the journal, UTC.
    pub last_entry: Option<String>,
    /// The runs in progress, with their nodes.
    pub open: Vec<OpenRun>,
    /// Cost of instances so far with known prices, US dollars; absent without instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Number of instances that exist or may exist.
    pub instances: u32,
    /// All points.
    pub points: Vec<SnapshotPoint>,
    /// The last failures, newest first.
    pub failures: Vec<FailedRun>,
}

impl Snapshot {
    /// Reads the state of a campaign without changing any file.
    ///
    /// # Errors
    /// The plan or the journal cannot be read.
    pub fn read(dir: &CampaignDir) -> Result<Self, StoreError> {
        let plan = read_plan(dir)?;
        let state = CampaignState::read(&dir.journal())?;
        Ok(Self::of(dir, &plan, &state))
    }

    pub(crate) fn of(dir: &CampaignDir, plan: &Plan, state: &CampaignState) -> Self {
        let words = RunWords::of(dir, plan, state);
        let progress = CampaignProgress::of(dir, plan, state, &words);
        let labels: HashMap<&PointId, String> = plan
            .points
            .iter()
            .map(|point| (&point.id, progress.varying.show(&point.point)))
            .collect();
        let label = |run: &PlannedRun| labels.get(&run.point).cloned().unwrap_or_default();
        let (mut open, mut failures) = (Vec::new(), Vec::new());
        for run in &plan.runs {
            let (word, reason) = words.of_run(run);
            let last = state
                .runs
                .get(&run.id)
                .and_then(|history| history.attempts.last());
            match word {
                RunWord::Failed => failures.push(FailedRun {
                    run: run.id.to_string(),
                    point: label(run),
                    ended: time(last.and_then(|attempt| attempt.ended)),
                    why: reason.unwrap_or_default(),
                }),
                RunWord::Open => open.extend(last.map(|attempt| OpenRun {
                    run: run.id.to_string(),
                    point: label(run),
                    attempt: attempt.number,
                    since: time(attempt.started),
                    nodes: attempt.nodes.iter().map(ToString::to_string).collect(),
                })),
                RunWord::Succeeded
                | RunWord::Missing
                | RunWord::Quarantined
                | RunWord::NotNeeded
                | RunWord::Abandoned
                | RunWord::Skipped
                | RunWord::ToDo => {}
            }
        }
        failures.sort_by(|a, b| b.ended.cmp(&a.ended));
        failures.truncate(MAX_FAILURES);
        let names = progress.varying.names();
        let points = progress
            .points
            .iter()
            .zip(progress.means(dir))
            .map(
                |(point, [wall_s, ckpt_latency_s, ckpt_stored_bytes])| SnapshotPoint {
                    id: point.planned.id.to_string(),
                    factors: names
                        .iter()
                        .map(|name| {
                            let value = point.planned.point.factor(name);
                            (name.clone(), value.unwrap_or_else(|| "-".to_owned()))
                        })
                        .collect(),
                    counts: point.counts,
                    wall_s,
                    ckpt_latency_s,
                    ckpt_stored_bytes,
                },
            )
            .collect();
        let spent = spending::campaign_cost(state, jiff::Timestamp::now());
        Self {
            schema: 2,
            campaign: plan.campaign.clone(),
            completed: state.completed,
            activity: Activity::of(dir, state),
            done_pct: progress.total.done_percent(),
            counts: progress.total,
            left_s: progress.left_s,
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
