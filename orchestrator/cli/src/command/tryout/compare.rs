//! Compares commands by the same measurements, with the statistics of `cvc compare`.

use super::results::TryResult;
use cvc_core::measured::names;
use cvc_model::stats::{Comparison, Interval, adjust, compare};
use serde::Serialize;

/// Maximum relative difference of two values that count as the same.
const MARGIN: f64 = 0.02;

/// Version of the JSON document.
pub const SCHEMA: u32 = 1;

/// The output of `--json`.
#[derive(Debug, Serialize)]
pub struct TryCompareOutput {
    pub schema: u32,
    /// The commands, in the order given.
    pub commands: Vec<TryResult>,
    /// Comparisons of each further command with the first; empty for one command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Compared>,
}

/// A comparison of a command with the first one.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Positions of the two commands in the list, from 0.
    pub first: usize,
    pub second: usize,
    pub rows: Vec<ComparedRow>,
}

/// One quantity of two commands.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    pub quantity: &'static str,
    /// Ratio of the second value to the first.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// The second command compared with the first: `larger`, `smaller`, `same` or `cannot-tell`.
    pub verdict: &'static str,
}

/// Compares every further command with the first.
pub fn compare_all(commands: &[TryResult]) -> Vec<Compared> {
    let Some((first, others)) = commands.split_first() else {
        return Vec::new();
    };
    let quantities = [
        names::WALL_S,
        names::CKPT_STORED_BYTES,
        names::CKPT_LATENCY_S,
    ];
    let values = |of: &TryResult, quantity| of.values.get(quantity).cloned().unwrap_or_default();
    let mut all: Vec<(usize, &'static str, Comparison)> = Vec::new();
    for (place, other) in others.iter().enumerate() {
        for quantity in quantities {
            let found = compare(&values(other, quantity), &values(first, quantity));
            all.extend(found.map(|comparison| (place + 1, quantity, comparison)));
        }
    }
    adjust(all.iter_mut().map(|(.., comparison)| comparison), MARGIN);
    let row = |(_, quantity, comparison): &(usize, &'static str, Comparison)| ComparedRow {
        quantity,
        ratio: comparison.ratio,
        interval: comparison.interval,
        verdict: verdict(comparison),
    };
    (1..commands.len())
        .map(|second| Compared {
            first: 0,
            second,
            rows: all
                .iter()
                .filter(|(place, ..)| *place == second)
                .map(row)
                .collect(),
        })
        .collect()
}

fn verdict(comparison: &Comparison) -> &'static str {
    use cvc_model::stats::Verdict;
    match Verdict::of(comparison, MARGIN) {
        Verdict::Same => "same",
        Verdict::Larger => "larger",
        Verdict::Smaller => "smaller",
        Verdict::CannotTell { .. } => "cannot-tell",
    }
}
