//! Forecasts for a question, assembled from all subjects.

use crate::{
    predict::{
        Forecast, Forecasts, Observation, ObservedValue, Predictor, Question, ScheduleBudget,
        forecast::Answered,
    },
    subject::{SUBJECTS, time},
};
use cvc_core::quantity::Quantity;
use std::collections::HashMap;

impl Predictor<'_> {
    /// Returns the forecasts for a question.
    pub fn forecast(&self, question: &Question) -> Forecasts {
        self.forecast_within(question, &ScheduleBudget::default())
    }

    /// Returns the forecasts for a question, with schedules for a budget.
    pub fn forecast_within(&self, question: &Question, budget: &ScheduleBudget) -> Forecasts {
        let mut forecasts = Forecasts {
            question: question.clone(),
            label: question.label(),
            lines: Vec::new(),
            files: Vec::new(),
            schedules: Vec::new(),
            no_schedules: None,
            warnings: Vec::new(),
        };
        for subject in SUBJECTS {
            if subject.is_observed(self.training.items()) {
                subject.forecast(self, question, &mut forecasts);
            }
        }
        let alone = self.program_alone(question);
        if budget.overhead.is_some() || budget.mtbf_s.is_some() || budget.app_s.is_some() {
            forecasts.schedule(&alone, budget);
        }
        if let (Forecast::Predicted(alone), None) = (alone, budget.app_s) {
            forecasts.add(Quantity::App, None, Answered::of(alone));
        }
        forecasts.add_observed(
            &self
                .training
                .items()
                .iter()
                .filter(|o| question.is_of(o))
                .collect::<Vec<_>>(),
        );
        // sort by the order of the observations, so that the same runs are listed in the same order
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
    /// Adds schedules for a budget, or the reason why there are none. `alone` is the time of the program without checkpoints.
    fn schedule(&mut self, alone: &Forecast, budget: &ScheduleBudget) {
        let mut budget = budget.on_nodes(self.question.setting.mapping.nodes());
        budget.restart_s = budget.restart_s.or(self.restart_s());
        let budget = &budget;
        let app_s = budget
            .app_s
            .map_or_else(|| alone.estimate().map(|of| of.value), Ok);
        let Some(ckpt) = self.first(Quantity::Latency).map(|of| of.estimate) else {
            self.no_schedules = Some("the time of a checkpoint is unknown".to_owned());
            return;
        };
        match time::schedules(app_s.ok(), ckpt, budget) {
            Ok((schedules, warnings)) => {
                self.schedules = schedules;
                self.warnings.extend(warnings);
                self.no_schedules = app_s.err().map(str::to_owned);
            }
            Err(reason) => self.no_schedules = Some(reason.to_string()),
        }
    }

    /// Returns the predicted seconds of a restart; `None` if no run was restarted.
    pub fn restart_s(&self) -> Option<f64> {
        let restart = self.first(Quantity::RestartLatency)?;
        Some(restart.estimate.value)
    }

    /// Adds the observations at exactly this setting to the predictions, as a separate type.
    fn add_observed(&mut self, observed: &[&Observation]) {
        let mixed =
            |quantity: Quantity| self.lines.iter().filter(|l| l.quantity == quantity).count() > 1;
        let values: Vec<Option<f64>> = self
            .lines
            .iter()
            .map(|line| {
                // a mean over ranks on different nodes does not correspond to a single line
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
}
