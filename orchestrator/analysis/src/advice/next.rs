//! The measurements that would decide between candidates that are not told apart, for the least money.

use super::candidate::Candidate;
use cvc_model::{
    pareto::Standing,
    stats::{Verdict, compare},
};
use serde::Serialize;

/// Most measurements that are told.
const MOST: usize = 3;

/// More repeats of two candidates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NextMeasurement {
    /// The candidates.
    pub between: [String; 2],
    /// More repeats of each.
    pub repeats: usize,
    /// What they take, all together, seconds.
    pub time_s: f64,
    /// What they cost, US dollars; `None` without a price.
    pub cost_usd: Option<f64>,
}

/// For each candidate that is not told apart: the repeats that would tell it from the candidate of the front that is nearest in time.
pub(super) fn next(candidates: &[Candidate]) -> Vec<NextMeasurement> {
    let of = |standing| {
        candidates
            .iter()
            .filter(move |c| c.standing == Some(standing))
    };
    let mut found: Vec<NextMeasurement> = of(Standing::NotToldApart)
        .filter_map(|near| {
            let apart = |c: &&Candidate| (c.time_s.value - near.time_s.value).abs();
            let best = of(Standing::Front).min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
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
    found.truncate(MOST);
    found
}

/// How many more repeats of each would show which is faster; of single runs, one more shows at least how they scatter.
fn more_repeats(a: &[f64], b: &[f64]) -> Option<usize> {
    if a.len().min(b.len()) < 2 {
        return Some(2 - a.len().min(b.len()));
    }
    match Verdict::of(&compare(a, b)?, 0.0) {
        Verdict::CannotTell { more_repeats } => more_repeats,
        // they differ in time, and something else is not told apart: cost or storage scatter with it
        Verdict::Same | Verdict::Larger | Verdict::Smaller => None,
    }
}
