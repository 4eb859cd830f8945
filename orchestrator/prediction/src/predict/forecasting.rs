//! Everything that is said of a question, put together.

use super::{
    forecast::{Forecast, ForecastLine, Forecasts, ObservedValue, Prediction, ScheduleBudget},
    observation::Observation,
    predictor::{Answered, Predictor},
    question::Question,
    time,
    totals::Told,
};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, ModelInfo, Tier};
use std::collections::HashMap;

impl Predictor<'_> {
    /// Answers a question.
    pub fn forecast(&self, question: &Question) -> Forecasts {
        self.forecast_within(question, &ScheduleBudget::default())
    }

    /// Sizes and time of a checkpoint.
    fn of_checkpoint(&self, question: &Question) -> Forecasts {
        let mut forecasts = Forecasts {
            question: question.clone(),
            label: question.label(),
            lines: Vec::new(),
            files: Vec::new(),
            schedules: Vec::new(),
            no_schedules: None,
            warnings: Vec::new(),
        };
        match self.told() {
            Told::NoCheckpoint => forecasts.lines = self.without_checkpoint(),
            Told::Totals => (forecasts.lines, forecasts.warnings) = self.lines_of_totals(question),
            Told::Parts => {
                let sizes = self.sizes(question);
                forecasts.lines = sizes.lines;
                forecasts.files = sizes.files;
                forecasts.warnings = sizes.warnings;
                for (quantity, answered) in self.latency(question, &forecasts) {
                    forecasts.push(quantity, answered);
                }
            }
        }
        forecasts
    }

    /// The same, with schedules for a budget.
    pub fn forecast_within(&self, question: &Question, budget: &ScheduleBudget) -> Forecasts {
        let mut forecasts = self.of_checkpoint(question);
        let ckpt = forecasts.of(Quantity::Latency).next().map_or_else(
            || Err("the time of a checkpoint is unknown".to_owned()),
            |line| line.forecast.estimate(),
        );
        let of_nodes = budget
            .mtbf_node_s
            .map(|node_s| node_s / f64::from(question.setting.mapping.nodes().max(1)));
        let budget = &ScheduleBudget {
            mtbf_s: budget.mtbf_s.or(of_nodes),
            ..*budget
        };
        let app = self.app_time(question, budget);
        if budget.overhead.is_some() || budget.mtbf_s.is_some() || budget.app_s.is_some() {
            let app_s = app.as_ref().map(|(app_s, _)| *app_s);
            let planned = match ckpt {
                Ok(ckpt) => time::schedules(app_s.as_ref().ok().copied(), ckpt, budget),
                Err(_) => Err("the time of a checkpoint is unknown".to_owned()),
            };
            match planned {
                Ok((schedules, warnings)) => {
                    forecasts.schedules = schedules;
                    forecasts.warnings.extend(warnings);
                    forecasts.no_schedules = app_s.err().cloned();
                }
                Err(reason) => forecasts.no_schedules = Some(reason),
            }
        }
        if let (Ok((app_s, training)), None) = (app, budget.app_s) {
            forecasts.push(Quantity::App, Answered::of(observed_time(app_s, training)));
        }
        forecasts.beside_observed(
            &self
                .training
                .items()
                .iter()
                .filter(|o| question.is_of(o))
                .collect::<Vec<_>>(),
        );
        // in the order of the observations, so that the same runs read the same
        let place: HashMap<&str, usize> = self
            .training
            .items()
            .iter()
            .enumerate()
            .map(|(i, o)| (o.label.as_str(), i))
            .collect();
        for line in &mut forecasts.lines {
            if let Forecast::Predicted(prediction) = &mut line.forecast {
                prediction
                    .training
                    .sort_by_key(|label| place.get(label.as_str()).copied());
            }
        }
        let mut seen: Vec<String> = Vec::new();
        forecasts.warnings.retain(|w| {
            let new = !seen.contains(w);
            seen.push(w.clone());
            new
        });
        forecasts
    }
}

impl Forecasts {
    /// Adds the observations at the very setting beside the predictions, as a type of their own.
    fn beside_observed(&mut self, observed: &[&Observation]) {
        let mixed =
            |quantity: Quantity| self.lines.iter().filter(|l| l.quantity == quantity).count() > 1;
        let values: Vec<Option<f64>> = self
            .lines
            .iter()
            .map(|line| {
                // a mean over ranks with different nodes belongs to none of the lines
                let values: Vec<f64> = observed
                    .iter()
                    .filter_map(|o| o.value(line.quantity))
                    .filter(|_| !mixed(line.quantity))
                    .collect();
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            })
            .collect();
        for (line, value) in self.lines.iter_mut().zip(values) {
            line.observed = value.map(ObservedValue);
        }
    }

    fn push(&mut self, quantity: Quantity, answered: Answered) {
        self.warnings.extend(answered.warnings);
        let (unit, forecast, refused) = (quantity.unit(), answered.forecast, answered.refused);
        self.lines.push(ForecastLine {
            quantity,
            unit,
            node_load: None,
            forecast,
            refused,
            observed: None,
        });
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
    Prediction {
        estimate: Estimate::bare(app_s),
        model: OBSERVED,
        reason,
        parameters: Vec::new(),
        training,
        candidates: Vec::new(),
        own_half: None,
        spans_laws: false,
    }
}
