//! Points whose counted runs were made under different conditions, so that their means mix them.

use super::{
    model::{Cell, Column},
    rows::{Mixed, RunRow},
};
use cvc_core::units::counted;
use std::collections::{BTreeMap, BTreeSet};

/// Facts that must be the same in all counted runs of a point, together with those nested below them.
const SOFTWARE: [&str; 12] = [
    "dmtcp",
    "mpi",
    "program_digest",
    "cvc",
    "node.kernel",
    "node.host",
    "instance.type",
    "instance.zone",
    "settings.clock_source",
    "settings.governor",
    "settings.smt",
    "settings.thp",
];

/// Maximum number of values that a warning lists for each fact that differs.
const MAX_VALUES: usize = 4;

/// Stands for a fact that a run lacks: the run was made before cvc recorded it, or its facts are lost.
const UNKNOWN: &str = "not recorded";

/// The sources of records, by point, quantity and labels.
pub(super) type Sources = BTreeMap<(usize, String, String), BTreeSet<String>>;

/// Returns the differences within each point. `sources` are those of the counted runs.
pub(super) fn find(
    points: usize,
    runs: &[RunRow],
    facts: &BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    sources: &Sources,
) -> Vec<Mixed> {
    let mut mixed = vec![Mixed::new(); points];
    let mut counted = vec![0; points];
    for run in runs.iter().filter(|r| r.enters()) {
        counted[run.point] += 1;
    }
    let matters = |key: &str| SOFTWARE.iter().any(|s| key.strip_prefix(s).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    for (key, values) in facts.iter().filter(|(key, _)| matters(key)) {
        let mut found: BTreeMap<usize, (BTreeSet<String>, usize)> = BTreeMap::new();
        for (value, of) in values {
            for run in of.iter().map(|r| &runs[*r]).filter(|r| r.enters()) {
                let (values, recorded) = found.entry(run.point).or_default();
                values.insert(value.clone());
                *recorded += 1;
            }
        }
        for (point, (mut values, recorded)) in found {
            if recorded < counted[point] {
                values.insert(UNKNOWN.to_owned());
            }
            if values.len() > 1 {
                mixed[point].insert(key.clone(), values);
            }
        }
    }
    for ((point, quantity, _), sources) in sources.iter().filter(|(_, sources)| sources.len() > 1) {
        mixed[*point].entry(format!("source of {quantity}")).or_default().extend(sources.iter().cloned());
    }
    mixed
}

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
        let more = if values.len() > MAX_VALUES { format!(", and {} more", values.len() - MAX_VALUES) } else { String::new() };
        let values: Vec<&str> = values.into_iter().take(MAX_VALUES).collect();
        format!("{what} in {} ({}{more})", counted(points, "point"), values.join(" / "))
    });
    let differences = differences.collect::<Vec<_>>().join("; ");
    let text = format!(
        "The counted runs of {} were made under different conditions, so their means are not meaningful. Differences within a point: {differences}. These points are marked in the tables; run them again with one installation, or do not use their means.",
        counted(points, "point")
    );
    (points > 0).then_some(text)
}

/// Returns the column that marks rows with mixed runs.
pub(super) fn column() -> Column {
    Column::plain("mixed", "mixed runs")
}

/// Returns the mark of a row that rests on these points.
pub(super) fn cell(of: &[&Mixed]) -> Cell {
    let what: BTreeSet<&str> = of.iter().flat_map(|m| m.keys()).map(String::as_str).collect();
    Cell::text(what.into_iter().collect::<Vec<_>>().join(", "))
}
