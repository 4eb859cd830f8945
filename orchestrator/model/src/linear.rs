//! Models whose value is a sum of known terms with fitted factors.

use super::{
    Estimate,
    curve::{Answer, Fitted, Model, ModelInfo, Parameter, Sample, Setting},
    fit::{Fit, FitError, least_squares, relative_weights},
    scope::{Along, Common, Scope},
};

/// Systematic error of curves with relative residuals, as a fraction of the value.
pub(super) const RELATIVE_ERROR: f64 = 0.02;

/// Difference between equal runs, MiB: 13 pages of 4 KiB.
pub(super) const FEW_PAGES_MIB: f64 = 0.05;

/// A model of the form value = offset(at) + Σ parameterⱼ · termⱼ(at).
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub(super) info: ModelInfo,
    /// Names of the parameters.
    pub(super) names: &'static [&'static str],
    /// Returns the terms at a setting.
    pub(super) terms: fn(&Setting) -> Result<Vec<f64>, FitError>,
    /// Returns the part of the value without a parameter.
    pub(super) offset: fn(&Setting) -> Result<f64, FitError>,
    pub(super) weights: Weights,
    pub(super) common: &'static [Common],
    pub(super) along: Along,
    /// Systematic error of the model, MiB, and minimum half-width of an interval, even if a few runs agree closely.
    pub(super) least_band: f64,
    /// Systematic error of the model as a fraction of the value. The larger of this error and `least_band` applies.
    pub(super) least_part: f64,
    /// A run up to this distance from the curve does not contradict the model, MiB. If the systematic error is larger, the error applies instead.
    pub(super) form_error: f64,
    /// Returns an error for settings, of training runs or of predictions, to which the model does not apply.
    pub(super) admits: fn(&Setting) -> Result<(), FitError>,
}

/// The weights of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    /// Equal weights.
    Equal,
    /// 1/y²: residuals are proportional to the values.
    Relative,
}

/// Returns 0: the model has no fixed part.
fn no_offset(_: &Setting) -> Result<f64, FitError> {
    Ok(0.0)
}

/// Accepts every setting.
fn everywhere(_: &Setting) -> Result<(), FitError> {
    Ok(())
}

#[derive(Debug)]
struct Curve {
    of: Linear,
    fit: Fit,
    scope: Scope,
}

impl Linear {
    /// Returns the defaults of a model (`..Linear::of(info)`): a constant with equal weights, fitted to runs of one program with one library.
    pub(super) fn of(info: ModelInfo) -> Self {
        Self {
            info,
            names: &["c"],
            terms: |_| Ok(vec![1.0]),
            offset: no_offset,
            weights: Weights::Equal,
            common: &[Common::Mpi, Common::Program],
            along: Along::Processes,
            least_band: 0.0,
            least_part: 0.0,
            form_error: FEW_PAGES_MIB,
            admits: everywhere,
        }
    }
}

impl Model for Linear {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn form_error(&self, value: f64) -> f64 {
        let part = match self.weights {
            Weights::Equal => self.least_part,
            Weights::Relative => self.least_part.max(RELATIVE_ERROR),
        };
        self.least_band.max(part * value).max(self.form_error)
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        let samples: Vec<&Sample> = samples
            .iter()
            .copied()
            .filter(|s| (self.admits)(&s.at).is_ok())
            .collect();
        let needed = self.names.len();
        if samples.len() < needed {
            return Err(FitError::TooFewPoints {
                found: samples.len(),
                needed,
            });
        }
        let scope = Scope::of(&samples, self.common, self.along)?;
        let rows = samples
            .iter()
            .map(|s| (self.terms)(&s.at))
            .collect::<Result<Vec<_>, _>>()?;
        let values = samples
            .iter()
            .map(|s| Ok(s.value - (self.offset)(&s.at)?))
            .collect::<Result<Vec<_>, FitError>>()?;
        let weights = match self.weights {
            Weights::Equal => None,
            Weights::Relative => Some(relative_weights(
                &samples.iter().map(|s| s.value).collect::<Vec<_>>(),
            )),
        };
        let fit = least_squares(&rows, &values, weights.as_deref())?;
        Ok(Box::new(Curve {
            of: *self,
            fit,
            scope,
        }))
    }
}

impl Fitted for Curve {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        (self.of.admits)(at)?;
        self.scope.admits(at)?;
        let row = (self.of.terms)(at)?;
        let offset = (self.of.offset)(at)?;
        let value = offset + self.fit.value(&row);
        let weight = match self.of.weights {
            Weights::Equal => 1.0,
            Weights::Relative => 1.0 / (value * value),
        };
        let estimate = self
            .fit
            .predict(&row, weight)
            .plus_together(Estimate::exact(offset));
        Ok(Answer {
            estimate: widened(estimate, self.of.least_band.max(self.of.least_part * value))
                .not_negative(),
            warnings: self.scope.warnings(at),
        })
    }

    fn parameters(&self) -> Vec<Parameter> {
        let error = |i: usize| self.fit.standard_errors.as_ref().map(|e| e[i]);
        let of = |(i, name): (usize, &&'static str)| Parameter {
            name,
            value: self.fit.coefficients[i],
            standard_error: error(i),
        };
        self.of.names.iter().enumerate().map(of).collect()
    }
}

/// Widens an interval by the systematic error of the model, which is independent of the scatter of the runs. If the scatter is unknown, there is no
/// interval.
pub(super) fn widened(estimate: Estimate, band: f64) -> Estimate {
    estimate.plus(Estimate::plus_minus(0.0, band))
}

/// A model without parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub(super) info: ModelInfo,
    pub(super) answer: fn(&Setting) -> Result<Answer, FitError>,
    /// Returns an error if runs contradict the model.
    pub(super) believes: fn(&[&Sample]) -> Result<(), FitError>,
}

/// Accepts the model for any runs.
pub(super) fn always(_: &[&Sample]) -> Result<(), FitError> {
    Ok(())
}

impl Model for Fixed {
    fn info(&self) -> ModelInfo {
        self.info
    }

    fn fit(&self, samples: &[&Sample]) -> Result<Box<dyn Fitted>, FitError> {
        (self.believes)(samples)?;
        Ok(Box::new(*self))
    }
}

impl Fitted for Fixed {
    fn predict(&self, at: &Setting) -> Result<Answer, FitError> {
        (self.answer)(at)
    }

    fn parameters(&self) -> Vec<Parameter> {
        Vec::new()
    }
}
