//! The quantities of two equal points, and how each is compared.

use super::{
    matching::EqualPoints,
    row::{Compared, SideValue},
    side::Side,
};
use crate::results::{
    counterpart::{pairs_without_checkpoints, repeats},
    data::{Data, ReportedQuantity},
    quantity::{self, Tier},
    rows::{PointRow, independent},
};
use cvc_core::{
    app::descriptor::Better,
    measured::{Comparison, shown},
    record::names,
    units::MIB,
};
use cvc_model::stats::{compare, compare_stopped};
use indexmap::IndexMap;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Prefixes of the names of sizes of zones and of their parts.
const ZONES: [&str; 2] = ["zone_bytes_", "part_bytes_"];

/// A quantity that is compared.
#[derive(Clone, Copy)]
struct Wanted<'q> {
    name: &'q str,
    unit: &'q str,
    must_be_equal: bool,
    better: Option<Better>,
}

/// Returns how a quantity is compared.
fn how(name: &str, of: &ReportedQuantity, has_owner: bool) -> Comparison {
    let is_zone = ZONES.iter().any(|zone| name.starts_with(zone))
        // with several rules, compare zones by the owner rule, which also assigns shared memory
        && (name.ends_with("_owner") || !has_owner || name.starts_with("part_bytes_"));
    match shown(name).map_or(Comparison::Never, |(_, of)| of.comparison) {
        Comparison::Never if of.tier != Tier::Secondary || is_zone => Comparison::Ratio,
        how => how,
    }
}

/// Compares all quantities of all pairs of points, ordered by quantity, then by point.
pub(super) fn compared(first: &Side, second: &Side, points: &[EqualPoints]) -> Vec<Compared> {
    let has_owner = [first, second].iter().all(|side| {
        side.data()
            .quantities
            .keys()
            .any(|name| name.starts_with("zone_bytes_") && name.ends_with("_owner"))
    });
    let mut wanted: IndexMap<&str, Wanted<'_>> = IndexMap::new();
    for side in [first, second] {
        for (name, of) in &side.data().quantities {
            let how = how(name, of, has_owner);
            if how != Comparison::Never {
                wanted.entry(name).or_insert(Wanted {
                    name,
                    unit: &of.unit,
                    must_be_equal: how == Comparison::Equality,
                    better: of.better,
                });
            }
        }
    }
    let mut rows = Vec::new();
    for (name, wanted) in wanted {
        for pair in points {
            let values = [(first, pair.first), (second, pair.second)]
                .map(|(side, point)| side.point(point).independent(name));
            rows.extend(one(wanted, pair, &values, least(first, second, pair)));
        }
        match name {
            names::WALL_S => rows.extend(overhead(first, second, points)),
            names::CKPT_STORAGE_S => rows.extend(bandwidth(first, second, points)),
            _ => {}
        }
    }
    rows.extend(
        points
            .iter()
            .filter_map(|pair| structure(first, second, pair)),
    );
    rows
}

/// Returns the smallest number of repeats with which a campaign's stopping rule ended any point; `None` unless a rule ended a point of this pair.
fn least(first: &Side, second: &Side, pair: &EqualPoints) -> Option<usize> {
    let of = |side: &Side, point| side.data().least_repeats_of_stopped([point, point]);
    [of(first, pair.first), of(second, pair.second)]
        .into_iter()
        .flatten()
        .min()
}

/// Compares the values of a quantity; returns `None` if a side has no values.
fn one(
    wanted: Wanted<'_>,
    pair: &EqualPoints,
    [first, second]: &[Vec<f64>; 2],
    least: Option<usize>,
) -> Option<Compared> {
    let must_be_equal = wanted.must_be_equal;
    Some(Compared {
        quantity: wanted.name.to_owned(),
        unit: wanted.unit.to_owned(),
        at: pair.label.clone(),
        better: wanted.better,
        first: SideValue::of(first, least.is_some())?,
        second: SideValue::of(second, least.is_some())?,
        must_be_equal,
        missing: None,
        comparison: (!must_be_equal)
            .then(|| match least {
                Some(least) => compare_stopped(second, first, least),
                None => compare(second, first),
            })
            .flatten(),
    })
}

/// Compares the overhead of checkpoints at each point that has them: the ratio of wall times with and without checkpoints, of repeats that ran close
/// in time.
fn overhead(first: &Side, second: &Side, points: &[EqualPoints]) -> Vec<Compared> {
    let ratios = |data: &Data| -> HashMap<usize, Vec<f64>> {
        pairs_without_checkpoints(data)
            .map(|(_, pair)| {
                let ratios = repeats(data, &pair, names::WALL_S)
                    .into_iter()
                    .filter(|(_, _, without)| *without > 0.0)
                    .map(|(_, with, without)| with / without)
                    .collect();
                (pair.point, ratios)
            })
            .collect()
    };
    let of = [first, second].map(|side| ratios(side.data()));
    points
        .iter()
        .filter_map(|pair| {
            let values = [
                of[0].get(&pair.first)?.clone(),
                of[1].get(&pair.second)?.clone(),
            ];
            one(
                Wanted {
                    name: names::WALL_WITH_OVER_WITHOUT,
                    unit: "1",
                    must_be_equal: false,
                    better: Some(Better::Lower),
                },
                pair,
                &values,
                least(first, second, pair),
            )
        })
        .collect()
}

/// Compares the bandwidth of checkpoints: bytes of a checkpoint divided by the time to store them.
fn bandwidth(first: &Side, second: &Side, points: &[EqualPoints]) -> Vec<Compared> {
    let of = |point: &PointRow| -> Option<Vec<f64>> {
        let by_repeat = |name: &str| -> Option<BTreeMap<u32, f64>> {
            let numbers = point.repeats.get(name)?.iter().copied();
            Some(
                numbers
                    .zip(point.values.get(name)?.iter().copied())
                    .collect(),
            )
        };
        let (stored, took) = (
            by_repeat(names::CKPT_STORED_BYTES)?,
            by_repeat(names::CKPT_STORAGE_S)?,
        );
        let blocks: BTreeMap<u32, u32> = point
            .repeats
            .get(names::CKPT_STORAGE_S)?
            .iter()
            .copied()
            .zip(
                point
                    .blocks
                    .get(names::CKPT_STORAGE_S)
                    .into_iter()
                    .flatten()
                    .copied(),
            )
            .collect();
        let (mut values, mut of_blocks) = (Vec::new(), Vec::new());
        for (repeat, took) in took.into_iter().filter(|(_, took)| *took > 0.0) {
            let Some(stored) = stored.get(&repeat) else {
                continue;
            };
            values.push(stored / MIB / took);
            of_blocks.extend(blocks.get(&repeat));
        }
        Some(independent(&values, Some(&of_blocks)))
    };
    points
        .iter()
        .filter_map(|pair| {
            let values = [of(first.point(pair.first))?, of(second.point(pair.second))?];
            one(
                Wanted {
                    name: names::CKPT_BANDWIDTH,
                    unit: "MiB/s",
                    must_be_equal: false,
                    better: Some(Better::Higher),
                },
                pair,
                &values,
                least(first, second, pair),
            )
        })
        .collect()
}

/// Compares whether images have the same zones and the same parts.
fn structure(first: &Side, second: &Side, pair: &EqualPoints) -> Option<Compared> {
    let parts = |point: &PointRow| -> BTreeSet<String> {
        point
            .values
            .iter()
            .filter(|(name, values)| {
                ZONES.iter().any(|zone| name.starts_with(zone)) && values.iter().any(|v| *v > 0.0)
            })
            .map(|(name, _)| name.clone())
            .collect()
    };
    let (a, b) = (
        parts(first.point(pair.first)),
        parts(second.point(pair.second)),
    );
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>, side: &Side| {
        let only: Vec<String> = these
            .difference(those)
            .map(|name| quantity::heading(name))
            .collect();
        (!only.is_empty()).then(|| format!("only {} has {}", side.name(), only.join(", ")))
    };
    let missing: Vec<String> = [only(&a, &b, first), only(&b, &a, second)]
        .into_iter()
        .flatten()
        .collect();
    Some(Compared {
        quantity: names::ZONE_STRUCTURE.to_owned(),
        unit: "count".to_owned(),
        at: pair.label.clone(),
        better: None,
        first: SideValue::of(&[a.len() as f64], false)?,
        second: SideValue::of(&[b.len() as f64], false)?,
        must_be_equal: true,
        missing: (!missing.is_empty()).then(|| missing.join("; ")),
        comparison: None,
    })
}
