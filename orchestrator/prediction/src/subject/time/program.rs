//! The time of the program without checkpoints.

use crate::predict::{
    forecast::{Forecast, Prediction},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, ModelInfo, Tier, size};
use std::collections::BTreeSet;

const OBSERVED: ModelInfo = ModelInfo {
    id: "observed",
    title: "as observed with as many processes",
    formula: "mean",
    source: "the observations",
    tier: Tier::SmallRuns,
    parameters: 0,
};

impl Predictor<'_> {
    /// Returns the time of the program without checkpoints, as observed on the same number of processes.
    pub(crate) fn program_alone(&self, question: &Question) -> Forecast {
        let library = self.library(question);
        let setting = &question.setting;
        let is_own = |o: &&Observation| {
            o.setting.app == setting.app
                && o.setting.class == setting.class
                && library(o)
                && o.value(Quantity::App).is_some()
        };
        let runs: Vec<&Observation> = self.training.items().iter().filter(is_own).collect();
        let processes = |o: &Observation| o.setting.mapping.processes();
        let asked = setting.mapping.processes();
        let alike: Vec<&&Observation> = runs.iter().filter(|o| processes(o) == asked).collect();
        if alike.is_empty() {
            if let Some(of_sizes) = self.time_by_size(question) {
                return of_sizes;
            }
            let seen: BTreeSet<u32> = runs.iter().map(|o| processes(o)).collect();
            let seen: Vec<String> = seen.iter().map(u32::to_string).collect();
            let elsewhere = if seen.is_empty() {
                String::new()
            } else {
                format!(", only on {}", seen.join(", "))
            };
            return Forecast::NoPrediction(format!(
                "no run of {}.{} with {} without checkpoint was observed on {asked} processes{elsewhere}; give the time of the program with --app-time",
                setting.app, setting.class, setting.mpi_name
            ));
        }
        let times: Vec<f64> = alike
            .iter()
            .filter_map(|o| o.value(Quantity::App))
            .collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        Forecast::Predicted(Prediction {
            training: alike.iter().map(|o| o.label.clone()).collect(),
            ..Prediction::new(OBSERVED, Estimate::bare(mean), "runs without checkpoint")
        })
    }

    /// Returns the time of the program predicted from runs of other sizes or on other numbers of processes, if its descriptor declares the amount
    /// of work.
    fn time_by_size(&self, question: &Question) -> Option<Forecast> {
        let library = self.library(question);
        let seen = |o: &Observation| {
            library(o)
                && o.setting.app == question.setting.app
                && o.setting
                    .size
                    .as_ref()
                    .is_some_and(|size| size.work.is_some())
                && o.value(Quantity::App).is_some()
        };
        question.setting.size.as_ref()?.work?;
        let mut cores = self
            .training
            .items()
            .iter()
            .filter(|o| seen(o))
            .map(|o| o.cores);
        let first = cores.next()?;
        let mut at = question.setting.on_node(question.load()?);
        at.output.cores = first.filter(|_| cores.all(|other| other == first));
        let by_class = |o: &Observation| o.setting.class.clone();
        let answered = self.ask(Quantity::App, size::time_models(), &seen, by_class, &at);
        answered
            .forecast
            .prediction()
            .is_some()
            .then_some(answered.forecast)
    }
}
