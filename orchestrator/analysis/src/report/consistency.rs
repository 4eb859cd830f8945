//! The warning about points whose runs were made under different conditions, and the marker in their table rows.

use crate::results::rows::Mixed;
use cvc_core::units::counted;
use cvc_show::{Cell, Column};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of values listed in a warning for each fact that differs.
const MAX_VALUES: usize = 4;

/// Returns the warning of the overview; `None` if no point mixes conditions.
pub(super) fn warning(mixed: &[&Mixed]) -> Option<String> {
    let points = mixed.iter().filter(|m| !m.is_empty()).count();
    let mut all: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for (what, values) in mixed.iter().copied().flatten() {
        let (points, known) = all.entry(what).or_default();
        *points += 1;
        known.extend(values.iter().map(String::as_str));
    }
    let differences = all.into_iter().map(|(what, (points, values))| {
        let more = if values.len() > MAX_VALUES {
            format!(", and {} more", values.len() - MAX_VALUES)
        } else {
            String::new()
        };
        let values: Vec<&str> = values.into_iter().take(MAX_VALUES).collect();
        format!(
            "{what} in {} ({}{more})",
            counted(points, "point"),
            values.join(" / ")
        )
    });
    let differences = differences.collect::<Vec<_>>().join("; ");
    let text = format!(
        "The counted runs of {} were made under different conditions, so their means are not meaningful. Differences within a point: {differences}. These points are marked in the tables; run them again with one installation, or do not use their means.",
        counted(points, "point")
    );
    (points > 0).then_some(text)
}

/// Returns the column that marks rows whose runs were made under different conditions.
pub(super) fn column() -> Column {
    Column::plain("mixed", "mixed runs")
}

/// Returns the marker of a row that is computed from these points.
pub(super) fn cell(of: &[&Mixed]) -> Cell {
    let what: BTreeSet<&str> = of
        .iter()
        .flat_map(|m| m.keys())
        .map(String::as_str)
        .collect();
    Cell::text(what.into_iter().collect::<Vec<_>>().join(", "))
}
