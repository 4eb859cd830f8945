//! Deltas of checkpoints.

#[path = "../../../image/tests/it/common/mod.rs"]
mod common;

mod damage;
mod methods;
mod paper;
mod process;
mod refused;
mod sequences;
