//! Predictions of a campaign: what models said of held-out points before they looked at them, beside what was measured there.
//!
//! `[predict]` of the campaign file divides the points ([`Split`], part of the plan). Whenever the index is rebuilt, the predictor is trained on
//! the training points and judged on the held-out ones ([`derive`]); the [`PredictionLine`]s are kept in `predictions.jsonl` and in the index, never
//! among the measured records, and can be made again at will. [`HoldoutResult`] reads them back, [`Gate`] holds them against the bounds.

mod derive;
mod gate;
mod outcome;
pub mod quantity;
mod renew;

pub use derive::derive;
pub use gate::{Coverage, Gate, GateGroup};
pub use outcome::{HoldoutResult, PlacedPrediction, PointPlace};
pub use renew::rebuild_index;

use cvc_core::{ids::PointId, quantity::Quantity};
use serde::{Deserialize, Serialize};

/// File name of the predictions in a campaign's directory.
pub const FILE: &str = "predictions.jsonl";

/// A line of `predictions.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum PredictionLine {
    /// A quantity of a held-out point.
    Prediction(HeldOutPrediction),
    /// A model that was considered.
    Candidate(ConsideredModel),
    /// Why there is no prediction where one was asked for.
    Problem {
        /// For people.
        text: String,
    },
}

/// One quantity of a held-out point: predicted, and measured afterwards. It is never a measured record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutPrediction {
    /// The held-out point.
    pub point: PointId,
    /// Which quantity; its name says the unit of all values here.
    pub quantity: Quantity,
    /// What the model says.
    #[serde(flatten)]
    pub answer: HeldOutAnswer,
    /// Mean of the repeats.
    pub measured: f64,
    /// 100·|predicted − measured|/measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_pct: Option<f64>,
    /// Whether the measured value lies within the interval; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<bool>,
    /// The model; `None` without a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelName>,
    /// The points that it was fitted on; empty for a model that needs none.
    pub training: Vec<PointId>,
}

/// What a model says of a held-out point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum HeldOutAnswer {
    /// A number.
    Predicted {
        /// The number.
        predicted: f64,
        /// Lower end of its prediction interval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        low: Option<f64>,
        /// Upper end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        high: Option<f64>,
        /// Level of the interval.
        level: f64,
    },
    /// No number.
    Refused {
        /// Why.
        why: String,
    },
}

/// A model by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelName {
    /// Short name: `dtapp-halo`.
    pub id: String,
    /// For people.
    pub title: String,
    /// What has to be known: `no-run`, `small-runs`, `published`.
    pub tier: String,
}

/// A model that was considered for a quantity of a program on an MPI library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsideredModel {
    /// What it was considered for: program, class, MPI library, as far as the model tells them apart.
    pub of: String,
    /// Which quantity.
    pub quantity: Quantity,
    /// The model.
    pub model: ModelName,
    /// Whether it was taken.
    pub chosen: bool,
    /// Mean leave-one-out error at the training points, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave_one_out_pct: Option<f64>,
    /// Why it was not fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}
