//! What a program holds more of, the more processes there are: in proportion to them, or to their square.

use super::{
    check::at_least_one,
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares, least_squares_not_negative, relative_weights},
    scope::{Along, Common, Scope},
};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of processes from which on runs can show by which power a quantity grows.
const TELLING_COUNTS: usize = 3;

/// Error of the form as a part of the value, and its least, MiB.
const ERROR: (f64, f64) = (0.01, 0.15);

/// The model: offset(at) + c + s·n or offset(at) + c + s·n², with n the processes, or those on the node, and c, s >= 0.
///
/// Two numbers of processes fit both powers. The value is then that of the line, and the interval reaches from the curve in the logarithm of n to
/// the parabola. From three on, a power that misses runs which the other one hits is out.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    id: &'static str,
    formula: &'static str,
    along: Along,
    common: &'static [Common],
    offset: fn(&Setting) -> Result<f64, FitError>,
    admits: fn(&Setting) -> Result<(), FitError>,
}

impl Growth {
    /// Growth with all processes, of one program and class.
    pub(super) const fn of_data() -> Self {
        Self {
            id: "dtapp-growth",
            formula: "MiB = c + s·P or c + s·P²; c, s >= 0",
            along: Along::Processes,
            common: &[Common::Program],
            offset: |_| Ok(0.0),
            admits: |_| Ok(()),
        }
    }

    /// Growth with the processes on the node.
    pub(super) const fn on_node(
        id: &'static str,
        formula: &'static str,
        offset: fn(&Setting) -> Result<f64, FitError>,
        admits: fn(&Setting) -> Result<(), FitError>,
    ) -> Self {
        Self {
            id,
            formula,
            along: Along::PerNode,
            common: &[Common::Mpi],
            offset,
            admits,
        }
    }

    fn n_of(&self, at: &Setting) -> Result<f64, FitError> {
        at_least_one("the number of processes", self.along.of(at))
    }
}

/// Of one power: which of c and s are not 0, and their fit.
#[derive(Debug)]
struct Form {
    power: i32,
    kept: Vec<usize>,
    fit: Fit,
    /// Largest distance from the mean of the runs with one number of processes, in parts of the form's error.
    miss: f64,
}

impl Form {
    fn value(&self, n: f64) -> f64 {
        let row = [1.0, n.powi(self.power)];
        self.fit
            .value(&self.kept.iter().map(|i| row[*i]).collect::<Vec<_>>())
    }
}

#[derive(Debug)]
struct Curve {
    of: Growth,
    /// The powers that hold, the one that is taken first.
    forms: Vec<Form>,
    /// The curve in the logarithm, where two numbers of processes tell nothing of the power.
    slowest: Option<Fit>,
    scope: Scope,
}

impl Model for Growth {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            id: self.id,
            title: "growth with the processes",
            formula: self.formula,
            source: "cvc: each process adds a part of its own, or one for each other process",
            tier: Tier::SmallRuns,
            parameters: 2,
        }
    }

    fn form_error(&self, value: f64) -> f64 {
        ERROR.1.max(ERROR.0 * value)
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let samples: Vec<&Sample> = samples
            .iter()
            .copied()
            .filter(|s| (self.admits)(&s.at).is_ok())
            .collect();
        let counts: BTreeSet<u32> = samples.iter().map(|s| self.along.of(&s.at)).collect();
        if counts.len() < 2 {
            return Err(FitError::TooFewPoints {
                found: counts.len(),
                needed: 2,
            });
        }
        let scope = Scope::of(&samples, self.common, self.along)?;
        let mut means: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        let (mut ns, mut values) = (Vec::new(), Vec::new());
        for sample in &samples {
            let value = sample.value - (self.offset)(&sample.at)?;
            let (sum, number) = means.entry(self.along.of(&sample.at)).or_default();
            (*sum, *number) = (*sum + value, *number + 1.0);
            ns.push(self.n_of(&sample.at)?);
            values.push(value);
        }
        let means: Vec<(f64, f64)> = means
            .into_iter()
            .map(|(n, (sum, number))| (f64::from(n), sum / number))
            .collect();
        let weights = relative_weights(&samples.iter().map(|s| s.value).collect::<Vec<_>>());
        let form = |power: i32| -> Result<Form, FitError> {
            let rows: Vec<Vec<f64>> = ns.iter().map(|n| vec![1.0, n.powi(power)]).collect();
            let (kept, fit) = least_squares_not_negative(&rows, &values, &weights)?;
            if !kept.contains(&1) {
                return Err(FitError::OutOfDomain(
                    "it does not grow with the processes".into(),
                ));
            }
            let form = Form {
                power,
                kept,
                fit,
                miss: 0.0,
            };
            let miss = means
                .iter()
                .map(|(n, mean)| (form.value(*n) - mean).abs() / self.form_error(*mean))
                .fold(0.0, f64::max);
            Ok(Form { miss, ..form })
        };
        let (line, square) = (form(1)?, form(2)?);
        let mut forms = if square.miss < line.miss && (line.miss > 1.0 || counts.len() >= TELLING_COUNTS)
        {
            vec![square, line]
        } else {
            vec![line, square]
        };
        if forms[1].miss > 1.0 {
            forms.truncate(1);
        }
        let slowest = (counts.len() < TELLING_COUNTS && forms[0].power == 1)
            .then(|| {
                let rows: Vec<Vec<f64>> = ns.iter().map(|n| vec![1.0, n.ln()]).collect();
                least_squares(&rows, &values, Some(&weights))
            })
            .transpose()?;
        Ok(Box::new(Curve {
            of: *self,
            forms,
            slowest,
            scope,
        }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        (self.of.admits)(at)?;
        self.scope.admits(at)?;
        let (n, offset) = (self.of.n_of(at)?, (self.of.offset)(at)?);
        let all = self
            .forms
            .iter()
            .map(|form| form.value(n))
            .chain(self.slowest.iter().map(|fit| fit.value(&[1.0, n.ln()])));
        let [value, low, high] = all.fold(None, |ends: Option<[f64; 3]>, v| {
            Some(ends.map_or([v; 3], |[first, low, high]| {
                [first, low.min(v), high.max(v)]
            }))
        })
        .unwrap_or_default()
        .map(|v| v + offset);
        let band = self.of.form_error(value);
        let mut warnings = self.scope.warnings(at);
        if self.spans_laws() {
            warnings.push(format!(
                "{}.{}: two numbers of processes do not show whether it grows in proportion to them or faster; a run on a third narrows the interval",
                at.app, at.class
            ));
        }
        Ok(Answer {
            estimate: Estimate::between(value, low - band, high + band).not_negative(),
            warnings,
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let Some(form) = self.forms.first() else {
            return Vec::new();
        };
        let of = |(place, name): (usize, &'static str)| {
            let kept = form.kept.iter().position(|k| *k == place);
            Parameter {
                name,
                value: kept.map_or(0.0, |i| form.fit.coefficients[i]),
                standard_error: kept
                    .and_then(|i| form.fit.standard_errors.as_ref().map(|e| e[i])),
            }
        };
        ["c", "s"].into_iter().enumerate().map(of).collect()
    }

    fn spans_laws(&self) -> bool {
        self.slowest.is_some() || self.forms.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::Growth;
    use crate::{FitError, Model, MpiKind, Sample};

    fn answer(law: impl Fn(f64) -> f64, counts: &[u32], at: u32) -> (f64, Option<bool>, bool) {
        let sample = |p: &u32| Sample::of_unknown(MpiKind::OpenMpi, *p, law(f64::from(*p)));
        let runs: Vec<Sample> = counts.iter().map(sample).collect();
        let curve = Growth::of_data()
            .fit(&runs.iter().collect::<Vec<_>>())
            .expect("a fit");
        let asked = sample(&at);
        let estimate = curve.predict(&asked.at).expect("an answer").estimate;
        (
            estimate.value / asked.value,
            estimate.covers(asked.value),
            curve.spans_laws(),
        )
    }

    #[test]
    fn two_counts_cover_line_and_parabola_and_three_tell_which() {
        let line = |p: f64| 6.2 + 4.0 * p;
        let square = |p: f64| 6.0 + 0.5 * p * p;
        let (ratio, covers, spans) = answer(line, &[2, 4], 8);
        assert!((ratio - 1.0).abs() < 1e-9 && spans && covers == Some(true));
        let (ratio, covers, spans) = answer(square, &[2, 4], 8);
        assert!(ratio < 1.0 && spans && covers == Some(true));
        // less than nothing is no constant part, so that a line cannot hold
        let (ratio, _, _) = answer(|p| 3.0 * p * p, &[2, 4], 8);
        assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
        for law in [&line as &dyn Fn(f64) -> f64, &square] {
            let (ratio, covers, spans) = answer(law, &[2, 4, 8], 16);
            assert!((ratio - 1.0).abs() < 1e-9 && !spans && covers == Some(true));
        }
    }

    #[test]
    fn what_does_not_grow_is_refused() {
        let runs = [(2, 20.0), (4, 10.0)].map(|(p, v)| Sample::of_unknown(MpiKind::OpenMpi, p, v));
        let all: Vec<&Sample> = runs.iter().collect();
        assert!(matches!(
            Growth::of_data().fit(&all),
            Err(FitError::OutOfDomain(_))
        ));
        assert!(matches!(
            Growth::of_data().fit(&all[..1]),
            Err(FitError::TooFewPoints { found: 1, .. })
        ));
    }
}
