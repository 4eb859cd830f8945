//! Why a run or a point is where it is: what was tried, what came of it, and what happens next.

use crate::run_words::{MISSING, NOT_NEEDED, RunWords};
use camino::Utf8Path;
use cvc_core::{
    ids::{PointId, RunId},
    outcome::Outcome,
    plan::{Plan, PlannedRun},
    point::{Excluded, PlannedPoint, Repeat},
    store::{CampaignDir, regular},
};
use cvc_journal::{Attempt, CampaignState};
use serde::Serialize;
use std::{
    collections::HashMap,
    io::{Read, Seek, SeekFrom},
};

/// Bytes of a program's output that are shown: its end.
const SHOWN_BYTES: u64 = 16 * 1024;

/// Fewest letters of an identifier that are taken for it.
const FEWEST: usize = 4;

/// A run, explained.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedRun {
    /// Its identifier.
    pub run: String,
    /// Its point in a few words.
    pub point: String,
    /// `repeat 2`, `warm-up 1`.
    pub repeat: String,
    /// Its state in a word.
    pub state: &'static str,
    /// Why, and what happens next.
    pub why: String,
    /// What was tried.
    pub attempts: Vec<ExplainedAttempt>,
    /// Directory of what it left, relative to the campaign's; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// An attempt at a run.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedAttempt {
    /// Its number.
    pub number: u32,
    /// When it began, UTC.
    pub started: Option<String>,
    /// How long it took, seconds; absent without an end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
    /// The nodes that it had; none on this machine.
    pub nodes: Vec<String>,
    /// How it ended, in words.
    pub end: String,
}

/// What an identifier or a selection names.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "of", rename_all = "kebab-case")]
pub enum Explanation {
    /// One run.
    Run(ExplainedRun),
    /// A point with its runs.
    Point {
        /// Its identifier.
        point: String,
        /// Its factors, in order.
        factors: Vec<(String, String)>,
        /// Why it has the runs that it has, and what happens next.
        why: String,
        /// Its runs, in the order of the plan.
        runs: Vec<ExplainedRun>,
    },
    /// A combination that does not run.
    Excluded {
        /// Its factors, in order.
        factors: Vec<(String, String)>,
        /// Why not.
        why: String,
    },
}

/// Explains what the beginning of an identifier names: runs and points.
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

/// Explains points, and combinations that do not run.
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

/// The ends of what a run's program printed, for people: standard error first, each if there is any.
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

/// The end of a file as text; `None` without a file, or if it is blank.
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
    // a program's output need not be text
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(text)
}

/// A value as files write it.
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
    /// Each point in a few words.
    labels: HashMap<&'c PointId, String>,
    /// How many runs that are to be done come before each.
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
            waiting += usize::from(matches!(
                words.of_run(run).0,
                "to do" | "abandoned" | "open" | MISSING
            ));
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
        let count = |state: &str| runs.iter().filter(|run| run.state == state).count();
        let mut why = format!(
            "{} of {} runs succeeded, {} failed, {} to do",
            count("succeeded"),
            runs.len(),
            count("failed"),
            count("to do") + count("abandoned") + count(MISSING)
        );
        if let Some(decision) = self.state.decided.get(&point.id) {
            why.push_str(&format!(
                "; no more are needed after {} repeats: {}",
                decision.repeats, decision.reason
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
            "succeeded" => Some(format!("runs/{}", run.id)),
            "failed" => last.map(|a| format!("runs/{}.failed-{}", run.id, a.number)),
            "open" => Some(format!("runs/{}.partial", run.id)),
            _ => None,
        };
        let point = self
            .labels
            .get(&run.point)
            .cloned()
            .unwrap_or_else(|| run.point.to_string());
        ExplainedRun {
            run: run.id.to_string(),
            point,
            repeat: match run.repeat {
                Repeat::Measured(n) => format!("repeat {n}"),
                Repeat::Warmup(n) => format!("warm-up {n}"),
            },
            state,
            why: self.why(run, state, reason, attempts),
            attempts: attempts.iter().map(explained).collect(),
            directory,
        }
    }

    fn why(
        &self,
        run: &PlannedRun,
        state: &str,
        reason: Option<String>,
        attempts: &[Attempt],
    ) -> String {
        let reason = reason.unwrap_or_default();
        match state {
            "succeeded" if attempts.len() > 1 => {
                format!("it succeeded at attempt {}", attempts.len())
            }
            "succeeded" => "it succeeded".to_owned(),
            MISSING => {
                "it had succeeded, and its directory is gone: `cvc run` repeats it".to_owned()
            }
            "failed" => format!("{reason}; `cvc run --retry-failed` tries it again"),
            "open" => "it is under way, or was cut off with its controller: `cvc run` finds out"
                .to_owned(),
            "quarantined" => format!("it is not tried{QUARANTINED}"),
            NOT_NEEDED => format!("no further run of its point is needed: {reason}"),
            "abandoned" => {
                let lost = attempts.last().is_some_and(|a| a.lost);
                let what = if lost {
                    "it was lost with its agent or its nodes"
                } else {
                    "it was cut off"
                };
                format!("{what}, which does not count as an attempt: `cvc run` repeats it")
            }
            "skipped" => format!("it cannot run here: {reason}; each `cvc run` looks again"),
            _ => self.waits(run),
        }
    }

    /// What a run that nobody has tried waits for.
    fn waits(&self, run: &PlannedRun) -> String {
        let before = self.before.get(&run.id).copied().unwrap_or_default();
        match before {
            0 => "it is the next one that `cvc run` starts".to_owned(),
            1 => "it has not had its turn: 1 run is to be done before it".to_owned(),
            _ => format!("it has not had its turn: {before} runs are to be done before it"),
        }
    }
}

/// What holds of the runs of a quarantined point.
const QUARANTINED: &str =
    ", because its point failed too often: `cvc run --retry-failed` takes it up again";

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
        (None, true, false) => "cut off; does not count".to_owned(),
        (None, false, _) => "no end is known".to_owned(),
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
