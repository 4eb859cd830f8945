//! A run as its checkpointer and its tracer see it: where it works and on which nodes, its shepherd, what it printed, and what is found of it.
//! [`attempt`](crate::attempt) prepares and executes it.

mod error;
mod failure;
mod fetch;
mod files;
mod findings;
mod input;
mod nodes;
mod numbers;
mod reporter;
mod run_context;
mod run_dirs;
mod script_exit;
mod shepherd;
mod site_context;
mod task;
mod texts;

pub use error::RunError;
pub use failure::RunFailure;
pub use findings::{Findings, Label};
pub use input::Input;
pub use nodes::{AllocatedNodes, LATER, Node, Nodes, SOON};
pub use reporter::{AttemptEvent, AttemptReporter};
pub use run_context::RunContext;
pub use run_dirs::area_name;
pub use shepherd::{Shepherd, Shepherds};
pub use site_context::SiteContext;
pub use task::Task;
pub use texts::own_lines;

pub(crate) use fetch::fetch;
pub(crate) use files::{arguments, files, patterns, patterns_below};
pub(crate) use nodes::same_host;
pub(crate) use numbers::{CUT_HINT, numbers};
pub(crate) use run_dirs::{
    DESCRIPTION, RANKS, SESSION, SHEPHERD, begun_tmp_dir, check_area, marker, new_tmp_dir, work_dir,
};
pub(crate) use script_exit::ScriptFailure;
pub(crate) use texts::{GrowingFile, compile, own_words, text, text_until, was_started};
