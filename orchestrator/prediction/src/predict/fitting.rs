//! Models of one quantity: fits them to samples, chooses one, and predicts with it.

use super::{
    curves::at_least,
    forecast::{CandidateAnswer, Prediction},
};
use cvc_model::{
    Choice, Estimate, FitError, FitVerdict, Fitted, Miss, Model, ModelInfo, Sample, Setting, Tier,
    Training, choose, largest_miss,
};
use std::collections::BTreeSet;

/// Minimum number of samples for which leave-one-out errors widen an interval.
const ENOUGH: usize = 3;

/// Minimum number of degrees of freedom for which a model's own interval is used.
const MIN_FREEDOM: usize = 4;

/// Models fitted to samples.
#[derive(Debug)]
pub(crate) struct Fitting<'s> {
    choice: Choice<'s>,
    /// The chosen model.
    model: Box<dyn Model>,
    tried: Vec<Tried>,
    labels: Vec<String>,
    /// Number of samples with different identifiers.
    distinct: usize,
    /// Largest error, in percent, of the chosen model over the samples, each left out in turn.
    largest_pct: Option<f64>,
}

/// The reason why there is no prediction.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The reason in one sentence.
    pub reason: String,
    /// The reason of each model.
    pub models: Vec<String>,
    /// Number of available runs, and number needed by the simplest curve, if there are too few.
    pub too_few: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Tried {
    info: ModelInfo,
    leave_one_out_pct: Option<f64>,
    contradicted: Option<Miss>,
    curve: Result<Box<dyn Fitted>, FitError>,
}

impl<'s> Fitting<'s> {
    /// Fits the models and chooses one. `labels` are the display names of the samples.
    ///
    /// # Errors
    /// The reason of each model, if none can be fitted.
    pub fn new(
        mut models: Vec<Box<dyn Model>>,
        training: &Training<'s>,
        labels: Vec<String>,
    ) -> Result<Self, Refused> {
        let samples = training.items();
        let choice = choose(&models.iter().map(|m| &**m).collect::<Vec<_>>(), training).map_err(
            |candidates| {
                let refused = candidates.into_iter().filter_map(|c| match c.verdict {
                    FitVerdict::Refused(why) => Some((c.info.id, why)),
                    FitVerdict::Fitted { .. } => None,
                });
                refused_all(samples.len(), &refused.collect::<Vec<_>>())
            },
        )?;
        let all: Vec<&Sample> = samples.iter().collect();
        let tried = models
            .iter()
            .map(|model| {
                let info = model.info();
                let verdict = choice
                    .candidates
                    .iter()
                    .find(|c| c.info.id == info.id)
                    .map(|c| &c.verdict);
                let (leave_one_out_pct, contradicted) = match verdict {
                    Some(FitVerdict::Fitted {
                        leave_one_out_pct,
                        contradicted,
                    }) => (*leave_one_out_pct, contradicted.clone()),
                    Some(FitVerdict::Refused(_)) | None => (None, None),
                };
                let curve = model.fit(&all);
                Tried {
                    info,
                    leave_one_out_pct,
                    contradicted,
                    curve,
                }
            })
            .collect();
        let chosen = models
            .iter()
            .find(|m| m.info().id == choice.chosen.info.id && m.info().tier == Tier::SmallRuns);
        let largest_pct = chosen.filter(|_| samples.len() >= ENOUGH).and_then(|m| {
            let errors: Option<Vec<f64>> = training
                .leave_one_out(&**m)
                .iter()
                .map(|j| j.error_pct)
                .collect();
            errors?.into_iter().reduce(f64::max)
        });
        let distinct = samples
            .iter()
            .map(|s| s.id.as_str())
            .collect::<BTreeSet<_>>()
            .len();
        let model = models
            .iter()
            .position(|m| m.info().id == choice.chosen.info.id)
            .map(|place| models.swap_remove(place))
            .ok_or_else(|| refused_all(0, &[]))?;
        Ok(Self {
            choice,
            model,
            tried,
            labels,
            distinct,
            largest_pct,
        })
    }

    /// Returns the prediction of the chosen model for a setting, with warnings. If the model cannot predict the setting, the next best is used.
    ///
    /// # Errors
    /// The reason why no model can predict the setting.
    pub fn answer(&self, at: &Setting) -> Result<(Prediction, Vec<String>), Refused> {
        let chosen = self.choice.chosen.info.id;
        let mut order: Vec<&Tried> = self.tried.iter().collect();
        let error = |t: &Tried| t.leave_one_out_pct.unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| {
            (a.info.id != chosen)
                .cmp(&(b.info.id != chosen))
                .then(a.contradicted.is_some().cmp(&b.contradicted.is_some()))
                .then(error(a).total_cmp(&error(b)))
        });
        let mut refusals: Vec<String> = Vec::new();
        for tried in order {
            let Ok(curve) = &tried.curve else { continue };
            match curve.predict(at) {
                Ok(answer) => {
                    let mut warnings = answer.warnings;
                    if !refusals.is_empty() {
                        warnings.push(format!(
                            "{}; using {} instead",
                            refusals.join("; "),
                            tried.info.id
                        ));
                    }
                    let estimate = if tried.info.id == chosen {
                        self.widened(answer.estimate)
                    } else {
                        answer.estimate
                    };
                    let candidates = self.candidates(at, tried.info.id);
                    let prediction = Prediction {
                        laws: distance_of_laws(&candidates, estimate.value),
                        estimate,
                        model: tried.info,
                        reason: self.choice.reason.clone(),
                        parameters: curve.parameters(),
                        training: self.training_of(tried.info),
                        candidates,
                        own_half: estimate.half_width().filter(|_| {
                            curve.has_stated_error() || self.shows_its_error(tried.info)
                        }),
                        spans_laws: curve.spans_laws(),
                    };
                    return Ok((prediction, warnings));
                }
                Err(why) => refusals.push(format!("{} has no answer ({why})", tried.info.id)),
            }
        }
        let first = refusals.first().cloned().unwrap_or_default();
        Err(Refused {
            reason: first,
            models: refusals,
            too_few: None,
        })
    }

    /// Returns whether runs contradict the chosen model: they are further from its curve than their scatter explains.
    pub fn misses(&self, runs: &[&Sample]) -> bool {
        largest_miss(&*self.model, self.choice.curve(), runs).is_some()
    }

    /// Widens the interval to the model's largest error at a left-out sample, because the residuals of a curve with a slightly wrong form are
    /// smaller than its errors.
    fn widened(&self, estimate: Estimate) -> Estimate {
        let half = self
            .largest_pct
            .map_or(0.0, |pct| pct / 100.0 * estimate.value.abs());
        at_least(estimate, half)
    }

    /// Returns whether there are enough runs to know the model's scatter: with one to three degrees of freedom, an interval is up to six times as
    /// wide as with many, however small the error is.
    fn shows_its_error(&self, info: ModelInfo) -> bool {
        info.tier != Tier::SmallRuns || self.distinct >= info.parameters + MIN_FREEDOM
    }

    /// Returns the labels of the training observations; empty for a model without fitted parameters.
    fn training_of(&self, info: ModelInfo) -> Vec<String> {
        if info.tier == Tier::SmallRuns || info.parameters > 0 {
            self.labels.clone()
        } else {
            Vec::new()
        }
    }

    fn candidates(&self, at: &Setting, chosen: &str) -> Vec<CandidateAnswer> {
        let answer = |t: &Tried| {
            let message = t
                .curve
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|c| c.predict(at).map_err(|e| e.to_string()));
            // the chosen model may be contradicted too, if all models are; it is shown nevertheless
            let contradicted = t.contradicted.as_ref().filter(|_| t.info.id != chosen);
            CandidateAnswer {
                model: t.info,
                chosen: t.info.id == chosen,
                leave_one_out_pct: t.leave_one_out_pct,
                estimate: message
                    .as_ref()
                    .ok()
                    .filter(|_| contradicted.is_none())
                    .map(|a| a.estimate),
                refused: message
                    .err()
                    .or_else(|| contradicted.map(ToString::to_string)),
                parameters: t.curve.as_ref().map(|c| c.parameters()).unwrap_or_default(),
            }
        };
        self.tried.iter().map(answer).collect()
    }
}

/// Returns the largest distance from a number to the predictions of other candidates that fit the runs. The runs do not show which of these laws is
/// valid beyond them.
fn distance_of_laws(candidates: &[CandidateAnswer], value: f64) -> f64 {
    candidates
        .iter()
        .filter(|c| c.model.tier == Tier::SmallRuns)
        .filter_map(|c| c.estimate)
        .map(|e| (e.value - value).abs())
        .fold(0.0, f64::max)
}

/// Summarises the reasons of many models in one sentence.
fn refused_all(runs: usize, refused: &[(&str, FitError)]) -> Refused {
    let needed = refused.iter().filter_map(|(_, why)| match why {
        FitError::TooFewPoints { found, needed } if *found == runs => Some(*needed),
        _ => None,
    });
    let too_few = needed
        .min()
        .filter(|_| runs > 0)
        .map(|needed| (runs, needed));
    let reason = match (too_few, refused) {
        (_, []) => "no model exists for it".to_owned(),
        (_, [(_, why)]) => why.to_string(),
        (Some((found, needed)), _) => short_of_runs(found, "", needed),
        (None, _) if runs == 0 => "every model of it needs runs".to_owned(),
        (None, all) => {
            let telling = all
                .iter()
                .find(|(_, why)| matches!(why, FitError::RankDeficient { .. }))
                .or(all.first());
            telling.map(|(_, why)| why.to_string()).unwrap_or_default()
        }
    };
    Refused {
        reason,
        models: refused
            .iter()
            .map(|(id, why)| format!("{id}: {why}"))
            .collect(),
        too_few,
    }
}

/// Returns a message such as `1 run of foo.A on openmpi; curves in the number of processes need at least 2`.
pub(crate) fn short_of_runs(found: usize, of: &str, needed: usize) -> String {
    let runs = if found == 1 { "run" } else { "runs" };
    format!("{found} {runs}{of}; curves in the number of processes need at least {needed}")
}
