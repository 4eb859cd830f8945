//! Tests of papers and their reruns.

mod claims;
mod common;
mod outputs;
mod paper_files;
mod papers;
mod rerun;
mod series;
