//! Deltas of checkpoints.

#[path = "../../../image/tests/it/common/mod.rs"]
mod common;

mod damage;
mod fixtures;
mod methods;
mod process;
mod refused;
mod sequences;
