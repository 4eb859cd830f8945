//! Tests of predictions, reports and papers.

mod common;
mod costs;
mod paper_files;
mod papers;
mod predict;
mod predictions;
mod report;
mod rerun;
mod space;
