//! Laws in the problem size W and the number of processes P. They predict the memory of a rank, the checkpoint that a program writes itself, and
//! its computing time.
//!
//! | law | value |
//! | --- | --- |
//! | share | c + a·s + b·s^(2/3): a process's part of the volume, and its surface; s = W/P, or s = W if each process has a problem of size W |
//! | cells | c + a·s + b·w^(2/3)/√P, w = P·s: each process has √P cells, as in multi-partition solvers, and their surfaces |
//! | slabs | c + a·s + b·f, or c + a·s + b·f·(1 − 1/P), f = W^(2/3): a domain cut in one direction; b counts all faces, or only faces to neighbours |
//! | whole | c + a·s + d·W: in addition, data that every process holds in full |
//! | power | c + a·W^α/P^β, for sizes that memory is not proportional to |
//! | own file | c + a·V + d·P, with V = W or V = P·W: one file for all processes, or one file for each process |
//! | time | c + a·work/slots; slots is the number of processes, limited by the number of cores |
//!
//! No factor is negative. A size more than ten times above or below the observed sizes is refused. Up to this limit, the interval is multiplied by
//! the ratio of the size to the nearest observed size.

use crate::{
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares_not_negative, relative_weights},
    linear::{FEW_PAGES_MIB, RELATIVE_ERROR, widened},
    scope::{Along, Common, Scope},
    shmem::library_mib,
};
use cvc_core::{app::size::ProblemSize, units::MIB};

/// Ratio to the nearest observed size above which there is no prediction.
const REFUSED: f64 = 10.0;

/// Ratio to the nearest observed size above which there is a warning.
const FAR: f64 = 2.0;

/// Difference between identical runs, MiB.
const TWO_PAGES_MIB: f64 = 2.0 * 4096.0 / MIB;

/// One KiB, in MiB. Checkpoints that a program writes itself differ by some bytes of their headers.
const KIB: f64 = 1024.0 / MIB;

/// Exponents α of W that the power law tries: minimum, maximum and step. Smaller steps around the best exponent follow.
const EXPONENTS: (f64, f64, f64) = (0.2, 3.0, 0.2);
/// Exponents β of P that the power law tries: the same size on each process, or a size divided in one, two or three dimensions.
const DIVIDED: [f64; 5] = [0.0, 1.0 / 3.0, 0.5, 2.0 / 3.0, 1.0];
/// Number of times that the step of the exponent α is reduced.
const REFINED: usize = 4;

/// A law: value = offset + Σ factor · term. No factor is negative.
#[derive(Clone, Copy, Debug)]
struct Law {
    info: ModelInfo,
    names: &'static [&'static str],
    terms: fn(&Setting) -> Result<Vec<f64>, FitError>,
    offset: fn(&Setting) -> Result<f64, FitError>,
    /// Properties, in addition to the program, that all fitted runs must share.
    common: &'static [Common],
    /// Whether the law can predict another number of processes only if the runs were on several numbers.
    needs_counts: bool,
    /// Minimum half-width of an interval, in the unit of the quantity.
    band: f64,
    /// Minimum systematic error of the law, in the unit of the quantity.
    least_error: f64,
}

const fn info(
    id: &'static str,
    title: &'static str,
    formula: &'static str,
    parameters: usize,
) -> ModelInfo {
    ModelInfo {
        id,
        title,
        formula,
        source: "cvc: the size of the problem as the descriptor declares it; no factor is negative",
        tier: Tier::SmallRuns,
        parameters,
    }
}

fn none(_: &Setting) -> Result<f64, FitError> {
    Ok(0.0)
}

fn size(at: &Setting) -> Result<&ProblemSize, FitError> {
    at.size.as_ref().ok_or_else(|| {
        FitError::OutOfDomain(format!(
            "the size of {}.{} is not known: its descriptor does not say which variables are sizes",
            at.app, at.class
        ))
    })
}

fn share(at: &Setting) -> Result<f64, FitError> {
    Ok(size(at)?.share(at.processes()))
}

const SHARE: Law = Law {
    info: info(
        "size-share",
        "a part of the problem, and its surface",
        "MiB = c + a·s + b·s^(2/3), s = W/P, or W of each process",
        3,
    ),
    names: &["c", "a", "b"],
    terms: |at| {
        let s = share(at)?;
        Ok(vec![1.0, s, s.powf(2.0 / 3.0)])
    },
    offset: none,
    common: &[Common::Mpi],
    needs_counts: true,
    band: TWO_PAGES_MIB,
    least_error: FEW_PAGES_MIB,
};

const CELLS: Law = Law {
    info: info(
        "size-cells",
        "several cells of the problem, and their surfaces",
        "MiB = c + a·s + b·w^(2/3)/√P, s = W/P and w = W, or s = W and w = P·W of each process",
        3,
    ),
    names: &["c", "a", "b"],
    terms: |at| {
        let whole = size(at)?.whole(at.processes());
        Ok(vec![1.0, share(at)?, whole.powf(2.0 / 3.0) / at.root()])
    },
    ..SHARE
};

const SLABS: Law = Law {
    info: info(
        "size-slabs",
        "a slab of the problem, and its faces",
        "MiB = c + a·s + b·f, s = W/P and f = W^(2/3), or s = W and f = s^(2/3) of each process",
        3,
    ),
    names: &["c", "a", "b"],
    terms: |at| Ok(vec![1.0, share(at)?, face(at)?]),
    ..SHARE
};

const NEIGHBOURS: Law = Law {
    info: info(
        "size-neighbours",
        "a slab of the problem, and its faces to neighbours",
        "MiB = c + a·s + b·f·(1 − 1/P), s and f as of slabs",
        3,
    ),
    names: &["c", "a", "b"],
    terms: |at| {
        let to_others = 1.0 - 1.0 / f64::from(at.processes());
        Ok(vec![1.0, share(at)?, face(at)? * to_others])
    },
    ..SHARE
};

/// Returns the area of a slab's face: W^(2/3). W is the size that the class declares: of the whole problem, or of the problem of each process.
fn face(at: &Setting) -> Result<f64, FitError> {
    Ok(size(at)?.count.powf(2.0 / 3.0))
}

const WHOLE: Law = Law {
    info: info(
        "size-whole",
        "a part of the problem, and data that every process holds in full",
        "MiB = c + a·s + d·W, s = W/P, or W of each process",
        3,
    ),
    names: &["c", "a", "d"],
    terms: |at| Ok(vec![1.0, share(at)?, size(at)?.whole(at.processes())]),
    ..SHARE
};

const OWN_FILE: Law = Law {
    info: info(
        "own-size",
        "the problem, and the part that each process adds",
        "MiB = c + a·W + d·P, W of all processes",
        3,
    ),
    names: &["c", "a", "d"],
    terms: |at| {
        let p = f64::from(at.processes());
        Ok(vec![1.0, size(at)?.whole(at.processes()), p])
    },
    common: &[],
    band: KIB,
    ..SHARE
};

const OWN_FILE_OF_PROCESSES: Law = Law {
    info: info(
        "own-processes",
        "the bytes of all processes together, and those that each adds",
        "MiB = c + d·P",
        2,
    ),
    names: &["c", "d"],
    terms: |at| Ok(vec![1.0, f64::from(at.processes())]),
    common: &[Common::Program],
    band: KIB,
    ..SHARE
};

const OWN_HEADER: Law = Law {
    info: info(
        "own-declared",
        "the bytes that the descriptor declares, and headers",
        "MiB = bytes/2^20 + h + d·P",
        2,
    ),
    names: &["h", "d"],
    terms: |at| Ok(vec![1.0, f64::from(at.processes())]),
    offset: |at| Ok(own(at)?.bytes / MIB),
    common: &[],
    needs_counts: false,
    band: KIB,
    least_error: 0.01,
};

const TIME: Law = Law {
    info: info(
        "size-time",
        "the work of the program, divided among cores",
        "s = c + a·work/slots, slots = nodes · min(processes on a node, cores)",
        2,
    ),
    names: &["c", "a"],
    terms: |at| {
        let work = size(at)?.work.ok_or_else(|| {
            FitError::OutOfDomain(format!(
                "the descriptor of {} does not say how much it computes (`work`)",
                at.app
            ))
        })?;
        let of_node = at
            .output
            .cores
            .map_or(at.per_node, |cores| at.per_node.min(cores));
        Ok(vec![
            1.0,
            work / f64::from(at.mapping.nodes() * of_node.max(1)),
        ])
    },
    needs_counts: false,
    band: 0.05,
    least_error: 0.1,
    ..SHARE
};

const OWN_TIME: Law = Law {
    info: info(
        "own-time",
        "a time, the written bytes, and the part that each process adds",
        "s = c + a·V + d·P, V MiB of the checkpoint, or the size of the problem",
        3,
    ),
    names: &["c", "a", "d"],
    terms: |at| {
        let p = at.processes();
        let volume = declared_own_mib(at).or_else(|_| Ok(size(at)?.whole(p)))?;
        Ok(vec![1.0, volume, f64::from(p)])
    },
    band: 0.01,
    least_error: 0.1,
    ..SHARE
};

/// Returns the laws for the part of an image that holds the application's data.
pub fn data_models() -> Vec<Box<dyn Model>> {
    with_offset(none)
}

/// Returns the laws for an image zone that contains both shared memory and the program's data.
pub fn shared_models() -> Vec<Box<dyn Model>> {
    with_offset(library_mib)
}

fn with_offset(offset: fn(&Setting) -> Result<f64, FitError>) -> Vec<Box<dyn Model>> {
    let laws = [SHARE, CELLS, SLABS, NEIGHBOURS, WHOLE];
    let boxed = laws.map(|law| -> Box<dyn Model> { Box::new(Law { offset, ..law }) });
    let power: Box<dyn Model> = Box::new(Power { offset });
    boxed.into_iter().chain([power]).collect()
}

/// Returns the laws for the bytes of a checkpoint that the program writes itself.
pub fn own_models() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(OWN_HEADER),
        Box::new(OWN_FILE),
        Box::new(OWN_FILE_OF_PROCESSES),
    ]
}

/// Returns the law for the time of a checkpoint that the program writes itself.
pub fn own_time_models() -> Vec<Box<dyn Model>> {
    vec![Box::new(OWN_TIME)]
}

/// Returns the law for a program's computing time.
pub fn time_models() -> Vec<Box<dyn Model>> {
    vec![Box::new(TIME)]
}

/// Returns the MiB of a program's own checkpoint without headers, as its descriptor declares it.
///
/// # Errors
///
/// The program's descriptor does not declare this size.
pub fn declared_own_mib(at: &Setting) -> Result<f64, FitError> {
    Ok(own(at)?.bytes / MIB)
}

fn own(at: &Setting) -> Result<cvc_core::app::size::OwnCheckpointSize, FitError> {
    size(at)?.own_checkpoint.ok_or_else(|| {
        FitError::OutOfDomain(format!(
            "the descriptor of {} does not say how many bytes its checkpoints have",
            at.app
        ))
    })
}

/// The range of the runs that a law was fitted to.
#[derive(Clone, Debug)]
struct Observed {
    app: String,
    /// Smallest and largest problem size; `None` for laws that do not depend on the size.
    sizes: Option<(f64, f64)>,
    class: String,
    unit: String,
    /// The number of processes of all runs, if they are equal and the law cannot predict other numbers from one; otherwise `None`.
    only: Option<u32>,
    scope: Scope,
}

impl Observed {
    fn of(samples: &[&Sample], common: &[Common], needs_counts: bool) -> Result<Self, FitError> {
        let first = samples.first().ok_or(FitError::TooFewPoints {
            found: 0,
            needed: 1,
        })?;
        let sized = !common.contains(&Common::Program);
        let mut sizes: Option<(f64, f64)> = None;
        for sample in samples.iter().filter(|_| sized) {
            let count = size(&sample.at)?.count;
            sizes = Some(sizes.map_or((count, count), |(low, high)| {
                (low.min(count), high.max(count))
            }));
            if sample.at.app != first.at.app {
                return Err(FitError::OutOfDomain(
                    "the runs are of several programs".to_owned(),
                ));
            }
        }
        Ok(Self {
            app: first.at.app.clone(),
            sizes,
            class: first.at.class.clone(),
            unit: first
                .at
                .size
                .as_ref()
                .map_or(String::new(), |s| s.unit.clone()),
            only: Some(first.at.processes())
                .filter(|p| needs_counts && samples.iter().all(|s| s.at.processes() == *p)),
            scope: Scope::of(samples, common, Along::Processes)?,
        })
    }

    /// Returns the ratio (at least 1) of a setting's problem size to the nearest observed size, with warnings.
    fn reach(&self, at: &Setting) -> Result<(f64, Vec<String>), FitError> {
        self.scope.admits(at)?;
        if let Some(only) = self.only.filter(|only| *only != at.processes()) {
            return Err(FitError::OutOfDomain(format!(
                "all runs of {} had {only} processes: they do not show the effect of another number",
                self.app
            )));
        }
        let mut warnings = self.scope.warnings(at);
        let Some((low, high)) = self.sizes else {
            return Ok((1.0, warnings));
        };
        if at.app != self.app {
            return Err(FitError::OutOfDomain(format!(
                "fitted on {}, not applicable to {}",
                self.app, at.app
            )));
        }
        let count = size(at)?.count;
        let (factor, which, end) = if count > high {
            (count / high, "the largest", high)
        } else {
            (low / count, "the smallest", low)
        };
        let text = || {
            format!(
                "{} {} are {} times outside of the observed sizes ({which} is {}, {}.{})",
                round(count),
                self.unit,
                round(factor),
                round(end),
                self.app,
                if low == high { &self.class } else { "*" }
            )
        };
        if factor > REFUSED * (1.0 + 1e-9) {
            return Err(FitError::OutOfDomain(format!(
                "{}: no prediction is made more than {REFUSED} times outside",
                text()
            )));
        }
        if factor > FAR {
            warnings.push(text());
        }
        Ok((factor.max(1.0), warnings))
    }
}

/// Formats a number with three decimal places without trailing zeros, or without decimal places from 100 on.
fn round(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}

#[derive(Debug)]
struct Curve {
    law: Law,
    /// Indices of the terms whose factor is not 0.
    kept: Vec<usize>,
    fit: Fit,
    observed: Observed,
}

/// Returns the values minus the known offset, and weights that make errors relative to the values including the offset.
fn prepared(
    samples: &[&Sample],
    offset: fn(&Setting) -> Result<f64, FitError>,
) -> Result<(Vec<f64>, Vec<f64>), FitError> {
    let weights = relative_weights(&samples.iter().map(|s| s.value).collect::<Vec<_>>());
    let values = samples
        .iter()
        .map(|s| Ok(s.value - offset(&s.at)?))
        .collect::<Result<_, FitError>>()?;
    Ok((values, weights))
}

/// Returns the estimate with each side of its interval multiplied by `reach`, the ratio to the nearest observed size.
fn beyond(estimate: Estimate, reach: f64) -> Estimate {
    match estimate.interval {
        Some(i) => Estimate::between(
            estimate.value,
            estimate.value - reach * (estimate.value - i.low),
            estimate.value + reach * (i.high - estimate.value),
        )
        .not_negative(),
        None => estimate,
    }
}

impl Model for Law {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn form_error(&self, value: f64) -> f64 {
        self.least_error.max(RELATIVE_ERROR * value)
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let observed = Observed::of(samples, self.common, self.needs_counts)?;
        let rows = samples
            .iter()
            .map(|s| (self.terms)(&s.at))
            .collect::<Result<Vec<_>, _>>()?;
        let (values, weights) = prepared(samples, self.offset)?;
        let fitted = least_squares_not_negative(&rows, &values, &weights);
        let (kept, fit) = match fitted {
            // without measured headers, their size is 0
            Err(_) if self.names == OWN_HEADER.names => (Vec::new(), Fit::of_nothing(&values)),
            other => other?,
        };
        Ok(Box::new(Curve {
            law: *self,
            kept,
            fit,
            observed,
        }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let (reach, warnings) = self.observed.reach(at)?;
        let all = (self.law.terms)(at)?;
        let offset = (self.law.offset)(at)?;
        let row: Vec<f64> = self.kept.iter().map(|i| all[*i]).collect();
        let value = offset + self.fit.value(&row);
        let of_fit = if row.is_empty() {
            Estimate::exact(0.0)
        } else {
            self.fit.predict(&row, 1.0 / (value * value))
        };
        let estimate = of_fit.plus_together(Estimate::exact(offset));
        Ok(Answer {
            estimate: beyond(widened(estimate, self.law.band), reach),
            warnings,
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.fit.standard_errors.as_ref();
        let of = |(place, name): (usize, &&'static str)| {
            let kept = self.kept.iter().position(|k| *k == place);
            Parameter {
                name,
                value: kept.map_or(0.0, |i| self.fit.coefficients[i]),
                standard_error: kept.and_then(|i| errors.map(|e| e[i])),
            }
        };
        self.law.names.iter().enumerate().map(of).collect()
    }
}

/// The law c + a·W^α/P^β.
#[derive(Clone, Copy, Debug)]
struct Power {
    offset: fn(&Setting) -> Result<f64, FitError>,
}

#[derive(Debug)]
struct PowerCurve {
    of: Power,
    exponents: (f64, f64),
    kept: Vec<usize>,
    fit: Fit,
    observed: Observed,
}

fn power_row(at: &Setting, (alpha, beta): (f64, f64)) -> Result<Vec<f64>, FitError> {
    Ok(vec![
        1.0,
        size(at)?.count.powf(alpha) / f64::from(at.processes()).powf(beta),
    ])
}

impl Model for Power {
    fn info(&self) -> ModelInfo {
        info(
            "size-power",
            "a power of the size, and one of the processes",
            "MiB = c + a·W^α/P^β",
            4,
        )
    }

    fn form_error(&self, value: f64) -> f64 {
        SHARE.form_error(value)
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let observed = Observed::of(samples, &[Common::Mpi], true)?;
        let distinct = |of: &dyn Fn(&Sample) -> f64| {
            let mut all: Vec<f64> = samples.iter().map(|s| of(s)).collect();
            all.sort_by(f64::total_cmp);
            all.dedup();
            all.len()
        };
        let sizes = distinct(&|s| s.at.size.as_ref().map_or(0.0, |of| of.count));
        if sizes < 3 {
            return Err(FitError::OutOfDomain(format!(
                "an exponent needs runs of three sizes, and there are {sizes}"
            )));
        }
        let one_count = distinct(&|s| f64::from(s.at.processes())) == 1;
        let (values, weights) = prepared(samples, self.offset)?;
        let try_one = |exponents: (f64, f64)| -> Result<(f64, Vec<usize>, Fit), FitError> {
            let rows = samples
                .iter()
                .map(|s| power_row(&s.at, exponents))
                .collect::<Result<Vec<_>, _>>()?;
            let (kept, fit) = least_squares_not_negative(&rows, &values, &weights)?;
            let error = fit
                .residuals
                .iter()
                .zip(&weights)
                .map(|(r, w)| w * r * r)
                .sum();
            Ok((error, kept, fit))
        };
        let mut best: Option<(f64, (f64, f64), Vec<usize>, Fit)> = None;
        for beta in DIVIDED
            .into_iter()
            .filter(|beta| !one_count || *beta == 0.0)
        {
            let (mut low, mut high, mut step) = EXPONENTS;
            let mut here: Option<(f64, f64)> = None;
            for _ in 0..REFINED {
                let steps = ((high - low) / step).round() as u32;
                for alpha in (0..=steps).map(|i| low + f64::from(i) * step) {
                    let Ok((error, kept, fit)) = try_one((alpha, beta)) else {
                        continue;
                    };
                    if here.is_none_or(|(least, _)| error < least) {
                        here = Some((error, alpha));
                    }
                    if best.as_ref().is_none_or(|(least, ..)| error < *least) {
                        best = Some((error, (alpha, beta), kept, fit));
                    }
                }
                let Some((_, alpha)) = here else { break };
                (low, high, step) = (
                    (alpha - step).max(EXPONENTS.0),
                    (alpha + step).min(EXPONENTS.1),
                    step / 5.0,
                );
            }
        }
        let (_, exponents, kept, fit) =
            best.ok_or_else(|| FitError::NoConvergence("no exponent fits".to_owned()))?;
        Ok(Box::new(PowerCurve {
            of: *self,
            exponents,
            kept,
            fit,
            observed,
        }))
    }
}

impl Fitted for PowerCurve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let (reach, warnings) = self.observed.reach(at)?;
        let all = power_row(at, self.exponents)?;
        let row: Vec<f64> = self.kept.iter().map(|i| all[*i]).collect();
        let offset = (self.of.offset)(at)?;
        let value = offset + self.fit.value(&row);
        let estimate = self
            .fit
            .predict(&row, 1.0 / (value * value))
            .plus_together(Estimate::exact(offset));
        Ok(Answer {
            estimate: beyond(widened(estimate, TWO_PAGES_MIB), reach),
            warnings,
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let linear = |place: usize| {
            let kept = self.kept.iter().position(|k| *k == place);
            kept.map_or(0.0, |i| self.fit.coefficients[i])
        };
        let of = |(name, value)| Parameter {
            name,
            value,
            standard_error: None,
        };
        [
            ("c", linear(0)),
            ("a", linear(1)),
            ("α", self.exponents.0),
            ("β", self.exponents.1),
        ]
        .map(of)
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::{REFUSED, data_models, own_models, time_models};
    use crate::{FitError, Model, MpiKind, Sample, Setting};
    use cvc_core::app::size::{OwnCheckpointSize, ProblemSize};
    use cvc_core::mapping::Mapping;

    fn at(n: u32, p: u32) -> Setting {
        let n = f64::from(n);
        let own = OwnCheckpointSize {
            bytes: 40.0 * n.powi(3),
            writes: None,
            reads: None,
        };
        Setting {
            class: format!("n={n}"),
            mapping: Mapping::one_node(p),
            per_node: p,
            size: Some(ProblemSize {
                count: n.powi(3),
                unit: "grid points".into(),
                each_process: false,
                work: Some(n.powi(3)),
                own_checkpoint: Some(own),
            }),
            ..Sample::of_unknown(MpiKind::OpenMpi, p, 0.0).at
        }
    }

    fn samples(law: impl Fn(f64, f64) -> f64) -> Vec<Sample> {
        let settings = [32, 48, 64]
            .into_iter()
            .flat_map(|n| [1, 2, 4].map(|p| (n, p)));
        let sample = |(n, p): (u32, u32)| Sample {
            id: n.to_string(),
            at: at(n, p),
            value: law(f64::from(n), f64::from(p)),
        };
        settings.map(sample).collect()
    }

    fn model(models: Vec<Box<dyn Model>>, id: &str) -> Box<dyn Model> {
        models
            .into_iter()
            .find(|m| m.info().id == id)
            .expect("a model")
    }

    #[test]
    fn a_size_that_was_not_observed_follows_from_those_that_were() {
        let share =
            |n: f64, p: f64| 3.0 + 1e-4 * n.powi(3) / p + 1e-3 * (n.powi(3) / p).powf(2.0 / 3.0);
        let whole = |n: f64, p: f64| 3.0 + 1e-4 * n.powi(3) / p + 1e-5 * n.powi(3);
        let power = |n: f64, p: f64| 3.0 + 1e-5 * n.powi(3).powf(1.4) / p.sqrt();
        let slabs = |n: f64, p: f64| 3.0 + 1e-4 * n.powi(3) / p + 1e-4 * n.powi(2);
        let inner =
            |n: f64, p: f64| 3.0 + 1e-4 * n.powi(3) / p + 1e-4 * n.powi(2) * (1.0 - 1.0 / p);
        let cells = |n: f64, p: f64| 3.0 + 1e-4 * n.powi(3) / p + 1e-4 * n.powi(2) / p.sqrt();
        let laws: [(&str, &dyn Fn(f64, f64) -> f64); 6] = [
            ("size-share", &share),
            ("size-cells", &cells),
            ("size-slabs", &slabs),
            ("size-neighbours", &inner),
            ("size-whole", &whole),
            ("size-power", &power),
        ];
        for (id, law) in laws {
            let runs = samples(law);
            let curve = model(data_models(), id)
                .fit(&runs.iter().collect::<Vec<_>>())
                .expect("a fit");
            let answer = curve.predict(&at(80, 8)).expect("an answer");
            assert!(
                (answer.estimate.value / law(80.0, 8.0) - 1.0).abs() < 1e-3,
                "{id}: {:?}",
                answer.estimate
            );
        }
    }

    #[test]
    fn far_outside_of_the_observed_sizes_intervals_widen_and_then_there_is_no_answer() {
        let runs = samples(|n, p| (3.0 + 1e-4 * n.powi(3) / p) * (1.0 + 0.01 * (n + p).sin()));
        let curve = model(data_models(), "size-share")
            .fit(&runs.iter().collect::<Vec<_>>())
            .expect("a fit");
        let half = |n| {
            let answer = curve.predict(&at(n, 2)).expect("an answer");
            (
                answer.estimate.half_width().expect("an interval") / answer.estimate.value,
                answer.warnings.len(),
            )
        };
        assert!(half(64).1 == 0 && half(96).1 == 1 && half(128).0 > 2.0 * half(64).0);
        assert!(REFUSED * 64f64.powi(3) > 128f64.powi(3));
        for n in [140, 14] {
            assert!(
                matches!(curve.predict(&at(n, 2)), Err(FitError::OutOfDomain(why)) if why.contains("10 times outside"))
            );
        }
    }

    #[test]
    fn runs_on_one_number_of_processes_say_nothing_of_another() {
        let runs: Vec<Sample> = samples(|n, p| n.powi(3) / p)
            .into_iter()
            .filter(|s| s.at.processes() == 2)
            .collect();
        let curve = model(data_models(), "size-share")
            .fit(&runs.iter().collect::<Vec<_>>())
            .expect("a fit");
        assert!(curve.predict(&at(56, 2)).is_ok());
        assert!(
            curve
                .predict(&at(56, 4))
                .is_err_and(|why| why.to_string().contains("had 2 processes"))
        );
    }

    #[test]
    fn own_checkpoints_are_what_is_declared_and_a_header_or_a_law_of_the_shared_file() {
        let declared =
            samples(|n, p| (40.0 * n.powi(3) + 2168.0 + 188.0 * p) / cvc_core::units::MIB);
        let of = |id: &str, runs: &[Sample], n, p| {
            let curve = model(own_models(), id)
                .fit(&runs.iter().collect::<Vec<_>>())
                .expect("a fit");
            curve.predict(&at(n, p)).expect("an answer").estimate.value * cvc_core::units::MIB
        };
        assert!((of("own-declared", &declared, 100, 16) - 40_005_176.0).abs() < 1.0);
        let law = |n: f64, p: f64| (88.0 * n.powi(3) + 500.0 * p + 2000.0) / cvc_core::units::MIB;
        assert!((of("own-size", &samples(law), 100, 16) - 88_010_000.0).abs() < 10.0);
    }

    #[test]
    fn more_processes_than_cores_compute_no_faster() {
        let mut runs = samples(|n, p| 0.5 + 1e-5 * n.powi(3) / p.min(2.0));
        runs.iter_mut().for_each(|s| s.at.output.cores = Some(2));
        let curve = time_models()[0]
            .fit(&runs.iter().collect::<Vec<_>>())
            .expect("a fit");
        let mut asked = at(96, 8);
        asked.output.cores = Some(2);
        let value = curve.predict(&asked).expect("an answer").estimate.value;
        assert!((value - 4.92368).abs() < 1e-4, "{value}");
    }
}
