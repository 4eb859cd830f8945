//! What can be chosen: a point that was measured or that models know, with its objectives and what of the user's wishes it keeps.

use super::wishes::Wishes;
use crate::{
    comparison::Side,
    results::{
        counterpart::{Pair, pairs_without_checkpoints, ratio_groups},
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
    pareto::{Bounded, Standing},
    schedule::{daly_s, expected_s, overhead},
    stats::{mean, pooled_ratio},
};
use cvc_prediction::predict::UnmeasuredPoint;
use serde::Serialize;
use std::collections::HashMap;

/// Whether a candidate keeps what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// All of it, with its whole intervals.
    Surely,
    /// By its values; the intervals do not show it.
    Perhaps,
    /// Not.
    Broken,
}

/// A point that can be chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// What distinguishes it: site, mapping, checkpoints.
    pub label: String,
    /// Whether it takes checkpoints.
    pub checkpoints: bool,
    /// Number of measured runs; 0 of a candidate that is predicted from other runs.
    pub runs: usize,
    /// Whether nobody has measured it: its checkpoint is what models say, with their intervals, beside the measured time of the program alone.
    pub predicted: bool,
    /// Time of the job, seconds; with failures, if their mean time is given, what is expected.
    pub time_s: Bounded,
    /// Cost of the job, US dollars; `None` without a price.
    pub cost_usd: Option<Bounded>,
    /// What a checkpoint stores, bytes: 0 without checkpoints.
    pub storage_bytes: Option<Bounded>,
    /// Seconds that the program computes between two checkpoints: the interval that costs least, for the given failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// Share by which the job's checkpoints lengthen it, as they are in its time and cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Bounded>,
    /// Whether it keeps what is asked for.
    pub kept: Kept,
    /// What it does not keep, or perhaps not, in words.
    pub remarks: Vec<String>,
    /// Its place; absent if it does not keep what is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Wall times of its runs, for what to measure next.
    #[serde(skip)]
    pub(super) walls_s: Vec<f64>,
    /// How long one of its runs takes.
    #[serde(skip)]
    pub(super) run_s: f64,
    /// What one of its runs costs.
    #[serde(skip)]
    pub(super) run_usd: Option<f64>,
}

impl Candidate {
    /// Its place in words.
    pub fn place(&self) -> &'static str {
        match self.standing {
            Some(Standing::Front) => "front",
            Some(Standing::NotToldApart) => "not told apart",
            Some(Standing::Dominated) => "dominated",
            None => "not as asked",
        }
    }
}

/// The candidates of a side, each with its program.
pub(super) fn candidates(
    side: &Side,
    wishes: &Wishes,
    name_side: bool,
) -> Vec<(String, Candidate)> {
    let data = side.data();
    let varying: Vec<&str> = data
        .varying()
        .into_iter()
        .filter(|factor| !["app", "class"].contains(factor))
        .collect();
    let pairs: Vec<Pair> = pairs_without_checkpoints(data)
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
            let known = match bounded(row, names::WALL_S) {
                Some(wall) => Known {
                    row,
                    wall,
                    ckpt: bounded(row, names::CKPT_LATENCY_S),
                    stored: bounded(row, names::CKPT_STORED_BYTES),
                    walls_s: row.independent(names::WALL_S),
                    overhead: with.get(point).copied(),
                    wall_without: without
                        .get(point)
                        .and_then(|other| bounded(&data.points[*other], names::WALL_S)),
                    usd_per_node_s: None,
                },
                None => {
                    let alone = bounded(&data.points[*without.get(point)?], names::WALL_S)?;
                    Known::of_models(row, alone, side.unmeasured(*point)?, &rates)
                }
            };
            Some((row.program(), known.candidate(label, wishes)))
        })
        .collect()
}

/// The mean of a quantity with its interval, as reports have it; without one (a single value), as wide as nothing is known: down to 0, up to
/// infinity.
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

/// By what share checkpoints lengthen the runs of points, against otherwise equal ones without.
fn overheads(data: &Data, pairs: &[Pair]) -> HashMap<usize, Bounded> {
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

/// What a node costs for a second on each site, by the runs that have a cost: those of a site that bills by time cost alike.
fn usd_per_node_second(side: &Side) -> HashMap<&str, f64> {
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

/// A prediction with its interval; without one, as wide as nothing is known.
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

/// What is known of a point: measured, or by models.
struct Known<'p> {
    row: &'p PointRow,
    wall: Bounded,
    /// Time of one checkpoint.
    ckpt: Option<Bounded>,
    /// What one checkpoint stores, bytes.
    stored: Option<Bounded>,
    /// Of runs that were not made: what a node costs for a second.
    usd_per_node_s: Option<f64>,
    walls_s: Vec<f64>,
    overhead: Option<Bounded>,
    wall_without: Option<Bounded>,
}

impl<'p> Known<'p> {
    /// A run that takes one checkpoint, of which models tell, beside what the program was measured to take `alone`.
    fn of_models(
        row: &'p PointRow,
        alone: Bounded,
        said: &UnmeasuredPoint,
        usd_per_node_s: &HashMap<&str, f64>,
    ) -> Self {
        let ckpt = predicted(said.latency_s, 1.0);
        let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { f64::INFINITY };
        Self {
            row,
            wall: Bounded {
                value: alone.value + ckpt.value,
                low: alone.low + ckpt.low,
                high: alone.high + ckpt.high,
            },
            ckpt: Some(ckpt),
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

    fn candidate(self, label: String, wishes: &Wishes) -> Candidate {
        let checkpoints = !matches!(self.row.level(FactorId::Checkpointer), "none" | "");
        let mut check = Check::default();
        if self.walls_s.is_empty() {
            check
                .remarks
                .push("predicted: not measured yet; with one checkpoint".to_owned());
        }
        let job = self.job(checkpoints, wishes, &mut check);
        let run_usd = self.run_usd(wishes);
        // dollars are proportional to time
        let per_second = run_usd.map(|usd| usd / self.wall.value);
        let cost_usd = per_second.map(|usd| job.time_s.map(|s| s * usd));
        let storage_bytes = if checkpoints {
            self.stored
        } else {
            Some(Bounded::exact(0.0))
        };
        self.check(&mut check, checkpoints, &job, cost_usd, wishes);
        Candidate {
            label,
            checkpoints,
            runs: self.walls_s.len(),
            predicted: self.walls_s.is_empty(),
            time_s: job.time_s,
            cost_usd,
            storage_bytes,
            interval_s: job.interval_s,
            overhead: job.overhead,
            kept: check.kept,
            remarks: check.remarks,
            standing: None,
            run_s: self.wall.value,
            walls_s: self.walls_s,
            run_usd,
        }
    }

    /// What the program computes in a run, without the checkpoints of the measured runs; `None` where that is not known.
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

    /// The job, which computes `times` as long as a run. With failures: Daly's expectation at the interval that costs least; a job without
    /// checkpoints starts anew after each failure. Without, it takes as many checkpoints as a run.
    fn job(&self, checkpoints: bool, wishes: &Wishes, check: &mut Check) -> Job {
        let plain = self.wall.map(|s| s * wishes.times);
        if !checkpoints {
            let failing = |mtbf_s: f64| plain.map(|s| mtbf_s * (s / mtbf_s).exp_m1());
            return Job::of(wishes.mtbf_s.map_or(plain, failing));
        }
        let Some(mtbf_s) = wishes.mtbf_s else {
            return self.job_without_failures(wishes, check);
        };
        let at_interval = || {
            let ckpt = self.ckpt.filter(|ckpt| ckpt.value > 0.0)?;
            let computes = self.computes()?.map(|s| s * wishes.times);
            let interval_s = daly_s(ckpt.value, mtbf_s).ok()?.min(computes.value);
            let expected = |app: f64, ckpt: f64| {
                if app.is_finite() && ckpt.is_finite() && app > 0.0 {
                    expected_s(app, ckpt.max(f64::MIN_POSITIVE), interval_s, mtbf_s)
                        .unwrap_or(f64::INFINITY)
                } else if app > 0.0 {
                    f64::INFINITY
                } else {
                    0.0
                }
            };
            Some(Job {
                time_s: Bounded {
                    value: expected(computes.value, ckpt.value),
                    low: expected(computes.low, ckpt.low),
                    high: expected(computes.high, ckpt.high),
                },
                interval_s: Some(interval_s),
                overhead: Some(ckpt.map(|ckpt_s| overhead(ckpt_s, interval_s))),
            })
        };
        let Some(job) = at_interval() else {
            check.broken(
                "with failures it cannot be judged: no time of a checkpoint was measured"
                    .to_owned(),
            );
            return Job::of(plain);
        };
        if let (Some(interval_s), Some(overhead)) = (job.interval_s, job.overhead) {
            check.remarks.push(format!(
                "a checkpoint every {} adds {}",
                duration(interval_s),
                percent(overhead.value)
            ));
        }
        job
    }

    fn job_without_failures(&self, wishes: &Wishes, check: &mut Check) -> Job {
        let more = wishes.times - 1.0;
        if more == 0.0 {
            return Job {
                overhead: self.overhead,
                ..Job::of(self.wall)
            };
        }
        let Some(computes) = self.computes() else {
            check.remarks.push(
                "the checkpoints of a run count as often as the run: what they take was not measured"
                    .to_owned(),
            );
            return Job::of(self.wall.map(|s| s * wishes.times));
        };
        check
            .remarks
            .push("with the checkpoints of one run; --mtbf gives the interval".to_owned());
        // a job that is shorter than a run is no run without a part of its time
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
            overhead: self.overhead.map(|o| o.map(|share| share / wishes.times)),
        }
    }

    /// What one run costs.
    fn run_usd(&self, wishes: &Wishes) -> Option<f64> {
        let measured = mean(&self.row.independent(names::COST_USD));
        measured.or_else(|| {
            let node_s = self.wall.value * f64::from(self.row.nodes);
            match wishes.prices.get(self.row.level(FactorId::Site)) {
                Some(price) => Some(node_s * price / 3600.0),
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
        wishes: &Wishes,
    ) {
        let (time_s, ckpt) = (job.time_s, self.ckpt);
        if let Some(limit) = wishes.deadline_s {
            let told = format!("ends after {}", duration(time_s.value));
            check.limit(time_s, limit, &told, "the deadline");
        }
        match (wishes.budget_usd, cost_usd) {
            (Some(limit), Some(cost)) => {
                let told = format!("costs {}", dollars(cost.value));
                check.limit(cost, limit, &told, "the budget");
            }
            (Some(_), None) => check.perhaps("its cost is unknown".to_owned()),
            (None, _) => {}
        }
        if let Some(limit) = wishes.overhead.filter(|_| checkpoints) {
            match job.overhead {
                Some(overhead) => {
                    let told = format!("checkpoints add {}", percent(overhead.value));
                    check.limit(overhead, limit, &told, "the overhead");
                }
                None => check.perhaps("what its checkpoints add was not measured".to_owned()),
            }
        }
        if let Some(limit) = wishes.notice_s {
            match ckpt.filter(|_| checkpoints) {
                Some(ckpt) => {
                    let told = format!("a checkpoint takes {}", duration(ckpt.value));
                    check.limit(ckpt, limit, &told, "the notice");
                }
                None => check.broken("it has no checkpoint to take at a notice".to_owned()),
            }
        }
        if let Some(limit) = wishes.walltime_s
            && time_s.value > limit
        {
            match ckpt.filter(|ckpt| checkpoints && ckpt.value < limit) {
                Some(ckpt) => {
                    let jobs = (time_s.value / (limit - ckpt.value)).ceil();
                    check.remarks.push(format!("{jobs} jobs of the walltime"));
                }
                None => check.broken(format!(
                    "takes {}, longer than the walltime, without a checkpoint to go on from",
                    duration(time_s.value)
                )),
            }
        }
    }
}

/// A job, as time, cost and limits see it.
struct Job {
    time_s: Bounded,
    interval_s: Option<f64>,
    /// Share by which its checkpoints lengthen it.
    overhead: Option<Bounded>,
}

impl Job {
    /// One of which only the time is known.
    fn of(time_s: Bounded) -> Self {
        Self {
            time_s,
            interval_s: None,
            overhead: None,
        }
    }
}

/// A share in percent; a small one with more digits.
fn percent(share: f64) -> String {
    let pct = 100.0 * share;
    if pct.abs() < 0.995 {
        format!("{pct:.2} %")
    } else {
        format!("{pct:.1} %")
    }
}

/// What a candidate keeps, as it is found.
struct Check {
    kept: Kept,
    remarks: Vec<String>,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            kept: Kept::Surely,
            remarks: Vec::new(),
        }
    }
}

impl Check {
    fn limit(&mut self, value: Bounded, limit: f64, told: &str, what: &str) {
        if value.value > limit {
            self.broken(format!("{told}: more than {what}"));
        } else if value.high > limit {
            self.perhaps(format!("{told}, {what} not surely kept"));
        }
    }

    fn broken(&mut self, remark: String) {
        self.kept = Kept::Broken;
        self.remarks.push(remark);
    }

    fn perhaps(&mut self, remark: String) {
        self.kept = self.kept.max(Kept::Perhaps);
        self.remarks.push(remark);
    }
}
