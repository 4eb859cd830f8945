//! The fuzzing targets, by kind of input.

pub(crate) mod agents;
pub(crate) mod darshan;
pub(crate) mod deltas;
pub(crate) mod files;
pub(crate) mod images;
pub(crate) mod imports;
pub(crate) mod install;
pub(crate) mod inventories;
pub(crate) mod nodes;
pub(crate) mod programs;
mod scratch;
pub(crate) mod slurm;
pub(crate) mod spec_files;
pub(crate) mod ssh;
pub(crate) mod tables;
pub(crate) mod traces;
