//! Tests of predictions, reports and papers.

mod aa_test;
mod calibration;
mod common;
mod costs;
mod gzip;
mod owner;
mod paper_files;
mod papers;
mod predict;
mod predictions;
mod questions;
mod report;
mod rerun;
mod space;
mod words;
