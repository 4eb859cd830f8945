//! What differs around the programs: software, machines, settings.

use super::{matching::Matching, side::Side};
use crate::results::quantity;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Most values of a fact that are told; a fact with more is one of single runs (a path, a port, a start).
const MOST_VALUES: usize = 4;

/// Facts that come first, because they explain most.
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

/// Facts that are different on every machine and explain nothing.
const NAMES: [&str; 4] = ["nodes", "node.host", "node.boot_id", "node.boot"];

/// Facts about what the name of a program stands for: they say nothing where only one side has the program, or recorded them.
const WORKLOAD: &str = "workload.";

/// What a side says where no run recorded a fact.
const UNKNOWN: &str = "not recorded";

/// Something that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnvironmentDifference {
    /// What: a fact of the runs, or a factor with one level on each side.
    pub what: String,
    /// On the first side; several values if its runs differ.
    pub first: Vec<String>,
    /// On the second side.
    pub second: Vec<String>,
}

/// Factors that have one level on each side.
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

/// Facts of counted runs whose values are not the same.
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
        .filter(|d| d.first.len().max(d.second.len()) <= MOST_VALUES)
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

/// Whether a side recorded what the name of a program stands for, of which a fact is a part: arguments are always recorded.
fn has_program(side: &BTreeMap<String, BTreeSet<String>>, fact: &str) -> bool {
    fact.rsplit_once('.')
        .is_some_and(|(program, _)| side.contains_key(&format!("{program}.args")))
}

/// The facts of the counted runs of a side, with their values.
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
