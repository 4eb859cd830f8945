//! Memory of a program that grows with the number of processes: proportionally, quadratically, or both.

use super::{
    check::at_least_one,
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares_not_negative, relative_weights},
    scope::{Along, Common, Scope},
};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of different process counts from which the power of the growth can be determined.
const TELLING_COUNTS: usize = 3;

/// Systematic error of the law: a fraction of the value, and a minimum in MiB.
const ERROR: (f64, f64) = (0.01, 0.15);

/// Exponents of n in each law: a constant and a part for each process; a part for each process and for each pair of processes; a constant and a
/// part for each pair.
const LAWS: [[usize; 2]; 3] = [[0, 1], [1, 2], [0, 2]];

/// The model: a known `offset` plus two of the terms c, s·n and r·n², none of them negative. n is the number of processes in total or on the node.
///
/// Runs on two numbers of processes fit several of the laws. The value is then that of the first law. The interval covers all fitting laws and a
/// slower curve: linear in the logarithm of n or, if the value grows faster than n, a power of n. With three or more numbers of processes, a law is
/// excluded if it contradicts runs that another law fits.
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
    /// Returns the model of growth with the total number of processes, for one program and class.
    pub(super) const fn of_data() -> Self {
        Self {
            id: "dtapp-growth",
            formula: "MiB = two of c + s·P + r·P², none negative",
            along: Along::Processes,
            common: &[Common::Program],
            offset: |_| Ok(0.0),
            admits: |_| Ok(()),
        }
    }

    /// Returns the model of growth with the number of processes on the node.
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

/// A fitted law.
#[derive(Debug)]
struct Form {
    /// Exponents of n in the terms that are not 0.
    terms: Vec<usize>,
    fit: Fit,
    /// Largest distance from the mean of the runs on one number of processes, divided by the law's systematic error.
    miss: f64,
}

impl Form {
    fn value(&self, n: f64) -> f64 {
        let of_terms: Vec<f64> = self.terms.iter().map(|t| terms(n)[*t]).collect();
        self.fit.value(&of_terms)
    }
}

fn terms(n: f64) -> [f64; 3] {
    [1.0, n, n * n]
}

/// The slowest growth through the means at two numbers of processes; a and b are (n, value).
#[derive(Clone, Copy, Debug)]
struct Slowest {
    a: (f64, f64),
    b: (f64, f64),
    is_power: bool,
}

impl Slowest {
    fn value(self, n: f64) -> f64 {
        let part = (n / self.a.0).ln() / (self.b.0 / self.a.0).ln();
        if self.is_power {
            self.a.1 * (self.b.1 / self.a.1).powf(part)
        } else {
            self.a.1 + part * (self.b.1 - self.a.1)
        }
    }
}

#[derive(Debug)]
struct Curve {
    of: Growth,
    /// The laws that fit, the preferred one first.
    forms: Vec<Form>,
    /// A slower curve, if runs on two numbers of processes do not determine the growth.
    slowest: Option<Slowest>,
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
        let form = |law: [usize; 2]| -> Result<Form, FitError> {
            let row = |n: &f64| law.map(|term| terms(*n)[term]).into();
            let rows: Vec<Vec<f64>> = ns.iter().map(row).collect();
            let (kept, fit) = least_squares_not_negative(&rows, &values, &weights)?;
            let form = Form {
                terms: kept.iter().map(|place| law[*place]).collect(),
                fit,
                miss: 0.0,
            };
            if form.terms == [0] {
                return Err(FitError::OutOfDomain(
                    "it does not grow with the processes".into(),
                ));
            }
            let miss = means
                .iter()
                .map(|(n, mean)| (form.value(*n) - mean).abs() / self.form_error(*mean))
                .fold(0.0, f64::max);
            Ok(Form { miss, ..form })
        };
        let mut forms = LAWS.map(form).into_iter().collect::<Result<Vec<_>, _>>()?;
        if counts.len() >= TELLING_COUNTS || forms.iter().all(|f| f.miss > 1.0) {
            forms.sort_by(|a, b| a.miss.total_cmp(&b.miss));
        } else {
            forms.sort_by_key(|f| f.miss > 1.0);
        }
        let held = forms.iter().filter(|f| f.miss <= 1.0).count();
        forms.truncate(held.max(1));
        let slowest = match means[..] {
            [a, b] => Some(Slowest {
                a,
                b,
                is_power: a.1 > 0.0 && b.1 / a.1 > b.0 / a.0,
            }),
            _ => None,
        };
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
            .chain(self.slowest.map(|slowest| slowest.value(n)));
        let [value, low, high] = all
            .fold(None, |ends: Option<[f64; 3]>, v| {
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
            let kept = form.terms.iter().position(|t| *t == place);
            Parameter {
                name,
                value: kept.map_or(0.0, |i| form.fit.coefficients[i]),
                standard_error: kept.and_then(|i| form.fit.standard_errors.as_ref().map(|e| e[i])),
            }
        };
        ["c", "s", "r"].into_iter().enumerate().map(of).collect()
    }

    fn has_stated_error(&self) -> bool {
        true
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
    fn two_counts_cover_line_and_parabola_and_three_decide() {
        let line = |p: f64| 6.2 + 4.0 * p;
        let square = |p: f64| 6.0 + 0.5 * p * p;
        let (ratio, covers, spans) = answer(line, &[2, 4], 8);
        assert!((ratio - 1.0).abs() < 1e-9 && spans && covers == Some(true));
        let (ratio, covers, spans) = answer(square, &[2, 4], 8);
        assert!(ratio < 1.0 && spans && covers == Some(true));
        // a line through these values would need a negative constant, so it is excluded
        let (ratio, _, _) = answer(|p| 3.0 * p * p, &[2, 4], 8);
        assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
        // each process has a file that grows with the number of processes
        let files = |p: f64| p * (4.0 + 2.0 * p);
        let (ratio, covers, _) = answer(files, &[2, 4], 8);
        assert!((ratio - 1.0).abs() < 1e-9 && covers == Some(true));
        for law in [&line as &dyn Fn(f64) -> f64, &square, &files] {
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
