//! Points whose counted runs were made under different conditions, so that the mean of these runs is not meaningful.

use super::rows::{Mixed, RunRow};
use std::collections::{BTreeMap, BTreeSet};

/// Facts that must be equal in all counted runs of a point, including the facts nested below them.
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

/// Text for a missing fact: the run is older than the recording of this fact, or its facts are lost.
const UNKNOWN: &str = "not recorded";

/// The sources of records, by point, quantity and labels.
pub(crate) type SourceSets = BTreeMap<(usize, String, String), BTreeSet<String>>;

/// Returns the differences between the runs of each point. `sources` are the sources of the counted runs' records.
pub(crate) fn find(
    points: usize,
    runs: &[RunRow],
    facts: &BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    sources: &SourceSets,
) -> Vec<Mixed> {
    let mut mixed = vec![Mixed::new(); points];
    let mut counted = vec![0; points];
    for run in runs.iter().filter(|r| r.enters()) {
        counted[run.point] += 1;
    }
    let matters = |key: &str| {
        SOFTWARE.iter().any(|s| {
            key.strip_prefix(s)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
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
        mixed[*point]
            .entry(format!("source of {quantity}"))
            .or_default()
            .extend(sources.iter().cloned());
    }
    mixed
}
