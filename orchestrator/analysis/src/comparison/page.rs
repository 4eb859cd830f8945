//! A comparison as a report.

use super::{
    row::{ComparedRow, SideValue},
    side_comparison::SideComparison,
};
use crate::{
    report::{self, Block, Cell, Column, Report, ReportKind, Section, Table},
    results::{Records, quantity},
};
use indexmap::IndexMap;

/// The comparison as a report, for all its formats.
pub fn comparison_report(comparison: &SideComparison) -> Report {
    let sections = [
        section(
            "found",
            "What was found",
            comparison
                .answers
                .iter()
                .map(|text| Block::Text { text: text.clone() })
                .collect(),
        ),
        section(
            "environment",
            "What differs around the programs",
            tables([environment(comparison)]),
        ),
        section(
            "quantities",
            "Quantities over all points",
            tables([quantities(comparison)]),
        ),
        section("points", "Point by point", tables(points(comparison))),
        section(
            "unmatched",
            "Points that are not compared",
            tables([unmatched(comparison)]),
        ),
    ];
    let title = format!("{} against {}", comparison.second, comparison.first);
    Report {
        schema: report::SCHEMA,
        kind: ReportKind::Comparison,
        campaign: title.clone(),
        title,
        span: None,
        sections: sections
            .into_iter()
            .filter(|s| !s.blocks.is_empty())
            .collect(),
        records: Records::default(),
    }
}

fn section(id: &'static str, title: &str, blocks: Vec<Block>) -> Section {
    Section {
        id,
        title: title.to_owned(),
        blocks,
    }
}

fn tables(tables: impl IntoIterator<Item = Table>) -> Vec<Block> {
    tables
        .into_iter()
        .filter(|table| !table.rows.is_empty())
        .map(Block::Table)
        .collect()
}

fn environment(comparison: &SideComparison) -> Table {
    let mut table = Table::new(
        "environment",
        "Environment",
        "Facts that the counted runs recorded, and factors with one level on each side. What is not here is the same on both.",
        vec![
            Column::plain("what", "what"),
            Column::plain("first", &comparison.first),
            Column::plain("second", &comparison.second),
        ],
    );
    table.rows = comparison
        .environment
        .iter()
        .map(|d| {
            vec![
                Cell::text(&d.what),
                Cell::text(d.first.join("; ")),
                Cell::text(d.second.join("; ")),
            ]
        })
        .collect();
    table
}

fn quantities(comparison: &SideComparison) -> Table {
    let caption = format!(
        "Change of {} against {}, over all pairs of equal points: geometric mean, least and greatest. Same: the 95 % interval lies within {} %.",
        comparison.second,
        comparison.first,
        comparison.margin * 100.0
    );
    let mut table = Table::new(
        "quantities",
        "Quantities",
        &caption,
        vec![
            Column::plain("quantity", "quantity"),
            Column::plain("verdict", "verdict"),
            Column::of("change", "mean change", "%"),
            Column::of("change_min", "least", "%"),
            Column::of("change_max", "greatest", "%"),
            Column::plain("pairs", "points"),
        ],
    );
    table.rows = comparison
        .quantities
        .iter()
        .map(|q| {
            let (least, most) = q.change_pct.unzip();
            vec![
                Cell::text(&q.heading),
                Cell::text(q.words()),
                Cell::number(q.mean_change_pct),
                Cell::number(least),
                Cell::number(most),
                Cell::count(q.pairs),
            ]
        })
        .collect();
    table
}

/// One table for each quantity, because each has its own unit.
fn points(comparison: &SideComparison) -> Vec<Table> {
    let mut of_quantity: IndexMap<&str, Vec<&ComparedRow>> = IndexMap::new();
    for row in &comparison.rows {
        of_quantity.entry(&row.quantity).or_default().push(row);
    }
    of_quantity
        .into_iter()
        .map(|(name, rows)| of_points(comparison, name, &rows))
        .collect()
}

fn of_points(comparison: &SideComparison, name: &str, rows: &[&ComparedRow]) -> Table {
    let unit = &rows[0].unit;
    let side = |id: &str, heading: &str| {
        [
            Column::of(&format!("{id}_mean"), heading, unit),
            Column::of(&format!("{id}_sd"), "standard deviation", unit),
            Column::plain(&format!("{id}_n"), "n"),
        ]
    };
    let mut columns = vec![Column::plain("at", "at")];
    columns.extend(side("first", &comparison.first));
    columns.extend(side("second", &comparison.second));
    columns.extend([
        Column::of("change", "change", "%"),
        Column::of("change_low", "95 % from", "%"),
        Column::of("change_high", "to", "%"),
        Column::plain("verdict", "verdict"),
    ]);
    let mut table = Table::new(
        &format!("points_{name}"),
        &quantity::heading(name),
        "Mean, standard deviation and number of independent values on each side; the change of the second against the first, with Fieller's \
         95 % interval.",
        columns,
    );
    table.rows = rows
        .iter()
        .map(|row| {
            let of = |value: &SideValue| {
                [
                    Cell::number(value.mean),
                    Cell::number(value.sd),
                    Cell::count(value.n),
                ]
            };
            let mut cells = vec![Cell::text(&row.at)];
            cells.extend(of(&row.first));
            cells.extend(of(&row.second));
            cells.extend([
                Cell::number(row.change_pct),
                Cell::number(row.interval_pct.map(|i| i.low)),
                Cell::number(row.interval_pct.map(|i| i.high)),
                Cell::text(&row.words),
            ]);
            cells
        })
        .collect();
    table
}

fn unmatched(comparison: &SideComparison) -> Table {
    let mut table = Table::new(
        "unmatched",
        "Points without an equal one",
        "Points are equal if all factors but the site are.",
        vec![
            Column::plain("side", "side"),
            Column::plain("point", "point"),
            Column::plain("why", "why"),
        ],
    );
    table.rows = comparison
        .unmatched
        .iter()
        .map(|u| {
            vec![
                Cell::text(&u.side),
                Cell::text(&u.point),
                Cell::text(&u.why),
            ]
        })
        .collect();
    table
}
