//! Predictions of checkpoints, restarts and times: from the runs of a campaign, and for questions without runs; how well they hold.

pub mod delta;
pub mod holdout;
pub mod predict;
pub mod space;
