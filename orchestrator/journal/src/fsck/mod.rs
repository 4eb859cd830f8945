//! Checks the files of a campaign against each other. Repairs what can be repaired without guessing: the journal from its intact lines, and the
//! records of runs from sealed directories.

mod check;
mod journal;
mod problem;
mod repair;
mod runs;
#[cfg(test)]
mod tests;

pub use check::check;
pub use problem::{FsckFindings, Problem, Remedy};
pub use repair::{Repaired, repair};
