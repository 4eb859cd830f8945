//! The present rules have no counter-example within the bound, and each earlier rule has one.

#![expect(clippy::print_stdout, reason = "tests tell how much they explored")]

mod models;
