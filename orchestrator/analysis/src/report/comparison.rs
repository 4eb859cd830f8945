//! Effects of a factor: points that differ only in the factor's level, compared repeat by repeat.

use super::{effects, price_of_checkpoints};
use crate::report::consistency;
use crate::results::{
    counterpart::{CounterpartPair, compared_levels, label, pairs, repeats},
    data::{Data, ReportedQuantity},
    quantity,
};
use cvc_core::record::names;
use cvc_model::stats::{Comparison, adjust, compare, compare_paired, compare_stopped};
use cvc_show::{Block, Cell, Column, Section, Table};

/// Maximum number of rows in the table; `index.sqlite` contains the numbers for all pairs.
const MAX_ROWS: usize = 400;

pub(super) fn section(data: &Data) -> Section {
    // Omit coordination and storage, which are parts of the checkpoint time, and numbers of files, which have another table.
    let parts = [
        names::CKPT_COORDINATION_S,
        names::CKPT_STORAGE_S,
        names::CKPT_FILES,
    ];
    let quantities: Vec<(&str, &ReportedQuantity)> =
        data.main().filter(|(q, _)| !parts.contains(q)).collect();
    let mut columns = vec![
        Column::plain("compared", "compared"),
        Column::plain("baseline", "with"),
        Column::plain("at", "at"),
    ];
    columns.extend(data.mixed().then(consistency::column));
    columns.extend(quantities.iter().map(|(q, of)| {
        Column::plain(&format!("{q}_ratio"), &quantity::heading(q))
            .better(quantity::direction(of.better))
    }));
    let caption = "Ratio first / second, all other factors equal: of the means of repeats with the same number, which ran close together in an \
                   interleaved campaign (between sites: of the means of all repeats), with Fieller's interval. A star: significantly different, because the interval \
                   excludes 1 (Student's t of the pairs; between sites Welch's). Intervals are adjusted for the number of ratios: of all stars of \
                   the table 5 % are false on average (Benjamini-Hochberg), and of their intervals 95 % hold (Benjamini-Yekutieli), if repeats \
                   are independent; between sites, the stars include differences from day to day.";
    let mut table = Table::new("comparison", "Ratios", caption, columns);
    let mut pairs_of_points = 0;
    for factor in data.varying() {
        for (level, baseline) in compared_levels(data, factor) {
            for pair in pairs(data, factor, level, baseline) {
                if table.rows.len() >= MAX_ROWS {
                    let is_compared = |(q, _): &(&str, _)| ratio(data, &pair, factor, q).is_some();
                    pairs_of_points += usize::from(quantities.iter().any(is_compared));
                    continue;
                }
                let compared: Vec<Option<Comparison>> = quantities
                    .iter()
                    .map(|(q, _)| ratio(data, &pair, factor, q))
                    .collect();
                if compared.iter().all(Option::is_none) {
                    continue;
                }
                pairs_of_points += 1;
                let mut row = [level, baseline]
                    .map(|l| Cell::text(quantity::level(factor, l)))
                    .to_vec();
                row.push(Cell::text(label(&pair)));
                let mixed = || {
                    consistency::cell(
                        &[pair.point, pair.counterpart].map(|p| &data.points[p].mixed),
                    )
                };
                row.extend(data.mixed().then(mixed));
                row.extend(compared.into_iter().map(|c| {
                    c.map_or(Cell::Empty, |comparison| Cell::Compared {
                        comparison: Box::new(comparison),
                    })
                }));
                table.rows.push(row);
            }
        }
    }
    adjust(
        table
            .rows
            .iter_mut()
            .flatten()
            .filter_map(|cell| match cell {
                Cell::Compared { comparison } => Some(comparison.as_mut()),
                _ => None,
            }),
        0.0,
    );
    if pairs_of_points > MAX_ROWS {
        table
            .caption
            .push_str(&format!(" The first {MAX_ROWS} of {pairs_of_points} pairs of points are listed; index.sqlite has all numbers."));
    }
    let mut tables = vec![price_of_checkpoints::overhead(data)];
    tables.extend(price_of_checkpoints::compression(data));
    tables.extend([effects::table(data), table]);
    let blocks = tables
        .into_iter()
        .filter(|t| !t.rows.is_empty())
        .map(Block::Table)
        .collect();
    Section {
        id: "comparison",
        title: "Effects of the factors".to_owned(),
        blocks,
    }
}

/// Compares the two points of a pair. Repeats are not paired if the factor is the site, because runs on different sites were not close in time.
fn ratio(data: &Data, pair: &CounterpartPair, factor: &str, quantity: &str) -> Option<Comparison> {
    if factor == "site" {
        let [a, b] =
            [pair.point, pair.counterpart].map(|point| data.points[point].independent(quantity));
        return match data.least_repeats_of_stopped([pair.point, pair.counterpart]) {
            Some(least) => compare_stopped(&a, &b, least),
            None => compare(&a, &b),
        };
    }
    let pairs: Vec<(f64, f64)> = repeats(data, pair, quantity)
        .into_iter()
        .map(|(_, a, b)| (a, b))
        .collect();
    compare_paired(&pairs)
}
