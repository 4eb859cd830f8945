//! The engine: the one part that touches the world. A coordinator walks through the plan; each run is prepared, executed, collected.

mod collect;
mod context;
mod dmtcp;
mod error;
mod execute;
mod executor;
mod nodes;
mod outputs;
mod placement;
mod prepare;
mod recover;
mod reporter;
mod restart;
mod shepherd;
mod site;
mod slurm_steps;

pub use context::SiteContext;
pub use executor::{Attempted, LocalExecutor, PendingCleanup, Task, conclude_failed, free_bytes, recover_run, seal};

pub use error::RunError;
pub use nodes::{LATER, Node, Nodes, SOON, Ways};
pub use reporter::{AttemptEvent, AttemptReporter};

pub use prepare::area_name;
pub use recover::{OutcomeFile, sealed_outcome};

pub use site::{Found, FoundComponent, Readiness, ReadySite};
pub use slurm_steps::Steps;
