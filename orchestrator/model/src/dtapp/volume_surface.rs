//! The data of a program about which nothing is known: the volume that the processes divide, and the surface of a part.

use crate::{
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares_not_negative, relative_weights},
    scope::{Along, Common, Scope},
};
use std::collections::BTreeSet;

/// The model; of programs whose arrays are not known.
#[derive(Debug)]
pub(super) struct VolumeAndSurface;

/// What every process has whole, MiB: text, static data of the C library, some heap.
const WHOLE_MIB: f64 = 0.3;

/// The largest part of the least run that is taken to be whole in every process.
const LARGEST_WHOLE_PART: f64 = 0.95;

/// Names of the parameters.
const NAMES: [&str; 2] = ["a", "b"];

#[derive(Debug)]
struct Curve {
    whole_mib: f64,
    /// Places of the terms that are not 0.
    kept: Vec<usize>,
    fit: Fit,
    scope: Scope,
}

/// The terms: a part of the volume, and its surface.
fn terms(at: &Setting) -> [f64; 2] {
    let p = f64::from(at.processes());
    [1.0 / p, p.powf(-2.0 / 3.0)]
}

impl Model for VolumeAndSurface {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: "dtapp-volume-surface",
            title: "volume and surface",
            formula: "MiB = 0.3 + a/P + b/P^(2/3), a, b >= 0",
            source: "cvc: a grid in three dimensions is cut into P parts, whose surfaces have ghost layers; neither can be negative",
            tier: Tier::SmallRuns,
            parameters: 2,
        }
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if let Some(known) = samples.iter().find(|s| s.at.nas.is_some()) {
            return Err(FitError::OutOfDomain(format!(
                "the arrays of {}.{} are known: other models use them",
                known.at.app, known.at.class
            )));
        }
        let counts = samples.iter().map(|s| s.at.processes()).collect::<BTreeSet<_>>().len();
        if counts < NAMES.len() {
            return Err(FitError::TooFewPoints { found: counts, needed: NAMES.len() });
        }
        let scope = Scope::of(samples, &[Common::Program], Along::Processes)?;
        let values: Vec<f64> = samples.iter().map(|s| s.value).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let whole_mib = WHOLE_MIB.min(LARGEST_WHOLE_PART * least);
        let rows: Vec<Vec<f64>> = samples.iter().map(|s| terms(&s.at).to_vec()).collect();
        let divided: Vec<f64> = values.iter().map(|value| value - whole_mib).collect();
        let (kept, fit) = least_squares_not_negative(&rows, &divided, &relative_weights(&values))?;
        Ok(Box::new(Curve { whole_mib, kept, fit, scope }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        self.scope.admits(at)?;
        let all = terms(at);
        let row: Vec<f64> = self.kept.iter().map(|i| all[*i]).collect();
        let value = self.whole_mib + self.fit.value(&row);
        let estimate = self.fit.predict(&row, 1.0 / (value * value)).plus_together(Estimate::exact(self.whole_mib));
        Ok(Answer { estimate: estimate.not_negative(), warnings: self.scope.warnings(at) })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.fit.standard_errors.as_ref();
        let of = |(place, name): (usize, &'static str)| match self.kept.iter().position(|k| *k == place) {
            Some(i) => Parameter { name, value: self.fit.coefficients[i], standard_error: errors.map(|e| e[i]) },
            None => Parameter { name, value: 0.0, standard_error: None },
        };
        NAMES.into_iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::VolumeAndSurface;
    use crate::{Model, MpiKind, Output, Sample, Setting};

    fn sample(p: u32, value: f64) -> Sample {
        let mapping = cvc_core::mapping::Mapping::one_node(p);
        let at = Setting {
            app: "a".into(),
            class: "b".into(),
            nas: None,
            mapping,
            per_node: p,
            mpi: MpiKind::OpenMpi,
            output: Output::default(),
        };
        Sample { id: p.to_string(), at, value }
    }

    #[test]
    fn a_grid_with_ghost_layers_is_found_and_no_part_is_negative() {
        let grid = |p: u32| 0.3 + 100.0 / f64::from(p) + 8.0 / f64::from(p).powf(2.0 / 3.0);
        let runs = [1, 2, 4].map(|p| sample(p, grid(p)));
        let fitted = VolumeAndSurface.fit(&runs.iter().collect::<Vec<_>>()).expect("a fit");
        assert!((fitted.predict(&sample(64, 0.0).at).expect("MiB").estimate.value - grid(64)).abs() < 1e-9);
        // falls faster than 1/P: a surface of less than nothing would explain it, and be negative on many processes
        let fast = [sample(1, 100.0), sample(2, 48.0), sample(4, 23.0)];
        let fitted = VolumeAndSurface.fit(&fast.iter().collect::<Vec<_>>()).expect("a fit");
        assert!(fitted.parameters().iter().all(|p| p.value >= 0.0));
        assert!(fitted.predict(&sample(4096, 0.0).at).expect("MiB").estimate.value > 0.0);
        assert!(VolumeAndSurface.fit(&[&fast[0], &fast[0]]).is_err(), "one count");
    }
}
