//! The answer of `cvc predict`.

use cvc_prediction::holdout::HeldOutForecast;
use cvc_prediction::predict::{Forecasts, NextRun, Observation, ScheduleBudget};
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
    /// Further runs for each question, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<FurtherRuns>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Vec<HeldOutForecast>>,
}

/// Runs that would make an answer narrower, the best first.
#[derive(Serialize)]
pub struct FurtherRuns {
    /// The question.
    pub label: String,
    pub runs: Vec<NextRun>,
}
