//! Facts about a run that checkpointers and tracers use: its directories and nodes, its shepherd, its output, and its results.
//! [`attempt`](crate::attempt) prepares and executes the run.

mod error;
mod failure;
mod fetch;
mod file_system;
mod files;
mod findings;
mod first_output;
mod input;
mod nodes;
mod numbers;
mod output_sizes;
mod printed_steps;
mod reporter;
mod restart_number;
mod run_context;
mod run_dirs;
mod script_exit;
mod shepherd;
mod site_context;
mod task;
mod texts;

pub use error::RunError;
pub use failure::RunFailure;
pub use file_system::{CounterReading, UsedFileSystem};
pub use findings::{Findings, Label};
pub use input::RunInput;
pub use nodes::{AllocatedNodes, LATER, Node, Nodes, SOON};
pub use output_sizes::OutputSizes;
pub use reporter::{AttemptEvent, AttemptReporter};
pub use restart_number::RestartNumber;
pub use run_context::RunContext;
pub use run_dirs::{AreaError, area_name};
pub use shepherd::{Shepherd, Shepherds};
pub use site_context::SiteContext;
pub use task::Task;
pub use texts::own_lines;

pub(crate) use fetch::fetch;
pub(crate) use files::{arguments, files, patterns, patterns_below};
pub(crate) use first_output::{FirstOutput, Sign};
pub(crate) use nodes::same_host;
pub(crate) use numbers::{CUT_HINT, numbers};
pub(crate) use printed_steps::{PrintedSteps, ResumePoint, WrongStep};
pub(crate) use run_dirs::{
    DESCRIPTION, FLUSHED, RANKS, SESSION, SHEPHERD, begun_tmp_dir, check_area, flush_dir, marker,
    new_tmp_dir, random_bytes, work_dir, written_tmp_dir,
};
pub(crate) use script_exit::ScriptFailure;
pub(crate) use texts::{
    GrowingFile, compile, own_words, stream_with, text, text_until, was_started,
};
