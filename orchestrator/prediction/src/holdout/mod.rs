//! Predictions of held-out points: models that were not fitted to these points predict them, and the predictions are compared with measurements.
//!
//! `[predict]` of the campaign file divides the points ([`Split`](cvc_core::plan::Split), part of the plan). Whenever the index is rebuilt, the
//! predictor is trained on the training points and judged on the held-out points ([`derive`]). The [`PredictionLine`]s are stored in
//! `predictions.jsonl` and in the index, but never among the measured records, and can be rebuilt at any time. [`HoldoutResult`] reads them, and
//! [`Gate`] compares them with the bounds.
//!
//! The prediction of a point is a [`Forecast`](crate::predict::Forecast), which [`judge`] compares with the measurement.

mod derive;
mod gate;
mod judge;
mod outcome;
mod renew;

pub use cvc_index::PredictionLine;
pub use derive::derive;
pub use gate::{Coverage, Gate, GateGroup};
pub use judge::{HeldOutForecast, judge};
pub use outcome::HoldoutResult;
pub use renew::rebuild_index;

/// File name of the predictions in a campaign's directory.
pub const FILE: &str = "predictions.jsonl";
