//! The output of `cvc predict`.

use super::{cost::RuleCost, storage::StorageAnswer};
use cvc_prediction::holdout::HeldOutForecast;
use cvc_prediction::predict::{Forecasts, NextRun, Observation, ScheduleBudget, Scheduled};
use cvc_prediction::stand_in::StandIns;
use serde::Serialize;

/// The output of `--json`.
#[derive(Serialize)]
pub struct PredictOutput<'a> {
    pub trained_on: Vec<&'a Observation>,
    pub held_out: usize,
    pub budget: ScheduleBudget,
    /// Warnings about the observations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub forecasts: Vec<Forecasts>,
    /// Costs of the job for each forecast, if a price is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Vec<RuleCost>>,
    /// With --storage: one answer for each forecast.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StorageAnswer>,
    /// With --stand-in: for each setting to be represented, the smaller runs that can represent it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stand_ins: Vec<StandIns>,
    /// With --checkpoint-time: the schedules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<KnownCheckpoint>,
    /// Proposed runs for each question, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Vec<FurtherRuns>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Vec<HeldOutForecast>>,
}

/// Schedules for a job whose checkpoint time the user gives.
#[derive(Serialize)]
pub struct KnownCheckpoint {
    /// Time of one checkpoint, seconds.
    pub checkpoint_s: f64,
    /// Number of nodes of the job.
    pub nodes: u32,
    pub schedules: Vec<Scheduled>,
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<RuleCost>,
}

/// Runs that would narrow the interval of an answer, the most useful first.
#[derive(Serialize)]
pub struct FurtherRuns {
    /// The label of the question.
    pub label: String,
    pub runs: Vec<NextRun>,
}
