#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

#[path = "../../../../../image/tests/it/common/mod.rs"]
mod common;
mod directory;
mod estimate;
