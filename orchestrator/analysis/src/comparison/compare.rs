//! Compares two sides.

use super::{
    answers, environment, matching, over_points, quantities,
    row::ComparedRow,
    side::Side,
    side_comparison::{SCHEMA, SideComparison, SideScaling},
};
use crate::results::scaling::curves;
use cvc_model::stats::adjust;

/// Compares the second side with the first.
///
/// `margin` is the relative difference up to which values count as the same. The intervals are adjusted (see [`adjust`]) such that on average 5 % of
/// the verdicts "different" and "the same" are false.
pub fn compare_sides(first: &Side, second: &Side, margin: f64) -> SideComparison {
    let matching = matching::matching(first, second);
    let mut compared = quantities::compared(first, second, &matching.pairs);
    adjust(
        compared
            .iter_mut()
            .filter_map(|row| row.comparison.as_mut()),
        margin,
    );
    let rows: Vec<ComparedRow> = compared
        .into_iter()
        .map(|row| ComparedRow::judged(row, margin))
        .collect();
    let mut environment = environment::from_factors(&matching);
    environment.extend(environment::from_facts(first, second));
    let quantities = over_points::over_points(&rows);
    let mut comparison = SideComparison {
        schema: SCHEMA,
        first: first.name().to_owned(),
        second: second.name().to_owned(),
        margin,
        answers: Vec::new(),
        environment,
        pairs: matching.pairs.len(),
        unmatched: matching.unmatched,
        quantities,
        rows,
        scaling: [first, second].map(|side| SideScaling {
            side: side.name().to_owned(),
            curves: curves(side.data(), side.points()),
        }),
    };
    comparison.answers = answers::answers(first, second, &comparison);
    comparison
}
