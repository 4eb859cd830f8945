//! Advice: the best sites, mappings and checkpoint settings for a program by time, cost and storage, and the measurements that would help most.
//!
//! | file | contents |
//! | --- | --- |
//! | `candidate.rs` | candidates, with their objectives |
//! | `constraints.rs` | the user's constraints: deadline, budget, failures, walltime, notice |
//! | `assumptions.rs` | assumptions behind the numbers |
//! | `measured.rs` | measured times and sizes of programs, for jobs that ran elsewhere |
//! | `next.rs` | the cheapest measurements that would distinguish candidates |
//! | `sentence.rs` | the advice in a sentence |
//! | `for_program.rs` | the advice for one program |
//! | `advise.rs` | computes the advice for sides |
//! | `page.rs` | the advice as a report, with a plot |

mod advise;
mod assumptions;
mod candidate;
mod constraints;
mod for_program;
mod measured;
mod next;
mod page;
mod sentence;

pub use advise::advise;
pub use assumptions::Assumption;
pub use candidate::{AdviceCandidate, Feasibility};
pub use constraints::{Constraints, NodePrice, StoragePrice};
pub use for_program::{Advice, SCHEMA};
pub use measured::{MeasuredTimes, measured_times};
pub use next::NextMeasurement;
pub use page::advice_report;
