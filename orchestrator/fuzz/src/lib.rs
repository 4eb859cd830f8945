//! Fuzzing of everything that reads what others wrote: files that may be damaged, answers of tools, lines of other machines.
//!
//! A *target* is a function that gives bytes to a reader and asserts what must hold whatever they are; all are in [`TARGETS`]. Its *seeds* are
//! small samples in `seeds/NAME/`. An *input* is a seed that was damaged, and follows from the number of the run and its own number alone
//! ([`input`]), so that an input that ended its process is made again from its number.

mod input;
mod mutate;
mod run;
mod seeds;
mod table;
mod targets;

pub use input::input;
pub use mutate::mutated;
pub use run::{Campaign, Failure, Progress, fuzz, work};
pub use seeds::{Seed, seeds};
pub use table::{TARGETS, Target, check, target};
