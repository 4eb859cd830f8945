//! Pairs the equal points of two sides.

use super::side::Side;
use crate::results::quantity;
use cvc_core::point::FactorId;
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

/// The factor in which equal points may differ.
const SITE: &str = "site";

/// A point without an equal point on the other side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// Name of the point's side.
    pub side: String,
    /// The point: levels of the factors that vary.
    pub point: String,
    /// Reason why the point is not compared.
    pub why: String,
}

/// Two equal points.
pub(crate) struct EqualPoints {
    pub first: usize,
    pub second: usize,
    /// The point: levels of the factors that vary.
    pub label: String,
}

/// A factor that has one level on the first side and a different one on the second side. It counts as a difference in the environment, not between
/// points.
pub(crate) struct ConstantDifference {
    pub factor: String,
    pub levels: [String; 2],
}

/// The points of two sides, in pairs of equal ones.
pub(crate) struct Matching {
    pub pairs: Vec<EqualPoints>,
    pub constants: Vec<ConstantDifference>,
    pub unmatched: Vec<Unmatched>,
}

/// Pairs the points of two sides that are equal in all factors except the site. A factor that has one level on each side, but different ones, is a
/// difference in the environment and does not prevent a pair.
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
    let (mut constants, mut distinctive, mut varying) = (Vec::new(), Vec::new(), Vec::new());
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
        distinctive.push(factor);
    }
    // omit the number of processes, which follows from the mapping
    if varying.contains(&"mapping") {
        varying.retain(|factor| *factor != "processes");
    }
    let keyed = |side: &Side| -> IndexMap<Vec<String>, Vec<usize>> {
        let mut keyed: IndexMap<Vec<String>, Vec<usize>> = IndexMap::new();
        for point in side.points() {
            let key = distinctive
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
                let why = "several points of a side differ only in their site: name one site for each side";
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

/// Returns the level of a factor; a dash if the factor does not apply to the point.
fn level_of(side: &Side, point: usize, factor: &str) -> String {
    match side.point(point).factor(factor) {
        "" => "-".to_owned(),
        level => level.to_owned(),
    }
}
