//! The advice for one program.

use super::{candidate::Candidate, next::NextMeasurement};
use serde::Serialize;

/// Version of the form in which advice is written to JSON.
pub const SCHEMA: u32 = 1;

/// Advice for one program.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Application and class, as in `npb-bt.C`.
    pub program: String,
    /// The advice in a sentence.
    pub sentence: String,
    /// What candidates are judged by, in order: `time_s`, `cost_usd`, `storage_bytes`.
    pub objectives: Vec<&'static str>,
    /// All candidates: the front first, each group by time.
    pub candidates: Vec<Candidate>,
    /// What to measure to tell apart what is not; cheapest first.
    pub next: Vec<NextMeasurement>,
}
