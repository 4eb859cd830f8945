//! One quantity: the models that are tried on its samples, the one that is taken, and what each of them says of a setting.

use super::forecast::{CandidateAnswer, Prediction};
use crate::model::{Choice, FitError, Fitted, Model, ModelInfo, Sample, Setting, Tier, Training, Verdict, choose};

/// Models that were tried on samples.
#[derive(Debug)]
pub(super) struct Fitting<'s> {
    choice: Choice<'s>,
    tried: Vec<Tried>,
    labels: Vec<String>,
}

#[derive(Debug)]
struct Tried {
    info: ModelInfo,
    leave_one_out_pct: Option<f64>,
    curve: Result<Box<dyn Fitted>, String>,
}

impl<'s> Fitting<'s> {
    /// Chooses among models. `labels` name the samples for people.
    ///
    /// A model that needs no run is set aside where the observations contradict it: when more than half of them lie outside its interval. Its
    /// constants are then of other software than that of the runs.
    ///
    /// # Errors
    /// The refusals of all models.
    pub fn new(models: &[Box<dyn Model>], training: &Training<'s>, labels: Vec<String>) -> Result<Self, String> {
        let samples = training.items();
        let contradicted: Vec<Option<String>> = models.iter().map(|m| contradiction(&**m, samples)).collect();
        let open: Vec<&dyn Model> = models.iter().zip(&contradicted).filter(|(_, c)| c.is_none()).map(|(m, _)| &**m).collect();
        let choice = choose(&open, training).map_err(|candidates| {
            let mut reasons: Vec<String> = Vec::new();
            for candidate in candidates {
                if let Verdict::Refused(why) = candidate.verdict {
                    reasons.push(format!("{}: {why}", candidate.info.id));
                }
            }
            reasons.extend(models.iter().zip(&contradicted).filter_map(|(m, c)| Some(format!("{}: {}", m.info().id, c.as_ref()?))));
            if reasons.is_empty() { "there is no model for it".to_owned() } else { reasons.join("; ") }
        })?;
        let all: Vec<&Sample> = samples.iter().collect();
        let tried = models
            .iter()
            .zip(contradicted)
            .map(|(model, contradicted)| {
                let info = model.info();
                let verdict = choice.candidates.iter().find(|c| c.info.id == info.id).map(|c| &c.verdict);
                let leave_one_out_pct = match verdict {
                    Some(Verdict::Fitted { leave_one_out_pct }) => *leave_one_out_pct,
                    Some(Verdict::Refused(_)) | None => None,
                };
                let curve = match contradicted {
                    Some(why) => Err(why),
                    None => model.fit(&all).map_err(|e| e.to_string()),
                };
                Tried { info, leave_one_out_pct, curve }
            })
            .collect();
        Ok(Self { choice, tried, labels })
    }

    /// What the chosen model says of a setting, with warnings; where it has no answer, the next best.
    ///
    /// # Errors
    /// Why no model has an answer.
    pub fn answer(&self, at: &Setting) -> Result<(Prediction, Vec<String>), String> {
        let chosen = self.choice.chosen.info.id;
        let mut order: Vec<&Tried> = self.tried.iter().collect();
        let error = |t: &Tried| t.leave_one_out_pct.unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| (a.info.id != chosen).cmp(&(b.info.id != chosen)).then(error(a).total_cmp(&error(b))));
        let mut refusals: Vec<String> = Vec::new();
        for tried in order {
            let Ok(curve) = &tried.curve else { continue };
            match curve.predict(at) {
                Ok(answer) => {
                    let mut warnings = answer.warnings;
                    if !refusals.is_empty() {
                        warnings.push(format!("{}; {} is taken instead", refusals.join("; "), tried.info.id));
                    }
                    let prediction = Prediction {
                        estimate: answer.estimate,
                        model: tried.info,
                        reason: self.choice.reason.clone(),
                        parameters: curve.parameters(),
                        training: self.training_of(tried.info),
                        candidates: self.candidates(at, tried.info.id),
                    };
                    return Ok((prediction, warnings));
                }
                Err(why) => refusals.push(format!("{} has no answer ({why})", tried.info.id)),
            }
        }
        Err(refusals.join("; "))
    }

    /// A model that needs no run was fitted on none, whatever observations there are.
    fn training_of(&self, info: ModelInfo) -> Vec<String> {
        if info.tier == Tier::SmallRuns || info.parameters > 0 { self.labels.clone() } else { Vec::new() }
    }

    fn candidates(&self, at: &Setting, chosen: &str) -> Vec<CandidateAnswer> {
        let answer = |t: &Tried| {
            let said = t.curve.as_ref().map_err(Clone::clone).and_then(|c| c.predict(at).map_err(|e: FitError| e.to_string()));
            CandidateAnswer {
                model: t.info,
                chosen: t.info.id == chosen,
                leave_one_out_pct: t.leave_one_out_pct,
                estimate: said.as_ref().ok().map(|a| a.estimate),
                refused: said.err(),
                parameters: t.curve.as_ref().map(|c| c.parameters()).unwrap_or_default(),
            }
        };
        self.tried.iter().map(answer).collect()
    }
}

/// Why a model that needs no run cannot be right about these samples.
fn contradiction(model: &dyn Model, samples: &[Sample]) -> Option<String> {
    if model.info().tier == Tier::SmallRuns || samples.is_empty() {
        return None;
    }
    let curve = model.fit(&samples.iter().collect::<Vec<_>>()).ok()?;
    let covered: Vec<bool> = samples.iter().filter_map(|s| curve.predict(&s.at).ok()?.estimate.covers(s.value)).collect();
    let outside = covered.iter().filter(|c| !**c).count();
    (outside * 2 > covered.len())
        .then(|| format!("contradicted by the observations: {outside} of {} lie outside its interval", covered.len()))
}
