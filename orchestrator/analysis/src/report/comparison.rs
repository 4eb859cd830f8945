//! What a factor changes: points that differ only in its level, compared repeat by repeat.

use super::{
    data::{Data, ReportedQuantity},
    model::{Block, Cell, Column, Section, Table},
    quantity,
    rows::PointRow,
};
use crate::report::consistency;
use cvc_core::record::names;
use cvc_model::stats::{Comparison, compare_paired};
use std::collections::HashMap;

/// Factors that are not compared, because their levels mean different work.
const OTHER_WORK: [&str; 4] = ["app", "class", "mapping", "processes"];

/// Maximum number of rows in the table; `index.sqlite` has the numbers for more.
const MAX_ROWS: usize = 400;

pub(super) fn section(data: &Data) -> Section {
    // Coordination and storage are parts of the checkpoint time, and files are counted elsewhere.
    let parts = [names::CKPT_COORDINATION_S, names::CKPT_STORAGE_S, names::CKPT_FILES];
    let quantities: Vec<(&str, &ReportedQuantity)> = data.main().filter(|(q, _)| !parts.contains(q)).collect();
    let varying = data.varying();
    let mut columns = vec![Column::plain("compared", "compared"), Column::plain("baseline", "with"), Column::plain("at", "at")];
    columns.extend(data.mixed().then(consistency::column));
    columns.extend(
        quantities.iter().map(|(q, of)| Column::plain(&format!("{q}_ratio"), &quantity::heading(q)).better(quantity::direction(of.better))),
    );
    let caption = "The first level divided by the second in otherwise equal points: ratio of the means of repeats with the same number, which ran close together in an interleaved campaign, with its bootstrap 95 % interval. A star means that the interval excludes 1; it needs at least six pairs, because fewer lie on one side by chance too often.";
    let mut table = Table::new("comparison", "Ratios", caption, columns);
    let mut pairs_of_points = 0;
    for factor in varying.iter().filter(|f| !OTHER_WORK.contains(f)) {
        let rest: Vec<&str> = varying.iter().copied().filter(|f| f != factor).collect();
        let baseline = data.levels(factor)[0];
        let place = |p: usize| -> Vec<&str> { rest.iter().map(|f| data.points[p].factor(f)).collect() };
        let mut baselines: HashMap<Vec<&str>, usize> = HashMap::new();
        for (i, _) in data.points.iter().enumerate().filter(|(_, p)| p.factor(factor) == baseline) {
            // Points that differ only in a factor that follows from another: the first one stands for all.
            baselines.entry(place(i)).or_insert(i);
        }
        for (i, p) in data.points.iter().enumerate().filter(|(_, p)| p.factor(factor) != baseline) {
            let Some(&other) = baselines.get(&place(i)) else { continue };
            let compared: Vec<Option<Comparison>> = quantities.iter().map(|(q, _)| pairs(p, &data.points[other], q)).collect();
            if compared.iter().all(Option::is_none) {
                continue;
            }
            pairs_of_points += 1;
            if table.rows.len() < MAX_ROWS {
                let mut row = vec![Cell::text(quantity::level(factor, p.factor(factor))), Cell::text(quantity::level(factor, baseline))];
                row.push(Cell::text(if rest.is_empty() { String::new() } else { data.label(i, &rest) }));
                row.extend(data.mixed().then(|| consistency::cell(&[&p.mixed, &data.points[other].mixed])));
                row.extend(compared.into_iter().map(|c| c.map_or(Cell::Empty, |comparison| Cell::Compared { comparison })));
                table.rows.push(row);
            }
        }
    }
    if pairs_of_points > MAX_ROWS {
        table
            .caption
            .push_str(&format!(" The first {MAX_ROWS} of {pairs_of_points} pairs of points are listed; index.sqlite has all numbers."));
    }
    let blocks = if table.rows.is_empty() { Vec::new() } else { vec![Block::Table(table)] };
    Section { id: "comparison", title: "What the factors change".to_owned(), blocks }
}

/// Compares the repeats that both points have.
fn pairs(a: &PointRow, b: &PointRow, q: &str) -> Option<Comparison> {
    let of_b: HashMap<u32, f64> = b.repeats.get(q)?.iter().copied().zip(b.values.get(q)?.iter().copied()).collect();
    let repeats = a.repeats.get(q)?.iter().zip(a.values.get(q)?);
    let pairs: Vec<(f64, f64)> = repeats.filter_map(|(repeat, value)| Some((*value, *of_b.get(repeat)?))).collect();
    compare_paired(&pairs)
}
