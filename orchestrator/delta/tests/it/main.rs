//! Deltas of checkpoints.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

#[path = "../../../image/tests/it/common/mod.rs"]
mod common;

mod damage;
mod fixtures;
mod hashes;
mod hostile;
mod killed;
mod methods;
mod paper;
mod process;
mod refused;
mod sequences;
