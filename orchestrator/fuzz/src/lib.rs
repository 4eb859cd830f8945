//! Fuzzing of all readers of foreign input: files that may be damaged, output of tools, lines from other machines.
//!
//! A *target* is a function that passes bytes to a reader and asserts properties that must hold for all bytes; [`TARGETS`] lists all. Its *seeds* are
//! small samples in `seeds/NAME/`. An *input* is a damaged seed, derived only from the number of the run and the number of the input ([`input`]). The
//! tests pass thousands of inputs to each target; libFuzzer, in `fuzz/`, is guided by coverage.

mod mutate;
mod seeds;
mod table;
mod targets;

pub use mutate::input;
pub use seeds::{Seed, seeds};
pub use table::{TARGETS, Target, target};
