//! Checkpointers: how they wrap the launcher, when checkpoints are taken, how they are measured, and how a run is restarted.
//!
//! To add a checkpointer: a file here that implements [`Checkpointer`] and its [`CheckpointRun`], and its line in `cvc_core::registry`.

mod application;
mod contract;
pub mod dmtcp;
mod moments;
mod none;
mod own_series;
pub mod quirks;
mod registry;

pub use contract::{
    CheckpointRun, CheckpointToKeep, Checkpointer, Continuation, Course, Halt, Install, LaunchPart,
    Restart, Search, SessionContext, Software,
};
pub use registry::{all, checkpointer};
