//! Predictions of a campaign: predictions of held-out points by models that have not seen them, beside the measurements there.
//!
//! `[predict]` of the campaign file divides the points ([`Split`](cvc_core::plan::Split), part of the plan). Whenever the index is rebuilt,
//! the predictor is trained on the training points and judged on the held-out ones ([`derive`]); the [`PredictionLine`]s are kept in
//! `predictions.jsonl` and in the index, never among the measured records, and can be rebuilt at any time. [`HoldoutResult`] reads them
//! back, [`Gate`] compares them with the bounds.
//!
//! What is said of a point is a [`Forecast`](crate::predict::Forecast); here it gets its measured side ([`judge`]).

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
