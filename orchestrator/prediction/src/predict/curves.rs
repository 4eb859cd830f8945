//! Straight lines for quantities without a published model (headers, launchers, files next to the images), fitted by least squares.

use cvc_model::{
    Answer, Estimate, Fit, FitError, Fitted, Interval, Model, ModelInfo, Parameter, Sample,
    Setting, Tier, dtapp, least_squares,
};
use std::collections::BTreeMap;

/// Minimum half-width of an interval, MiB: equal runs differ by two pages.
const FINEST_MIB: f64 = 2.0 * 4096.0 / cvc_core::units::MIB;

/// Expected difference between the largest and the smallest of ten normal values, in standard deviations.
const RANGE_OF_TEN: f64 = 3.08;

/// Maximum distance of equal runs from the true curve, MiB: 13 pages.
const FORM_ERROR_MIB: f64 = 0.05;

/// Minimum half-width for the images of launchers, MiB: the largest range (maximum minus minimum) of equal mappings on one process in
/// experiments/nas-sizes.toml, over repeats and programs (10 runs with Open MPI; with MPICH the range is 0.012).
pub(crate) const LAUNCHERS_BAND_MIB: f64 = 0.055;

/// A line gives a warning for a setting that exceeds the largest training run by more than this factor.
const FAR: u32 = 2;

/// A constant, or a constant plus a straight line in one variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurveLine {
    info: ModelInfo,
    /// The variable of the line; `None` for a constant.
    over: Option<fn(&Setting) -> f64>,
    along: Along,
    /// Minimum half-width of an interval, MiB.
    least_band: f64,
    /// Whether a fit is refused if the means at different numbers of processes on a node differ by more than runs with the same number scatter.
    same_on_nodes: bool,
}

/// The variable along which a line is extrapolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Along {
    /// Total number of processes.
    Processes,
    /// Number of processes on the node.
    PerNode,
    /// No variable, so that there is no warning.
    Nothing,
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
        source: "cvc: least squares through the observations",
        tier: Tier::SmallRuns,
        parameters,
    }
}

/// The mean of the observations.
pub(crate) const MEAN: CurveLine = CurveLine {
    info: info("mean", "mean of the observations", "a", 1),
    over: None,
    along: Along::Nothing,
    least_band: FINEST_MIB,
    same_on_nodes: false,
};

/// The mean of the observations, refused if they depend on the number of processes on the node: a mean over 4 and 9 processes does not predict 25.
pub(crate) const SAME_ON_NODES: CurveLine = CurveLine {
    same_on_nodes: true,
    ..MEAN
};

/// Linear in the number of processes on the node.
pub(crate) const PER_NODE: CurveLine = CurveLine {
    info: info(
        "line-per-node",
        "line in the processes on the node",
        "a + b·p",
        2,
    ),
    over: Some(|at| f64::from(at.per_node)),
    along: Along::PerNode,
    ..MEAN
};

/// Linear in the number of nodes.
pub(crate) const NODES: CurveLine = CurveLine {
    info: info("line-nodes", "line in the number of nodes", "a + b·n", 2),
    over: Some(|at| f64::from(at.mapping.nodes())),
    along: Along::Nothing,
    ..MEAN
};

/// Linear in the logarithm of the number of processes.
pub(crate) const LOG_PROCESSES: CurveLine = CurveLine {
    info: info(
        "line-log-processes",
        "line in the logarithm of the processes",
        "a + b·ln P",
        2,
    ),
    over: Some(|at| f64::from(at.processes()).ln()),
    along: Along::Processes,
    ..MEAN
};

/// Linear in the inverse square root of the number of processes.
pub(crate) const INVERSE_ROOT: CurveLine = CurveLine {
    info: info("line-inverse-root", "line in 1/√P", "a + b/√P", 2),
    over: Some(|at| 1.0 / at.root()),
    along: Along::Processes,
    ..MEAN
};

/// Linear in the logarithm of the size of the declared arrays. DMTCP omits pages that were never touched; larger arrays are split into more pieces.
pub(crate) const LOG_ARRAYS: CurveLine = CurveLine {
    info: info(
        "line-log-arrays",
        "line in the logarithm of the declared arrays",
        "a + b·ln(arrays/MiB)",
        2,
    ),
    over: Some(|at| {
        match at
            .nas
            .map(|nas| dtapp::static_arrays_mib(nas, at.processes()))
        {
            Some(Ok(mib)) => mib.ln(),
            Some(Err(_)) | None => f64::NAN,
        }
    }),
    along: Along::Processes,
    ..MEAN
};

impl CurveLine {
    /// Sets the minimum half-width of intervals, MiB.
    pub fn with_band(self, mib: f64) -> Self {
        Self {
            least_band: mib,
            ..self
        }
    }

    /// Returns an error if the means at two numbers of processes on a node differ more than runs with the same number scatter.
    fn refuses_differences(&self, samples: &[&Sample]) -> Result<(), FitError> {
        let mut groups: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for sample in samples {
            groups
                .entry(sample.at.per_node)
                .or_default()
                .push(sample.value);
        }
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let squares: f64 = groups
            .values()
            .map(|of| of.iter().map(|v| (v - mean(of)).powi(2)).sum::<f64>())
            .sum();
        let freedom = samples.len() - groups.len();
        let scatter = if freedom > 0 {
            (squares / freedom as f64).sqrt().max(FINEST_MIB / 4.0)
        } else {
            self.least_band / RANGE_OF_TEN
        };
        let groups: Vec<(u32, &Vec<f64>)> = groups.iter().map(|(p, of)| (*p, of)).collect();
        for (i, (p, one)) in groups.iter().enumerate() {
            for (q, other) in &groups[i + 1..] {
                let apart = (mean(one) - mean(other)).abs();
                if apart
                    > 3.0 * scatter * (1.0 / one.len() as f64 + 1.0 / other.len() as f64).sqrt()
                {
                    return Err(FitError::OutOfDomain(format!(
                        "runs with {p} and {q} processes on a node differ by {apart:.3} MiB"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the value at a setting of the variable along which the line is extrapolated.
    fn asked(&self, at: &Setting) -> u32 {
        match self.along {
            Along::Processes => at.processes(),
            Along::PerNode => at.per_node,
            Along::Nothing => 0,
        }
    }

    fn row(&self, at: &Setting) -> Result<Vec<f64>, FitError> {
        let row: Vec<f64> = std::iter::once(1.0)
            .chain(self.over.map(|over| over(at)))
            .collect();
        if row.iter().all(|x| x.is_finite()) {
            Ok(row)
        } else {
            Err(FitError::OutOfDomain(format!(
                "the arrays of {}.{} on {} processes are unknown",
                at.app,
                at.class,
                at.processes()
            )))
        }
    }
}

impl Model for CurveLine {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn form_error(&self, _value: f64) -> f64 {
        FORM_ERROR_MIB.max(2.0 * self.least_band)
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if samples.is_empty() {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: self.info.parameters,
            });
        }
        if self.same_on_nodes {
            self.refuses_differences(samples)?;
        }
        let rows: Vec<Vec<f64>> = samples
            .iter()
            .map(|s| self.row(&s.at))
            .collect::<Result<_, _>>()?;
        let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
        let most = samples.iter().map(|s| self.asked(&s.at)).max().unwrap_or(0);
        let fit = least_squares(&rows, &values, None)?;
        let mut known: Vec<f64> = rows.iter().filter_map(|row| row.get(1).copied()).collect();
        known.sort_unstable_by(f64::total_cmp);
        known.dedup();
        Ok(Box::new(FittedLine {
            line: *self,
            fit,
            most,
            known,
        }))
    }
}

#[derive(Debug)]
struct FittedLine {
    line: CurveLine,
    fit: Fit,
    /// The largest value, among the fitted runs, of the variable along which the line is extrapolated.
    most: u32,
    /// The distinct values of the line's variable in the fitted runs.
    known: Vec<f64>,
}

impl FittedLine {
    /// Returns the error of the line at a row for an error of 1 at each fitted value. The number of runs at a value does not matter, because the
    /// errors of equal mappings may be correlated.
    fn reach(&self, row: &[f64]) -> f64 {
        let (Some(x), n) = (row.get(1), self.known.len() as f64) else {
            return 1.0;
        };
        let mean = self.known.iter().sum::<f64>() / n;
        let spread: f64 = self.known.iter().map(|k| (k - mean).powi(2)).sum();
        (1.0 / n + (x - mean).powi(2) / spread).sqrt()
    }
}

impl Fitted for FittedLine {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        let row = self.line.row(at)?;
        let band = self.line.least_band * self.reach(&row).max(1.0);
        let estimate = at_least(self.fit.predict(&row, 1.0), band);
        let (asked, most) = (self.line.asked(at), self.most);
        let what = if self.line.along == Along::PerNode {
            "processes on a node"
        } else {
            "processes"
        };
        let far = asked > most.saturating_mul(FAR);
        let warning = || {
            format!(
                "{asked} {what} are more than {FAR} times the {most} of the largest training run"
            )
        };
        Ok(Answer {
            estimate,
            warnings: far.then(warning).into_iter().collect(),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.fit.standard_errors.as_ref();
        let named = ["a", "b"]
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

/// Widens the interval to at least this half-width, if there is an interval.
pub(crate) fn at_least(estimate: Estimate, half: f64) -> Estimate {
    let widen = |i: Interval| Interval {
        low: i.low.min(estimate.value - half),
        high: i.high.max(estimate.value + half),
    };
    Estimate {
        value: estimate.value,
        interval: estimate.interval.map(widen),
    }
}

#[cfg(test)]
mod tests {
    use super::{LAUNCHERS_BAND_MIB, PER_NODE, SAME_ON_NODES};
    use cvc_model::{Model, MpiKind, Output, Sample, Setting};

    fn sample(p: u32, value: f64) -> Sample {
        let mapping = cvc_core::mapping::Mapping::one_node(p);
        let at = Setting {
            app: "a".into(),
            class: "b".into(),
            nas: None,
            size: None,
            mapping,
            per_node: p,
            mpi: MpiKind::OpenMpi,
            output: Output::default(),
        };
        Sample {
            id: p.to_string(),
            at,
            value,
        }
    }

    #[test]
    fn a_mean_of_launchers_that_grow_with_the_processes_is_refused_and_the_line_has_the_band_of_equal_runs()
     {
        // Open MPI 4.1.4; on 25 processes 65.01 MiB were measured
        let samples = [
            (4, 64.608),
            (4, 64.616),
            (4, 64.600),
            (9, 64.674),
            (9, 64.697),
            (9, 64.685),
        ]
        .map(|(p, mib)| sample(p, mib));
        let samples: Vec<&Sample> = samples.iter().collect();
        assert!(
            SAME_ON_NODES
                .fit(&samples)
                .is_err_and(|e| e.to_string().contains("4 and 9 processes"))
        );
        assert!(SAME_ON_NODES.fit(&samples[..3]).is_ok());
        let line = PER_NODE
            .with_band(LAUNCHERS_BAND_MIB)
            .fit(&samples)
            .expect("a line");
        let answer = line
            .predict(&sample(16, 0.0).at)
            .expect("an answer")
            .estimate;
        assert_eq!(answer.covers(64.824), Some(true), "{answer:?}");
        // (7/5)² + (12/5)²
        assert!(
            answer
                .half_width()
                .is_some_and(|half| (half - LAUNCHERS_BAND_MIB * 7.72_f64.sqrt()).abs() < 1e-9),
            "{answer:?}"
        );
        let within = line
            .predict(&sample(8, 0.0).at)
            .expect("an answer")
            .estimate;
        assert!(
            within
                .half_width()
                .is_some_and(|half| (half - LAUNCHERS_BAND_MIB).abs() < 1e-9),
            "{within:?}"
        );
    }
}
