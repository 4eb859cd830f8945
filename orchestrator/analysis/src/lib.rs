//! What is made of results: the index over a campaign, predictions, reports, and papers held against the facts.

mod csv;
pub mod error;
pub mod holdout;
pub mod index;
pub mod paper;
pub mod predict;
pub mod report;
pub mod rerun;
