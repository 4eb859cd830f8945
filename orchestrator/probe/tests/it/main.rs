//! Tests of the sentinel and of the shepherd, and of the reader of images with real ones.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

#[path = "../../../image/tests/it/common/mod.rs"]
mod common;
mod known_sizes;
mod real_dmtcp;
mod sentinel;
mod static_program;
