//! Checks the files of a campaign against each other, and repairs what can be repaired without guessing: the journal from its whole lines, and
//! runs from the directories that were sealed.

mod check;
mod journal;
mod problem;
mod repair;
mod runs;
#[cfg(test)]
mod tests;

pub use check::check;
pub use problem::{Findings, Problem, Remedy};
pub use repair::{Repaired, repair};
