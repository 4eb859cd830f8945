//! Which of several models is taken: the one with the smallest leave-one-out error, from four points on.

use super::{
    curve::{Fitted, Model, ModelInfo, Tier},
    fit::FitError,
    split::{Judged, Judgement, Training},
};

/// Points from which on the leave-one-out error decides. Below it, every fit through two or three points looks good.
pub const LEAST_FOR_CHOICE: usize = 4;

/// How one model did.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The model.
    pub info: ModelInfo,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Fitted, with the mean leave-one-out error in percent if there are enough points for it.
    Fitted {
        /// Mean of 100·|predicted − measured|/measured over the points that were left out in turn.
        leave_one_out_pct: Option<f64>,
    },
    /// Not fitted.
    Refused(FitError),
}

/// The model that was taken, and the others.
#[derive(Debug)]
pub struct Choice<'s> {
    /// The curve that was taken.
    pub chosen: Judgement<'s>,
    /// Why, in words.
    pub reason: String,
    /// All candidates, in the order in which they were offered.
    pub candidates: Vec<Candidate>,
}

impl Choice<'_> {
    /// The curve.
    pub fn curve(&self) -> &dyn Fitted {
        &*self.chosen.curve
    }
}

/// Chooses among models by their mean leave-one-out error. With fewer than four points the first model of the list that can be fitted is
/// taken: lists go from what needs least data to what needs most. A model that needs no run is judged by its errors at the points, which
/// it has not seen.
///
/// # Errors
/// The refusals of all models, if none can be fitted.
pub fn choose<'s>(models: &[&dyn Model], training: &Training<'s>) -> Result<Choice<'s>, Vec<Candidate>> {
    let points = training.items().len();
    let decides = points >= LEAST_FOR_CHOICE;
    let mut candidates = Vec::new();
    let mut best: Option<(f64, Judgement<'s>)> = None;
    for model in models {
        let info = model.info();
        let fitted = match training.fit(*model) {
            Ok(fitted) => fitted,
            Err(refusal) => {
                candidates.push(Candidate { info, verdict: Verdict::Refused(refusal) });
                continue;
            }
        };
        let error = if info.tier == Tier::SmallRuns && !decides { None } else { mean_error(&training.leave_one_out(*model)) };
        candidates.push(Candidate { info, verdict: Verdict::Fitted { leave_one_out_pct: error } });
        let score = if decides { error.unwrap_or(f64::INFINITY) } else { 0.0 };
        if best.as_ref().is_none_or(|(least, _)| score < *least) {
            best = Some((score, fitted));
        }
    }
    match best {
        Some((score, chosen)) => {
            let reason = match () {
                () if candidates.len() == 1 => "the only model for it".to_owned(),
                () if !decides => {
                    format!("first of the list that {points} points allow; from {LEAST_FOR_CHOICE} points on the error decides")
                }
                () => format!("smallest mean leave-one-out error of {} models, {score:.2} %", candidates.len()),
            };
            Ok(Choice { chosen, reason, candidates })
        }
        None => Err(candidates),
    }
}

/// `None` if a point could not be predicted without itself: such a model must not win by its gaps.
fn mean_error(judged: &[Judged]) -> Option<f64> {
    let errors: Option<Vec<f64>> = judged.iter().map(|j| j.error_pct).collect();
    errors.filter(|e| !e.is_empty()).map(|e| e.iter().sum::<f64>() / e.len() as f64)
}
