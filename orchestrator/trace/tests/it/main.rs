//! Tests of the readers of traces.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

mod collected;
mod darshan;
mod dftracer;
mod findings;
mod jobs;
mod metadata_operations;
mod phases;
mod strace;
mod strace_files;
mod strace_options;
mod strace_runs;
