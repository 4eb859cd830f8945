//! Fuzzing of everything that reads what others wrote: files that may be damaged, answers of tools, lines of other machines.
//!
//! A *target* is a function that gives bytes to a reader and asserts what must hold whatever they are; all are in [`TARGETS`]. Its *seeds* are
//! small samples in `seeds/NAME/`. An *input* is a seed that was damaged. The test `withstands::NAME` gives ten thousand to the target NAME.

#[cfg(test)]
mod harness;
#[cfg(test)]
mod mutate;
#[cfg(test)]
mod seeds;
mod table;
mod targets;

pub use table::{TARGETS, Target, target};
