//! One attempt at a run: it is prepared, executed and collected, on the machine where its ranks are launched.

mod beside;
mod choice;
mod collect;
mod disturbances;
mod execute;
mod executed;
mod executor;
mod fit;
mod judge;
mod launch_plan;
mod local_executor;
mod noise;
mod outcome_file;
mod outputs;
mod outside;
mod placement;
mod prepare;
mod recover;
mod remains;
mod restarted;
mod site;
mod slurm_steps;
mod traces;
mod unhurried;

pub use executor::{AttemptResult, Executor};
pub use fit::{Fit, FitItem, check_fit, read_exit};
pub use local_executor::{LocalExecutor, PendingCleanup, free_bytes};
pub use outcome_file::{conclude_failed, seal};
pub use recover::recover_run;
pub use site::{Found, FoundComponent, Readiness, ReadySite};
pub use slurm_steps::Steps;

// what its interface is made of
pub use crate::run::{
    AttemptEvent, AttemptReporter, LATER, Node, Nodes, RunError, SOON, Shepherds, SiteContext,
    Task, area_name,
};
