//! The advice for one program.

use super::{assumptions::Assumption, candidate::AdviceCandidate, next::NextMeasurement};
use serde::Serialize;

/// Version of the JSON format of advice.
pub const SCHEMA: u32 = 1;

/// Advice for one program.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Application and class, as in `npb-bt.C`.
    pub program: String,
    /// The advice, in a sentence.
    pub sentence: String,
    /// Computing time of the job as a multiple of a measured run's.
    pub times: f64,
    /// Basis of the numbers: the options, prices with their sources, and assumptions.
    pub assumptions: Vec<Assumption>,
    /// Objectives by which candidates are compared, in order: `time_s`, `cost_usd`, `storage_bytes`.
    pub objectives: Vec<&'static str>,
    /// All candidates: first those on the Pareto front, then the others, each group sorted by time.
    pub candidates: Vec<AdviceCandidate>,
    /// Measurements that would distinguish candidates that are indistinguishable now, cheapest first.
    pub next: Vec<NextMeasurement>,
}
