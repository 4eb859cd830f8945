//! Predictions of checkpoints, restarts and times: from the runs of a campaign, and for questions without runs; how well they hold.

mod forecasting;
pub mod holdout;
pub mod predict;
pub mod space;
mod subject;

pub use subject::delta;
