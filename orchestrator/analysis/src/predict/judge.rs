//! Forecasts, and forecasts held against observations that were kept apart.

use super::{
    forecast::{Forecast, ObservedValue, Prediction, PredictionOutcome, ScheduleBudget},
    observation::Observation,
    predictor::{Answered, Predictor},
    question::Question,
    time,
};
use cvc_core::quantity::JUDGED;
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, HeldOut, ModelInfo, Tier, error_pct};
use serde::Serialize;
use std::collections::HashMap;

/// A quantity of a held-out observation beside what was predicted for it.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedQuantity {
    /// The observation.
    pub id: String,
    /// The same, for people.
    pub label: String,
    /// Which quantity.
    pub quantity: Quantity,
    /// What was measured, in the unit of the quantity.
    pub measured: f64,
    /// What was predicted, or why nothing was.
    pub predicted: Result<Estimate, String>,
    /// 100·|predicted − measured|/measured.
    pub error_pct: Option<f64>,
    /// Whether the interval covers what was measured; `None` without an interval.
    pub covered: Option<bool>,
    /// The model; `None` without a prediction.
    pub model: Option<ModelInfo>,
    /// Labels of the observations that it was fitted on.
    pub training: Vec<String>,
}

impl<'s> Predictor<'s> {
    /// Everything that can be said of a question.
    pub fn forecast(&self, question: &Question) -> Forecast {
        self.forecast_within(question, &ScheduleBudget::default())
    }

    /// The same, with schedules for a budget.
    pub fn forecast_within(&self, question: &Question, budget: &ScheduleBudget) -> Forecast {
        let sizes = self.sizes(question);
        let mut forecast = Forecast {
            question: question.clone(),
            label: question.label(),
            lines: sizes.lines,
            files: sizes.files,
            schedules: Vec::new(),
            no_schedules: None,
            warnings: sizes.warnings,
        };
        let latency = self.latency(question, &forecast);
        let ckpt_s = latency.outcome.estimate().map(|e| e.value);
        forecast.push(Quantity::Latency, latency);
        let app = self.app_time(question, budget);
        if budget.overhead.is_some() || budget.mtbf_s.is_some() || budget.app_s.is_some() {
            let planned = match (&app, ckpt_s) {
                (Ok((app_s, _)), Ok(ckpt_s)) => time::schedules(*app_s, ckpt_s, budget),
                (_, Err(_)) => Err("the time of a checkpoint is not known".to_owned()),
                (Err(reason), _) => Err(reason.clone()),
            };
            match planned {
                Ok((schedules, warnings)) => {
                    forecast.schedules = schedules;
                    forecast.warnings.extend(warnings);
                }
                Err(reason) => forecast.no_schedules = Some(reason),
            }
        }
        if let (Ok((app_s, training)), None) = (app, budget.app_s) {
            forecast.push(Quantity::App, Answered::of(observed_time(app_s, training)));
        }
        forecast.beside_observed(&self.training.items().iter().filter(|o| question.is_of(o)).collect::<Vec<_>>());
        // in the order of the observations, so that the same runs read the same
        let place: HashMap<&str, usize> = self.training.items().iter().enumerate().map(|(i, o)| (o.label.as_str(), i)).collect();
        for line in &mut forecast.lines {
            if let PredictionOutcome::Predicted(prediction) = &mut line.outcome {
                prediction.training.sort_by_key(|label| place.get(label.as_str()).copied());
            }
        }
        let mut seen: Vec<String> = Vec::new();
        forecast.warnings.retain(|w| {
            let new = !seen.contains(w);
            seen.push(w.clone());
            new
        });
        forecast
    }

    /// Predicts every held-out observation of the same split, and says by how much that misses.
    pub fn judge(&self, held_out: &HeldOut<'s, Observation>) -> Vec<JudgedQuantity> {
        held_out.items().iter().flat_map(|o| self.judge_one(o)).collect()
    }

    fn judge_one(&self, observation: &Observation) -> Vec<JudgedQuantity> {
        let forecast = self.forecast(&Question::of(observation));
        let processes = f64::from(observation.setting.mapping.processes());
        let mut judged = Vec::new();
        for quantity in JUDGED {
            let Some(measured) = observation.value(quantity) else { continue };
            // what was measured of one image is the mean over the ranks, which hold different nodes' shared memory and are aggregators or not
            let (line, part) = match quantity {
                Quantity::File | Quantity::Image if forecast.of(quantity).count() > 1 || forecast.files.iter().any(|f| f.aggregator) => {
                    (forecast.of(Quantity::Ranks).next(), 1.0 / processes)
                }
                _ => (forecast.of(quantity).next(), 1.0),
            };
            let outcome = if quantity == Quantity::Shmem && forecast.of(quantity).count() > 1 {
                mean_over_ranks(&forecast, observation)
            } else {
                line.map_or_else(|| PredictionOutcome::NoPrediction("it is not predicted".into()), |l| l.outcome.clone())
            };
            let predicted = outcome.estimate().map(|e| e.times(part));
            let estimate = predicted.as_ref().ok();
            judged.push(JudgedQuantity {
                id: observation.id.clone(),
                label: observation.label.clone(),
                quantity,
                measured,
                error_pct: estimate.and_then(|e| error_pct(e.value, measured)),
                covered: estimate.and_then(|e| e.covers(measured)),
                model: outcome.prediction().map(|p| p.model),
                training: outcome.prediction().map(|p| p.training.clone()).unwrap_or_default(),
                predicted,
            });
        }
        judged
    }
}

impl Forecast {
    /// Writes beside the predictions what was observed at the very setting. It stays apart: a measured number is none of a model.
    fn beside_observed(&mut self, observed: &[&Observation]) {
        let mixed = |quantity: Quantity| self.lines.iter().filter(|l| l.quantity == quantity).count() > 1;
        let values: Vec<Option<f64>> = self
            .lines
            .iter()
            .map(|line| {
                // a mean over ranks with different nodes belongs to none of the lines
                let values: Vec<f64> = observed.iter().filter_map(|o| o.value(line.quantity)).filter(|_| !mixed(line.quantity)).collect();
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            })
            .collect();
        for (line, value) in self.lines.iter_mut().zip(values) {
            line.observed = value.map(ObservedValue);
        }
    }

    fn push(&mut self, quantity: Quantity, answered: Answered) {
        self.warnings.extend(answered.warnings);
        let (unit, outcome, refused) = (quantity.unit(), answered.outcome, answered.refused);
        self.lines.push(super::forecast::ForecastLine { quantity, unit, node_load: None, outcome, refused, observed: None });
    }
}

/// The mean over the ranks of what differs between nodes.
fn mean_over_ranks(forecast: &Forecast, observation: &Observation) -> PredictionOutcome {
    let mut total = Estimate::exact(0.0);
    let mut first: Option<Prediction> = None;
    for line in forecast.of(Quantity::Shmem) {
        let ranks: u32 = observation.setting.mapping.node_loads().filter(|l| Some(*l) == line.node_load).sum();
        match &line.outcome {
            PredictionOutcome::Predicted(one) => {
                total = total.plus_together(one.estimate.times(f64::from(ranks) / f64::from(observation.setting.mapping.processes())));
                first.get_or_insert_with(|| one.clone());
            }
            PredictionOutcome::NoPrediction(reason) => return PredictionOutcome::NoPrediction(reason.clone()),
        }
    }
    match first {
        Some(first) => PredictionOutcome::Predicted(Prediction { estimate: total, ..first }),
        None => PredictionOutcome::NoPrediction("it is not predicted".into()),
    }
}

const OBSERVED: ModelInfo = ModelInfo {
    id: "observed",
    title: "as observed with as many processes",
    formula: "mean",
    source: "the observations",
    tier: Tier::SmallRuns,
    parameters: 0,
};

fn observed_time(app_s: f64, training: Vec<String>) -> Prediction {
    let reason = "runs without checkpoint".to_owned();
    Prediction { estimate: Estimate::bare(app_s), model: OBSERVED, reason, parameters: Vec::new(), training, candidates: Vec::new() }
}
