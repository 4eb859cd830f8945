//! Time of a checkpoint, from the number of writers on a node and the MiB that they write: curves fitted to observed times, and the published
//! curve.
//!
//! The samples of these models are in seconds. The models use the number of processes on the node and [`super::Output::node_mib`].

use super::{
    check::{at_least_one, finite, not_negative, positive},
    curve::{Answer, Fitted, Model, ModelInfo, MpiKind, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares, least_squares_not_negative, relative_weights},
    linear::{Fixed, always},
    stats::Interval,
};
use serde::Serialize;

/// Bandwidth of a node with p writers: a + b·p, MiB/s. With many writers, the disk's total bandwidth is higher, and the bandwidth for each file is
/// lower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Constant part, MiB/s.
    pub a: f64,
    /// Part for each process, MiB/s.
    pub b: f64,
}

/// Fitted to the ten latencies with MPICH and without compression in the thesis's Tables 5.3 and 5.5.
pub const PUBLISHED: Bandwidth = Bandwidth { a: 92.5, b: 3.34 };

/// The storage on which the published times were measured.
pub const PUBLISHED_STORAGE: &str = "one AFS-1 node, local ext3 disk: the thesis's";

/// Minimum and maximum number of processes on the node in the published runs.
const PUBLISHED_WRITERS: (u32, u32) = (16, 64);

/// Largest relative error of [`PUBLISHED`] when each run with MPICH is left out in turn.
const PUBLISHED_BAND: f64 = 0.14;

/// Smallest and largest ratio of measured to predicted time in the ten published runs with Open MPI.
const PUBLISHED_OPEN_MPI: (f64, f64) = (0.8, 1.94);

/// A curve gives a warning for a setting that exceeds the largest fitted run by more than this factor.
const FAR: u32 = 2;

impl Bandwidth {
    /// Returns the seconds of a checkpoint of `per_node` files with `node_mib` MiB in total: V/(a + b·p).
    ///
    /// # Errors
    /// Zero processes, a negative size, or parameters that give no positive bandwidth for this number of processes.
    pub fn at(self, per_node: u32, node_mib: f64) -> Result<f64, FitError> {
        let p = at_least_one("the number of processes on the node", per_node)?;
        let rate = positive("the bandwidth a + b·p", self.a + self.b * p)?;
        finite(
            "the latency",
            not_negative("the size of a node's files", node_mib)? / rate,
        )
    }
}

/// Returns the models of the time of a checkpoint, s, fitted to observed times.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![Box::new(Parts {
        info: ModelInfo {
            id: "latency-parts",
            title: "coordination and storage",
            formula: "s = a + c·max(1, p/cores) + V/b, no part negative",
            source: "cvc: least squares through the observed times, each part near a third unless these show otherwise",
            tier: Tier::SmallRuns,
            parameters: 3,
        },
        of: &[FIXED, TURNS, VOLUME],
    })]
}

/// Returns the bandwidth over the number of writers, fitted to observed times, as in the thesis's tables.
///
/// It is not among [`models`]: fitted to few processes, it predicts that the time falls as processes are added. For FT with Open MPI, a fit to 1
/// and 2 processes predicted 0.35 s on 16 processes; the measured time was 4.67 s.
pub fn bandwidth() -> Box<dyn Model> {
    Box::new(Curve {
        info: ModelInfo {
            id: "latency-bandwidth",
            title: "bandwidth by number of writers",
            formula: "s = V/(a + b·p)",
            source: "thesis, Tables 5.3 and 5.5; fitted to the observed rates",
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        row: |p, _| vec![1.0, p],
        of_rate: true,
    })
}

/// Returns the models of the time, s, until all processes of a checkpoint have stopped.
pub fn coordination() -> Vec<Box<dyn Model>> {
    vec![Box::new(Parts {
        info: ModelInfo {
            id: "coordination-turns",
            title: "a start, and a turn for each process on a core",
            formula: "s = a + c·max(1, p/cores)",
            source: "cvc: least squares through the observed times, both parts equal unless these show otherwise",
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        of: &[FIXED, TURNS],
    })]
}

/// Returns the models of the time, s, for writing the images of a node.
pub fn storage() -> Vec<Box<dyn Model>> {
    vec![Box::new(Parts {
        info: ModelInfo {
            id: "storage-rate",
            title: "a start and a rate",
            formula: "s = a + V/b",
            source: "cvc: least squares through the observed times, both parts equal unless these show otherwise",
            tier: Tier::SmallRuns,
            parameters: 2,
        },
        of: &[FIXED, VOLUME],
    })]
}

/// Returns the models of the time, s, from the start of a restart to the first new step. This time has three parts: reading the images of a node,
/// creating and connecting the processes of a node one after another on each core, and a constant.
pub fn restart() -> Vec<Box<dyn Model>> {
    vec![Box::new(Parts {
        info: ModelInfo {
            id: "restart-parts",
            title: "a start, a turn for each process on a core, and a rate",
            formula: "s = a + c·max(1, p/cores) + V/b, no part negative",
            source: "cvc: least squares through the observed times, each part near a third unless these show otherwise",
            tier: Tier::SmallRuns,
            parameters: 3,
        },
        of: &[FIXED, TURNS, VOLUME],
    })]
}

/// Returns the published model of the time of a checkpoint, s. It applies only to [`PUBLISHED_STORAGE`], and is not a candidate if times were
/// observed.
pub fn published() -> Box<dyn Model> {
    Box::new(Fixed {
        info: ModelInfo {
            id: "latency-bandwidth-published",
            title: "bandwidth by number of writers, as published",
            formula: "s = V/(92.5 + 3.34·p), V in MiB, p <= 64",
            source: "fitted by cvc on Tables 5.3 and 5.5 of the thesis: one AFS-1 node, local ext3 disk",
            tier: Tier::Published,
            parameters: 0,
        },
        answer: |at| {
            let (fewest, most) = PUBLISHED_WRITERS;
            let p = at.per_node;
            if p > most {
                return Err(FitError::OutOfDomain(format!(
                    "the published times are of at most {most} processes on a node: they do not cover {p}"
                )));
            }
            let value = PUBLISHED.at(p, node_mib(at)?)?;
            let estimate = match at.mpi {
                MpiKind::OpenMpi => Estimate::between(
                    value,
                    value * PUBLISHED_OPEN_MPI.0,
                    value * PUBLISHED_OPEN_MPI.1,
                ),
                MpiKind::Nemesis | MpiKind::Mpich => {
                    Estimate::plus_minus(value, value * PUBLISHED_BAND)
                }
            };
            let few = || {
                format!(
                    "the published times are of {fewest} processes on a node or more: {p} writers may be slower or faster"
                )
            };
            Ok(Answer {
                estimate,
                warnings: (p < fewest).then(few).into_iter().collect(),
            })
        },
        believes: always,
    })
}

fn node_mib(at: &Setting) -> Result<f64, FitError> {
    at.output
        .node_mib
        .ok_or_else(|| FitError::OutOfDomain("the size of the node's files is not known".into()))
}

/// A time as the sum of up to three parts: a fixed time, a time for each process that shares a core, and a time proportional to the MiB written. No
/// part can be negative. Otherwise a fit to few times could make one part too large and compensate it by a negative one.
#[derive(Clone, Copy, Debug)]
struct Parts {
    info: ModelInfo,
    /// Indices, as in [`parts`], of the parts that this time has.
    of: &'static [usize],
}

/// Indices of the parts of a checkpoint's time.
const FIXED: usize = 0;
const TURNS: usize = 1;
const VOLUME: usize = 2;

/// Parameter names of the parts.
const NAMES: [&str; 3] = ["a, s", "c, s", "1/b, s/GiB"];

/// Weight of the assumption that all parts take about equally long. The weight of an observed time is 1: (0.1 / 0.32)², where 0.1 is the typical
/// scatter of times and 0.32 the typical difference between parts. A few times cannot separate the parts without this assumption; many times outweigh
/// it.
const PRIOR: f64 = 0.1;

/// Minimum number of times in addition to one for each part. With fewer, the scatter of the times does not show the error.
const MIN_FREEDOM: usize = 2;

/// Returns the terms of the parts: 1, the number of processes for each core, and the GiB written.
fn parts(at: &Setting) -> Result<Vec<f64>, FitError> {
    let p = at_least_one("the number of processes on the node", at.per_node)?;
    let mib = not_negative("the size of a node's files", node_mib(at)?)?;
    // if the number of cores is unknown, each process is assumed to add the same time
    let turns = at
        .output
        .cores
        .map_or(p, |cores| (p / f64::from(cores.max(1))).max(1.0));
    Ok(vec![1.0, turns, mib / 1024.0])
}

impl Model for Parts {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let row = |at: &Setting| {
            Ok(self
                .of
                .iter()
                .zip(std::iter::repeat(parts(at)?))
                .map(|(i, all)| all[*i])
                .collect())
        };
        let rows = samples
            .iter()
            .map(|s| row(&s.at))
            .collect::<Result<Vec<Vec<f64>>, FitError>>()?;
        let values = samples
            .iter()
            .map(|s| positive("the latency", s.value))
            .collect::<Result<Vec<_>, _>>()?;
        if samples.is_empty() {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: 1,
            });
        }
        // errors are relative; an additional row for each part draws it to an equal share of the time
        let mut weights = relative_weights(&values);
        let (mut rows, mut values) = (rows, values);
        let count = self.of.len();
        for part in 0..count {
            let share = rows
                .iter()
                .zip(&values)
                .take(samples.len())
                .map(|(row, s)| row[part] / s)
                .sum::<f64>()
                / samples.len() as f64;
            let mut row = vec![0.0; count];
            row[part] = share;
            rows.push(row);
            values.push(1.0 / count as f64);
            weights.push(PRIOR);
        }
        let (kept, fit) = least_squares_not_negative(&rows, &values, &weights)?;
        let most_mib = samples
            .iter()
            .filter_map(|s| s.at.output.node_mib)
            .fold(0.0, f64::max);
        let most_writers = samples.iter().map(|s| s.at.per_node).max().unwrap_or(0);
        let kept = kept.into_iter().map(|i| self.of[i]).collect();
        Ok(Box::new(FittedParts {
            of: self.of,
            kept,
            runs: samples.len(),
            fit,
            range: Range {
                most_writers,
                most_mib,
            },
        }))
    }
}

#[derive(Debug)]
struct FittedParts {
    of: &'static [usize],
    /// Indices of the parts whose time is not 0.
    kept: Vec<usize>,
    /// Number of observed times.
    runs: usize,
    fit: Fit,
    range: Range,
}

impl Fitted for FittedParts {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let all = parts(at)?;
        let row: Vec<f64> = self.kept.iter().map(|i| all[*i]).collect();
        let value = positive("the time of the fitted parts", self.fit.value(&row))?;
        let fitted = self.fit.predict(&row, 1.0 / (value * value)).not_negative();
        // the rows of the prior assumption are not runs, and must not add degrees of freedom to the error
        let estimate = if self.runs >= self.kept.len() + MIN_FREEDOM {
            fitted
        } else {
            Estimate::bare(fitted.value)
        };
        Ok(Answer {
            estimate,
            warnings: self.range.warnings(at.per_node, node_mib(at)?),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.fit.standard_errors.as_ref();
        let of =
            |(place, name): (usize, &'static str)| match self.kept.iter().position(|k| *k == place)
            {
                Some(i) => Parameter {
                    name,
                    value: self.fit.coefficients[i],
                    standard_error: errors.map(|e| e[i]),
                },
                None => Parameter {
                    name,
                    value: 0.0,
                    standard_error: None,
                },
            };
        self.of
            .iter()
            .map(|place| of((*place, NAMES[*place])))
            .collect()
    }
}

/// The largest values among the checkpoints that a curve was fitted to.
#[derive(Clone, Copy, Debug)]
struct Range {
    /// Maximum number of writers on a node.
    most_writers: u32,
    most_mib: f64,
}

impl Range {
    /// Returns warnings if this number of writers or MiB on a node is far beyond the fitted checkpoints.
    fn warnings(self, writers: u32, mib: f64) -> Vec<String> {
        let mut warnings = Vec::new();
        if mib > self.most_mib * f64::from(FAR) {
            warnings.push(format!(
                "{mib:.0} MiB on a node are more than {FAR} times the {:.0} MiB of the largest observed checkpoint: \
                 beyond what memory caches, storage may be far slower",
                self.most_mib
            ));
        }
        if writers > self.most_writers.saturating_mul(FAR) {
            warnings.push(format!(
                "{writers} processes that write on a node are more than {FAR} times the {} of the largest observed checkpoint",
                self.most_writers
            ));
        }
        warnings
    }
}

/// A curve fitted to the times of checkpoints in which p processes of a node write V MiB in total.
#[derive(Clone, Copy, Debug)]
struct Curve {
    info: ModelInfo,
    /// Returns the terms for p processes and V MiB.
    row: fn(f64, f64) -> Vec<f64>,
    /// Whether the curve is fitted to the rate instead of the time.
    of_rate: bool,
}

impl Curve {
    /// Returns the weight of a point. The rate of a node is the sum of the rates of its p writers, so its variance grows with p. The scatter of
    /// times is proportional to their size.
    fn weight(&self, p: f64, value: f64) -> f64 {
        if self.of_rate {
            1.0 / p
        } else {
            1.0 / (value * value)
        }
    }
}

impl Model for Curve {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if samples.is_empty() {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: self.info.parameters,
            });
        }
        let (mut rows, mut values, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let (mut most_writers, mut most_mib) = (0, 0.0_f64);
        for sample in samples {
            let p = at_least_one("the number of processes on the node", sample.at.per_node)?;
            let mib = positive("the size of a node's files", node_mib(&sample.at)?)?;
            let seconds = positive("the latency", sample.value)?;
            let value = if self.of_rate { mib / seconds } else { seconds };
            rows.push((self.row)(p, mib));
            values.push(value);
            weights.push(self.weight(p, value));
            (most_writers, most_mib) = (most_writers.max(sample.at.per_node), most_mib.max(mib));
        }
        let fit = least_squares(&rows, &values, Some(&weights))?;
        Ok(Box::new(FittedCurve {
            curve: *self,
            fit,
            range: Range {
                most_writers,
                most_mib,
            },
        }))
    }
}

#[derive(Debug)]
struct FittedCurve {
    curve: Curve,
    fit: Fit,
    range: Range,
}

impl Fitted for FittedCurve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let p = at_least_one("the number of processes on the node", at.per_node)?;
        let mib = not_negative("the size of a node's files", node_mib(at)?)?;
        let row = (self.curve.row)(p, mib);
        let fitted = self
            .fit
            .predict(&row, self.curve.weight(p, self.fit.value(&row)));
        let estimate = if self.curve.of_rate {
            let interval = fitted.interval.filter(|i| i.low > 0.0).map(|i| Interval {
                low: mib / i.high,
                high: mib / i.low,
            });
            Estimate {
                value: mib / fitted.value,
                interval,
            }
        } else {
            fitted.not_negative()
        };
        if !(estimate.value.is_finite() && estimate.value > 0.0) {
            let why = format!(
                "the fitted curve gives no time for {mib:.1} MiB of {} processes on a node",
                at.per_node
            );
            return Err(FitError::OutOfDomain(why));
        }
        Ok(Answer {
            estimate,
            warnings: self.range.warnings(at.per_node, mib),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.fit.standard_errors.as_ref();
        let named = ["a", "b", "c"]
            .into_iter()
            .zip(&self.fit.coefficients)
            .enumerate();
        named
            .map(|(i, (name, value))| Parameter {
                name,
                value: *value,
                standard_error: errors.map(|e| e[i]),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Bandwidth, bandwidth, models, published};
    use crate::{Answer, Model, MpiKind, Output, Sample, Setting};

    fn at(p: u32, node_mib: f64) -> Setting {
        let (mapping, output) = (
            cvc_core::mapping::Mapping::one_node(p),
            Output {
                node_mib: Some(node_mib),
                ..Output::default()
            },
        );
        Setting {
            app: "a".into(),
            class: "b".into(),
            nas: None,
            size: None,
            mapping,
            per_node: p,
            mpi: MpiKind::Nemesis,
            output,
        }
    }

    fn answer(model: &dyn Model, samples: &[Sample], at: &Setting) -> Answer {
        model
            .fit(&samples.iter().collect::<Vec<_>>())
            .expect("a fit")
            .predict(at)
            .expect("a time")
    }

    #[test]
    fn volumes_and_writers_far_beyond_the_runs_give_a_warning() {
        // 1 to 16 writers, and up to 1600 MiB on the node
        let law = Bandwidth { a: 500.0, b: 10.0 };
        let sample = |p: u32, mib: f64| Sample {
            id: format!("{p} {mib}"),
            at: at(p, mib),
            value: law.at(p, mib).expect("s"),
        };
        let samples = [
            sample(1, 100.0),
            sample(4, 300.0),
            sample(9, 900.0),
            sample(16, 1600.0),
            sample(16, 800.0),
        ];
        for model in models().into_iter().chain([bandwidth()]) {
            let warned = |p, mib| answer(&*model, &samples, &at(p, mib)).warnings.join("\n");
            assert_eq!(warned(32, 3200.0), "", "{}", model.info().id);
            assert!(
                warned(16, 3300.0)
                    .starts_with("3300 MiB on a node are more than 2 times the 1600 MiB"),
                "{}",
                warned(16, 3300.0)
            );
            assert!(
                warned(33, 1600.0).starts_with("33 processes that write"),
                "{}",
                warned(33, 1600.0)
            );
        }
    }

    /// FT with Open MPI on 1 and 2 processes: in the law of bandwidth over the number of writers, the bandwidth grows without bound.
    #[test]
    fn no_model_of_a_time_lets_it_fall_with_the_processes() {
        let sample = |p: u32, mib: f64, value: f64| Sample {
            id: p.to_string(),
            at: at(p, mib),
            value,
        };
        let samples = [sample(1, 600.0, 1.6), sample(2, 640.0, 1.05)];
        for model in models() {
            let of = |p: u32| {
                answer(&*model, &samples, &at(p, 600.0 + 40.0 * f64::from(p - 1)))
                    .estimate
                    .value
            };
            assert!(
                [2, 4, 8, 16, 64].windows(2).all(|p| of(p[0]) <= of(p[1])),
                "{}",
                model.info().id
            );
        }
    }

    #[test]
    fn the_published_time_ends_at_64_writers() {
        let forecast = answer(&*published(), &[], &at(36, 36.0 * 309.83));
        assert!(
            (forecast.estimate.value - 36.0 * 309.83 / (92.5 + 3.34 * 36.0)).abs() < 1e-9
                && forecast.warnings.is_empty()
        );
        assert_eq!(forecast.estimate.covers(52.73), Some(true), "Table 5.3");
        assert_eq!(answer(&*published(), &[], &at(4, 400.0)).warnings.len(), 1);
        let fitted = published().fit(&[]).expect("nothing to fit");
        assert!(fitted.predict(&at(65, 6500.0)).is_err());
        assert!(
            fitted
                .predict(&Setting {
                    output: Output::default(),
                    ..at(4, 400.0)
                })
                .is_err()
        );
    }
}
