//! Fuzzing of everything that reads what others wrote: files that may be damaged, answers of tools, lines of other machines.
//!
//! A *target* is a function that gives bytes to a reader and asserts what must hold whatever they are; all are in [`TARGETS`]. Its *seeds* are
//! small samples in `seeds/NAME/`. An *input* is a seed that was damaged, and follows from the number of the run and its own number alone
//! ([`input`]). The tests give thousands of inputs to each; libFuzzer, in `fuzz/`, steers by coverage.

mod mutate;
mod seeds;
mod table;
mod targets;

pub use mutate::input;
pub use seeds::{Seed, seeds};
pub use table::{TARGETS, Target, target};
