//! Candidates: measured or predicted points, with their objectives, and whether each satisfies the user's constraints.

use super::constraints::{Constraints, StoragePrice};
use crate::{
    comparison::Side,
    results::{
        counterpart::{CounterpartPair, pairs_without_checkpoints, ratio_groups},
        data::Data,
        rows::PointRow,
    },
};
use cvc_core::point::FactorId;
use cvc_core::{
    record::names,
    units::{MIB, dollars, duration},
};
use cvc_model::{
    Estimate,
    pareto::{Bounded, ParetoRank},
    schedule::{checkpoints_in, daly_s, with_failures},
    stats::{mean, pooled_ratio},
};
use cvc_prediction::predict::UnmeasuredPoint;
use serde::Serialize;
use std::collections::HashMap;

/// Whether a candidate satisfies the constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Feasibility {
    /// Yes, over the whole range of its intervals.
    Surely,
    /// Yes by its values, but not over the whole range of its intervals.
    Perhaps,
    /// No.
    Broken,
}

/// A point to choose from.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceCandidate {
    /// The levels that distinguish the candidate: site, mapping, checkpoints.
    pub label: String,
    /// Whether the candidate takes checkpoints.
    pub checkpoints: bool,
    /// Number of measured runs; 0 for a candidate predicted from other runs.
    pub runs: usize,
    /// Whether the candidate was not measured. Models then predict its checkpoint with intervals, and the measured program without checkpoints gives
    /// its computing time.
    pub predicted: bool,
    /// Time of the job, seconds. If the constraints have a mean time between failures, this is the expected time.
    pub time_s: Bounded,
    /// Cost of the job, US dollars; `None` without a price.
    pub cost_usd: Option<Bounded>,
    /// Bytes that a checkpoint stores; 0 without checkpoints.
    pub storage_bytes: Option<Bounded>,
    /// Computing time between two checkpoints, seconds: the requested interval, or the interval with the minimum expected time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// Number of checkpoints that the job takes at this interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints_taken: Option<f64>,
    /// Relative overhead of the job's checkpoints, which time and cost include.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Bounded>,
    /// Whether the candidate satisfies the constraints.
    pub kept: Feasibility,
    /// Remarks, such as the constraints that the candidate violates or may violate.
    pub remarks: Vec<String>,
    /// Pareto rank of the candidate; `None` if it violates a constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<ParetoRank>,
    /// Wall times of the candidate's runs, seconds; used to choose the next measurements.
    #[serde(skip)]
    pub(super) walls_s: Vec<f64>,
    /// Duration of one run, seconds.
    #[serde(skip)]
    pub(super) run_s: f64,
    /// Cost of one run, US dollars.
    #[serde(skip)]
    pub(super) run_usd: Option<f64>,
}

impl AdviceCandidate {
    /// Describes the candidate's Pareto rank.
    pub fn standing(&self) -> &'static str {
        match self.standing {
            Some(ParetoRank::Front) => "Pareto front",
            Some(ParetoRank::Indistinguishable) => "indistinguishable",
            Some(ParetoRank::Dominated) => "dominated",
            None => "infeasible",
        }
    }
}

/// Returns the facts about the points of a side, from measurements or models.
pub(super) fn of_side(side: &Side, name_side: bool) -> Vec<PointFacts<'_>> {
    let data = side.data();
    let varying: Vec<&str> = data
        .varying()
        .into_iter()
        .filter(|factor| !["app", "class"].contains(factor))
        .collect();
    let pairs: Vec<CounterpartPair> = pairs_without_checkpoints(data)
        .map(|(_, pair)| pair)
        .collect();
    let with = overheads(data, &pairs);
    let without: HashMap<usize, usize> = pairs
        .iter()
        .map(|pair| (pair.point, pair.counterpart))
        .collect();
    let rates = usd_per_node_second(side);
    side.points()
        .iter()
        .filter_map(|point| {
            let row = side.point(*point);
            let mut label = data.label(*point, &varying);
            if name_side && !varying.contains(&"site") {
                label = format!("{}, {label}", side.name());
            }
            match bounded(row, names::WALL_S) {
                Some(wall) => Some(PointFacts {
                    label,
                    row,
                    wall,
                    ckpt: bounded(row, names::CKPT_LATENCY_S),
                    restart_s: restart_s(data, *point),
                    stored: bounded(row, names::CKPT_STORED_BYTES),
                    walls_s: row.independent(names::WALL_S),
                    overhead: with.get(point).copied(),
                    wall_without: without
                        .get(point)
                        .and_then(|other| bounded(&data.points[*other], names::WALL_S)),
                    usd_per_node_s: None,
                }),
                None => {
                    let alone = bounded(&data.points[*without.get(point)?], names::WALL_S)?;
                    let said = side.unmeasured(*point)?;
                    Some(PointFacts {
                        restart_s: restart_s(data, *point),
                        ..PointFacts::of_models(label, row, alone, said, &rates)
                    })
                }
            }
        })
        .collect()
}

/// Returns the mean restart time of a point, or of the otherwise equal point that is restarted.
fn restart_s(data: &Data, point: usize) -> Option<f64> {
    let twins = (0..data.points.len()).filter(|p| data.unrestarted(*p) == Some(point));
    let mut all = std::iter::once(point).chain(twins);
    let mean = |p: usize| Some(data.points[p].summaries.get(names::RESTART_LATENCY_S)?.mean);
    all.find_map(mean)
}

/// Returns the mean of a quantity with its interval, as in reports. A single value has no interval, and gets the widest possible: from 0 to infinity.
fn bounded(row: &PointRow, quantity: &str) -> Option<Bounded> {
    let summary = row.summaries.get(quantity)?;
    let (low, high) = match summary.interval {
        Some(interval) => (interval.low, interval.high),
        None => (0.0, f64::INFINITY),
    };
    Some(Bounded {
        value: summary.mean,
        low,
        high,
    })
}

/// Returns the relative overhead of checkpoints at points, compared with otherwise equal points without checkpoints.
fn overheads(data: &Data, pairs: &[CounterpartPair]) -> HashMap<usize, Bounded> {
    pairs
        .iter()
        .filter_map(|pair| {
            let groups = ratio_groups(data, std::slice::from_ref(pair), names::WALL_S);
            let ratio = pooled_ratio(&groups)?;
            let (low, high) = ratio
                .interval
                .map_or((f64::NEG_INFINITY, f64::INFINITY), |i| (i.low, i.high));
            Some((
                pair.point,
                Bounded {
                    value: ratio.ratio,
                    low,
                    high,
                }
                .map(|ratio| ratio - 1.0),
            ))
        })
        .collect()
}

/// Returns the cost of a node-second on each site, US dollars, from runs with a recorded cost. Sites bill by time, so all runs of a site have the
/// same rate.
pub(super) fn usd_per_node_second(side: &Side) -> HashMap<&str, f64> {
    let mut sums: HashMap<&str, (f64, f64)> = HashMap::new();
    for row in side.points().iter().map(|point| side.point(*point)) {
        let usd = mean(&row.independent(names::COST_USD));
        let wall_s = mean(&row.independent(names::WALL_S));
        if let Some((usd, wall_s)) = usd.zip(wall_s) {
            let (dollars, seconds) = sums.entry(row.level(FactorId::Site)).or_default();
            *dollars += usd;
            *seconds += wall_s * f64::from(row.nodes);
        }
    }
    sums.into_iter()
        .filter(|(_, (_, seconds))| *seconds > 0.0)
        .map(|(site, (usd, seconds))| (site, usd / seconds))
        .collect()
}

/// Returns a prediction and its interval, multiplied by `factor`. A prediction without an interval gets the widest possible interval.
fn predicted(estimate: Estimate, factor: f64) -> Bounded {
    let (low, high) = estimate
        .interval
        .map_or((0.0, f64::INFINITY), |i| (i.low.max(0.0), i.high));
    Bounded {
        value: estimate.value,
        low,
        high,
    }
    .map(|value| value * factor)
}

/// Facts about a point, from measurements or models.
pub(super) struct PointFacts<'p> {
    label: String,
    row: &'p PointRow,
    wall: Bounded,
    /// Time of one checkpoint, seconds.
    ckpt: Option<Bounded>,
    /// Time of a restart, seconds, if this point or the otherwise equal point with a restart check was restarted.
    restart_s: Option<f64>,
    /// Bytes that one checkpoint stores.
    stored: Option<Bounded>,
    /// For predicted points: cost of a node-second, US dollars.
    usd_per_node_s: Option<f64>,
    walls_s: Vec<f64>,
    overhead: Option<Bounded>,
    wall_without: Option<Bounded>,
}

impl<'p> PointFacts<'p> {
    /// Returns the facts about a point without measurements. Its time is the measured time of the program without checkpoints (`alone`) plus the
    /// predicted time of one checkpoint.
    fn of_models(
        label: String,
        row: &'p PointRow,
        alone: Bounded,
        said: &UnmeasuredPoint,
        usd_per_node_s: &HashMap<&str, f64>,
    ) -> Self {
        let ckpt = predicted(said.latency_s, 1.0);
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { f64::INFINITY };
        Self {
            label,
            row,
            wall: Bounded {
                value: alone.value + ckpt.value,
                low: alone.low + ckpt.low,
                high: alone.high + ckpt.high,
            },
            ckpt: Some(ckpt),
            restart_s: None,
            stored: said.stored_mib.map(|mib| predicted(mib, MIB)),
            overhead: Some(Bounded {
                value: ratio(ckpt.value, alone.value),
                low: ratio(ckpt.low, alone.high),
                high: ratio(ckpt.high, alone.low),
            }),
            walls_s: Vec::new(),
            wall_without: Some(alone),
            usd_per_node_s: usd_per_node_s.get(row.level(FactorId::Site)).copied(),
        }
    }

    /// Returns the program of the point.
    pub(super) fn program(&self) -> String {
        self.row.program()
    }

    /// Returns the levels that distinguish the point.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Returns whether the point takes checkpoints.
    pub(super) fn takes_checkpoints(&self) -> bool {
        !matches!(self.row.level(FactorId::Checkpointer), "none" | "")
    }

    /// Returns the computing time of a run without checkpoints, seconds.
    pub(super) fn work_s(&self) -> Option<f64> {
        match self.takes_checkpoints() {
            true => self.computes().map(|s| s.value),
            false => Some(self.wall.value),
        }
    }

    /// Returns the point.
    pub(super) fn row(&self) -> &PointRow {
        self.row
    }

    /// Returns whether restarts of the point were measured.
    pub(super) fn was_restarted(&self) -> bool {
        self.restart_s.is_some()
    }

    /// Returns the time of a checkpoint, seconds, if it was measured or is predicted.
    pub(super) fn ckpt_s(&self) -> Option<f64> {
        self.ckpt.map(|ckpt| ckpt.value)
    }

    /// Returns the candidate for a job with these constraints. `constraints.times` must be set.
    pub(super) fn candidate(self, constraints: &Constraints) -> AdviceCandidate {
        let checkpoints = self.takes_checkpoints();
        let mut check = Check::default();
        if self.walls_s.is_empty() {
            check
                .remarks
                .push("predicted, not measured; with one checkpoint".to_owned());
        }
        let job = self.job(checkpoints, constraints, &mut check);
        let run_usd = self.run_usd(constraints);
        // costs are proportional to time
        let per_second = run_usd.map(|usd| usd / self.wall.value);
        let storage = constraints.storage_price.as_ref().filter(|_| checkpoints);
        let cost_usd = per_second.map(|usd| match storage.zip(self.stored) {
            Some((price, stored)) => with_storage(job.time_s, usd, stored, price),
            None => job.time_s.map(|s| s * usd),
        });
        let storage_bytes = if checkpoints {
            self.stored
        } else {
            Some(Bounded::exact(0.0))
        };
        self.check(&mut check, checkpoints, &job, cost_usd, constraints);
        AdviceCandidate {
            label: self.label,
            checkpoints,
            runs: self.walls_s.len(),
            predicted: self.walls_s.is_empty(),
            time_s: job.time_s,
            cost_usd,
            storage_bytes,
            interval_s: job.interval_s,
            checkpoints_taken: job.checkpoints_taken,
            overhead: job.overhead,
            kept: check.kept,
            remarks: check.remarks,
            standing: None,
            run_s: self.wall.value,
            walls_s: self.walls_s,
            run_usd,
        }
    }

    /// Returns the computing time of a run without its checkpoints, seconds; `None` if unknown.
    fn computes(&self) -> Option<Bounded> {
        self.wall_without.or_else(|| {
            let ckpt = self.ckpt.filter(|ckpt| ckpt.value > 0.0)?;
            Some(Bounded {
                value: (self.wall.value - ckpt.value).max(0.0),
                low: (self.wall.low - ckpt.high).max(0.0),
                high: self.wall.high,
            })
        })
    }

    /// Returns the time and checkpoints of a job that computes `times` as long as a run. If the constraints have a mean time between failures or an
    /// interval, the time is the expected time with checkpoints at the given interval, or else at Daly's. Otherwise the job takes as many checkpoints
    /// as a run. A job without checkpoints restarts from its beginning after each failure.
    fn job(&self, checkpoints: bool, constraints: &Constraints, check: &mut Check) -> Job {
        let plain = self.wall.map(|s| s * constraints.times);
        if !checkpoints {
            let restart_s = constraints.restart_s.unwrap_or(0.0);
            let failing = |mtbf_s: f64| {
                plain.map(|s| mtbf_s * (restart_s / mtbf_s).exp() * (s / mtbf_s).exp_m1())
            };
            return Job::of(constraints.mtbf_s.map_or(plain, failing));
        }
        if constraints.mtbf_s.is_none() && constraints.every_s.is_none() {
            return self.job_without_failures(constraints, check);
        }
        let Some(job) = self.job_at_interval(constraints) else {
            check.broken("cannot be judged: no checkpoint time was measured".to_owned());
            return Job::of(plain);
        };
        match (job.interval_s, job.overhead) {
            (Some(_), Some(_)) if job.checkpoints_taken == Some(0.0) => check
                .remarks
                .push("ends before its first checkpoint".to_owned()),
            (Some(interval_s), Some(overhead)) => check.remarks.push(format!(
                "a checkpoint every {} adds {}",
                duration(interval_s),
                percent(overhead.value)
            )),
            _ => {}
        }
        job
    }

    /// Returns the job with checkpoints at the given interval, or at Daly's. Returns `None` if the time of a checkpoint, or that of the program
    /// without checkpoints, is unknown.
    fn job_at_interval(&self, constraints: &Constraints) -> Option<Job> {
        let ckpt = self.ckpt.filter(|ckpt| ckpt.value > 0.0)?;
        let computes = self.computes()?.map(|s| s * constraints.times);
        let interval_s = match (constraints.every_s, constraints.mtbf_s) {
            (Some(every_s), _) => every_s,
            (None, Some(mtbf_s)) => daly_s(ckpt.value, mtbf_s).ok()?,
            (None, None) => return None,
        }
        .min(computes.value);
        if interval_s <= 0.0 {
            return None;
        }
        let expected = |app: f64, ckpt: f64| {
            if app <= 0.0 {
                return 0.0;
            }
            if !app.is_finite() || !ckpt.is_finite() {
                return f64::INFINITY;
            }
            match constraints.mtbf_s {
                Some(mtbf_s) => {
                    let restart_s = constraints.restart_s.or(self.restart_s).unwrap_or(ckpt);
                    let ckpt = ckpt.max(f64::MIN_POSITIVE);
                    with_failures(app, ckpt, interval_s, mtbf_s, restart_s)
                        .map_or(f64::INFINITY, |run| run.total_s)
                }
                None => app + checkpoints_in(app, interval_s) * ckpt,
            }
        };
        let count = checkpoints_in(computes.value, interval_s);
        Some(Job {
            time_s: Bounded {
                value: expected(computes.value, ckpt.value),
                low: expected(computes.low, ckpt.low),
                high: expected(computes.high, ckpt.high),
            },
            interval_s: Some(interval_s),
            checkpoints_taken: Some(count),
            overhead: Some(ckpt.map(|ckpt_s| count * ckpt_s / computes.value)),
        })
    }

    fn job_without_failures(&self, constraints: &Constraints, check: &mut Check) -> Job {
        let more = constraints.times - 1.0;
        if more == 0.0 {
            return Job {
                overhead: self.overhead,
                ..Job::of(self.wall)
            };
        }
        let Some(computes) = self.computes() else {
            check.remarks.push(
                "the time of checkpoints was not measured: their number is assumed to grow with the job"
                    .to_owned(),
            );
            return Job::of(self.wall.map(|s| s * constraints.times));
        };
        check.remarks.push(
            "with the checkpoints of one run; set an interval with --mtbf or --every".to_owned(),
        );
        // limit to zero: a job can be much shorter than a run
        let add = |wall: f64, computes: f64| (wall + more * computes).max(0.0);
        let (low, high) = if more > 0.0 {
            (computes.low, computes.high)
        } else {
            (computes.high, computes.low)
        };
        let value = add(self.wall.value, computes.value);
        Job {
            time_s: Bounded {
                value,
                low: add(self.wall.low, low).min(value),
                high: add(self.wall.high, high).max(value),
            },
            interval_s: None,
            checkpoints_taken: None,
            overhead: self
                .overhead
                .map(|o| o.map(|share| share / constraints.times)),
        }
    }

    /// Returns the cost of one run, US dollars.
    fn run_usd(&self, constraints: &Constraints) -> Option<f64> {
        let measured = mean(&self.row.independent(names::COST_USD));
        measured.or_else(|| {
            let node_s = self.wall.value * f64::from(self.row.nodes);
            match constraints.prices.get(self.row.level(FactorId::Site)) {
                Some(price) => Some(node_s * price.usd_per_hour / 3600.0),
                None => self.usd_per_node_s.map(|usd| node_s * usd),
            }
        })
    }

    fn check(
        &self,
        check: &mut Check,
        checkpoints: bool,
        job: &Job,
        cost_usd: Option<Bounded>,
        constraints: &Constraints,
    ) {
        let (time_s, ckpt) = (job.time_s, self.ckpt);
        if constraints.every_s.is_some() && !checkpoints {
            check.broken("takes no checkpoint".to_owned());
        }
        if let Some(limit) = constraints.deadline_s {
            let is = format!("ends after {}", duration(time_s.value));
            check.limit(time_s, limit, &is, "the deadline");
        }
        match (constraints.budget_usd, cost_usd) {
            (Some(limit), Some(cost)) => {
                let is = format!("costs {}", dollars(cost.value));
                check.limit(cost, limit, &is, "the budget");
            }
            (Some(_), None) => check.perhaps(format!(
                "its cost is unknown: give --price {}=USD",
                self.row.level(FactorId::Site)
            )),
            (None, _) => {}
        }
        if let Some(limit) = constraints.overhead.filter(|_| checkpoints) {
            match job.overhead {
                Some(overhead) => {
                    let is = format!("checkpoints add {}", percent(overhead.value));
                    check.limit(overhead, limit, &is, "the overhead limit");
                }
                None => {
                    check.perhaps("the overhead of its checkpoints was not measured".to_owned())
                }
            }
        }
        if let Some(limit) = constraints.notice_s {
            match ckpt.filter(|_| checkpoints) {
                Some(ckpt) => {
                    let is = format!("a checkpoint takes {}", duration(ckpt.value));
                    check.limit(ckpt, limit, &is, "the notice");
                }
                None => check.broken("takes no checkpoint at a notice".to_owned()),
            }
        }
        if let Some(limit) = constraints.walltime_s
            && time_s.value > limit
        {
            match ckpt.filter(|ckpt| checkpoints && ckpt.value < limit) {
                Some(ckpt) => {
                    let jobs = (time_s.value / (limit - ckpt.value)).ceil();
                    check.remarks.push(format!("{jobs} jobs of the walltime"));
                }
                None => check.broken(format!(
                    "takes {}, longer than the walltime, without a checkpoint to continue from",
                    duration(time_s.value)
                )),
            }
        }
    }
}

/// Returns the cost of a job, US dollars: machines by time, and storage.
fn with_storage(time_s: Bounded, usd_per_s: f64, stored: Bounded, price: &StoragePrice) -> Bounded {
    let usd = |time_s: f64, stored: f64| time_s * usd_per_s + price.usd(stored, time_s);
    Bounded {
        value: usd(time_s.value, stored.value),
        low: usd(time_s.low, stored.low),
        high: usd(time_s.high, stored.high),
    }
}

/// Time and checkpoints of a job.
struct Job {
    time_s: Bounded,
    interval_s: Option<f64>,
    checkpoints_taken: Option<f64>,
    /// Relative overhead of the job's checkpoints.
    overhead: Option<Bounded>,
}

impl Job {
    /// Returns a job of which only the time is known.
    fn of(time_s: Bounded) -> Self {
        Self {
            time_s,
            interval_s: None,
            checkpoints_taken: None,
            overhead: None,
        }
    }
}

/// Formats a share as a percentage. Small percentages have more digits.
fn percent(share: f64) -> String {
    let pct = 100.0 * share;
    if pct.abs() < 0.995 {
        format!("{pct:.2} %")
    } else {
        format!("{pct:.1} %")
    }
}

/// Result of checking a candidate, which is updated by each check.
struct Check {
    kept: Feasibility,
    remarks: Vec<String>,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            kept: Feasibility::Surely,
            remarks: Vec::new(),
        }
    }
}

impl Check {
    fn limit(&mut self, value: Bounded, limit: f64, is: &str, name: &str) {
        if value.value > limit {
            self.broken(format!("{is}: exceeds {name}"));
        } else if value.high > limit {
            self.perhaps(format!("{is}: may exceed {name}"));
        }
    }

    fn broken(&mut self, remark: String) {
        self.kept = Feasibility::Broken;
        self.remarks.push(remark);
    }

    fn perhaps(&mut self, remark: String) {
        self.kept = self.kept.max(Feasibility::Perhaps);
        self.remarks.push(remark);
    }
}
