//! A comparison as a report.

use super::{
    row::{ComparedRow, SideValue},
    side_comparison::{SideComparison, SideScaling},
};
use crate::report::scaling::turnings;
use crate::results::{quantity, scaling::ScalingCurve};
use cvc_core::{record::names, units::counted};
use cvc_index::error::AnalysisError;
use cvc_show::{
    Block, Cell, Column, Document, DocumentKind, Plot, SCHEMA, Section, Table,
    dumbbells::{self, Pair},
    format::Style,
    plot::Whisker,
    slug,
};
use indexmap::IndexMap;

/// Maximum number of pairs of points in a plot.
const MAX_PAIRS: usize = 40;

/// Builds the report of a comparison.
///
/// # Errors
/// A plot cannot be drawn.
pub fn comparison_report(comparison: &SideComparison) -> Result<Document, AnalysisError> {
    let sections = [
        section(
            "found",
            "Key findings",
            comparison
                .answers
                .iter()
                .map(|text| Block::Text { text: text.clone() })
                .collect(),
        ),
        section(
            "environment",
            "Differences in the environment",
            tables([environment(comparison)]),
        ),
        section(
            "quantities",
            "Quantities over all points",
            tables([quantities(comparison)]),
        ),
        section("drawings", "Side by side", drawings(comparison)?),
        section(
            "scaling",
            "Scaling with processes",
            tables([turnings(&curves(comparison))]),
        ),
        section("points", "Point by point", tables(points(comparison))),
        section(
            "unmatched",
            "Points not compared",
            tables([unmatched(comparison)]),
        ),
    ];
    let title = format!("{} against {}", comparison.second, comparison.first);
    Ok(Document {
        schema: SCHEMA,
        kind: DocumentKind::Comparison,
        campaign: title.clone(),
        title,
        span: None,
        sections: sections
            .into_iter()
            .filter(|s| !s.blocks.is_empty())
            .collect(),
        found: Vec::new(),
        data_tables: Vec::new(),
        long_rows: None,
    })
}

/// Returns the scaling curves of both sides, labelled with the side's name.
fn curves(comparison: &SideComparison) -> Vec<ScalingCurve> {
    let named = |side: &SideScaling| {
        let curves = side.curves.iter().map(|curve| ScalingCurve {
            at: [side.side.as_str(), &curve.at]
                .join(" ")
                .trim_end()
                .to_owned(),
            ..curve.clone()
        });
        curves.collect::<Vec<_>>()
    };
    comparison.scaling.iter().flat_map(named).collect()
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

/// Draws wall times and checkpoint sizes: of all files if known, otherwise of the ranks' images.
fn drawings(comparison: &SideComparison) -> Result<Vec<Block>, AnalysisError> {
    let rows_of = |name: &str| -> Vec<&ComparedRow> {
        let rows = comparison.rows.iter();
        rows.filter(|row| row.quantity == name).collect()
    };
    let stored = [names::CKPT_STORED_BYTES, "ckpt_bytes_rank"]
        .into_iter()
        .find(|name| !rows_of(name).is_empty());
    [names::WALL_S]
        .into_iter()
        .chain(stored)
        .map(|name| (name, rows_of(name)))
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(name, rows)| Ok(Block::Plot(drawing(comparison, name, &rows)?)))
        .collect()
}

/// Draws one quantity on both sides, a line for each pair of points.
fn drawing(
    comparison: &SideComparison,
    name: &str,
    rows: &[&ComparedRow],
) -> Result<Plot, AnalysisError> {
    let drawn = &rows[..rows.len().min(MAX_PAIRS)];
    let sides = |row: &ComparedRow| [row.first.clone(), row.second.clone()];
    let style = Style::for_values(
        drawn
            .iter()
            .flat_map(|r| sides(r))
            .map(|v| v.mean)
            .collect(),
        Some(&rows[0].unit),
    );
    let whisker = |value: SideValue| -> Whisker {
        let (low, high) = value
            .interval
            .map_or((value.mean, value.mean), |i| (i.low, i.high));
        let by = style.divisor();
        (value.mean / by, low / by, high / by)
    };
    let pairs: Vec<Pair> = drawn
        .iter()
        .map(|row| Pair {
            name: row.at.clone(),
            sides: sides(row).map(whisker),
        })
        .collect();
    let heading = quantity::heading(name);
    let title = match &style.unit {
        Some(unit) => format!("{heading}, {unit}"),
        None => heading.clone(),
    };
    let id = format!("sides-{}", slug(name));
    let names = [&comparison.first, &comparison.second].map(Clone::clone);
    let drawing = dumbbells::dumbbells(&id, &title, &names, &pairs)?;
    let is_logarithmic = dumbbells::is_logarithmic(&pairs);
    Ok(drawing.plot(
        id,
        format!("{}, side by side", capitalised(&heading)),
        caption(comparison, name, (rows, drawn), is_logarithmic),
    ))
}

/// Returns a plot's caption, which is complete enough for a paper.
fn caption(
    comparison: &SideComparison,
    name: &str,
    (rows, drawn): (&[&ComparedRow], &[&ComparedRow]),
    is_logarithmic: bool,
) -> String {
    let values = || drawn.iter().flat_map(|r| [&r.first, &r.second]);
    let (least, most) = values().fold((usize::MAX, 0), |(l, h), v| (l.min(v.n), h.max(v.n)));
    let n = if least == most {
        least.to_string()
    } else {
        format!("{least} to {most}")
    };
    let mut text = format!(
        "{} at {}: means of {} (circles) and of {} (triangles), n = {n}{}. A line joins the two sides of a point.",
        capitalised(&quantity::heading(name)),
        counted(drawn.len(), "equal point"),
        comparison.first,
        comparison.second,
        if values().any(|v| v.interval.is_some()) {
            ", with 95 % intervals of the mean"
        } else {
            ""
        },
    );
    if is_logarithmic {
        text.push_str(" The axis is logarithmic.");
    }
    if let Some(over) = comparison.quantities.iter().find(|q| q.quantity == name) {
        text.push_str(&format!(" {}: {}", comparison.second, over.describe()));
        if let Some(change) = over.mean_change_pct {
            text.push_str(&format!(", {change:+.1} % on average (geometric mean)"));
        }
        text.push('.');
    }
    if drawn.len() < rows.len() {
        text.push_str(&format!(
            " The first {} of {} points; the tables have all.",
            drawn.len(),
            rows.len()
        ));
    }
    text
}

/// Returns the text with an initial capital.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn environment(comparison: &SideComparison) -> Table {
    let mut table = Table::new(
        "environment",
        "Environment",
        "Facts that the counted runs recorded, and factors with one level on each side, where the sides differ.",
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
        "Change of {} against {}, over all pairs of equal points: geometric mean, minimum and maximum. Same: the adjusted 95 % interval lies within {} %.",
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
            Column::of("change_min", "minimum", "%"),
            Column::of("change_max", "maximum", "%"),
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
                Cell::text(q.describe()),
                Cell::number(q.mean_change_pct),
                Cell::number(least),
                Cell::number(most),
                Cell::count(q.pairs),
            ]
        })
        .collect();
    table
}

/// Makes a table for each quantity, because each has its own unit.
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
        Column::of("change_low", "adjusted 95 % from", "%"),
        Column::of("change_high", "to", "%"),
        Column::plain("verdict", "verdict"),
    ]);
    let mut table = Table::new(
        &format!("points_{name}"),
        &quantity::heading(name),
        "Mean, standard deviation and number of independent values on each side; the change from the first to the second, with Fieller's \
         95 % interval, adjusted for the number of comparisons. The verdict follows from this interval.",
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
        "Points are equal if they agree in all factors except the site.",
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
