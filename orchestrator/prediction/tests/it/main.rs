//! Tests of predictions.

#![expect(clippy::print_stdout, reason = "tests tell what they measure")]

mod common;
mod delta;
mod gzip;
mod images;
mod predict;
mod shapes;
mod sizes;
mod space;
