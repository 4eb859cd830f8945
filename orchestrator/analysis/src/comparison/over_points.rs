//! A quantity over all pairs of points.

use super::row::{ComparedRow, Outcome};
use crate::results::quantity;
use indexmap::IndexMap;
use serde::Serialize;

/// Comparison of a quantity over all pairs of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantityOverPoints {
    /// Name of the quantity.
    pub quantity: String,
    /// Heading of the quantity.
    pub heading: String,
    /// Unit of the quantity.
    pub unit: String,
    /// Number of pairs of points that have the quantity.
    pub pairs: usize,
    /// Number of pairs for which the quantity is equal, or the same within the margin.
    pub same: usize,
    /// Number of pairs for which the quantity is larger on the second side.
    pub larger: usize,
    /// Number of pairs for which the quantity is smaller on the second side.
    pub smaller: usize,
    /// Number of pairs for which the quantity differs although it must be equal.
    pub unequal: usize,
    /// Number of undecided pairs.
    #[serde(rename = "untold")]
    pub undecided: usize,
    /// Geometric mean of the changes, percent; `None` without ratios.
    pub mean_change_pct: Option<f64>,
    /// Minimum and maximum change, percent.
    pub change_pct: Option<(f64, f64)>,
}

impl QuantityOverPoints {
    /// Describes the counts as the end of a sentence: `larger in 3, undecided in 1 of 4`.
    pub fn describe(&self) -> String {
        let counts = [
            (self.unequal, "not equal"),
            (self.larger, "larger"),
            (self.smaller, "smaller"),
            (self.same, "the same"),
            (self.undecided, "undecided"),
        ];
        let parts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| {
                if count == self.pairs {
                    word.to_owned()
                } else {
                    format!("{word} in {count}")
                }
            })
            .collect();
        match parts.as_slice() {
            [one] if self.pairs == 1 => one.clone(),
            [one] => format!("{one} in all {}", self.pairs),
            _ => format!("{} of {}", parts.join(", "), self.pairs),
        }
    }
}

/// Summarises the rows of each quantity, in the order of the rows.
pub(super) fn over_points(rows: &[ComparedRow]) -> Vec<QuantityOverPoints> {
    let mut of_quantity: IndexMap<&str, Vec<&ComparedRow>> = IndexMap::new();
    for row in rows {
        of_quantity
            .entry(row.quantity.as_str())
            .or_default()
            .push(row);
    }
    of_quantity
        .into_iter()
        .map(|(name, rows)| {
            let count =
                |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
            let changes: Vec<f64> = rows.iter().filter_map(|row| row.change_pct).collect();
            let logs: Vec<f64> = changes
                .iter()
                .map(|change| (1.0 + change / 100.0).ln())
                .filter(|log| log.is_finite())
                .collect();
            QuantityOverPoints {
                quantity: name.to_owned(),
                heading: quantity::heading(name),
                unit: rows[0].unit.clone(),
                pairs: rows.len(),
                same: count(|o| matches!(o, Outcome::Equal | Outcome::Same)),
                larger: count(|o| *o == Outcome::Larger),
                smaller: count(|o| *o == Outcome::Smaller),
                unequal: count(|o| *o == Outcome::Unequal),
                undecided: count(|o| matches!(o, Outcome::CannotTell { .. })),
                mean_change_pct: (!logs.is_empty())
                    .then(|| ((logs.iter().sum::<f64>() / logs.len() as f64).exp() - 1.0) * 100.0),
                change_pct: changes
                    .iter()
                    .copied()
                    .reduce(f64::min)
                    .zip(changes.iter().copied().reduce(f64::max)),
            }
        })
        .collect()
}
