//! The thesis's power law.

use crate::{
    check::{at_least_one, finite, positive},
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting, Tier},
    estimate::Estimate,
    fit::{Fit, FitError, least_squares},
    linear::RELATIVE_ERROR,
    scope::{Along, Common, Scope},
};
use serde::Serialize;

/// MiB = `a_mib`·P^`b`. Source: thesis, section 3.3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PowerLaw {
    /// MiB on one process.
    pub a_mib: f64,
    /// Exponent.
    pub b: f64,
}

/// A fitted power law.
#[derive(Clone, Debug)]
pub struct PowerLawFit {
    /// The law with unrounded parameters.
    pub law: PowerLaw,
    /// The straight line through the points (ln P, ln MiB): intercept, slope.
    pub line: Fit,
}

impl PowerLaw {
    /// Fits by ordinary least squares to (ln P, ln MiB), like a spreadsheet's trend line. `points` are (processes, MiB).
    ///
    /// # Errors
    /// There are fewer than two numbers of processes, or a size is not positive.
    pub fn fit(points: &[(u32, f64)]) -> Result<PowerLawFit, FitError> {
        let mut rows = Vec::with_capacity(points.len());
        let mut values = Vec::with_capacity(points.len());
        for (processes, mib) in points {
            rows.push(vec![
                1.0,
                at_least_one("the number of processes", *processes)?.ln(),
            ]);
            values.push(positive("a size", *mib)?.ln());
        }
        if rows.is_empty() {
            return Err(FitError::TooFewPoints {
                found: 0,
                needed: 2,
            });
        }
        let line = least_squares(&rows, &values, None)?;
        Ok(PowerLawFit {
            law: Self {
                a_mib: line.coefficients[0].exp(),
                b: line.coefficients[1],
            },
            line,
        })
    }

    /// Rounds the parameters as a spreadsheet prints them: A to 5 significant digits, B to 3 decimals. The thesis uses the rounded parameters.
    pub fn rounded(self) -> Self {
        let digits = if self.a_mib > 0.0 {
            4 - self.a_mib.log10().floor() as i32
        } else {
            0
        };
        let scale = 10f64.powi(digits);
        Self {
            a_mib: (self.a_mib * scale).round() / scale,
            b: (self.b * 1e3).round() / 1e3,
        }
    }

    /// Returns the MiB on `processes`.
    ///
    /// # Errors
    /// There are no processes.
    pub fn at(self, processes: u32) -> Result<f64, FitError> {
        finite(
            "the size",
            self.a_mib * at_least_one("the number of processes", processes)?.powf(self.b),
        )
    }
}

/// Returns the MiB of the data zone of BT.B: 354.54·P^−0.85. Source: thesis, equation 3.10. The line through 109.94, 21.97 and 17.50 MiB on 4, 25
/// and 36 processes is 354.57·P^−0.850; the difference comes from rounding in the table.
///
/// # Errors
/// There are no processes.
pub fn eq_3_10_mib(processes: u32) -> Result<f64, FitError> {
    PowerLaw {
        a_mib: 354.54,
        b: -0.85,
    }
    .at(processes)
}

/// The fitted power law, with or without the published rounding of its parameters.
#[derive(Debug)]
pub(super) struct Law {
    pub(super) rounded: bool,
}

#[derive(Debug)]
struct Curve {
    law: PowerLaw,
    line: Fit,
    scope: Scope,
}

impl Model for Law {
    fn info(&self) -> ModelInfo {
        let (id, title, formula) = match self.rounded {
            false => (
                "dtapp-power-law",
                "power law",
                "MiB = A·P^B, least squares on logarithms",
            ),
            true => (
                "dtapp-power-law-rounded",
                "power law, rounded as published",
                "MiB = A·P^B, least squares on logarithms, A to 5 digits, B to 3 decimals",
            ),
        };
        ModelInfo {
            id,
            title,
            formula,
            source: "thesis, section 3.3",
            tier: Tier::SmallRuns,
            parameters: 2,
        }
    }

    fn form_error(&self, value: f64) -> f64 {
        RELATIVE_ERROR * value
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        if samples.len() < 2 {
            return Err(FitError::TooFewPoints {
                found: samples.len(),
                needed: 2,
            });
        }
        let scope = Scope::of(samples, &[Common::Program], Along::Processes)?;
        let points: Vec<(u32, f64)> = samples
            .iter()
            .map(|s| (s.at.processes(), s.value))
            .collect();
        let PowerLawFit { law, line } = PowerLaw::fit(&points)?;
        Ok(Box::new(Curve {
            law: if self.rounded { law.rounded() } else { law },
            line,
            scope,
        }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        self.scope.admits(at)?;
        let value = self.law.at(at.processes())?;
        let line = self
            .line
            .predict(&[1.0, f64::from(at.processes()).ln()], 1.0);
        // the interval is multiplicative, also around the value of the rounded law
        let estimate = match line.half_width() {
            Some(half) => Estimate::between(value, value * (-half).exp(), value * half.exp()),
            None => Estimate::bare(value),
        };
        Ok(Answer {
            estimate,
            warnings: self.scope.warnings(at),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let errors = self.line.standard_errors.as_ref();
        // the error of A follows from the error of ln A
        let of_a = errors.map(|e| e[0] * self.law.a_mib);
        vec![
            Parameter {
                name: "A",
                value: self.law.a_mib,
                standard_error: of_a,
            },
            Parameter {
                name: "B",
                value: self.law.b,
                standard_error: errors.map(|e| e[1]),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{FitError, PowerLaw};

    /// Training rows of Table 4.1, with the unrounded parameters.
    #[test]
    fn parameters_before_and_after_the_published_rounding() {
        let fit = PowerLaw::fit(&[(16, 1626.72), (25, 1042.88), (36, 757.08)]).expect("a fit");
        assert!(
            (fit.law.a_mib - 22_196.96).abs() < 0.01 && (fit.law.b + 0.945_130).abs() < 1e-6,
            "{:?}",
            fit.law
        );
        assert_eq!(
            fit.law.rounded(),
            PowerLaw {
                a_mib: 22_197.0,
                b: -0.945
            }
        );
        assert_eq!(
            PowerLaw {
                a_mib: 313.1564,
                b: -0.865_512
            }
            .rounded(),
            PowerLaw {
                a_mib: 313.16,
                b: -0.866
            }
        );
    }

    #[test]
    fn values_without_a_logarithm_are_refused() {
        assert!(matches!(
            PowerLaw::fit(&[(4, 1.0), (9, 0.0)]),
            Err(FitError::BadValue { .. })
        ));
        assert!(matches!(
            PowerLaw::fit(&[(0, 1.0), (9, 1.0)]),
            Err(FitError::BadValue { .. })
        ));
        assert_eq!(
            PowerLaw::fit(&[(4, 1.0)]).err(),
            Some(FitError::TooFewPoints {
                found: 1,
                needed: 2
            })
        );
        assert_eq!(
            PowerLaw::fit(&[]).err(),
            Some(FitError::TooFewPoints {
                found: 0,
                needed: 2
            })
        );
        assert!(matches!(
            PowerLaw::fit(&[(4, 1.0), (4, 2.0)]),
            Err(FitError::RankDeficient { .. })
        ));
        assert!(
            PowerLaw {
                a_mib: 1.0,
                b: -1.0
            }
            .at(0)
            .is_err()
        );
    }
}
