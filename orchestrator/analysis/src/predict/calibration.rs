//! How far predictions were off for programs that their models had not seen, and the intervals that follow.
//!
//! A curve through few runs tells nothing, or too little, of its own error. What can be told is how such curves erred elsewhere: for each
//! kind of prediction ([`Kind`]) the table has the relative error that 95 of 100 trials with other programs stayed below (split conformal
//! prediction: the ⌈0.95·(n + 1)⌉-th smallest of n errors). [`crate::calibration`] makes the trials.

use super::observation::Observation;
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, Interval, LEVEL, MpiKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The table that cvc carries, made by `cvc calibrate --write-table` from the runs of experiments/nas-sizes.csv.
const TABLE: &str = include_str!("calibration.csv");

/// Upper ends of the classes of reach; beyond the last, errors are taken to grow in proportion to the reach.
const REACHES: [f64; 5] = [1.0, 2.0, 3.0, 4.5, 7.0];

/// Least number of trials in a class from which it is used alone; smaller ones are joined with those of less reach.
const ENOUGH: usize = 8;

/// Fewest trials of which one is the largest of 95 in 100.
const LEAST_TRIALS: usize = 19;

/// What a prediction of a quantity rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Runs of the program on one number of processes.
    OneCount,
    /// On two.
    TwoCounts,
    /// On three or more.
    ThreeCounts,
    /// Only runs with one process, for more; or only runs with more, for one.
    OtherRegime,
    /// Runs of other classes of the program.
    OtherClass,
    /// Runs of other programs.
    OtherPrograms,
}

/// Where a program has its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPlace {
    /// In arrays that are known from its source.
    Known,
    /// Nothing is known of it.
    Unknown,
    /// In memory that it allocates, which lies beside shared memory in its images.
    Shared,
}

/// A kind of prediction: within one, errors are taken to be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// What is predicted.
    pub quantity: Quantity,
    /// The MPI library.
    pub mpi: MpiKind,
    /// Where the program has its data, as far as this matters for the quantity.
    pub data: DataPlace,
    /// What it rests on.
    pub basis: Basis,
}

/// The error of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialError {
    /// Of which kind of prediction.
    pub kind: Kind,
    /// How far beyond the runs: the larger ratio of the processes asked for to the most, or of the fewest to those asked for; 1 within.
    pub reach: f64,
    /// The larger of measured/predicted and predicted/measured, less 1: what is measured may be far more than was predicted, but never less
    /// than nothing.
    pub relative_error: f64,
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    trials: usize,
    /// Error that 95 of 100 trials stay below.
    half: f64,
}

/// How far predictions of each kind were off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    lines: BTreeMap<(Kind, usize), Line>,
}

/// The interval that the table gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// The interval is from 1/(1 + half) to 1 + half times the prediction.
    pub half: f64,
    /// Trials behind it.
    pub trials: usize,
}

impl Calibration {
    /// Makes the table of trials.
    pub fn of(trials: &[TrialError]) -> Self {
        let mut errors: BTreeMap<(Kind, usize), Vec<f64>> = BTreeMap::new();
        for trial in trials {
            errors.entry((trial.kind, class_of(trial.reach))).or_default().push(trial.relative_error);
        }
        let mut lines: BTreeMap<(Kind, usize), Line> = BTreeMap::new();
        let kinds: BTreeSet<Kind> = errors.keys().map(|(kind, _)| *kind).collect();
        for kind in kinds {
            let (mut joined, mut widest): (Vec<f64>, f64) = (Vec::new(), 0.0);
            for class in 0..=REACHES.len() {
                let Some(own) = errors.get(&(kind, class)) else { continue };
                if own.len() >= ENOUGH {
                    joined.clone_from(own);
                } else {
                    joined.extend(own);
                }
                // errors do not become smaller further away; where they seem to, the trials are few
                widest = conformal(&joined).max(widest);
                lines.insert((kind, class), Line { trials: joined.len(), half: widest });
            }
        }
        Self { lines }
    }

    /// The table as cvc carries it, with the decimals that it is written with.
    pub fn rounded(&self) -> Self {
        Self::parse(&self.to_csv()).unwrap_or_default()
    }

    /// The number of lines, and of those with fewer trials than an error that 95 of 100 stay below can be told from.
    pub fn lines_and_those_of_few_trials(&self) -> (usize, usize) {
        (self.lines.len(), self.lines.values().filter(|line| line.trials < LEAST_TRIALS).count())
    }

    /// The table that cvc carries.
    pub fn embedded() -> Self {
        Self::parse(TABLE).unwrap_or_default()
    }

    /// The interval of a prediction of a kind; `None` if no trial tells of it. A library that was not tried has the larger interval of those
    /// that were.
    pub fn interval(&self, kind: Kind, reach: f64) -> Option<Calibrated> {
        let own = self.of_kind(kind, reach);
        own.or_else(|| {
            let others = [MpiKind::Nemesis, MpiKind::Mpich, MpiKind::OpenMpi].into_iter();
            others.filter_map(|mpi| self.of_kind(Kind { mpi, ..kind }, reach)).max_by(|a, b| a.half.total_cmp(&b.half))
        })
    }

    fn of_kind(&self, kind: Kind, reach: f64) -> Option<Calibrated> {
        let asked = class_of(reach);
        let ((_, class), line) =
            self.lines.range((kind, 0)..=(kind, REACHES.len())).rev().find(|((_, class), _)| *class <= asked).or_else(
                // nearer than any trial
                || self.lines.range((kind, 0)..=(kind, REACHES.len())).next(),
            )?;
        let tried = REACHES.get(*class).copied().unwrap_or(REACHES[REACHES.len() - 1]);
        Some(Calibrated { half: line.half * (reach / tried).max(1.0), trials: line.trials })
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(HEADER);
        for ((kind, class), line) in &self.lines {
            let reach = REACHES.get(*class).map_or_else(|| "more".to_owned(), f64::to_string);
            let (mpi, data, basis) = (word(kind.mpi), word(kind.data), word(kind.basis));
            text.push_str(&format!("{},{mpi},{data},{basis},{reach},{},{:.4}\n", kind.quantity.name(), line.trials, 100.0 * line.half));
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = BTreeMap::new();
        for line in text.lines().filter(|l| !l.starts_with('#')).skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [quantity, mpi, data, basis, reach, trials, half] = fields[..] else { return None };
            let kind = Kind {
                quantity: Quantity::ALL.into_iter().find(|q| q.name() == quantity)?,
                mpi: [MpiKind::Nemesis, MpiKind::Mpich, MpiKind::OpenMpi].into_iter().find(|m| word(*m) == mpi)?,
                data: [DataPlace::Known, DataPlace::Unknown, DataPlace::Shared].into_iter().find(|d| word(*d) == data)?,
                basis: BASES.into_iter().find(|b| word(*b) == basis)?,
            };
            let class = REACHES.iter().position(|r| r.to_string() == reach).unwrap_or(REACHES.len());
            lines.insert((kind, class), Line { trials: trials.parse().ok()?, half: half.parse::<f64>().ok()? / 100.0 });
        }
        Some(Self { lines })
    }
}

const HEADER: &str = "\
# How far predictions were off for programs that their models had not seen: the 95 % interval is from 1/(1 + h) to 1 + h times the prediction;
# h in percent.
# Made by `cvc calibrate --write-table`; see docs/calibration.md.
quantity,mpi,data,basis,reach_up_to,trials,h_pct
";

const BASES: [Basis; 6] =
    [Basis::OneCount, Basis::TwoCounts, Basis::ThreeCounts, Basis::OtherRegime, Basis::OtherClass, Basis::OtherPrograms];

/// The name of a value in tables.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

fn class_of(reach: f64) -> usize {
    REACHES.iter().position(|end| reach <= *end + 1e-9).unwrap_or(REACHES.len())
}

/// The ⌈0.95·(n + 1)⌉-th smallest error. Of fewer than 19 errors none is the one: the largest, and as much more as a distribution with a
/// tail in proportion to 1/error lies between it and the one that is missing.
fn conformal(errors: &[f64]) -> f64 {
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let rank = (LEVEL * (n + 1) as f64).ceil() as usize;
    match sorted.get(rank.saturating_sub(1)) {
        Some(error) => *error,
        None => sorted.last().copied().unwrap_or(0.0) * (LEAST_TRIALS as f64 / n.max(1) as f64).sqrt(),
    }
}

/// What a prediction of a quantity at so many processes (or processes on a node) rests on, and how far it reaches. `counts` are those of the
/// runs that its model was fitted on; those of one process may be a regime apart, which tells little of more.
pub(super) fn basis_of(counts: &BTreeSet<u32>, asked: u32, from: From, one_is_apart: bool) -> (Basis, f64) {
    let several: BTreeSet<u32> = counts.iter().copied().filter(|c| !one_is_apart || (*c == 1) == (asked == 1)).collect();
    let (regime, known) = if several.is_empty() { (true, counts) } else { (false, &several) };
    let (fewest, most) = (known.first().copied().unwrap_or(asked), known.last().copied().unwrap_or(asked));
    let reach = (f64::from(asked) / f64::from(most)).max(f64::from(fewest) / f64::from(asked)).max(1.0);
    let basis = match (from, regime, several.len()) {
        (From::OtherPrograms, ..) => Basis::OtherPrograms,
        (From::OtherClass, ..) => Basis::OtherClass,
        (From::Own, true, _) => Basis::OtherRegime,
        (From::Own, false, 1) => Basis::OneCount,
        (From::Own, false, 2) => Basis::TwoCounts,
        (From::Own, false, _) => Basis::ThreeCounts,
    };
    (basis, reach)
}

/// Whose runs a model was fitted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The program's.
    Own,
    /// Those of other classes.
    OtherClass,
    /// Those of other programs.
    OtherPrograms,
}

/// With an interval that is at least as wide as the table says, and of that width if there was none.
pub(super) fn widened(estimate: Estimate, calibrated: Calibrated) -> Estimate {
    let factor = 1.0 + calibrated.half;
    let (low, high) = (estimate.value / factor, estimate.value * factor);
    let own = estimate.interval.unwrap_or(Interval { low, high });
    Estimate::between(estimate.value, low.min(own.low), high.max(own.high)).not_negative()
}

/// The numbers of processes, or of processes on a node, of observations.
pub(super) fn counts<'o>(observations: impl Iterator<Item = &'o Observation>, per_node: bool) -> BTreeSet<u32> {
    observations.filter_map(|o| if per_node { o.load() } else { Some(o.setting.mapping.processes()) }).collect()
}
