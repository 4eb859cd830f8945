//! One attempt at a run: it is prepared, executed and collected, on the machine where its ranks are launched.

mod beside;
mod choice;
mod collect;
mod context;
mod disturbances;
mod dmtcp;
mod error;
mod evidence;
mod execute;
mod executed;
mod executor;
mod fit;
mod images;
mod judge;
mod launch_plan;
mod local_executor;
mod nodes;
mod noise;
mod numbers;
mod outcome_file;
mod outputs;
mod placement;
mod prepare;
mod recover;
mod remains;
mod reporter;
mod restart;
mod restart_watch;
mod run_dirs;
mod run_failure;
mod script_exit;
mod session_files;
mod shepherd;
mod site;
mod slurm_steps;
mod task;
mod traces;

pub use context::SiteContext;
pub use executor::{AttemptResult, Executor};
pub use fit::{Fit, FitItem, check_fit, read_exit};
pub use local_executor::{LocalExecutor, PendingCleanup, free_bytes};
pub use outcome_file::{conclude_failed, seal};
pub use recover::recover_run;
pub use task::Task;

pub use error::RunError;
pub use nodes::{LATER, Node, Nodes, SOON};
pub use reporter::{AttemptEvent, AttemptReporter};

pub use run_dirs::area_name;

pub use shepherd::Shepherds;

pub use site::{Found, FoundComponent, Readiness, ReadySite};
pub use slurm_steps::Steps;
