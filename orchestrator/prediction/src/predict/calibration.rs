//! How far predictions were off for programs that their models had not seen, and the intervals that follow.
//!
//! A curve through few runs tells too little of its own error. What can be told is how such curves erred elsewhere, and how far this one misses
//! the program's own runs if they are left out: the table has, for each kind of prediction ([`Kind`]), how the former goes with the latter and
//! with the reach ([`cvc_model::conformal`]). `cargo xtask calibrate` makes the trials.

use super::observation::Observation;
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate, MpiKind, Sample,
    conformal::{self, Shape, Trial},
    time_shape::{self, TimePart, TimeShape},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The table that cvc carries, made by `cvc calibrate --write-table` from the runs that it carries.
const TABLE: &str = include_str!("calibration.csv");

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

/// A trial of a kind of prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialError {
    /// Of which kind.
    pub kind: Kind,
    /// What was predicted and measured, and how the program's own runs were hit.
    pub trial: Trial,
}

/// What a line of the table is of. Errors are taken to be alike with all libraries, but for what these themselves start and store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    quantity: Quantity,
    /// `None` for all.
    mpi: Option<MpiKind>,
    /// Whether it is of programs that have their data elsewhere alone.
    is_elsewhere: bool,
    /// `None` for all of those that rest on runs of the program like the one in question, some of which could be left out.
    basis: Option<Basis>,
    /// Whether runs could be left out.
    has_own: bool,
}

impl Key {
    fn of(kind: Kind, has_own: bool) -> Self {
        let Kind {
            quantity,
            mpi,
            data,
            basis,
        } = kind;
        let is_like = matches!(
            basis,
            Basis::OneCount | Basis::TwoCounts | Basis::ThreeCounts
        );
        let is_few_pages = matches!(quantity, Quantity::Dtapp | Quantity::Headers);
        Self {
            quantity,
            mpi: depends_on_library(quantity).then_some(mpi),
            is_elsewhere: is_few_pages && data == DataPlace::Shared,
            basis: (!(has_own && is_like)).then_some(basis),
            has_own,
        }
    }
}

/// The quantities of which the calibration page says how often intervals hold, in its order.
pub const WITH_KNOWN_COVERAGE: [Quantity; 12] = [
    Quantity::Dtapp,
    Quantity::Lb,
    Quantity::Shmem,
    Quantity::Headers,
    Quantity::Image,
    Quantity::File,
    Quantity::Launchers,
    Quantity::Aux,
    Quantity::Stored,
    Quantity::Coordination,
    Quantity::Storage,
    Quantity::Latency,
];

fn depends_on_library(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Launchers | Quantity::Aux)
}

/// What is added to a quantity before its relative error is taken, in its unit: few pages of data, the library's memory without its segment, a
/// polling tick of the coordinator are not told more exactly the smaller the whole is.
pub fn error_offset(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::Dtapp => 0.3,
        Quantity::Shmem => 3.0,
        Quantity::Coordination => 0.5,
        Quantity::Aux => 1.0,
        _ => 0.0,
    }
}

/// A run that was left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeftOut {
    /// What was predicted for it without the runs on as many processes.
    pub predicted: f64,
    /// What was measured.
    pub measured: f64,
}

/// The runs of a program with a library that were left out, by quantity.
pub(crate) type Backtest = BTreeMap<Quantity, Vec<LeftOut>>;

/// The largest error of own runs that were left out; `None` without any.
pub(crate) fn own_error(quantity: Quantity, left_out: &[LeftOut]) -> Option<f64> {
    let error = |run: &LeftOut| {
        conformal::relative_error(run.predicted, run.measured, error_offset(quantity))
    };
    left_out.iter().filter_map(error).reduce(f64::max)
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    trials: usize,
    programs: usize,
    shape: Shape,
}

/// How far predictions of each kind were off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    lines: BTreeMap<Key, Line>,
    /// Proportions of the parts of times, by quantity and library.
    shapes: BTreeMap<(Quantity, MpiKind), TimeShape>,
}

/// The interval that the table gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// The interval is from 1/(1 + half) to 1 + half times the prediction.
    pub half: f64,
    /// Trials behind it.
    pub trials: usize,
    /// Programs of these trials.
    pub programs: usize,
}

impl Calibration {
    /// Makes the table of trials.
    pub fn of(trials: &[TrialError]) -> Self {
        let mut of_key: BTreeMap<Key, Vec<Trial>> = BTreeMap::new();
        for TrialError { kind, trial } in trials {
            of_key
                .entry(Key::of(*kind, trial.own.is_some()))
                .or_default()
                .push(trial.clone());
        }
        let line = |(key, trials): (Key, Vec<Trial>)| {
            let programs = trials
                .iter()
                .map(|t| t.program.as_str())
                .collect::<BTreeSet<_>>()
                .len();
            Some((
                key,
                Line {
                    trials: trials.len(),
                    programs,
                    shape: Shape::of(&trials, error_offset(key.quantity))?,
                },
            ))
        };
        Self {
            lines: of_key.into_iter().filter_map(line).collect(),
            shapes: BTreeMap::new(),
        }
    }

    /// Only the proportions of the parts of times, of these runs.
    pub fn shapes_of<'o>(observations: impl Iterator<Item = &'o Observation> + Clone) -> Self {
        let shape = |(quantity, part): (Quantity, TimePart), mpi: MpiKind| {
            let of = observations
                .clone()
                .filter(|o| o.setting.mpi == mpi && o.setting.compression == Compression::None);
            let samples: Vec<Sample> = of
                .filter_map(|o| {
                    Some(Sample {
                        id: o.id.clone(),
                        at: o.model_setting(),
                        value: o.value(quantity)?,
                    })
                })
                .collect();
            Some(((quantity, mpi), time_shape::shape_of(part, &samples)?))
        };
        let shapes = TIMES.into_iter().flat_map(|time| {
            LIBRARIES
                .into_iter()
                .filter_map(move |mpi| shape(time, mpi))
        });
        Self {
            lines: BTreeMap::new(),
            shapes: shapes.collect(),
        }
    }

    /// With the proportions of another one.
    pub fn with_shapes(self, of: &Self) -> Self {
        Self {
            shapes: of.shapes.clone(),
            ..self
        }
    }

    /// Without what widens intervals.
    pub(crate) fn without_errors(&self) -> Self {
        Self::default().with_shapes(self)
    }

    /// The proportions of the parts of a time with a library; of one that was not tried, those of another one.
    pub(crate) fn shape(&self, quantity: Quantity, mpi: MpiKind) -> Option<TimeShape> {
        let others = [mpi, MpiKind::OpenMpi, MpiKind::Nemesis];
        others
            .into_iter()
            .find_map(|mpi| self.shapes.get(&(quantity, mpi)).copied())
    }

    /// The table as cvc carries it, with the decimals that it is written with.
    pub fn rounded(&self) -> Self {
        Self::parse(&self.to_csv()).unwrap_or_default()
    }

    /// Whether it tells of no error.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The number of lines, and of those that rest on fewer than three programs.
    pub fn lines_and_those_of_few_programs(&self) -> (usize, usize) {
        (
            self.lines.len(),
            self.lines
                .values()
                .filter(|line| line.programs < FEW_PROGRAMS)
                .count(),
        )
    }

    /// The table that cvc carries.
    pub fn embedded() -> Self {
        Self::parse(TABLE).unwrap_or_default()
    }

    /// The interval of a prediction of a kind, for a program whose own runs are missed by `own` at most if they are left out; `None` if no trial
    /// is of the quantity. A kind without comparable trials gets the widest interval of its quantity.
    pub fn interval(&self, kind: Kind, reach: f64, own: Option<f64>) -> Option<Calibrated> {
        let of = |(key, line): (&Key, &Line)| {
            let half = line.shape.half(own.filter(|_| key.has_own), reach);
            Calibrated {
                half,
                trials: line.trials,
                programs: line.programs,
            }
        };
        let exact = [own.is_some(), false].into_iter().find_map(|has_own| {
            let key = Key::of(kind, has_own);
            self.lines.get_key_value(&key).map(of)
        });
        exact.or_else(|| {
            let usable = self.lines.iter().filter(|(key, _)| {
                key.quantity == kind.quantity && (own.is_some() || !key.has_own)
            });
            usable.map(of).max_by(|a, b| a.half.total_cmp(&b.half))
        })
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(HEADER);
        for (key, line) in &self.lines {
            let mpi = key.mpi.map_or_else(|| ANY.to_owned(), word);
            let data = if key.is_elsewhere { ELSEWHERE } else { ANY };
            let basis = key.basis.map_or_else(|| LIKE.to_owned(), word);
            let own = if key.has_own { OWN } else { NO_OWN };
            let Line {
                trials,
                programs,
                shape: Shape { q, d, g },
            } = line;
            text.push_str(&format!(
                "{},{mpi},{data},{basis},{own},{trials},{programs},{q:.6},{d},{g}\n",
                key.quantity.name()
            ));
        }
        text.push_str(SHAPES);
        for ((quantity, mpi), shape) in &self.shapes {
            let shape = shape.map(|value| format!("{value:.6}")).join(",");
            text.push_str(&format!("{},{},{shape}\n", quantity.name(), word(mpi)));
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let (mut lines, mut shapes) = (BTreeMap::new(), BTreeMap::new());
        for line in text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.starts_with("quantity,"))
        {
            let fields: Vec<&str> = line.split(',').collect();
            if let [quantity, mpi, a, c, own, other] = fields[..] {
                let quantity = Quantity::named(quantity)?;
                let mpi = LIBRARIES.into_iter().find(|m| word(*m) == mpi)?;
                shapes.insert(
                    (quantity, mpi),
                    [
                        a.parse().ok()?,
                        c.parse().ok()?,
                        own.parse().ok()?,
                        other.parse().ok()?,
                    ],
                );
                continue;
            }
            let [quantity, mpi, data, basis, own, trials, programs, q, d, g] = fields[..] else {
                return None;
            };
            let key = Key {
                quantity: Quantity::named(quantity)?,
                mpi: if mpi == ANY {
                    None
                } else {
                    Some(LIBRARIES.into_iter().find(|m| word(*m) == mpi)?)
                },
                is_elsewhere: data == ELSEWHERE,
                basis: if basis == LIKE {
                    None
                } else {
                    Some(BASES.into_iter().find(|b| word(*b) == basis)?)
                },
                has_own: own == OWN,
            };
            let shape = Shape {
                q: q.parse().ok()?,
                d: d.parse().ok()?,
                g: g.parse().ok()?,
            };
            lines.insert(
                key,
                Line {
                    trials: trials.parse().ok()?,
                    programs: programs.parse().ok()?,
                    shape,
                },
            );
        }
        Some(Self { lines, shapes })
    }
}

/// The times that have parts.
const TIMES: [(Quantity, TimePart); 3] = [
    (Quantity::Coordination, TimePart::Coordination),
    (Quantity::Storage, TimePart::Storage),
    (Quantity::Latency, TimePart::Whole),
];

const LIBRARIES: [MpiKind; 3] = [MpiKind::Nemesis, MpiKind::Mpich, MpiKind::OpenMpi];

const SHAPES: &str = "\
# Proportions of the parts of times: logarithms of the seconds of a start, of a turn on the cores, of a GiB of the program's, and of another GiB;
# parts that a time has not are -1.5.
quantity,mpi,start,turn,own_gib,other_gib
";

/// Fewer programs than these tell little of another one.
const FEW_PROGRAMS: usize = 3;

/// Words of the table: any library or place of data; data elsewhere; any basis of runs like the one in question; runs that could be left out.
const ANY: &str = "any";
const ELSEWHERE: &str = "elsewhere";
const LIKE: &str = "own-runs";
const OWN: &str = "left-out";
const NO_OWN: &str = "none";

const HEADER: &str = "\
# How far predictions were off for programs that their models had not seen: the 95 % interval is from 1/(1 + h) to 1 + h times the prediction,
# h = q (b + d) reach^g, b = largest error of the program's own runs that were left out; where none could be, h = q reach^g.
# Made by `cvc calibrate --write-table`; see docs/calibration.md.
quantity,mpi,data,basis,own_error,trials,programs,q,d,g
";

const BASES: [Basis; 6] = [
    Basis::OneCount,
    Basis::TwoCounts,
    Basis::ThreeCounts,
    Basis::OtherRegime,
    Basis::OtherClass,
    Basis::OtherPrograms,
];

/// The name of a value in tables.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

/// What a prediction of a quantity at so many processes (or processes on a node) rests on, and how far it reaches. `counts` are those of the
/// runs that its model was fitted on; those of one process may be a regime apart, which tells little of more.
pub(crate) fn basis_of(
    counts: &BTreeSet<u32>,
    asked: u32,
    from: From,
    one_is_apart: bool,
) -> (Basis, f64) {
    let several: BTreeSet<u32> = counts
        .iter()
        .copied()
        .filter(|c| !one_is_apart || (*c == 1) == (asked == 1))
        .collect();
    let (regime, known) = if several.is_empty() {
        (true, counts)
    } else {
        (false, &several)
    };
    let (fewest, most) = (
        known.first().copied().unwrap_or(asked),
        known.last().copied().unwrap_or(asked),
    );
    let reach = (f64::from(asked) / f64::from(most))
        .max(f64::from(fewest) / f64::from(asked))
        .max(1.0);
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
pub(crate) enum From {
    /// The program's.
    Own,
    /// Those of other classes.
    OtherClass,
    /// Those of other programs.
    OtherPrograms,
}

/// With an interval that is at least as wide as the table says, and of that width if there was none.
pub(crate) fn widened(quantity: Quantity, estimate: Estimate, calibrated: Calibrated) -> Estimate {
    let told = conformal::interval(estimate.value, calibrated.half, error_offset(quantity));
    match (told.interval, estimate.interval) {
        (Some(told), Some(own)) => Estimate::between(
            estimate.value,
            told.low.min(own.low),
            told.high.max(own.high),
        )
        .not_negative(),
        (None, _) | (_, None) => told,
    }
}

/// The numbers of processes, or of processes on a node, of observations.
pub(crate) fn counts<'o>(
    observations: impl Iterator<Item = &'o Observation>,
    per_node: bool,
) -> BTreeSet<u32> {
    observations
        .filter_map(|o| {
            if per_node {
                o.load()
            } else {
                Some(o.setting.mapping.processes())
            }
        })
        .collect()
}
