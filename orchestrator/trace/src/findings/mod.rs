//! What a trace shows that somebody may want to change: findings with stable codes, what speaks for each, and what to change.
//!
//! | file | what |
//! | --- | --- |
//! | `facts.rs` | what findings are made of: sums over files, from counters or from events |
//! | `of_counters.rs`, `of_profile.rs` | where facts come from |
//! | `thresholds.rs` | from where on something is told |
//! | `rules.rs` | the findings |
//!
//! Rules and thresholds follow those of Drishti where it has any, so that both tell the same of the same log; [`Finding::drishti`] is its code.

mod facts;
mod of_counters;
mod of_profile;
mod rules;
mod thresholds;

pub use facts::{Facts, FileFacts, MpiIoFacts, PosixFacts, Spread};
pub use of_counters::facts_of_summary;
pub use of_profile::facts_of_profile;
pub use rules::{Asked, Finding, Severity, findings};
pub use thresholds::Thresholds;
