//! Claims: statements of a paper about its numbers, judged by tests on the cells of its tables and on runs of campaigns.
//!
//! `claims.toml` in the folder of the paper contains the claims ([`Claim`](super::claim::Claim)) with the tests on printed numbers; `measured.toml`
//! may add tests on runs. No verdict is stored. A [`Test`](super::claim::Test) computes numbers (a value, a ratio, a difference, a spread) and has
//! a bound for them.

mod evaluate;
mod load;
mod outcome;
mod show;
mod test;

pub use evaluate::evaluate;
pub use load::check;
pub(super) use load::read;
pub use outcome::{ClaimCounts, ClaimOutcome, ClaimVerdict, SideOutcome};
pub(super) use show::section;
pub use test::{Item, TestOutcome};
