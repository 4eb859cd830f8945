//! The time of the program without checkpoints.

use crate::predict::{
    forecast::{Forecast, Prediction},
    observation::Observation,
    predictor::Predictor,
    question::Question,
};
use cvc_core::quantity::Quantity;
use cvc_model::{Estimate, ModelInfo, Tier};
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
    /// The time of the program without checkpoints, as observed with as many processes.
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
}
