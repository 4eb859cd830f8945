//! The prediction gate: checks whether predictions are within the bounds of `[predict]`.

use super::HoldoutResult;
use cvc_core::quantity::Quantity;
use indexmap::IndexMap;
use serde::Serialize;
use std::fmt;

/// The held-out points of one program and MPI library, for one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateGroup {
    /// The program.
    pub app: String,
    /// The MPI library.
    pub mpi: String,
    /// The quantity.
    pub quantity: Quantity,
    /// Number of held-out points with a measurement.
    pub measured: usize,
    /// Number of these points with a prediction.
    pub predicted: usize,
    /// Mean error of these predictions, percent.
    pub mean_error_pct: Option<f64>,
    /// The reason why a prediction is missing.
    pub refusal: Option<String>,
    /// The bound on the mean error, percent.
    pub bound_pct: Option<f64>,
}

/// Coverage of intervals. A cell is one quantity at one held-out point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Cells with a prediction and a measurement.
    pub cells: usize,
    /// Cells whose prediction has an interval.
    pub with_interval: usize,
    /// Cells whose measurement is inside the interval.
    pub inside: usize,
}

/// The comparison of all predictions with all bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gate {
    /// One group for each program, MPI library and quantity.
    pub groups: Vec<GateGroup>,
    /// Coverage over all cells.
    pub coverage: Coverage,
    /// The bound on the coverage, percent.
    pub min_coverage_pct: Option<f64>,
    /// The reason why there are no predictions at all.
    pub problem: Option<String>,
}

impl GateGroup {
    /// Returns whether the group is within its bound; `None` if there is no bound.
    pub fn met(&self) -> Option<bool> {
        let bound = self.bound_pct?;
        Some(
            self.predicted > 0
                && self.predicted == self.measured
                && self.mean_error_pct.is_some_and(|e| e <= bound),
        )
    }

    /// Returns the message for a missed bound; `None` if the group is within its bound.
    fn miss(&self) -> Option<String> {
        let bound = self.bound_pct.filter(|_| self.met() == Some(false))?;
        let of = format!("{} of {} on {}", self.quantity.short(), self.app, self.mpi);
        let why = self
            .refusal
            .as_ref()
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        Some(match self.mean_error_pct {
            _ if self.measured == 0 => {
                format!("{of} was not measured at any held-out point (bound {bound} %)")
            }
            _ if self.predicted < self.measured => {
                format!(
                    "{of} has no prediction at {} of {} held-out points{why}",
                    self.measured - self.predicted,
                    self.measured
                )
            }
            Some(mean) => {
                format!(
                    "{of}: mean error {} % of {} held-out points, {} above the bound of {bound} %",
                    pct(mean),
                    self.measured,
                    pct(mean - bound)
                )
            }
            None => format!("{of} was measured as 0, so its error has no percentage"),
        })
    }
}

impl Coverage {
    /// Returns the percentage of the cells with an interval whose measurement is inside it; `None` if there are no such cells.
    pub fn pct(self) -> Option<f64> {
        (self.with_interval > 0).then(|| 100.0 * self.inside as f64 / self.with_interval as f64)
    }

    /// Returns the percentage of the cells that have an interval; `None` without cells.
    pub fn interval_pct(self) -> Option<f64> {
        (self.cells > 0).then(|| 100.0 * self.with_interval as f64 / self.cells as f64)
    }

    /// Returns the number of cells without an interval.
    pub fn without_interval(self) -> usize {
        self.cells - self.with_interval
    }

    /// Adds a cell. `covered` says whether its interval contains the measurement; `None` without an interval.
    pub fn add(&mut self, covered: Option<bool>) {
        self.cells += 1;
        self.with_interval += usize::from(covered.is_some());
        self.inside += usize::from(covered == Some(true));
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.inside, self.with_interval)?;
        self.pct().map_or(Ok(()), |pct| write!(f, " ({pct:.1} %)"))
    }
}

/// Formats percentages with the significant digits.
fn pct(value: f64) -> String {
    if value.abs() < 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.2}")
    }
}

impl Gate {
    /// Compares all predictions with the bounds.
    pub fn of(outcome: &HoldoutResult) -> Self {
        let mut groups: IndexMap<(&str, &str), IndexMap<Quantity, GateGroup>> = IndexMap::new();
        // every bound applies to every program and library with held-out points, even without any prediction
        for place in outcome.held_out.values() {
            let of = groups.entry((&place.app, &place.mpi)).or_default();
            for (quantity, bound) in &outcome.split.max_error_pct {
                of.entry(*quantity)
                    .or_insert_with(|| group(&place.app, &place.mpi, *quantity, Some(*bound)));
            }
        }
        let mut coverage = Coverage::default();
        let mut sums: IndexMap<(&str, &str, Quantity), (f64, usize)> = IndexMap::new();
        for p in &outcome.judged {
            let Some(place) = outcome.held_out.get(&p.point) else {
                continue;
            };
            let of = groups.entry((&place.app, &place.mpi)).or_default();
            let group = of
                .entry(p.quantity)
                .or_insert_with(|| group(&place.app, &place.mpi, p.quantity, None));
            group.measured += 1;
            match &p.answer {
                Err(no) => group.refusal = Some(no.why.clone()),
                Ok(_) => {
                    group.predicted += 1;
                    coverage.add(p.covered);
                    if let Some(error) = p.error_pct {
                        let sum = sums
                            .entry((&place.app, &place.mpi, p.quantity))
                            .or_default();
                        *sum = (sum.0 + error, sum.1 + 1);
                    }
                }
            }
        }
        let with_mean = |mut g: GateGroup| {
            g.mean_error_pct = sums
                .get(&(g.app.as_str(), g.mpi.as_str(), g.quantity))
                .map(|(sum, n)| sum / *n as f64);
            g
        };
        let mut groups: Vec<GateGroup> = groups
            .into_values()
            .flat_map(IndexMap::into_values)
            .map(with_mean)
            .collect();
        groups.sort_by_key(|g| g.quantity);
        let problem = (coverage.cells == 0)
            .then(|| outcome.problems.first().cloned())
            .flatten();
        Self {
            groups,
            coverage,
            min_coverage_pct: outcome.split.min_coverage_pct,
            problem,
        }
    }

    /// Returns whether any bound is set.
    pub fn has_bounds(&self) -> bool {
        self.min_coverage_pct.is_some() || self.groups.iter().any(|g| g.bound_pct.is_some())
    }

    /// Returns whether all predictions are within their bounds.
    pub fn is_kept(&self) -> bool {
        self.misses().is_empty()
    }

    /// Returns messages for the missed bounds, with the margins; empty if none is missed.
    pub fn misses(&self) -> Vec<String> {
        if !self.has_bounds() {
            return Vec::new();
        }
        if let Some(problem) = &self.problem {
            return vec![format!("no predictions: {problem}")];
        }
        let coverage = self.min_coverage_pct.and_then(|bound| match self.coverage.pct() {
            None if self.coverage.cells > 0 => None,
            None => Some(format!("no held-out cell has a prediction (bound {bound} % within their intervals)")),
            Some(pct) if pct < bound => Some(format!(
                "{} held-out cells are within their 95 % interval, {:.1} below the bound of {bound} %",
                self.coverage,
                bound - pct
            )),
            Some(_) => None,
        });
        let (without, cells) = (self.coverage.without_interval(), self.coverage.cells);
        let bare = self
            .min_coverage_pct
            .zip(self.coverage.interval_pct())
            .filter(|(bound, pct)| pct < bound);
        let bare = bare.map(|(bound, _)| {
            format!(
                "{without} of {cells} held-out cells have no interval (bound: {bound} % have one)"
            )
        });
        self.groups
            .iter()
            .filter_map(GateGroup::miss)
            .chain(coverage)
            .chain(bare)
            .collect()
    }
}

fn group(app: &str, mpi: &str, quantity: Quantity, bound_pct: Option<f64>) -> GateGroup {
    GateGroup {
        app: app.into(),
        mpi: mpi.into(),
        quantity,
        measured: 0,
        predicted: 0,
        mean_error_pct: None,
        refusal: None,
        bound_pct,
    }
}
