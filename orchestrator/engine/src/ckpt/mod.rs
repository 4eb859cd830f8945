//! Checkpointers: what wraps the launcher, which files count, what the event log says.
//!
//! To add one: a file here that implements [`Checkpointer`], and its line in `cvc_core::registry`; one that cvc asks for checkpoints is driven in
//! `attempt/`.

mod application;
mod checkpointer;
pub mod dmtcp;
mod dmtcp_checkpointer;
pub mod merged;
mod none;
pub mod quirks;
mod registry;
pub mod repairs;

pub use checkpointer::{Checkpointer, Course, Restart, Tools};
pub use registry::checkpointer;
