//! Tests of the reader of images.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "tests")]

mod bad_input;
mod common;
mod fixtures;
mod json;
