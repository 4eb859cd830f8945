//! Checkpointers: what wraps the launcher, which files count, what the event log says.

pub mod dmtcp;
pub mod merged;
pub mod quirks;
