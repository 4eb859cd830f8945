//! Errors of predictions for programs to which the models were not fitted, and intervals that follow from these errors.
//!
//! A curve through few runs contains too little information about its own error. For each kind of prediction ([`Kind`]), the table therefore
//! contains the errors of such curves for other programs. They depend on the error at the program's own left-out runs, on the difference between
//! the candidate laws, and on the distance beyond the runs ([`cvc_model::conformal`]). `cargo xtask calibrate` makes the trials.

use super::{environment::ZoneRules, observation::Observation};
use cvc_core::point::Compression;
use cvc_core::quantity::Quantity;
use cvc_model::{
    Estimate, MpiKind, Sample,
    conformal::{Doubt, LeftOut, Shape, Trial},
    time_shape::{self, TimePart, TimeShape},
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The table built into cvc, made by `cargo xtask calibrate --write-table` from the runs in this repository.
const TABLE: &str = include_str!("calibration.csv");

/// The runs on which a prediction is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Runs of the program on one number of processes.
    OneCount,
    /// Runs of the program on two numbers of processes.
    TwoCounts,
    /// Runs of the program on three or more numbers of processes.
    ThreeCounts,
    /// Only runs with one process, for a prediction of several; or only runs with several, for a prediction of one.
    OtherRegime,
    /// Runs of other classes of the program.
    OtherClass,
    /// Runs of other programs.
    OtherPrograms,
}

/// Where a program stores its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataPlace {
    /// In arrays that are known from the source.
    Known,
    /// In an unknown place.
    Unknown,
    /// In memory that the program allocates, which is next to shared memory in its images.
    Shared,
}

/// A kind of prediction. All predictions of a kind are assumed to have similar errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The predicted quantity.
    pub quantity: Quantity,
    /// The MPI library.
    pub mpi: MpiKind,
    /// Where the program stores its data, if it matters for the quantity.
    pub data: DataPlace,
    /// The rule by which the zones of the runs were detected.
    pub zones: Option<ZoneRules>,
    /// The runs on which the prediction is based.
    pub basis: Basis,
}

/// A trial of a kind of prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialError {
    /// Kind of the prediction.
    pub kind: Kind,
    /// The prediction and the measurement, with the errors at the program's own runs.
    pub trial: Trial,
}

/// Key of a line of the table. Errors are assumed to be similar with all libraries, except for the memory and processes of the libraries
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    quantity: Quantity,
    /// The library; `None` for all.
    mpi: Option<MpiKind>,
    /// Where the data are stored; `None` for all.
    data: Option<DataPlace>,
    /// Whether the line applies only to zones detected by owner.
    is_by_owner: bool,
    /// The basis; `None` for all bases. A prediction of a time has `None`. So has a prediction from runs of the program in the same regime, if some
    /// of these runs could be left out.
    basis: Option<Basis>,
    /// Whether runs of the program could be left out, so that the errors at these runs are known.
    has_own: bool,
}

impl Key {
    fn of(kind: Kind, has_own: bool) -> Self {
        let Kind {
            quantity,
            mpi,
            data,
            zones,
            basis,
        } = kind;
        let is_like = matches!(
            basis,
            Basis::OneCount | Basis::TwoCounts | Basis::ThreeCounts
        );
        // a program whose data are in few pages of their zone has few memory areas, too
        let data = match quantity {
            Quantity::Dtapp | Quantity::Headers => Some(data),
            Quantity::Image | Quantity::Stored if data == DataPlace::Known => Some(data),
            _ => None,
        };
        // the scatter of single times is larger than any effect of the other properties
        let is_time = TIMES.iter().any(|(time, _)| *time == quantity);
        Self {
            quantity,
            mpi: depends_on_library(quantity).then_some(mpi),
            data,
            // with zones by owner, shared memory excludes the library's own memory
            is_by_owner: quantity == Quantity::Shmem && zones == Some(ZoneRules::Owner),
            basis: (!(is_time || has_own && is_like)).then_some(basis),
            has_own: has_own && !is_time,
        }
    }
}

/// The quantities whose coverage of intervals is on the calibration page, in the order of the page.
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

/// Candidate offsets, in the quantity's unit, that are added before relative errors are computed. They allow for absolute errors of a few pages in
/// small sizes; with 10,000 MiB, errors are practically absolute. The negative offsets remove the 8 to 10 MiB of headers that every image has for
/// the same libraries.
fn offsets(quantity: Quantity) -> &'static [f64] {
    match quantity {
        Quantity::Headers => &[0.0, -8.0, -9.0],
        Quantity::Coordination | Quantity::Storage | Quantity::Latency => &[0.0],
        _ => &[0.0, 0.3, 3.0, 30.0, 1e4],
    }
}

/// Predictions for left-out runs of a program with a library, by quantity.
pub(crate) type Backtest = BTreeMap<Quantity, Vec<LeftOut>>;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    trials: usize,
    programs: usize,
    shape: Shape,
}

/// The table of errors by kind of prediction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    lines: BTreeMap<Key, Line>,
    /// Proportions of the parts of times, by quantity and library.
    shapes: BTreeMap<(Quantity, MpiKind), TimeShape>,
}

/// An interval from the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibrated {
    /// The prediction with its interval.
    pub estimate: Estimate,
    /// Number of trials behind the interval.
    pub trials: usize,
    /// Number of programs in these trials.
    pub programs: usize,
}

impl Calibration {
    /// Makes the table from trials.
    pub fn of(trials: &[TrialError]) -> Self {
        let mut of_key: BTreeMap<Key, Vec<Trial>> = BTreeMap::new();
        for TrialError { kind, trial } in trials {
            of_key
                .entry(Key::of(*kind, !trial.doubt.left_out.is_empty()))
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
                    shape: Shape::of(&trials, offsets(key.quantity), key.has_own)?,
                },
            ))
        };
        Self {
            lines: of_key.into_iter().filter_map(line).collect(),
            shapes: BTreeMap::new(),
        }
    }

    /// Returns a table that contains only the proportions of the parts of times, fitted to these runs.
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

    /// Replaces the proportions by those of another table.
    pub fn with_shapes(self, of: &Self) -> Self {
        Self {
            shapes: of.shapes.clone(),
            ..self
        }
    }

    /// Returns the table without errors, so that it does not widen intervals.
    pub(crate) fn without_errors(&self) -> Self {
        Self::default().with_shapes(self)
    }

    /// Returns the proportions of the parts of a time with a library. If there were no runs with the library, those of another library are
    /// returned.
    pub(crate) fn shape(&self, quantity: Quantity, mpi: MpiKind) -> Option<TimeShape> {
        let others = [mpi, MpiKind::OpenMpi, MpiKind::Nemesis];
        others
            .into_iter()
            .find_map(|mpi| self.shapes.get(&(quantity, mpi)).copied())
    }

    /// Returns the table with numbers rounded as in its CSV text.
    pub fn rounded(&self) -> Self {
        Self::parse(&self.to_csv()).unwrap_or_default()
    }

    /// Returns whether the table has no errors.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns the table built into cvc.
    pub fn embedded() -> Self {
        Self::parse(TABLE).unwrap_or_default()
    }

    /// Returns the interval of a prediction; `None` if there is no trial of the quantity. If there is no trial of the kind, it is the widest
    /// interval of the quantity.
    pub fn interval(&self, kind: Kind, value: f64, doubt: &Doubt) -> Option<Calibrated> {
        let of = |(_, line): (&Key, &Line)| Calibrated {
            estimate: line.shape.interval(value, doubt),
            trials: line.trials,
            programs: line.programs,
        };
        let has_own = !doubt.left_out.is_empty();
        let exact = [has_own, false].into_iter().find_map(|has_own| {
            let key = Key::of(kind, has_own);
            self.lines.get_key_value(&key).map(of)
        });
        exact.or_else(|| {
            let usable = self
                .lines
                .iter()
                .filter(|(key, _)| key.quantity == kind.quantity && (has_own || !key.has_own));
            let width = |of: &Calibrated| of.estimate.half_width().unwrap_or(0.0);
            usable.map(of).max_by(|a, b| width(a).total_cmp(&width(b)))
        })
    }

    /// Returns the table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(HEADER);
        for (key, line) in &self.lines {
            let mpi = key.mpi.map_or_else(|| ANY.to_owned(), word);
            let data = key.data.map_or_else(|| ANY.to_owned(), word);
            let zones = if key.is_by_owner { OWNER } else { ANY };
            let basis = key.basis.map_or_else(|| LIKE.to_owned(), word);
            let own = if key.has_own { OWN } else { NO_OWN };
            let Line {
                trials,
                programs,
                shape:
                    Shape {
                        offset,
                        own: by_own,
                        laws,
                        d,
                        g,
                        below,
                        above,
                    },
            } = line;
            let scale = SCALES
                .iter()
                .find(|(_, of)| *of == (*by_own, *laws))
                .map_or(NO_OWN, |(name, _)| name);
            text.push_str(&format!(
                "{},{mpi},{data},{zones},{basis},{own},{trials},{programs},{offset},{scale},{d},{g},{below:.3e},{above:.3e}\n",
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
            let [
                quantity,
                mpi,
                data,
                zones,
                basis,
                own,
                trials,
                programs,
                offset,
                scale,
                d,
                g,
                below,
                above,
            ] = fields[..]
            else {
                return None;
            };
            let key = Key {
                quantity: Quantity::named(quantity)?,
                mpi: if mpi == ANY {
                    None
                } else {
                    Some(LIBRARIES.into_iter().find(|m| word(*m) == mpi)?)
                },
                data: if data == ANY {
                    None
                } else {
                    Some(PLACES.into_iter().find(|p| word(*p) == data)?)
                },
                is_by_owner: zones == OWNER,
                basis: if basis == LIKE {
                    None
                } else {
                    Some(BASES.into_iter().find(|b| word(*b) == basis)?)
                },
                has_own: own == OWN,
            };
            let (_, (by_own, laws)) = SCALES.into_iter().find(|(name, _)| *name == scale)?;
            let shape = Shape {
                offset: offset.parse().ok()?,
                own: by_own,
                laws,
                d: d.parse().ok()?,
                g: g.parse().ok()?,
                below: below.parse().ok()?,
                above: above.parse().ok()?,
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

/// The times that consist of parts.
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

/// Words in the table: any library, place of data or zones; zones by owner; any basis with runs of the program in the same regime; runs of the
/// program were left out; none.
const ANY: &str = "any";
const OWNER: &str = "owner";
const LIKE: &str = "own-runs";
const OWN: &str = "left-out";
const NO_OWN: &str = "none";

/// Names for the terms of the error's scale: errors of own runs, and differences between laws.
const SCALES: [(&str, (bool, bool)); 4] = [
    (NO_OWN, (false, false)),
    ("own", (true, false)),
    ("laws", (false, true)),
    ("both", (true, true)),
];

const HEADER: &str = "\
# How far predictions were off for programs that their models had not seen. The 95 % interval of a prediction v is from v - x + x/(1 + below s) to
# v + x above s, with x = v + offset and s = (scale + d) reach^g. The scale is the largest error of the program's own runs that were left out (own),
# the distance between the candidate laws (laws), or their sum (both), relative to x; without any (none), s = reach^g.
# Made by `cargo xtask calibrate --write-table`; see docs/calibration.md.
quantity,mpi,data,zones,basis,own_error,trials,programs,offset,scale,d,g,below,above
";

const PLACES: [DataPlace; 3] = [DataPlace::Known, DataPlace::Unknown, DataPlace::Shared];

const BASES: [Basis; 6] = [
    Basis::OneCount,
    Basis::TwoCounts,
    Basis::ThreeCounts,
    Basis::OtherRegime,
    Basis::OtherClass,
    Basis::OtherPrograms,
];

/// Returns the name of a value in tables.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

/// Returns the basis of a prediction at `asked` processes (in total or on a node), and the factor by which it is beyond the runs. `counts` are the
/// numbers of processes of the runs that the model was fitted to. With `one_is_apart`, runs with one process are a separate regime, from which
/// little follows for several.
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

/// The runs to which a model was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// Runs of the program.
    Own,
    /// Runs of other classes of the program.
    OtherClass,
    /// Runs of other programs.
    OtherPrograms,
}

/// Widens the interval to contain the table's, or adds the table's interval if there is none.
pub(crate) fn widened(estimate: Estimate, tabulated: Estimate) -> Estimate {
    match (tabulated.interval, estimate.interval) {
        (Some(tabulated), Some(own)) => Estimate::between(
            estimate.value,
            tabulated.low.min(own.low),
            tabulated.high.max(own.high),
        )
        .not_negative(),
        (None, _) | (_, None) => tabulated,
    }
}

/// Returns the numbers of processes, in total or on a node, of observations.
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
