//! Which points of two sides are equal.

use super::side::Side;
use crate::results::quantity;
use cvc_core::point::FactorId;
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

/// The factor that the sides may differ in without being told so.
const SITE: &str = "site";

/// A point that has no equal one on the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// Name of its side.
    pub side: String,
    /// The point: levels of the factors that vary.
    pub point: String,
    /// Why it is not compared.
    pub why: String,
}

/// Two equal points.
pub(crate) struct EqualPoints {
    pub first: usize,
    pub second: usize,
    /// The point: levels of the factors that vary.
    pub label: String,
}

/// A factor with one level on each side, and not the same: part of the environment, not of the points.
pub(crate) struct ConstantDifference {
    pub factor: String,
    pub levels: [String; 2],
}

/// The points of two sides, put together.
pub(crate) struct Matching {
    pub pairs: Vec<EqualPoints>,
    pub constants: Vec<ConstantDifference>,
    pub unmatched: Vec<Unmatched>,
}

/// Puts the points of two sides together that are equal in all factors but the site. A factor that has one level on each side, and not the
/// same, is a difference of the environment and does not keep points apart.
pub(crate) fn matching(first: &Side, second: &Side) -> Matching {
    let factors: IndexSet<&str> = [first, second]
        .into_iter()
        .flat_map(|side| &side.data().factors)
        .map(String::as_str)
        .filter(|factor| *factor != SITE)
        .collect();
    let levels = |side: &Side, factor: &str| -> IndexSet<String> {
        side.points()
            .iter()
            .map(|point| level_of(side, *point, factor))
            .collect()
    };
    let (mut constants, mut telling, mut varying) = (Vec::new(), Vec::new(), Vec::new());
    for factor in factors {
        let [a, b] = [first, second].map(|side| levels(side, factor));
        if a.len() == 1 && b.len() == 1 && a != b {
            constants.push(ConstantDifference {
                factor: factor.to_owned(),
                levels: [a[0].clone(), b[0].clone()],
            });
            continue;
        }
        if a.union(&b).count() > 1 {
            varying.push(factor);
        }
        telling.push(factor);
    }
    // how many processes there are follows from the mapping
    if varying.contains(&"mapping") {
        varying.retain(|factor| *factor != "processes");
    }
    let keyed = |side: &Side| -> IndexMap<Vec<String>, Vec<usize>> {
        let mut keyed: IndexMap<Vec<String>, Vec<usize>> = IndexMap::new();
        for point in side.points() {
            let key = telling
                .iter()
                .map(|factor| level_of(side, *point, factor))
                .collect();
            keyed.entry(key).or_default().push(*point);
        }
        keyed
    };
    let label = |side: &Side, point: usize| -> String {
        let parts: Vec<String> = varying
            .iter()
            .map(|factor| (factor, level_of(side, point, factor)))
            .filter(|(_, level)| level != "-")
            .map(|(factor, level)| quantity::level(factor, &level))
            .collect();
        if parts.is_empty() {
            side.point(point).level(FactorId::App).to_owned()
        } else {
            parts.join(", ")
        }
    };
    let (of_first, of_second) = (keyed(first), keyed(second));
    let mut found = Matching {
        pairs: Vec::new(),
        constants,
        unmatched: Vec::new(),
    };
    let mut leave = |side: &Side, points: &[usize], why: &str| {
        found.unmatched.extend(points.iter().map(|point| Unmatched {
            side: side.name().to_owned(),
            point: label(side, *point),
            why: why.to_owned(),
        }));
    };
    for (key, points) in &of_first {
        match (points.as_slice(), of_second.get(key).map(Vec::as_slice)) {
            ([a], Some([b])) => found.pairs.push(EqualPoints {
                first: *a,
                second: *b,
                label: label(first, *a),
            }),
            (_, Some(others)) => {
                let why = "several points of a side are equal but for their site: name one site of each side";
                leave(first, points, why);
                leave(second, others, why);
            }
            (_, None) => leave(
                first,
                points,
                &format!("{} has no such point", second.name()),
            ),
        }
    }
    for (key, points) in &of_second {
        if !of_first.contains_key(key) {
            leave(
                second,
                points,
                &format!("{} has no such point", first.name()),
            );
        }
    }
    found
}

/// The level of a factor; a dash if the point says nothing of it.
fn level_of(side: &Side, point: usize, factor: &str) -> String {
    match side.point(point).factor(factor) {
        "" => "-".to_owned(),
        level => level.to_owned(),
    }
}
