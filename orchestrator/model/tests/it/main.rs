//! Tests of the formulas, against published vectors and real runs.

#![expect(clippy::print_stdout, reason = "tests tell what they skip and measure")]

mod models;
