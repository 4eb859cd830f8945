//! Advice: which site, mapping and checkpoint setting to take for a program, by time, cost and storage, and what to measure next.
//!
//! | file | what |
//! | --- | --- |
//! | `candidate.rs` | what can be chosen, with its objectives |
//! | `wishes.rs` | what the user asks for: deadline, budget, failures, walltime, notice |
//! | `next.rs` | the measurements that would decide for the least money |
//! | `sentence.rs` | the advice in a sentence |
//! | `for_program.rs` | the advice for one program |
//! | `advise.rs` | advises upon sides |
//! | `page.rs` | the same as a report, with a drawing |

mod advise;
mod candidate;
mod for_program;
mod next;
mod page;
mod sentence;
mod wishes;

pub use advise::advise;
pub use candidate::{Candidate, Kept};
pub use for_program::{Advice, SCHEMA};
pub use next::NextMeasurement;
pub use page::advice_report;
pub use wishes::Wishes;
