//! What has to be done where the data lie: reading checkpoint images, shepherding the processes of a run, node facts.
//!
//! No async runtime and no cloud SDK: this is also a small binary that runs on the nodes.

pub mod proc;
pub mod shepherd;
