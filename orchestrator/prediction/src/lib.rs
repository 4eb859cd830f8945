//! Predictions of checkpoints, restarts and times, from the runs of a campaign or without runs, and the accuracy of these predictions.

mod forecasting;
pub mod holdout;
pub mod images;
pub mod layout;
pub mod predict;
pub mod space;
pub mod stand_in;
pub mod storage;
mod subject;

pub use subject::delta;
pub use subject::time::schedules_for;
