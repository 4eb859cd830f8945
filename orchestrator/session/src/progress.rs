//! Progress of a campaign: numbers of runs, means, remaining time. `cvc status` and `cvc serve` both show these.

use crate::{
    run_words::{RunGroup, RunWord, RunWords},
    varying::Varying,
};
use camino::Utf8PathBuf;
use cvc_controller::runner::means_of;
use cvc_core::{
    ids::{PointId, RunId},
    outcome::Outcome,
    plan::{Plan, PlannedRun},
    point::{PlannedPoint, Repeat},
    record::names,
    store::{CampaignDir, CampaignLock},
};
use cvc_journal::{CampaignState, RunState};
use jiff::Timestamp;
use serde::Serialize;
use std::{collections::HashMap, fmt};

/// Quantities whose means are shown.
pub const MEANS: [&str; 3] = [
    names::WALL_S,
    names::CKPT_LATENCY_S,
    names::CKPT_STORED_BYTES,
];

/// Maximum number of runs whose records are read to compute means.
const MAX_READ: u64 = 2000;

/// Numbers of runs by [`RunGroup`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunCounts {
    /// Runs that succeeded.
    pub succeeded: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs that are not tried: skipped or quarantined.
    pub skipped: u64,
    /// Runs that remain: to be tried, or active.
    pub left: u64,
    /// Runs that are no longer needed; excluded from the total.
    pub not_needed: u64,
}

impl RunCounts {
    /// Counts one more run.
    pub const fn add(&mut self, group: RunGroup) {
        let count = match group {
            RunGroup::Succeeded => &mut self.succeeded,
            RunGroup::Failed => &mut self.failed,
            RunGroup::Skipped => &mut self.skipped,
            RunGroup::Left => &mut self.left,
            RunGroup::NotNeeded => &mut self.not_needed,
        };
        *count += 1;
    }

    /// Returns the total number of runs, without those that are not needed.
    pub const fn all(&self) -> u64 {
        self.succeeded + self.failed + self.skipped + self.left
    }

    /// Returns the percentage of the runs that do not remain.
    pub fn done_percent(&self) -> u64 {
        percent(self.all() - self.left, self.all()).unwrap_or(100)
    }
}

/// Returns `count` as a percentage of `all`; `None` if `all` is 0. The result is 0 or 100 only if `count` is 0 or `all`.
pub fn percent(count: u64, all: u64) -> Option<u64> {
    match all {
        0 => None,
        _ if count > 0 && count < all => {
            let rounded = (count as f64 * 100.0 / all as f64).round();
            Some(rounded.clamp(1.0, 99.0) as u64)
        }
        _ => Some(count * 100 / all),
    }
}

/// Whether a controller is working on a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activity {
    /// A cvc command holds the lock of the campaign.
    UnderWay,
    /// No command holds the lock, and runs are left.
    Stopped,
    /// No run is left.
    Complete,
}

impl Activity {
    /// Determines the activity by the lock of the campaign. If the lock cannot be queried, it is assumed to be free.
    pub fn of(dir: &CampaignDir, state: &CampaignState) -> Self {
        match CampaignLock::is_held(&dir.lock()) {
            Ok(true) => Self::UnderWay,
            Ok(false) | Err(_) if state.completed => Self::Complete,
            Ok(false) | Err(_) => Self::Stopped,
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnderWay => "under way",
            Self::Stopped => "stopped",
            Self::Complete => "complete",
        })
    }
}

/// The progress of a point.
#[derive(Clone, Debug)]
pub struct PointProgress<'a> {
    /// The point.
    pub planned: &'a PlannedPoint,
    /// Numbers of the point's runs by state.
    pub counts: RunCounts,
    /// Counted runs that succeeded.
    pub measured: Vec<&'a RunId>,
    /// The last failure: its reason, and the file with the program's output.
    pub failure: Option<(String, Option<Utf8PathBuf>)>,
}

/// Progress of a campaign.
#[derive(Debug)]
pub struct CampaignProgress<'a> {
    /// The factors that differ between the campaign's points.
    pub varying: Varying,
    /// The campaign's points, in the order of the plan.
    pub points: Vec<PointProgress<'a>>,
    /// Numbers of all runs by state.
    pub total: RunCounts,
    /// Number of remaining runs that had succeeded before, and whose directories are now missing.
    pub missing: u64,
    /// Estimated time of all remaining runs one after another, seconds; `None` if no run has ended yet.
    pub left_s: Option<f64>,
}

impl<'a> CampaignProgress<'a> {
    /// Counts the runs of a plan.
    pub fn of(
        dir: &CampaignDir,
        plan: &'a Plan,
        state: &CampaignState,
        words: &RunWords<'_>,
    ) -> Self {
        let mut all = Self {
            varying: Varying::of(plan.points.iter().map(|p| &p.point)),
            points: Vec::new(),
            total: RunCounts::default(),
            missing: 0,
            left_s: None,
        };
        let mut runs_of: HashMap<&PointId, Vec<&PlannedRun>> = HashMap::new();
        for run in &plan.runs {
            runs_of.entry(&run.point).or_default().push(run);
        }
        let mut times = Times::default();
        for planned in &plan.points {
            let runs = runs_of.get(&planned.id).map_or(&[][..], Vec::as_slice);
            all.add_point(dir, planned, runs, state, words);
            if let Some(point) = all.points.last() {
                times.add(state, runs, point.counts.left);
            }
        }
        all.left_s = times.left_s(state, Timestamp::now());
        all
    }

    fn add_point(
        &mut self,
        dir: &CampaignDir,
        planned: &'a PlannedPoint,
        runs: &[&'a PlannedRun],
        state: &CampaignState,
        words: &RunWords<'_>,
    ) {
        let mut point = PointProgress {
            planned,
            counts: RunCounts::default(),
            measured: Vec::new(),
            failure: None,
        };
        for run in runs {
            let (word, detail) = words.of_run(run);
            point.counts.add(word.group());
            self.total.add(word.group());
            self.missing += u64::from(word == RunWord::Missing);
            if word == RunWord::Succeeded && matches!(run.repeat, Repeat::Measured(_)) {
                point.measured.push(&run.id);
            }
            if word == RunWord::Failed {
                let output = output_of(dir, state, run);
                point.failure = Some((detail.unwrap_or_default(), output));
            }
        }
        self.points.push(point);
    }

    /// Returns the means of the quantities in [`MEANS`] at each point. Returns no means if the records of too many runs would have to be read.
    pub fn means(&self, dir: &CampaignDir) -> Vec<[Option<f64>; 3]> {
        let of = |point: &PointProgress<'_>| match self.total.succeeded {
            n if n > MAX_READ => [None; 3],
            _ => means(dir, &point.measured),
        };
        self.points.iter().map(of).collect()
    }
}

/// Returns the means over these runs.
fn means(dir: &CampaignDir, runs: &[&RunId]) -> [Option<f64>; 3] {
    let of_runs: Vec<_> = runs.iter().map(|run| means_of(dir, run)).collect();
    MEANS.map(|name| {
        let values: Vec<f64> = of_runs
            .iter()
            .filter_map(|of_run| of_run.get(name).copied())
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    })
}

/// Returns the file with the output of a failed run's program.
pub fn output_of(
    dir: &CampaignDir,
    state: &CampaignState,
    run: &PlannedRun,
) -> Option<Utf8PathBuf> {
    match state.run(&run.id)? {
        RunState::Finished {
            attempt,
            outcome: Outcome::Failed { cause, .. },
            ..
        } => dir.output_of(&run.id, *attempt, *cause),
        RunState::Finished { .. } | RunState::Open { .. } | RunState::Abandoned { .. } => None,
    }
}

/// Sums of the durations of attempts, from which the remaining time is estimated.
#[derive(Debug, Default)]
struct Times {
    all_s: f64,
    all: u64,
    /// Estimated time of the remaining runs of points at which an attempt has ended, seconds.
    left_s: f64,
    /// Number of remaining runs of points at which no attempt has ended.
    unknown: u64,
    /// Start times of the active runs.
    open: Vec<Timestamp>,
}

impl Times {
    fn add(&mut self, state: &CampaignState, runs: &[&PlannedRun], left: u64) {
        let (mut seconds, mut count) = (0.0, 0_u64);
        let histories = runs.iter().filter_map(|run| state.runs.get(&run.id));
        for history in histories {
            let is_open = matches!(history.state, RunState::Open { .. });
            for attempt in &history.attempts {
                match (attempt.started, attempt.ended) {
                    (Some(started), Some(ended)) if attempt.outcome.is_some() => {
                        seconds += ended.duration_since(started).as_secs_f64().max(0.0);
                        count += 1;
                    }
                    (Some(started), None) if is_open => self.open.push(started),
                    _ => {}
                }
            }
        }
        self.all_s += seconds;
        self.all += count;
        match count {
            0 => self.unknown += left,
            _ => self.left_s += seconds / count as f64 * left as f64,
        }
    }

    /// Returns the remaining time, seconds. The time for which active runs have already run is subtracted.
    fn left_s(&self, state: &CampaignState, now: Timestamp) -> Option<f64> {
        if self.all == 0 || state.completed {
            return None;
        }
        let mean = self.all_s / self.all as f64;
        let behind = self.open.iter().map(|started| {
            let since = now.duration_since(*started).as_secs_f64();
            since.clamp(0.0, mean)
        });
        let left = self.left_s + self.unknown as f64 * mean - behind.sum::<f64>();
        Some(left.max(0.0)).filter(|left| *left > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{RunCounts, percent};

    #[test]
    fn a_part_is_never_shown_as_nothing_or_as_all() {
        let shares = [(0, 45), (1, 3000), (2999, 3000), (3, 24), (45, 45)];
        let shown = shares.map(|(count, all)| percent(count, all));
        assert_eq!(shown, [Some(0), Some(1), Some(99), Some(13), Some(100)]);
        assert_eq!(percent(0, 0), None);
    }

    #[test]
    fn unneeded_runs_are_no_part_of_the_total() {
        let counts = RunCounts {
            succeeded: 1,
            failed: 1,
            skipped: 1,
            left: 5,
            not_needed: 9,
        };
        assert_eq!((counts.all(), counts.done_percent()), (8, 38));
        assert_eq!(RunCounts::default().done_percent(), 100);
    }
}
