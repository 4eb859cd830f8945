//! Explains the state of runs and points: their attempts, outcomes, and the next step.

use crate::run_words::{RunGroup, RunWord, RunWords};
use camino::Utf8Path;
use cvc_core::{
    ids::{PointId, RunId},
    outcome::Outcome,
    plan::{Plan, PlannedRun},
    point::{Excluded, PlannedPoint},
    store::{CampaignDir, regular},
    units::counted,
};
use cvc_journal::{Attempt, CampaignState};
use serde::Serialize;
use std::{
    collections::HashMap,
    io::{Read, Seek, SeekFrom},
};

/// Maximum number of bytes at the end of a program's output that are shown.
const SHOWN_BYTES: u64 = 16 * 1024;

/// Minimum number of digits to which an identifier may be abbreviated.
const FEWEST: usize = 4;

/// Explanation of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedRun {
    /// Identifier of the run.
    pub run: String,
    /// Short description of the point.
    pub point: String,
    /// `repeat 2` or `warm-up 1`.
    pub repeat: String,
    /// State of the run.
    pub state: RunWord,
    /// Why the run is in this state, and what happens next.
    pub why: String,
    /// Attempts at the run.
    pub attempts: Vec<ExplainedAttempt>,
    /// Directory with the results or the leftovers of the run, relative to the campaign's directory; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// An attempt at a run.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedAttempt {
    /// Number of the attempt, from 1.
    pub number: u32,
    /// Start time, UTC.
    pub started: Option<String>,
    /// Duration, seconds; `None` if the attempt has no recorded end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
    /// Nodes of the attempt; empty if it ran on this machine.
    pub nodes: Vec<String>,
    /// How the attempt ended, as text.
    pub end: String,
}

/// Explanation of the run or the points that an identifier or a selection names.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Explanation {
    /// One run.
    Run(ExplainedRun),
    /// A point, with its runs.
    Point {
        /// Identifier of the point.
        point: String,
        /// Factors of the point, in order.
        factors: Vec<(String, String)>,
        /// Why the point has this number of runs, and what happens next.
        why: String,
        /// Runs of the point, in the order of the plan.
        runs: Vec<ExplainedRun>,
    },
    /// A combination of levels that is excluded from the plan.
    Excluded {
        /// Factors of the combination, in order.
        factors: Vec<(String, String)>,
        /// Why the combination does not run.
        why: String,
    },
}

/// Explains all runs and points whose identifiers begin with this text.
pub fn explain_id(
    dir: &CampaignDir,
    plan: &Plan,
    state: &CampaignState,
    id: &str,
) -> Vec<Explanation> {
    if id.len() < FEWEST {
        return Vec::new();
    }
    let explain = Explainer::new(dir, plan, state);
    let runs = plan
        .runs
        .iter()
        .filter(|run| run.id.as_str().starts_with(id))
        .map(|run| Explanation::Run(explain.run(run)));
    let points = plan
        .points
        .iter()
        .filter(|point| point.id.as_str().starts_with(id))
        .map(|point| explain.point(point));
    runs.chain(points).collect()
}

/// Explains these points, and these combinations that do not run.
pub fn explain_points<'p>(
    dir: &CampaignDir,
    plan: &Plan,
    state: &CampaignState,
    points: impl IntoIterator<Item = &'p PlannedPoint>,
    excluded: impl IntoIterator<Item = &'p Excluded>,
) -> Vec<Explanation> {
    let explain = Explainer::new(dir, plan, state);
    let excluded = excluded.into_iter().map(|excluded| Explanation::Excluded {
        factors: factors(&excluded.point),
        why: format!(
            "does not run, by {}: {}",
            word(excluded.by),
            excluded.reason
        ),
    });
    points
        .into_iter()
        .map(|point| explain.point(point))
        .chain(excluded)
        .collect()
}

fn factors(point: &cvc_core::point::Point) -> Vec<(String, String)> {
    let names = cvc_core::point::Point::FACTORS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(point.user.keys().cloned());
    names
        .filter_map(|name| Some((name.clone(), point.factor(&name)?)))
        .collect()
}

/// Returns the end of the output of a run's program, ready for display, with the name of each stream. Standard error comes first; empty streams are
/// omitted.
pub fn end_of_output(dir: &CampaignDir, run: &ExplainedRun) -> Vec<(&'static str, String)> {
    let Some(place) = &run.directory else {
        return Vec::new();
    };
    let place = dir.root().join(place);
    ["stderr", "stdout"]
        .into_iter()
        .filter_map(|name| Some((name, end_of(&place.join(name))?)))
        .collect()
}

/// Returns the end of a file as text; `None` if the file is missing or blank.
pub fn end_of(file: &Utf8Path) -> Option<String> {
    let path = file.as_std_path();
    let mut file = match regular::open(path) {
        Err(error) if regular::is_other(path) => return Some(format!("{file}: {error}\n")),
        file => file.ok()?,
    };
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_BYTES)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(SHOWN_BYTES).read_to_end(&mut bytes).ok()?;
    // a program's output may contain bytes that are not text
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the word by which files represent the value of an enum.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

struct Explainer<'c> {
    state: &'c CampaignState,
    words: RunWords<'c>,
    /// The runs of each point, in the order of the plan.
    runs: HashMap<&'c PointId, Vec<&'c PlannedRun>>,
    /// Short description of each point.
    labels: HashMap<&'c PointId, String>,
    /// For each run, the number of runs before it in the plan that are still pending.
    before: HashMap<&'c RunId, usize>,
}

impl<'c> Explainer<'c> {
    fn new(dir: &CampaignDir, plan: &'c Plan, state: &'c CampaignState) -> Self {
        let words = RunWords::of(dir, plan, state);
        let (mut runs, mut before) = (HashMap::<_, Vec<_>>::new(), HashMap::new());
        let mut waiting = 0;
        for run in &plan.runs {
            runs.entry(&run.point).or_default().push(run);
            before.insert(&run.id, waiting);
            waiting += usize::from(words.of_run(run).0.group() == RunGroup::Left);
        }
        let labels = plan
            .points
            .iter()
            .map(|point| (&point.id, point.point.label()))
            .collect();
        Self {
            state,
            words,
            runs,
            labels,
            before,
        }
    }

    fn point(&self, point: &PlannedPoint) -> Explanation {
        let runs: Vec<ExplainedRun> = self
            .runs
            .get(&point.id)
            .into_iter()
            .flatten()
            .map(|run| self.run(run))
            .collect();
        let count = |group: RunGroup| runs.iter().filter(|run| run.state.group() == group).count();
        let mut why = format!(
            "{} of {} runs succeeded, {} failed, {} left",
            count(RunGroup::Succeeded),
            runs.len(),
            count(RunGroup::Failed),
            count(RunGroup::Left)
        );
        if let Some(decision) = self.state.decided.get(&point.id) {
            why.push_str(&format!(
                "; no more are needed after {}: {}",
                counted(decision.repeats, "repeat"),
                decision.reason
            ));
        }
        if self.state.quarantined.contains(&point.id) {
            why.push_str(QUARANTINED);
        }
        Explanation::Point {
            point: point.id.to_string(),
            factors: factors(&point.point),
            why,
            runs,
        }
    }

    fn run(&self, run: &PlannedRun) -> ExplainedRun {
        let (state, reason) = self.words.of_run(run);
        let history = self.state.runs.get(&run.id);
        let attempts: &[Attempt] = history.map_or(&[], |history| &history.attempts);
        let last = attempts.iter().rev().find(|a| a.outcome.is_some());
        let directory = match state {
            RunWord::Succeeded => Some(format!("runs/{}", run.id)),
            RunWord::Failed => last.map(|a| format!("runs/{}.failed-{}", run.id, a.number)),
            RunWord::Open => Some(format!("runs/{}.partial", run.id)),
            RunWord::Missing
            | RunWord::Quarantined
            | RunWord::NotNeeded
            | RunWord::Abandoned
            | RunWord::Skipped
            | RunWord::ToDo => None,
        };
        let point = self
            .labels
            .get(&run.point)
            .cloned()
            .unwrap_or_else(|| run.point.to_string());
        ExplainedRun {
            run: run.id.to_string(),
            point,
            repeat: run.repeat.to_string(),
            state,
            why: self.why(run, state, reason, attempts),
            attempts: attempts.iter().map(explained).collect(),
            directory,
        }
    }

    fn why(
        &self,
        run: &PlannedRun,
        state: RunWord,
        reason: Option<String>,
        attempts: &[Attempt],
    ) -> String {
        let reason = reason.unwrap_or_default();
        match state {
            RunWord::Succeeded if attempts.len() > 1 => format!("at attempt {}", attempts.len()),
            RunWord::Succeeded => "at the first attempt".to_owned(),
            RunWord::Missing => {
                "it succeeded, but its directory is missing: `cvc run` repeats it".to_owned()
            }
            RunWord::Failed => format!("{reason}; `cvc run --retry-failed` retries it"),
            RunWord::Open => {
                "it is running, or was interrupted with its controller: `cvc run` finds out"
                    .to_owned()
            }
            RunWord::Quarantined => format!("it is not tried{QUARANTINED}"),
            RunWord::NotNeeded => format!("no further run of its point is needed: {reason}"),
            RunWord::Abandoned => {
                let lost = attempts.last().is_some_and(|a| a.lost);
                let what = if lost {
                    "it was lost with its agent or its nodes"
                } else {
                    "it was interrupted"
                };
                format!("{what}, which does not count as an attempt: `cvc run` repeats it")
            }
            RunWord::Skipped => {
                format!("it cannot run here: {reason}; each `cvc run` checks again")
            }
            RunWord::ToDo => self.waits(run),
        }
    }

    /// Returns the reason why a run has not been tried yet.
    fn waits(&self, run: &PlannedRun) -> String {
        let before = self.before.get(&run.id).copied().unwrap_or_default();
        match before {
            0 => "it is the next one that `cvc run` starts".to_owned(),
            1 => "it waits for its turn: 1 run comes before it".to_owned(),
            _ => format!("it waits for its turn: {before} runs come before it"),
        }
    }
}

/// Part of a sentence that explains why the runs of a quarantined point are not tried.
const QUARANTINED: &str =
    ", because its point failed too often: `cvc run --retry-failed` retries it";

fn explained(attempt: &Attempt) -> ExplainedAttempt {
    let end = match (&attempt.outcome, attempt.abandoned, attempt.lost) {
        (Some(Outcome::Succeeded), ..) => "succeeded".to_owned(),
        (Some(Outcome::Failed { cause, detail }), ..) => {
            let not_again = attempt
                .not_again
                .as_ref()
                .map(|why| format!("; {why}"))
                .unwrap_or_default();
            format!("failed ({}): {detail}{not_again}", word(cause))
        }
        (None, true, true) => "lost with its agent or nodes; does not count".to_owned(),
        (None, true, false) if attempt.with_controller => {
            "ended with its controller; does not count".to_owned()
        }
        (None, true, false) => "interrupted; does not count".to_owned(),
        (None, false, _) => "its end is not recorded".to_owned(),
    };
    let took_s = attempt
        .started
        .zip(attempt.ended)
        .map(|(from, to)| (to.as_millisecond() - from.as_millisecond()) as f64 / 1000.0);
    ExplainedAttempt {
        number: attempt.number,
        started: attempt.started.map(|at| format!("{at:.0}")),
        took_s,
        nodes: attempt.nodes.iter().map(ToString::to_string).collect(),
        end,
    }
}
