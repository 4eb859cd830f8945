//! Scaling of programs with and without checkpoints, and the number of processes beyond which adding more does not pay (thesis, Figures 5.1 and 5.2).

use super::layout;
use crate::results::{
    data::Data,
    scaling::{ScalingCurve, ScalingPoint, curves},
};
use cvc_core::record::names;
use cvc_index::error::AnalysisError;
use cvc_model::turning_point::TurningPoint;
use cvc_show::{
    Block, Cell, Column, Plot, Section, Table,
    plot::{self, Categories, Marks, Panel, Whisker},
    slug,
};

/// Maximum number of figures; the table has all curves.
const MAX_FIGURES: usize = 12;

pub(super) fn section(data: &Data) -> Result<Section, AnalysisError> {
    let all: Vec<usize> = (0..data.points.len()).collect();
    let curves = curves(data, &all);
    let mut blocks: Vec<Block> = Vec::new();
    if !curves.is_empty() {
        blocks.extend(curves.iter().map(|curve| Block::Text {
            text: capital(&curve.sentence()),
        }));
        blocks.extend([
            Block::Table(turnings(&curves)),
            Block::Table(speedups(data, &curves)),
        ]);
    }
    for pair in curves
        .chunk_by(|a, b| a.at == b.at && b.checkpoints != "none")
        .take(MAX_FIGURES)
    {
        blocks.push(Block::Plot(figure(data, pair)?));
    }
    Ok(Section {
        id: "scaling",
        title: "Scaling with processes".to_owned(),
        blocks,
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

/// Makes the table of turning points, the numbers of processes beyond which adding more does not pay. Used in reports and comparisons.
pub(crate) fn turnings(curves: &[ScalingCurve]) -> Table {
    let caption = "Number of processes from which more do not pay: the one with the minimum wall time, for a fixed problem. Measured: the numbers whose time \
                   is indistinguishable from the minimum (Student's t, with the scatter of all repeats); `-` without repeats. By law: T(P) = a + b/min(P, k) + c·P with \
                   the smallest relative errors, and its interval for times with this scatter.";
    let mut columns = vec![
        Column::plain("at", "at"),
        Column::plain("checkpoints", "checkpoints by"),
    ];
    for (id, heading) in [("measured", "measured"), ("predicted", "by law")] {
        columns.extend([
            Column::plain(&format!("{id}_turning"), heading),
            Column::plain(&format!("{id}_low"), "from"),
            Column::plain(&format!("{id}_high"), "to"),
        ]);
    }
    columns.extend([
        Column::of("fixed_s", "a", "s"),
        Column::of("divided_s", "b", "s"),
        Column::of("each_s", "c", "s"),
        Column::plain("limit", "k"),
        Column::of("law_error", "error of the law", "%"),
    ]);
    let mut table = Table::new(
        "turning-points",
        "Number of processes beyond which more do not pay",
        caption,
        columns,
    );
    for curve in curves {
        let mut row = vec![Cell::text(&curve.at), Cell::text(&curve.checkpoints)];
        row.extend(ends(Some(&curve.measured)));
        row.extend(ends(curve.predicted.as_ref()));
        let law = |of: fn(&cvc_model::turning_point::ScalingLaw) -> f64| {
            Cell::number(curve.law.as_ref().map(of))
        };
        row.extend([
            law(|l| l.fixed_s),
            law(|l| l.divided_s),
            law(|l| l.each_s),
            Cell::number(curve.law.and_then(|l| l.limit).map(f64::from)),
            law(|l| 100.0 * l.error),
        ]);
        table.rows.push(row);
    }
    table
}

/// Returns the cells of a turning point with its interval; a bound beyond all measured points is shown as "more".
fn ends(of: Option<&TurningPoint>) -> [Cell; 3] {
    let Some(of) = of else {
        return [Cell::Empty, Cell::Empty, Cell::Empty];
    };
    let number = |n: u32| Cell::number(f64::from(n));
    let more = || Cell::text("more");
    [
        of.processes.map_or_else(more, number),
        of.low.map_or(Cell::Empty, number),
        match (of.low, of.high) {
            (_, Some(high)) => number(high),
            (Some(_), None) => more(),
            (None, None) => Cell::Empty,
        },
    ]
}

fn speedups(data: &Data, curves: &[ScalingCurve]) -> Table {
    let caption = "Speed-up and efficiency relative to the smallest number of processes, whose efficiency is 1. If a number of processes has several mappings, \
                   the fastest one with checkpoints.";
    let columns = vec![
        Column::plain("at", "at"),
        Column::plain("checkpoints", "checkpoints by"),
        Column::plain("processes", "processes"),
        Column::plain("mapping", "mapping"),
        Column::of("wall_s", "wall time", "s"),
        Column::plain("speedup", "speed-up"),
        Column::of("efficiency", "efficiency", "%"),
        Column::of("stored", "stored by a checkpoint", "bytes"),
    ];
    let mut table = Table::new("speed-up", "Speed-up and efficiency", caption, columns);
    let summary =
        |point: &ScalingPoint, of: &str| Cell::measured(data.points[point.place].summaries.get(of));
    for curve in curves {
        table.rows.extend(curve.points.iter().map(|point| {
            vec![
                Cell::text(&curve.at),
                Cell::text(&curve.checkpoints),
                Cell::count(point.speedup.processes as usize),
                Cell::text(&point.mapping),
                summary(point, names::WALL_S),
                Cell::number(point.speedup.speedup),
                Cell::number(100.0 * point.speedup.efficiency),
                summary(point, names::CKPT_STORED_BYTES),
            ]
        }));
    }
    table
}

/// Draws times with and without checkpoints, and the size of a checkpoint, over the number of processes.
fn figure(data: &Data, curves: &[ScalingCurve]) -> Result<Plot, AnalysisError> {
    let first = &curves[0];
    let names_along: Vec<String> = first
        .points
        .iter()
        .map(|p| p.speedup.processes.to_string())
        .collect();
    let drawn = |q: &str, curve: &ScalingCurve, divisor: f64| -> Vec<Option<Whisker>> {
        let summary = |p: &ScalingPoint| data.points[p.place].summaries.get(q);
        curve
            .points
            .iter()
            .map(|p| Some(layout::whisker(summary(p)?, divisor)))
            .collect()
    };
    let means = |q: &'static str| {
        let points = curves.iter().flat_map(|c| &c.points);
        let summaries = points.filter_map(move |p| data.points[p.place].summaries.get(q));
        summaries.map(|s| s.mean).collect::<Vec<_>>()
    };
    let panel = |q: &'static str,
                 unit: &str,
                 title: &str,
                 scale: usize,
                 before: usize,
                 of: &[ScalingCurve]| {
        let (divisor, unit) = layout::scale(means(q).into_iter(), unit);
        let empty = vec![None; first.points.len()];
        let mut lines = vec![empty; before];
        lines.extend(of.iter().map(|curve| drawn(q, curve, divisor)));
        Panel {
            title: format!("{title}, {unit}"),
            x: Categories {
                title: "processes".to_owned(),
                names: names_along.clone(),
            },
            scale,
            marks: Marks::Lines(lines),
        }
    };
    let mut series: Vec<String> = curves
        .iter()
        .map(|curve| match curve.checkpoints.as_str() {
            "none" => "time without checkpoints".to_owned(),
            name => format!("time with checkpoints by {name}"),
        })
        .collect();
    let mut panels = vec![panel(names::WALL_S, "s", "wall time", 0, 0, curves)];
    if !means(names::CKPT_STORED_BYTES).is_empty() {
        let with = &curves[curves.len() - 1..];
        panels.push(panel(
            names::CKPT_STORED_BYTES,
            "bytes",
            "stored by a checkpoint",
            1,
            series.len(),
            with,
        ));
        series.push("stored by a checkpoint".to_owned());
    }
    let id = format!(
        "scaling-{}",
        slug(&format!(
            "{} {}",
            first.at,
            curves[curves.len() - 1].checkpoints
        ))
    );
    let title = match first.at.as_str() {
        "" => "Time and stored volume over processes".to_owned(),
        at => format!("Time and stored volume over processes: {at}"),
    };
    let caption = "Means of the repeats with their intervals.".to_owned();
    let drawing = plot::panels(&id, "", &series, &panels)?;
    Ok(drawing.plot(id, title, caption))
}
