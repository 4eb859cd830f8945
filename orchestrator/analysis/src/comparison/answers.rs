//! Answers for a reader who compares a cluster with a cloud: which side is slower, which scatters more, which has larger images and in which zones;
//! the overhead of checkpoints; and the best mapping.

use super::{
    over_points::QuantityOverPoints,
    row::{ComparedRow, SideValue},
    side::Side,
    side_comparison::{SideComparison, SideScaling},
};
use crate::results::{quantity, rows::PointRow};
use cvc_core::point::FactorId;
use cvc_core::{
    record::names,
    units::{MIB, counted},
};
use cvc_model::stats::{adjust, compare, mean, quantile};
use cvc_show::format::Style;
use indexmap::IndexMap;

/// Maximum number of points listed as indistinguishable from the best.
const MAX_TIES: usize = 4;

/// Maximum number of scaling curves of a side described in sentences.
const MAX_CURVES: usize = 2;

/// Returns the answers for which there are measurements.
pub(super) fn answers(first: &Side, second: &Side, comparison: &SideComparison) -> Vec<String> {
    if comparison.pairs == 0 {
        return vec![format!(
            "No point of {} equals a point of {}, so there is no comparison.",
            first.name(),
            second.name()
        )];
    }
    let mut answers = Vec::new();
    answers.extend(time(comparison));
    answers.extend(scatter(comparison));
    answers.extend(overhead(comparison));
    answers.extend(images(comparison));
    answers.extend(structure(comparison));
    answers.extend(scaling(comparison));
    for side in [first, second] {
        answers.extend(best(side));
    }
    answers
}

fn over<'c>(comparison: &'c SideComparison, name: &str) -> Option<&'c QuantityOverPoints> {
    comparison.quantities.iter().find(|q| q.quantity == name)
}

fn rows<'c>(
    comparison: &'c SideComparison,
    name: &'c str,
) -> impl Iterator<Item = &'c ComparedRow> {
    comparison
        .rows
        .iter()
        .filter(move |row| row.quantity == name)
}

/// Describes the number of processes beyond which adding more does not pay, for each side that has scaling curves with checkpoints.
fn scaling(comparison: &SideComparison) -> Vec<String> {
    let of_side = |side: &SideScaling| {
        let curves = side.curves.iter().filter(|c| c.checkpoints != "none");
        let sentences = curves
            .take(MAX_CURVES)
            .map(|curve| format!("{}: {}", side.side, curve.sentence()));
        sentences.collect::<Vec<_>>()
    };
    comparison.scaling.iter().flat_map(of_side).collect()
}

/// Describes the ratio of the second side's wall times to the first side's.
fn time(comparison: &SideComparison) -> Option<String> {
    let wall = over(comparison, names::WALL_S)?;
    let (least, most) = wall.change_pct?;
    let factor = |pct: f64| format!("{:.2}", 1.0 + pct / 100.0);
    let range = if wall.pairs > 1 {
        format!(", {} to {} at single points", factor(least), factor(most))
    } else {
        String::new()
    };
    Some(format!(
        "Wall time: {} takes {} times as long as {} ({}{range}): {}.",
        comparison.second,
        factor(wall.mean_change_pct?),
        comparison.first,
        if wall.pairs > 1 {
            format!("geometric mean of {} points", wall.pairs)
        } else {
            "one point".to_owned()
        },
        wall.describe()
    ))
}

/// Describes how much more the second side scatters.
fn scatter(comparison: &SideComparison) -> Option<String> {
    let mut of: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for row in rows(comparison, names::WALL_S) {
        if let (Some(a), Some(b)) = (row.first.variation(), row.second.variation()) {
            of[0].push(a * 100.0);
            of[1].push(b * 100.0);
        }
    }
    let points = of[0].len();
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        quantile(values, 0.5)
    };
    let [a, b] = &mut of;
    let (a, b) = (median(a)?, median(b)?);
    let median = if points > 1 {
        format!(" (median of {points} points)")
    } else {
        String::new()
    };
    Some(format!(
        "Scatter of wall time: the coefficient of variation is {a:.2} % in {} and {b:.2} % in {}{median}.",
        comparison.first, comparison.second
    ))
}

/// Describes the overhead of checkpoints on each side.
fn overhead(comparison: &SideComparison) -> Option<String> {
    let of = |value: fn(&ComparedRow) -> &SideValue| {
        let added: Vec<f64> = rows(comparison, names::WALL_WITH_OVER_WITHOUT)
            .map(|row| (value(row).mean - 1.0) * 100.0)
            .collect();
        mean(&added)
    };
    let over = over(comparison, names::WALL_WITH_OVER_WITHOUT)?;
    Some(format!(
        "Checkpoints add {:.1} % to the wall time in {} and {:.1} % in {} (mean of {}): {}.",
        of(|row| &row.first)?,
        comparison.first,
        of(|row| &row.second)?,
        comparison.second,
        counted(over.pairs, "point"),
        over.describe()
    ))
}

/// Describes whether images are larger on the second side, and in which zones.
fn images(comparison: &SideComparison) -> Option<String> {
    let (name, what) = [
        ("image_bytes_per_rank", "Image of a rank"),
        ("ckpt_bytes_rank", "Images of all ranks"),
        (names::CKPT_STORED_BYTES, "Stored size of a checkpoint"),
    ]
    .into_iter()
    .find(|(name, _)| over(comparison, name).is_some())?;
    let size = over(comparison, name)?;
    let by = |name: &str| {
        let differences: Vec<f64> = rows(comparison, name)
            .map(|row| (row.second.mean - row.first.mean) / MIB)
            .collect();
        mean(&differences)
    };
    let zones: Vec<String> = comparison
        .quantities
        .iter()
        .filter(|q| q.quantity.starts_with("zone_bytes_") && q.pairs == size.pairs)
        .filter_map(|q| {
            let difference = by(&q.quantity)?;
            (difference.abs() >= 0.005).then(|| format!("{} {difference:+.2}", q.heading))
        })
        .collect();
    let difference = by(name)?;
    let share = size
        .mean_change_pct
        .map_or_else(String::new, |pct| format!(" ({pct:+.2} %)"));
    let of = if zones.is_empty() {
        String::new()
    } else {
        format!("; by zone, MiB: {}", zones.join(", "))
    };
    let others: String = ["ckpt_bytes_launcher", "ckpt_bytes_aux"]
        .into_iter()
        .filter_map(|name| {
            let pct = over(comparison, name)?.mean_change_pct?;
            Some(format!(
                "; {} {:+.2} MiB ({pct:+.2} %)",
                quantity::heading(name),
                by(name)?
            ))
        })
        .collect();
    Some(format!(
        "{what}: {difference:+.2} MiB{share} in {} against {}, {}{of}{others}.",
        comparison.second,
        comparison.first,
        size.describe()
    ))
}

/// Describes whether images have the same zones and parts on both sides.
fn structure(comparison: &SideComparison) -> Option<String> {
    let unequal: Vec<&ComparedRow> = rows(comparison, names::ZONE_STRUCTURE)
        .filter(|row| row.outcome.differs())
        .collect();
    let first = unequal.first()?;
    Some(format!(
        "Images differ in their zones or parts at {}: {}.",
        if unequal.len() == 1 {
            first.at.clone()
        } else {
            format!("{} points", unequal.len())
        },
        first.words
    ))
}

/// Lists the fastest points of a side, for each application without and with checkpoints.
fn best(side: &Side) -> Vec<String> {
    let data = side.data();
    let varying: Vec<&str> = data
        .varying()
        .into_iter()
        .filter(|factor| !["site", "app", "class", "checkpointer"].contains(factor))
        .collect();
    let mut groups: IndexMap<(String, bool), Vec<usize>> = IndexMap::new();
    for point in side.points() {
        let row = side.point(*point);
        if row.independent(names::WALL_S).is_empty() {
            continue;
        }
        groups
            .entry((row.program(), row.level(FactorId::Checkpointer) != "none"))
            .or_default()
            .push(*point);
    }
    groups
        .into_iter()
        .filter(|(_, points)| points.len() > 1)
        .filter_map(|((app, with), points)| {
            let (fastest, ties) = fastest(side, &points)?;
            let label = |point: usize| data.label(point, &varying);
            let wall = mean(&side.point(fastest).independent(names::WALL_S))?;
            let ties = match ties.len() {
                0 => String::new(),
                n if n <= MAX_TIES => format!(
                    "; indistinguishable: {}",
                    ties.into_iter().map(label).collect::<Vec<_>>().join("; ")
                ),
                n => format!("; {n} others are indistinguishable"),
            };
            Some(format!(
                "Fastest of {} points of {app} in {}, {} checkpoints: {} ({} s){ties}.",
                points.len(),
                side.name(),
                if with { "with" } else { "without" },
                label(fastest),
                Style::for_values(vec![wall], None).number(wall),
            ))
        })
        .collect()
}

/// Returns the point with the smallest mean wall time, and the points indistinguishable from it.
fn fastest(side: &Side, points: &[usize]) -> Option<(usize, Vec<usize>)> {
    let values = |point: usize| PointRow::independent(side.point(point), names::WALL_S);
    let fastest = points.iter().copied().min_by(|a, b| {
        let of = |point: usize| mean(&values(point)).unwrap_or(f64::INFINITY);
        of(*a).total_cmp(&of(*b))
    })?;
    let mut others: Vec<_> = points
        .iter()
        .copied()
        .filter(|point| *point != fastest)
        .filter_map(|point| Some((point, compare(&values(point), &values(fastest))?)))
        .collect();
    adjust(others.iter_mut().map(|(_, comparison)| comparison), 0.0);
    let ties = others
        .into_iter()
        .filter(|(_, comparison)| !comparison.differs())
        .map(|(point, _)| point)
        .collect();
    Some((fastest, ties))
}
