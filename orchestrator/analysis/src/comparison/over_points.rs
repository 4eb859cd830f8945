//! A quantity over all pairs of points.

use super::row::{ComparedRow, Outcome};
use crate::results::quantity;
use indexmap::IndexMap;
use serde::Serialize;

/// How a quantity of the second side compares over all pairs of points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantityOverPoints {
    /// Name of the quantity.
    pub quantity: String,
    /// Its heading.
    pub heading: String,
    /// Its unit.
    pub unit: String,
    /// Pairs of points that have it.
    pub pairs: usize,
    /// In how many of them it is equal, or the same within the margin.
    pub same: usize,
    /// In how many it is larger.
    pub larger: usize,
    /// In how many it is smaller.
    pub smaller: usize,
    /// In how many it must be equal and is not.
    pub unequal: usize,
    /// In how many nothing is shown.
    pub untold: usize,
    /// Geometric mean of the changes, percent; `None` if nothing can be divided.
    pub mean_change_pct: Option<f64>,
    /// Least and greatest change, percent.
    pub change_pct: Option<(f64, f64)>,
}

impl QuantityOverPoints {
    /// The same in a sentence's second half: `larger in 3 of 4 points, cannot tell in 1`.
    pub fn words(&self) -> String {
        let told = [
            (self.unequal, "not equal"),
            (self.larger, "larger"),
            (self.smaller, "smaller"),
            (self.same, "the same"),
            (self.untold, "cannot tell"),
        ];
        let parts: Vec<String> = told
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

/// Sums up the rows of each quantity, in their order.
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
                untold: count(|o| matches!(o, Outcome::CannotTell { .. })),
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
