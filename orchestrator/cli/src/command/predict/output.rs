//! The answer of `cvc predict`.

use cvc_analysis::{
    holdout::HeldOutForecast,
    predict::{Forecasts, Observation, ScheduleBudget},
};
use serde::Serialize;

/// The whole answer, as JSON.
#[derive(Serialize)]
pub struct PredictOutput<'a> {
    pub trained_on: Vec<&'a Observation>,
    pub held_out: usize,
    pub budget: ScheduleBudget,
    /// Of the observations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub forecasts: Vec<Forecasts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Vec<HeldOutForecast>>,
}
