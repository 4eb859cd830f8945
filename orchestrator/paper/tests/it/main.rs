//! Tests of papers and their reruns.

mod paper_files;
mod papers;
mod rerun;
