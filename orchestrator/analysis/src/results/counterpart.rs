//! Pairs of points that differ in one factor only.

use super::{data::Data, rows::PointRow};
use cvc_core::point::{Needs, Point};
use cvc_index::factors;
use cvc_model::stats::RatioGroup;
use std::collections::{BTreeMap, HashMap};

/// Pairs of factors: at some level of the first factor, the second one does not apply. These are the factors of collective I/O; factors that need a
/// checkpointer are not listed.
const DEPENDENT: [(&str, &str); 4] = [
    ("checkpointer", "aggregators"),
    ("checkpointer", "cb_buffer"),
    ("app", "aggregators"),
    ("app", "cb_buffer"),
];

/// Returns the level of factor `of` at which the factor `name` does not apply; `None` if `name` always applies.
fn neutral_level(of: &str, name: &str) -> Option<String> {
    let needs = || {
        Point::FACTOR_INFO
            .iter()
            .any(|info| info.name == name && info.needs != Needs::Nothing)
    };
    let depends = DEPENDENT.contains(&(of, name)) || of == "checkpointer" && needs();
    depends
        .then(|| factors::text(&Point::default(), name))
        .flatten()
}

/// A point with one level of a factor, and the otherwise equal point with another level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CounterpartPair {
    pub point: usize,
    pub counterpart: usize,
    /// Levels that both points share, of the other factors that vary.
    pub at: Vec<(String, String)>,
}

/// Returns the pairs of points that have these levels of a factor and are equal in all other varying factors. A factor that does not apply to one of
/// the points (compression without DMTCP) is ignored.
pub(crate) fn pairs(data: &Data, factor: &str, level: &str, other: &str) -> Vec<CounterpartPair> {
    let rest: Vec<&str> = data
        .varying()
        .into_iter()
        .filter(|f| *f != factor)
        .collect();
    let neutrals: HashMap<&str, String> = rest
        .iter()
        .filter_map(|f| Some((*f, neutral_level(factor, f)?)))
        .collect();
    let neutral = |f: &str| neutrals.get(f).map(String::as_str);
    let (dependent, fixed): (Vec<&str>, Vec<&str>) =
        rest.iter().copied().partition(|f| neutral(f).is_some());
    let key =
        |p: &'_ PointRow| -> Vec<String> { fixed.iter().map(|f| p.factor(f).to_owned()).collect() };
    let mut others: HashMap<Vec<String>, Vec<usize>> = HashMap::new();
    for i in data.points_at(factor, other) {
        others.entry(key(&data.points[*i])).or_default().push(*i);
    }
    let mut found = Vec::new();
    for &i in data.points_at(factor, level) {
        let p = &data.points[i];
        let Some(candidates) = others.get(&key(p)) else {
            continue;
        };
        let levels =
            |c: usize, f: &str| (p.factor(f).to_owned(), data.points[c].factor(f).to_owned());
        let equal = |c: &&usize| {
            dependent
                .iter()
                .all(|f| levels(**c, f).0 == levels(**c, f).1)
        };
        let like = |c: &&usize| {
            dependent.iter().all(|f| {
                let (a, b) = levels(**c, f);
                a == b || Some(a.as_str()) == neutral(f) || Some(b.as_str()) == neutral(f)
            })
        };
        let chosen: Vec<usize> = match candidates.iter().find(equal) {
            Some(one) => vec![*one],
            None => candidates.iter().filter(like).copied().collect(),
        };
        for counterpart in chosen {
            let at = rest.iter().map(|f| {
                let (a, b) = levels(counterpart, f);
                (
                    (*f).to_owned(),
                    if Some(a.as_str()) == neutral(f) { b } else { a },
                )
            });
            found.push(CounterpartPair {
                point: i,
                counterpart,
                at: at.collect(),
            });
        }
    }
    found
}

/// Pairs each point that has checkpoints with the otherwise equal point that has none. Returns each pair with its checkpointer.
pub(crate) fn pairs_without_checkpoints(
    data: &Data,
) -> impl Iterator<Item = (&str, CounterpartPair)> {
    pairs_without(data, "checkpointer")
}

/// Pairs each point at which the factor is not `none` with the otherwise equal point at which it is `none`. Returns each pair with the level of its
/// first point.
pub(crate) fn pairs_without<'d>(
    data: &'d Data,
    factor: &'static str,
) -> impl Iterator<Item = (&'d str, CounterpartPair)> {
    data.levels(factor)
        .into_iter()
        .filter(|level| *level != "none")
        .flat_map(move |level| {
            pairs(data, factor, level, "none")
                .into_iter()
                .map(move |pair| (level, pair))
        })
}

/// Returns the number of each repeat that both points of a pair have, with the quantity's value at the point and at the counterpart.
pub(crate) fn repeats(data: &Data, pair: &CounterpartPair, quantity: &str) -> Vec<(u32, f64, f64)> {
    let (a, b) = (&data.points[pair.point], &data.points[pair.counterpart]);
    let of = |p: &PointRow| -> Option<Vec<(u32, f64)>> {
        Some(
            p.repeats
                .get(quantity)?
                .iter()
                .copied()
                .zip(p.values.get(quantity)?.iter().copied())
                .collect(),
        )
    };
    let (Some(of_a), Some(of_b)) = (of(a), of(b)) else {
        return Vec::new();
    };
    let of_b: HashMap<u32, f64> = of_b.into_iter().collect();
    of_a.into_iter()
        .filter_map(|(repeat, value)| Some((repeat, value, *of_b.get(&repeat)?)))
        .collect()
}

/// Returns the ratios of a quantity between points and counterparts, in groups that are independent of each other. Pairs that share a point or a
/// counterpart are in one group, because a disturbance of the shared point affects all of their ratios.
pub(crate) fn ratio_groups(
    data: &Data,
    pairs: &[CounterpartPair],
    quantity: &str,
) -> Vec<RatioGroup> {
    let mut groups: Vec<Vec<&CounterpartPair>> = Vec::new();
    for pair in pairs
        .iter()
        .filter(|pair| !repeats(data, pair, quantity).is_empty())
    {
        let shares = |other: &&CounterpartPair| {
            other.point == pair.point || other.counterpart == pair.counterpart
        };
        // a pair can join groups that were separate before
        let (sharing, mut separate): (Vec<_>, Vec<_>) = groups
            .into_iter()
            .partition(|group| group.iter().any(&shares));
        separate.push(sharing.into_iter().flatten().chain([pair]).collect());
        groups = separate;
    }
    groups
        .iter()
        .map(|group| ratio_group(data, group, quantity))
        .collect()
}

/// Returns the ratios of a group in the repeats that all of its pairs have. If no repeat is in all pairs, returns for each repeat the ratio over the
/// pairs that have this repeat.
fn ratio_group(data: &Data, group: &[&CounterpartPair], quantity: &str) -> RatioGroup {
    let mut logs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for pair in group {
        for (repeat, a, b) in repeats(data, pair, quantity) {
            logs.entry(repeat).or_default().push((a / b).ln());
        }
    }
    let whole = logs.values().any(|all| all.len() == group.len());
    let used = logs
        .values()
        .filter(|all| !whole || all.len() == group.len());
    RatioGroup {
        points: group.len(),
        ratios: used
            .map(|all| (all.iter().sum::<f64>() / all.len() as f64).exp())
            .collect(),
    }
}

/// Returns the pairs of levels of a factor to compare; the second of each pair is the baseline. With few levels, returns all pairs; otherwise pairs
/// each level with the first level. A level that means that an optional feature is absent is the baseline.
pub(crate) fn compared_levels<'d>(data: &'d Data, factor: &str) -> Vec<(&'d str, &'d str)> {
    const MANY: usize = 5;
    let mut levels: Vec<&str> = data.levels(factor).into_iter().collect();
    levels.sort_by_key(|level| !["none", "false", "default"].contains(level));
    let firsts = if levels.len() < MANY { levels.len() } else { 1 };
    (0..firsts)
        .flat_map(|base| levels[base + 1..].iter().map(move |level| (*level, base)))
        .map(|(level, base)| (level, levels[base]))
        .collect()
}

/// Describes each of these pairs. Whether runs are restarted is mentioned only if the pairs differ in that, or in nothing else.
pub(crate) fn labels(pairs: &[CounterpartPair]) -> Vec<String> {
    const FACTOR: &str = "restart_check";
    let level = |pair: &CounterpartPair| {
        pair.at
            .iter()
            .find(|(f, _)| f == FACTOR)
            .map(|(_, level)| level.clone())
    };
    let is_same = pairs.windows(2).all(|two| level(&two[0]) == level(&two[1]));
    let without = |pair: &CounterpartPair| CounterpartPair {
        at: pair
            .at
            .iter()
            .filter(|(f, _)| !is_same || f != FACTOR || pair.at.len() == 1)
            .cloned()
            .collect(),
        ..pair.clone()
    };
    pairs.iter().map(|pair| label(&without(pair))).collect()
}

/// Describes the levels that both points of a pair share.
pub(crate) fn label(pair: &CounterpartPair) -> String {
    let parts: Vec<String> = pair
        .at
        .iter()
        .map(|(f, level)| super::quantity::level(f, level))
        .collect();
    parts.join(", ")
}
