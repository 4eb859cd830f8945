//! One attempt at a run: it is prepared, executed and evaluated on the machine where its ranks are launched.

mod choice;
mod collect;
mod disturbances;
mod execute;
mod executed;
mod execution;
mod executor;
mod fit;
mod judge;
mod judge_restarts;
mod keep;
mod launch_plan;
mod local_executor;
mod long_work;
mod neighbours;
mod noise;
mod notice;
mod operation_records;
mod operations;
mod outcome_file;
mod outputs;
mod outside;
mod placement;
mod prepare;
mod recover;
mod remains;
mod restarted;
mod restarts;
mod setup;
mod site;
mod slurm_steps;
mod traces;

pub use executor::{AttemptResult, Executor};
pub use fit::{Fit, FitItem, check_fit, read_exit};
pub use local_executor::{LocalExecutor, PendingCleanup, free_bytes, remove_kept, sent_checkpoint};
pub use outcome_file::{conclude_failed, seal};
pub use recover::recover_run;
pub use setup::environment_commands;
pub use site::{FoundComponent, FoundComponents, Readiness, ReadySite};
pub use slurm_steps::Steps;

// types that the public functions here use
pub use crate::run::{
    AttemptEvent, AttemptReporter, LATER, Node, Nodes, RunError, SOON, Shepherds, SiteContext,
    Task, UsedFileSystem, area_name,
};
