//! Analysis of results: the index over a campaign, predictions, reports, and papers compared with measurements.

pub mod aa_test;
pub mod calibration;
pub mod csv;
pub mod error;
pub mod holdout;
pub mod index;
pub mod paper;
pub mod predict;
pub mod report;
pub mod rerun;
pub mod results;
pub mod space;
