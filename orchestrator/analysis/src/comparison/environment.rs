//! Differences in the programs' environment: software, machines, settings.

use super::{matching::Matching, side::Side};
use crate::results::quantity;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Maximum number of values for which a fact is shown; a fact with more values describes single runs (a path, a port, a start time).
const MAX_VALUES: usize = 4;

/// Facts listed first, because they explain most differences.
const FIRST: [&str; 10] = [
    "workload",
    "cvc",
    "dmtcp",
    "mpi",
    "instance",
    "node.cpu",
    "node.cores",
    "node.memory",
    "node.kernel",
    "node.os",
];

/// Facts that differ between any two machines and explain nothing.
const NAMES: [&str; 4] = ["nodes", "node.host", "node.boot_id", "node.boot"];

/// Prefix of facts about a program. Such facts are compared only if both sides ran the program and recorded facts about it.
const WORKLOAD: &str = "workload.";

/// Text for a side whose runs did not record a fact.
const UNKNOWN: &str = "not recorded";

/// A difference between the sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvironmentDifference {
    /// Name of the fact, or of a factor that has one level on each side.
    pub what: String,
    /// Values on the first side; several if the side's runs differ.
    pub first: Vec<String>,
    /// Values on the second side.
    pub second: Vec<String>,
}

/// Returns the factors that have one level on each side.
pub(super) fn from_factors(matching: &Matching) -> Vec<EnvironmentDifference> {
    matching
        .constants
        .iter()
        .map(|constant| EnvironmentDifference {
            what: quantity::factor_heading(&constant.factor),
            first: vec![constant.levels[0].clone()],
            second: vec![constant.levels[1].clone()],
        })
        .collect()
}

/// Returns the facts of counted runs whose values differ.
pub(super) fn from_facts(first: &Side, second: &Side) -> Vec<EnvironmentDifference> {
    let (a, b) = (facts(first), facts(second));
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let values = |side: &BTreeMap<String, BTreeSet<String>>, key: &String| -> Vec<String> {
        side.get(key).map_or_else(
            || vec![UNKNOWN.to_owned()],
            |values| values.iter().cloned().collect(),
        )
    };
    let mut found: Vec<EnvironmentDifference> = keys
        .into_iter()
        .filter(|key| !NAMES.contains(&key.as_str()))
        .filter(|key| !key.starts_with(WORKLOAD) || [&a, &b].iter().all(|s| has_program(s, key)))
        .map(|key| EnvironmentDifference {
            what: key.clone(),
            first: values(&a, key),
            second: values(&b, key),
        })
        .filter(|d| d.first != d.second)
        .filter(|d| d.first.len().max(d.second.len()) <= MAX_VALUES)
        .collect();
    let place = |what: &str| {
        FIRST
            .iter()
            .position(|first| {
                what.strip_prefix(first)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .unwrap_or(FIRST.len())
    };
    found.sort_by_key(|d| (place(&d.what), d.what.clone()));
    found
}

/// Returns whether a side recorded facts about the program to which a fact belongs. Arguments are always recorded.
fn has_program(side: &BTreeMap<String, BTreeSet<String>>, fact: &str) -> bool {
    fact.rsplit_once('.')
        .is_some_and(|(program, _)| side.contains_key(&format!("{program}.args")))
}

/// Returns the facts of a side's counted runs, with their values.
fn facts(side: &Side) -> BTreeMap<String, BTreeSet<String>> {
    let points: HashSet<usize> = side.points().iter().copied().collect();
    let runs = &side.data().runs;
    let mut facts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, values) in &side.data().facts {
        for (value, of) in values {
            if of
                .iter()
                .map(|run| &runs[*run])
                .any(|run| run.enters() && points.contains(&run.point))
            {
                facts.entry(key.clone()).or_default().insert(value.clone());
            }
        }
    }
    facts
}
