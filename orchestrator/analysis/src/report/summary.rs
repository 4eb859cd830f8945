//! A row for each point with every quantity and its interval, and the same numbers in full precision.

use super::restart_counts;
use crate::report::consistency;
use crate::results::{
    data::{Data, ReportedQuantity},
    quantity::{self, Tier},
    rows::PointRow,
};
use cvc_core::point::FactorId;
use cvc_index::RunOutcome;
use cvc_show::{Block, Cell, Column, Section, Table};

pub(super) fn section(data: &Data) -> Section {
    let mut blocks = Vec::new();
    let constant = data.constant();
    if !constant.is_empty() {
        blocks.push(Block::Pairs { pairs: constant });
    }
    blocks.push(Block::Table(points(
        data,
        Tier::Main,
        "points",
        "Every point",
        "Means of n measured runs that succeeded, each with the 95 % interval of the mean; n, median, standard \
         deviation and range are in the HTML, CSV and JSON files. A flag marks outliers; they are never dropped.",
    )));
    let merits = points(
        data,
        Tier::Merit,
        "merits",
        "Figures of merit",
        "Figures that the applications print and whose descriptors define a better direction. Means as above.",
    );
    if !merits.rows.is_empty() {
        blocks.push(Block::Table(merits));
    }
    blocks.push(Block::Table(statistics(data)));
    Section {
        id: "results",
        title: "Results".to_owned(),
        blocks,
    }
}

/// Returns the columns of the factors. Factors that do not distinguish points are in data files only.
pub(super) fn factor_columns(data: &Data) -> Vec<Column> {
    let varying = data.varying();
    let column = |f: &String| {
        let plain = Column::plain(&quantity::factor_column(f), &quantity::factor_heading(f));
        // threads are part of the mapping, but a separate column can be sorted
        if varying.contains(&f.as_str()) || f == FactorId::Threads.name() {
            plain
        } else {
            plain.data_only()
        }
    };
    data.factors.iter().map(column).collect()
}

/// Returns the cells of [`factor_columns`].
pub(super) fn factor_cells(data: &Data, point: usize) -> Vec<Cell> {
    data.factors
        .iter()
        .map(|f| level(data.points[point].factor(f)))
        .collect()
}

/// Returns the columns that identify a point: its factors, and a marker column if any point has runs made under different conditions.
pub(super) fn point_columns(data: &Data) -> Vec<Column> {
    factor_columns(data)
        .into_iter()
        .chain(data.mixed().then(consistency::column))
        .collect()
}

/// Returns the cells of [`point_columns`].
pub(super) fn point_cells(data: &Data, point: usize) -> Vec<Cell> {
    let mark = data
        .mixed()
        .then(|| consistency::cell(&[&data.points[point].mixed]));
    factor_cells(data, point).into_iter().chain(mark).collect()
}

/// Returns the cell of a level: a number if the level is a number, otherwise text.
pub(super) fn level(text: &str) -> Cell {
    match text.parse::<f64>() {
        Ok(number) if number.to_string() == text => Cell::number(number),
        Ok(_) | Err(_) => Cell::text(text),
    }
}

/// Makes a table with a row for each point and the quantities of a tier. Points without any of these quantities are omitted, except in the main tier.
fn points(data: &Data, tier: Tier, id: &str, title: &str, caption: &str) -> Table {
    let shown: Vec<(&str, &ReportedQuantity)> =
        data.main().filter(|(_, of)| of.tier == tier).collect();
    let mut columns = point_columns(data);
    let failed = Column::plain("failed", "failed");
    columns.extend([
        Column::plain("n", "n"),
        if data.count(RunOutcome::Failed) > 0 {
            failed
        } else {
            failed.data_only()
        },
    ]);
    let restarted = tier == Tier::Main && restart_counts::of_all(data).tried > 0;
    columns.extend(
        restarted.then(|| Column::plain("restarted_and_verified", "restarted and verified")),
    );
    columns.extend(shown.iter().map(|(q, of)| {
        Column::of(q, &quantity::heading(q), &of.unit).better(quantity::direction(of.better))
    }));
    let mut table = Table::new(id, title, caption, columns);
    let has = |p: &PointRow| {
        tier == Tier::Main || shown.iter().any(|(q, _)| p.summaries.contains_key(*q))
    };
    for (i, p) in data.points.iter().enumerate().filter(|(_, p)| has(p)) {
        let count = |state: RunOutcome| {
            p.runs
                .iter()
                .filter(|r| !data.runs[**r].warmup && data.runs[**r].state == state)
                .count()
        };
        let mut row = point_cells(data, i);
        row.extend([
            Cell::count(p.counted(&data.runs)),
            Cell::count(count(RunOutcome::Failed)),
        ]);
        row.extend(restarted.then(|| Cell::text(restart_counts::of_point(data, p).shown())));
        row.extend(
            shown
                .iter()
                .map(|(q, _)| Cell::measured(p.summaries.get(*q))),
        );
        table.rows.push(row);
    }
    table
}

fn statistics(data: &Data) -> Table {
    let mut columns = point_columns(data);
    columns.extend(["quantity", "unit", "n"].map(|c| Column::plain(c, c)));
    columns.extend(["mean", "median", "sd"].map(|c| Column::plain(c, c)));
    let intervals = [
        ("ci_low", "mean, 95 % from"),
        ("ci_high", "to"),
        ("ci_of", "by"),
        ("median_ci_low", "median, 95 % from"),
        ("median_ci_high", "to"),
    ];
    columns.extend(intervals.map(|(c, h)| Column::plain(c, h)));
    let scatter = [
        ("cv", "variation"),
        ("cv_low", "95 % from"),
        ("cv_high", "to"),
        ("min", "min"),
        ("max", "max"),
    ];
    columns.extend(scatter.map(|(c, h)| Column::plain(c, h)));
    columns.extend([
        Column::plain("mild_outliers", "mild outliers"),
        Column::plain("severe_outliers", "severe outliers"),
    ]);
    let caption = "These and all other recorded quantities in their stored units: mean, median, standard deviation (n - 1), \
                   95 % interval of the mean (from ten repeats on corrected for skewness; with fewer, Student's t of the values, or of their \
                   logarithms where they differ by more than a factor of two; with fewer than five, from the scatter that all points of the site have in \
                   common, where four or more scatter alike) and of the median (order statistics, from six repeats on). Intervals wider than ten \
                   times the mean are omitted. Then coefficient of variation with its interval, range, and \
                   outliers by Tukey's fences.";
    let mut table = Table::new("statistics", "All quantities", caption, columns);
    table.folded = true;
    for (i, p) in data.points.iter().enumerate() {
        for (q, of) in &data.quantities {
            let Some(s) = p.summaries.get(q) else {
                continue;
            };
            let mut row = point_cells(data, i);
            row.extend([Cell::text(q), Cell::text(&of.unit), Cell::count(s.n)]);
            row.extend([
                Cell::number(s.mean),
                Cell::number(s.median),
                Cell::number(s.sd),
            ]);
            row.extend([
                Cell::number(s.interval.map(|i| i.low)),
                Cell::number(s.interval.map(|i| i.high)),
            ]);
            row.push(match s.interval_of {
                Some(scale) => Cell::text(scale.name()),
                None => Cell::text(s.why_no_interval().unwrap_or_default()),
            });
            row.extend([
                Cell::number(s.median_interval.map(|i| i.low)),
                Cell::number(s.median_interval.map(|i| i.high)),
            ]);
            row.extend(
                [
                    s.variation.map(|v| v.cv),
                    s.variation.map(|v| v.low),
                    s.variation.and_then(|v| v.high),
                ]
                .map(Cell::number),
            );
            row.extend([
                Cell::number(s.min),
                Cell::number(s.max),
                Cell::count(s.mild),
                Cell::count(s.severe),
            ]);
            table.rows.push(row);
        }
    }
    table
}
