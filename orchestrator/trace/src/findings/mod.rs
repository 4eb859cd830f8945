//! Findings about a trace: stable codes, the evidence for each, and recommended changes.
//!
//! | file | contents |
//! | --- | --- |
//! | `facts.rs` | input of findings: sums over files, from counters or from events |
//! | `of_counters.rs`, `of_profile.rs` | derive this input from counters and from events |
//! | `thresholds.rs` | thresholds above which findings are reported |
//! | `rules.rs` | the findings |
//!
//! Rules and thresholds are those of Drishti where it has them, so that both report the same for the same log; [`Finding::drishti`] is Drishti's
//! code.

mod facts;
mod of_counters;
mod of_profile;
mod rules;
mod thresholds;

pub use facts::{FileFacts, MpiIoFacts, PosixFacts, RankSpread, TraceFacts};
pub use of_counters::facts_of_summary;
pub use of_profile::facts_of_profile;
pub(crate) use rules::size;
pub use rules::{Finding, RequestedSettings, Severity, findings};
pub use thresholds::Thresholds;
