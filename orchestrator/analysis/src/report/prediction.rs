//! Predictions compared with measurements at points that the models were not fitted on.

use super::{
    layout,
    prediction_plot::{self, PlotPlaces, scaled},
    summary,
};
use crate::results::{data::Data, quantity as words};
use cvc_core::ids::PointId;
use cvc_core::point::FactorId;
use cvc_core::quantity::Quantity;
use cvc_core::units::counted;
use cvc_index::PredictionRow;
use cvc_index::error::AnalysisError;
use cvc_model::stats::Summary;
use cvc_prediction::holdout::{Coverage, Gate, GateGroup, HoldoutResult};
use cvc_show::{Block, Cell, Column, Section, Table};
use indexmap::IndexMap;

/// Maximum number of open tables for single programs, libraries and classes; if there are more tables, all are collapsed.
const MAX_OPEN: usize = 12;

/// Maximum number of exceeded bounds that are listed above the tables.
const MAX_MISSES: usize = 4;

/// Maximum number of points that a warning lists.
const MAX_NAMED: usize = 8;

/// Predictions, each with the index of its point.
type Rows<'a> = Vec<(usize, &'a PredictionRow)>;

/// Builds the section; it has no blocks if the campaign predicts nothing.
pub(super) fn section(data: &Data) -> Result<Section, AnalysisError> {
    let mut blocks = Vec::new();
    if let Some(outcome) = &data.predictions {
        let places: PlotPlaces = data
            .points
            .iter()
            .enumerate()
            .map(|(i, p)| (p.id.clone(), i))
            .collect();
        let gate = Gate::of(outcome);
        blocks.push(Block::Text {
            text: introduction(outcome),
        });
        blocks.extend(missing(data, outcome, &places));
        blocks.extend(verdict(&gate));
        if !outcome.judged.is_empty() {
            blocks.push(Block::Table(summary(data, outcome, &gate, &places)));
            let bounds = bounds(&gate);
            if !bounds.rows.is_empty() {
                blocks.push(Block::Table(bounds));
            }
            let mut drawn = Vec::new();
            layout::add(&mut drawn, prediction_plot::plots(data, outcome, &places))?;
            blocks.extend(drawn);
            blocks.extend(groups(data, outcome, &places).into_iter().map(Block::Table));
            blocks.push(Block::Table(all(data, outcome, &places)));
        }
        let candidates = candidates(outcome);
        if !candidates.rows.is_empty() {
            blocks.push(Block::Table(candidates));
        }
    }
    Ok(Section {
        id: "predicted",
        title: "Predicted against measured".to_owned(),
        blocks,
    })
}

/// Returns the result as a line for the key findings.
pub(super) fn found(data: &Data) -> Option<(String, String)> {
    let outcome = data.predictions.as_ref()?;
    let gate = Gate::of(outcome);
    let mut parts = Vec::new();
    for q in [Quantity::Image, Quantity::Stored] {
        if let Some(errors) = Errors::of(outcome, q).filter(|e| !e.errors.is_empty()) {
            parts.push(format!(
                "{} {} mean error at {}",
                q.title(),
                pct(errors.mean()),
                points(errors.errors.len())
            ));
        }
    }
    match gate.coverage.cells {
        0 => parts.push("none".to_owned()),
        _ => parts.push(format!(
            "{} cells within their 95 % intervals{}",
            gate.coverage,
            without_interval(gate.coverage)
        )),
    }
    let misses = gate.misses().len();
    if gate.has_bounds() {
        parts.push(if misses == 0 {
            "bounds kept".to_owned()
        } else {
            format!("{} missed", counted(misses, "bound"))
        });
    }
    Some((
        "predictions of held-out points".to_owned(),
        parts.join("; "),
    ))
}

/// Describes the number of predictions without an interval, if there are any.
fn without_interval(cells: Coverage) -> String {
    match cells.without_interval() {
        0 => String::new(),
        n => format!(", {n} without an interval"),
    }
}

fn introduction(outcome: &HoldoutResult) -> String {
    format!(
        "Models were fitted on {} and predicted {}, which were measured, too, but not used for fitting. An error is |predicted − measured| / measured. Predictions do not enter the measured numbers of other sections.",
        counted(outcome.split.train.len(), "training point"),
        counted(outcome.split.held_out.len(), "held-out point"),
    )
}

/// Returns warnings about points that could not be used or judged.
fn missing(data: &Data, outcome: &HoldoutResult, places: &PlotPlaces) -> Vec<Block> {
    let mut warnings: Vec<String> = Vec::new();
    for (what, then, ids) in [
        (
            "training",
            "models were fitted without them",
            &outcome.split.train,
        ),
        (
            "held-out",
            "their predictions were not judged",
            &outcome.split.held_out,
        ),
    ] {
        let known: Vec<usize> = ids
            .iter()
            .filter_map(|id| places.get(id).copied())
            .collect();
        let without: Vec<usize> = known
            .iter()
            .copied()
            .filter(|p| data.points[*p].counted(&data.runs) == 0)
            .collect();
        if !without.is_empty() {
            let named: Vec<String> = without
                .iter()
                .take(MAX_NAMED)
                .map(|p| label(data, *p))
                .collect();
            let more = if without.len() > MAX_NAMED {
                format!(" and {} more", without.len() - MAX_NAMED)
            } else {
                String::new()
            };
            let of = counted(without.len(), &format!("{what} point"));
            warnings.push(format!(
                "{of} without a successful run: {}{more}; {then}.",
                named.join(", ")
            ));
        }
        if known.len() < ids.len() {
            let of = counted(ids.len() - known.len(), &format!("{what} point"));
            warnings.push(format!("{of} skipped: see Outcomes."));
        }
    }
    warnings.extend(outcome.problems.iter().cloned());
    warnings
        .into_iter()
        .map(|text| Block::Warning { text })
        .collect()
}

fn verdict(gate: &Gate) -> Vec<Block> {
    let misses = gate.misses();
    if misses.is_empty() && gate.has_bounds() {
        return vec![Block::Text {
            text: "The predictions keep every bound of the campaign file.".to_owned(),
        }];
    }
    let warning = match misses.len() {
        0 => return Vec::new(),
        1..=MAX_MISSES => misses
            .into_iter()
            .map(|miss| format!("A bound is missed: {miss}."))
            .collect(),
        n => vec![format!(
            "{n} bounds are missed, first: {}. The table of bounds lists all.",
            misses[0]
        )],
    };
    warning
        .into_iter()
        .map(|text| Block::Warning { text })
        .collect()
}

/// Makes the table of the bounds, each with the error that is compared with it.
fn bounds(gate: &Gate) -> Table {
    let caption = "A bound holds for the mean error over the held-out points of a program and MPI library; a point without a prediction misses it.";
    let columns = vec![
        Column::plain("app", "application"),
        Column::plain("mpi", "MPI"),
        Column::plain("quantity", "quantity"),
        Column::plain("held_out", "held out"),
        Column::plain("predicted", "predicted"),
        Column::of("mean_error_pct", "mean error", "%"),
        Column::of("bound_pct", "bound", "%"),
        Column::plain("verdict", "verdict"),
        Column::plain("why", "why no prediction"),
    ];
    let mut table = Table::new("prediction_bounds", "Bounds", caption, columns);
    for (g, met) in gate.groups.iter().filter_map(|g| Some((g, g.met()?))) {
        table.rows.push(vec![
            Cell::text(g.app.clone()),
            Cell::text(g.mpi.clone()),
            Cell::text(g.quantity.title()),
            Cell::count(g.measured),
            Cell::count(g.predicted),
            Cell::number(g.mean_error_pct.map(shown)),
            Cell::number(g.bound_pct),
            Cell::text(if met { "kept" } else { "missed" }),
            Cell::text(g.refusal.clone().unwrap_or_default()),
        ]);
    }
    without_empty(&mut table, "why");
    table
}

/// The errors of one quantity's predictions.
struct Errors<'a> {
    measured: usize,
    errors: Vec<(f64, &'a PredictionRow)>,
    coverage: Coverage,
}

impl<'a> Errors<'a> {
    fn of(outcome: &'a HoldoutResult, quantity: Quantity) -> Option<Self> {
        let mut all = Self {
            measured: 0,
            errors: Vec::new(),
            coverage: Coverage::default(),
        };
        for row in outcome.of(quantity) {
            all.measured += 1;
            if row.answer.is_ok() {
                all.coverage.add(row.covered);
            }
            all.errors.extend(row.error_pct.map(|e| (e, row)));
        }
        (all.measured > 0).then_some(all)
    }

    fn mean(&self) -> f64 {
        self.errors.iter().map(|e| e.0).sum::<f64>() / self.errors.len().max(1) as f64
    }
}

/// Makes a table with a row for each quantity, and a row for all predictions.
fn summary(data: &Data, outcome: &HoldoutResult, gate: &Gate, places: &PlotPlaces) -> Table {
    let caption = "Errors over all held-out points. The bound applies to the mean of each program and MPI library; the worst is named. Inside: \
                   cells whose measured value lies within the 95 % prediction interval, of those that have one (coverage).";
    let columns = vec![
        Column::plain("quantity", "quantity"),
        Column::plain("held_out", "held out"),
        Column::plain("predicted", "predicted"),
        Column::of("mean_error_pct", "mean error", "%"),
        Column::of("largest_error_pct", "largest error", "%"),
        Column::plain("largest_at", "at"),
        Column::plain("with_interval", "with interval"),
        Column::plain("inside", "inside"),
        Column::of("coverage_pct", "coverage", "%"),
        Column::plain("worst", "worst program and MPI"),
        Column::of("worst_mean_error_pct", "its mean error", "%"),
        Column::of("bound_pct", "bound", "%"),
        Column::plain("verdict", "verdict"),
    ];
    let mut table = Table::new(
        "prediction_summary",
        "Accuracy of the predictions",
        caption,
        columns,
    );
    let rows = Quantity::ALL.into_iter().filter_map(|q| {
        Some(quantity_row(
            data,
            &Errors::of(outcome, q)?,
            gate,
            q,
            places,
        ))
    });
    table.rows.extend(rows);
    table.rows.push(total_row(outcome, gate));
    table
}

/// Returns the row of a quantity in the summary.
fn quantity_row(
    data: &Data,
    of: &Errors<'_>,
    gate: &Gate,
    q: Quantity,
    places: &PlotPlaces,
) -> Vec<Cell> {
    // If all errors are zero, no point is the worst.
    let any = |error: f64| shown(error) > 0.0;
    let largest = of.errors.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let at = largest
        .filter(|l| any(l.0))
        .and_then(|(_, row)| places.get(&row.point))
        .map(|p| label(data, *p))
        .unwrap_or_default();
    let groups: Vec<&GateGroup> = gate.groups.iter().filter(|g| g.quantity == q).collect();
    let mean = |g: &GateGroup| g.mean_error_pct.unwrap_or(-1.0);
    let erring = groups.iter().filter(|g| g.mean_error_pct.is_some_and(any));
    let worst = erring.max_by(|a, b| mean(a).total_cmp(&mean(b)));
    vec![
        Cell::text(q.title()),
        Cell::count(of.measured),
        Cell::count(of.coverage.cells),
        Cell::number((!of.errors.is_empty()).then(|| shown(of.mean()))),
        Cell::number(largest.map(|l| shown(l.0))),
        Cell::text(at),
        Cell::count(of.coverage.with_interval),
        Cell::count(of.coverage.inside),
        Cell::number(of.coverage.pct()),
        Cell::text(
            worst
                .map(|g| format!("{}, {}", g.app, g.mpi))
                .unwrap_or_default(),
        ),
        Cell::number(worst.and_then(|g| g.mean_error_pct).map(shown)),
        Cell::number(groups.iter().find_map(|g| g.bound_pct)),
        Cell::text(verdict_on(&groups)),
    ]
}

/// Describes whether the bound of a quantity is kept; empty if it has no bound.
fn verdict_on(groups: &[&GateGroup]) -> String {
    let met: Vec<bool> = groups.iter().filter_map(|g| g.met()).collect();
    match (met.is_empty(), met.iter().filter(|met| !**met).count()) {
        (true, _) => String::new(),
        (false, 0) => "kept".to_owned(),
        (false, missed) => format!("missed by {missed} of {}", met.len()),
    }
}

/// Returns the row for all predictions in the summary.
fn total_row(outcome: &HoldoutResult, gate: &Gate) -> Vec<Cell> {
    let cells = gate.coverage;
    let keeps = |bound: f64| Some(cells.pct()?.min(cells.interval_pct()?) >= bound);
    let verdict = gate.min_coverage_pct.map(|bound| {
        if keeps(bound) == Some(true) {
            "kept"
        } else {
            "missed"
        }
    });
    vec![
        Cell::text("all cells"),
        Cell::count(outcome.judged.len()),
        Cell::count(cells.cells),
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::count(cells.with_interval),
        Cell::count(cells.inside),
        Cell::number(cells.pct()),
        Cell::Empty,
        Cell::Empty,
        Cell::number(gate.min_coverage_pct),
        Cell::text(verdict.unwrap_or_default()),
    ]
}

/// Returns the columns of every table of predictions that follow the columns of the point.
fn columns() -> Vec<Column> {
    vec![
        Column::plain("quantity", "quantity"),
        Column::plain("unit", "unit"),
        Column::plain("measured", "measured"),
        Column::plain("predicted", "predicted"),
        Column::of("error_pct", "error", "%"),
        Column::plain("inside", "inside"),
        Column::plain("model", "model"),
        Column::plain("tier", "requirement"),
        Column::plain("trained_on", "trained on"),
        Column::plain("training_points", "training points").data_only(),
        Column::plain("refused", "why no prediction"),
    ]
}

/// Returns the cells of the columns from [`columns`].
fn cells(data: &Data, at: usize, p: &PredictionRow, places: &PlotPlaces) -> Vec<Cell> {
    let ids: Vec<&str> = p.training.iter().map(PointId::as_str).collect();
    vec![
        Cell::text(p.quantity.title()),
        Cell::text(p.quantity.unit()),
        measured(data, at, p).map_or(Cell::Number { value: p.measured }, |summary| {
            Cell::Measured {
                summary: Box::new(summary),
            }
        }),
        Cell::predicted(p.answer.as_ref().ok().copied()),
        Cell::number(p.error_pct),
        Cell::text(
            p.covered
                .map_or("", |covered| if covered { "yes" } else { "no" }),
        ),
        Cell::text(
            p.model
                .as_ref()
                .map(|m| m.title.clone())
                .unwrap_or_default(),
        ),
        Cell::text(p.model.as_ref().map(|m| m.tier.clone()).unwrap_or_default()),
        Cell::text(trained_on(data, at, p, places)),
        Cell::text(ids.join(" ")),
        Cell::text(
            p.answer
                .as_ref()
                .err()
                .map_or_else(String::new, ToString::to_string),
        ),
    ]
}

/// Makes one table for each program, MPI library and class.
fn groups(data: &Data, outcome: &HoldoutResult, places: &PlotPlaces) -> Vec<Table> {
    let mut groups: IndexMap<[&str; 3], Rows<'_>> = IndexMap::new();
    for j in &outcome.judged {
        let (Some(&at), Some(factors)) = (places.get(&j.point), outcome.held_out.get(&j.point))
        else {
            continue;
        };
        groups
            .entry([&factors.app, &factors.mpi, &factors.class])
            .or_default()
            .push((at, j));
    }
    let folded = groups.len() > MAX_OPEN;
    let table = |([app, mpi, class], rows): ([&str; 3], Rows<'_>)| {
        let title = format!("{app}, {mpi}, class {class}");
        let id = cvc_show::slug(&format!("predicted {title}")).replace('-', "_");
        let caption = "Held-out points: the mean of the repeats with its interval, and the prediction with its 95 % prediction interval.";
        let mut table = Table::new(
            &id,
            &title,
            caption,
            std::iter::once(Column::plain("point", "point"))
                .chain(columns())
                .collect(),
        );
        (table.folded, table.page_only) = (folded, true);
        for (at, p) in rows {
            let mut row = vec![Cell::text(within(data, at))];
            row.extend(cells(data, at, p, places));
            table.rows.push(row);
        }
        without_empty(&mut table, "refused");
        table
    };
    groups.into_iter().map(table).collect()
}

/// Makes one table of all predictions, for further computation.
fn all(data: &Data, outcome: &HoldoutResult, places: &PlotPlaces) -> Table {
    let columns = summary::factor_columns(data)
        .into_iter()
        .chain(columns())
        .collect();
    let mut table = Table::new(
        "predictions",
        "All predictions",
        "The same in one table, with the factors of each point.",
        columns,
    );
    table.folded = true;
    for j in &outcome.judged {
        let Some(&at) = places.get(&j.point) else {
            continue;
        };
        let mut row = summary::factor_cells(data, at);
        row.extend(cells(data, at, j, places));
        table.rows.push(row);
    }
    table
}

/// Makes the table of the candidate models, each once.
fn candidates(outcome: &HoldoutResult) -> Table {
    let columns = vec![
        Column::plain("of", "for"),
        Column::plain("quantity", "quantity"),
        Column::plain("model", "model"),
        Column::plain("title", "description"),
        Column::plain("tier", "requirement"),
        Column::of("leave_one_out_pct", "leave-one-out error", "%"),
        Column::plain("taken", "taken"),
        Column::plain("refused", "why not fitted"),
    ];
    let caption = "The models considered, with the mean leave-one-out error at the training points, or the reason why a model \
                   was not fitted.";
    let mut table = Table::new(
        "prediction_candidates",
        "Models considered",
        caption,
        columns,
    );
    table.folded = true;
    for c in &outcome.candidates {
        table.rows.push(vec![
            Cell::text(c.of.clone()),
            Cell::text(c.quantity.title()),
            Cell::text(c.model.id.clone()),
            Cell::text(c.model.title.clone()),
            Cell::text(c.model.tier.clone()),
            Cell::number(c.leave_one_out_pct),
            Cell::text(if c.chosen { "yes" } else { "" }),
            Cell::text(c.refused.clone().unwrap_or_default()),
        ]);
    }
    table
}

/// Returns the summary of the measured values in the unit of predictions; `None` if its mean is not the value with which the prediction was compared.
fn measured(data: &Data, at: usize, p: &PredictionRow) -> Option<Summary> {
    scaled(data, at, p.quantity).filter(|s| (s.mean - p.measured).abs() <= 1e-9 * p.measured.abs())
}

/// Describes the points on which the models of a prediction were trained, in a few words.
fn trained_on(data: &Data, at: usize, p: &PredictionRow, places: &PlotPlaces) -> String {
    let points: Vec<usize> = p
        .training
        .iter()
        .filter_map(|id| places.get(id).copied())
        .collect();
    let same = |f: &str| {
        points
            .iter()
            .all(|t| data.points[*t].factor(f) == data.points[at].factor(f))
    };
    if points.is_empty() {
        return String::new();
    }
    if ["app", "class", "mpi"].into_iter().all(same) {
        let mut mappings: Vec<&str> = points
            .iter()
            .map(|t| data.points[*t].level(FactorId::Mapping))
            .collect();
        mappings.dedup();
        return mappings.join(", ");
    }
    let list = |f: &str| {
        let mut levels: Vec<&str> = points.iter().map(|t| data.points[*t].factor(f)).collect();
        levels.sort_unstable();
        levels.dedup();
        levels.join(", ")
    };
    format!(
        "{} of {}, class {}, {}",
        counted(points.len(), "point"),
        list("app"),
        list("class"),
        list("mpi")
    )
}

/// Describes a point by its factors other than program, class and library.
fn within(data: &Data, at: usize) -> String {
    let others: Vec<&str> = data
        .varying()
        .into_iter()
        .filter(|f| !["app", "class", "mpi", "mapping"].contains(f))
        .collect();
    let mapping = data.points[at].level(FactorId::Mapping).to_owned();
    others.iter().fold(mapping, |text, f| {
        format!("{text}, {}", words::level(f, data.points[at].factor(f)))
    })
}

/// Describes a point by program, class, mapping and library.
fn label(data: &Data, at: usize) -> String {
    let p = &data.points[at];
    format!(
        "{}.{} {} {}",
        p.level(FactorId::App),
        p.level(FactorId::Class),
        p.level(FactorId::Mapping),
        p.level(FactorId::Mpi)
    )
}

/// Removes a column whose cells are all empty.
fn without_empty(table: &mut Table, column: &str) {
    let Some(at) = table.columns.iter().position(|c| c.id == column) else {
        return;
    };
    if table.rows.iter().all(|r| matches!(r[at], Cell::Empty)) {
        table.columns.remove(at);
        for row in &mut table.rows {
            row.remove(at);
        }
    }
}

fn points(n: usize) -> String {
    counted(n, "held-out point")
}

/// Rounds a percentage to four decimals; smaller differences are rounding errors.
fn shown(pct: f64) -> f64 {
    (pct * 1e4).round() / 1e4
}

fn pct(value: f64) -> String {
    format!("{} %", cvc_show::format::significant(value))
}
