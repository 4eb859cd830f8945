//! Tests of the reader of images, of the sentinel and of the shepherd.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

mod bad_input;
mod common;
mod directory;
mod estimate;
mod fixtures;
mod json;
mod known_sizes;
mod real_dmtcp;
mod sentinel;
mod static_program;
