//! The data of a program with unknown arrays: its part of the volume that the processes divide, and the surface of this part.

use crate::{
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares_not_negative, relative_weights},
    linear::{FEW_PAGES_MIB, RELATIVE_ERROR},
    scope::{Along, Common, Scope},
};
use std::collections::BTreeSet;

/// The model for programs with unknown arrays.
#[derive(Debug)]
pub(super) struct VolumeAndSurface;

/// Identifier of the model.
pub const VOLUME_AND_SURFACE: &str = "dtapp-volume-surface";

/// Memory that every process has in full, MiB: text, static data of the C library, some heap.
const WHOLE_MIB: f64 = 0.3;

/// Maximum fraction of the smallest run's memory that is assumed to be the same in every process.
const LARGEST_WHOLE_PART: f64 = 0.95;

/// Names of the parameters.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Number of terms that divide among processes: volume and surface.
const DIVIDED: usize = 2;

/// If a fit of the divided terms is within this relative error of every run, the problem is assumed to be divided. If each process has its own
/// problem (weak scaling), the error of the divided terms between one and two processes is at least a third.
const DIVIDED_ERROR: f64 = 0.1;

#[derive(Debug)]
struct Curve {
    whole_mib: f64,
    /// Indices of the terms that are not 0.
    kept: Vec<usize>,
    fit: Fit,
    scope: Scope,
}

/// Returns the terms: a process's part of the volume, the surface of this part, and the constant of each process.
fn terms(at: &Setting) -> [f64; 3] {
    let p = f64::from(at.processes());
    [1.0 / p, p.powf(-2.0 / 3.0), 1.0]
}

impl Model for VolumeAndSurface {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: VOLUME_AND_SURFACE,
            title: "volume and surface",
            formula: "MiB = 0.3 + a/P + b/P^(2/3), or, where that errs by a tenth, c + a/P + b/P^(2/3); a, b, c >= 0",
            source: "cvc: a grid in three dimensions is cut into P parts, whose surfaces have ghost layers; none can be negative; with weak scaling each process has a part of one size",
            tier: Tier::SmallRuns,
            parameters: DIVIDED,
        }
    }

    fn form_error(&self, value: f64) -> f64 {
        DIVIDED_ERROR * value
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if let Some(known) = samples.iter().find(|s| s.at.nas.is_some()) {
            return Err(FitError::OutOfDomain(format!(
                "the arrays of {}.{} are known: other models use them",
                known.at.app, known.at.class
            )));
        }
        let counts = samples
            .iter()
            .map(|s| s.at.processes())
            .collect::<BTreeSet<_>>();
        if counts.len() < DIVIDED {
            return Err(FitError::TooFewPoints {
                found: counts.len(),
                needed: DIVIDED,
            });
        }
        let scope = Scope::of(samples, &[Common::Program], Along::Processes)?;
        let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
        let mean_on = |count: Option<&u32>| {
            let of: Vec<f64> = samples
                .iter()
                .filter(|s| Some(&s.at.processes()) == count)
                .map(|s| s.value)
                .collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        if mean_on(counts.last()) > (1.0 + RELATIVE_ERROR) * mean_on(counts.first()) + FEW_PAGES_MIB
        {
            return Err(FitError::OutOfDomain(
                "the data grow with the processes".into(),
            ));
        }
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let whole_mib = WHOLE_MIB.min(LARGEST_WHOLE_PART * least);
        let weights = relative_weights(&values);
        let rows_of = |terms_of: usize| -> Vec<Vec<f64>> {
            samples
                .iter()
                .map(|s| terms(&s.at)[..terms_of].to_vec())
                .collect()
        };
        let (rows, divided) = (
            rows_of(DIVIDED),
            values
                .iter()
                .map(|value| value - whole_mib)
                .collect::<Vec<f64>>(),
        );
        let (kept, fit) = least_squares_not_negative(&rows, &divided, &weights)?;
        let fitted =
            |row: &[f64]| fit.value(&kept.iter().map(|i| row[*i]).collect::<Vec<_>>()) + whole_mib;
        let worst = rows
            .iter()
            .zip(&values)
            .map(|(row, value)| (fitted(row) / value - 1.0).abs())
            .fold(0.0, f64::max);
        if worst < DIVIDED_ERROR {
            return Ok(Box::new(Curve {
                whole_mib,
                kept,
                fit,
                scope,
            }));
        }
        let (kept, fit) = least_squares_not_negative(&rows_of(NAMES.len()), &values, &weights)?;
        Ok(Box::new(Curve {
            whole_mib: 0.0,
            kept,
            fit,
            scope,
        }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        self.scope.admits(at)?;
        let all = terms(at);
        let row: Vec<f64> = self.kept.iter().map(|i| all[*i]).collect();
        let value = self.whole_mib + self.fit.value(&row);
        let estimate = self
            .fit
            .predict(&row, 1.0 / (value * value))
            .plus_together(Estimate::exact(self.whole_mib));
        Ok(Answer {
            estimate: estimate.not_negative(),
            warnings: self.scope.warnings(at),
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
        NAMES.into_iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::VolumeAndSurface;
    use crate::{Model, MpiKind, Sample};

    fn sample(p: u32, value: f64) -> Sample {
        Sample::of_unknown(MpiKind::OpenMpi, p, value)
    }

    #[test]
    fn a_grid_with_ghost_layers_is_found_and_no_part_is_negative() {
        let grid = |p: u32| 0.3 + 100.0 / f64::from(p) + 8.0 / f64::from(p).powf(2.0 / 3.0);
        let runs = [1, 2, 4].map(|p| sample(p, grid(p)));
        let fitted = VolumeAndSurface
            .fit(&runs.iter().collect::<Vec<_>>())
            .expect("a fit");
        assert!(
            (fitted
                .predict(&sample(64, 0.0).at)
                .expect("MiB")
                .estimate
                .value
                - grid(64))
            .abs()
                < 1e-9
        );
        // the values fall faster than 1/P: only a negative surface would explain them, and it would make the prediction negative on many processes
        let fast = [sample(1, 100.0), sample(2, 48.0), sample(4, 23.0)];
        let fitted = VolumeAndSurface
            .fit(&fast.iter().collect::<Vec<_>>())
            .expect("a fit");
        assert!(fitted.parameters().iter().all(|p| p.value >= 0.0));
        assert!(
            fitted
                .predict(&sample(4096, 0.0).at)
                .expect("MiB")
                .estimate
                .value
                > 0.0
        );
        assert!(
            VolumeAndSurface.fit(&[&fast[0], &fast[0]]).is_err(),
            "one count"
        );
    }

    #[test]
    fn where_each_process_has_a_problem_of_its_own_data_do_not_fall() {
        for counts in [&[1, 2][..], &[1, 2, 4]] {
            let own = |p: u32| 24.0 + 0.3 * (1.0 - 1.0 / f64::from(p));
            let runs: Vec<_> = counts.iter().map(|p| sample(*p, own(*p))).collect();
            let fitted = VolumeAndSurface
                .fit(&runs.iter().collect::<Vec<_>>())
                .expect("a fit");
            let value = fitted
                .predict(&sample(64, 0.0).at)
                .expect("MiB")
                .estimate
                .value;
            assert!((value / own(64) - 1.0).abs() < 0.02, "{counts:?}: {value}");
        }
    }
}
