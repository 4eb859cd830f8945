//! The cheapest measurements that would distinguish candidates which are indistinguishable now.

use super::candidate::AdviceCandidate;
use cvc_model::{
    pareto::ParetoRank,
    stats::{Verdict, compare},
};
use serde::Serialize;

/// Maximum number of measurements listed.
const MAX_LISTED: usize = 3;

/// Further repeats of two candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextMeasurement {
    /// The candidates.
    pub between: [String; 2],
    /// Number of further repeats of each candidate.
    pub repeats: usize,
    /// Total time of all these repeats, seconds.
    pub time_s: f64,
    /// Total cost of all these repeats, US dollars; `None` without a price.
    pub cost_usd: Option<f64>,
}

/// Returns, for each indistinguishable candidate, the repeats that would distinguish it from the candidate on the Pareto front that is nearest in
/// time.
pub(super) fn next(candidates: &[AdviceCandidate]) -> Vec<NextMeasurement> {
    let of = |standing| {
        candidates
            .iter()
            .filter(move |c| c.standing == Some(standing))
    };
    let mut found: Vec<NextMeasurement> = of(ParetoRank::Indistinguishable)
        .filter_map(|near| {
            let distance = |c: &&AdviceCandidate| (c.time_s.value - near.time_s.value).abs();
            let best = of(ParetoRank::Front).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
            let repeats = more_repeats(&near.walls_s, &best.walls_s)?;
            Some(NextMeasurement {
                between: [best.label.clone(), near.label.clone()],
                repeats,
                time_s: repeats as f64 * (near.run_s + best.run_s),
                cost_usd: near
                    .run_usd
                    .zip(best.run_usd)
                    .map(|(a, b)| repeats as f64 * (a + b)),
            })
        })
        .collect();
    found.sort_by(|a, b| {
        let usd = |m: &NextMeasurement| m.cost_usd.unwrap_or(f64::INFINITY);
        usd(a)
            .total_cmp(&usd(b))
            .then(a.time_s.total_cmp(&b.time_s))
    });
    found.truncate(MAX_LISTED);
    found
}

/// Returns the number of further repeats of each candidate that would show which is faster. If a candidate has fewer than two runs, returns the
/// number that gives it two, which show the scatter. Returns `None` if the times differ already, or are the same.
fn more_repeats(a: &[f64], b: &[f64]) -> Option<usize> {
    if a.len().min(b.len()) < 2 {
        return Some(2 - a.len().min(b.len()));
    }
    match Verdict::of(&compare(a, b)?, 0.0) {
        Verdict::CannotTell { more_repeats } => more_repeats,
        // the times differ, so the candidates are indistinguishable in cost or storage, which scatter too
        Verdict::Same | Verdict::Larger | Verdict::Smaller => None,
    }
}
