//! Advice as a report.

use super::for_program::Advice;
use cvc_index::error::AnalysisError;
use cvc_model::pareto::{Bounded, ParetoRank};
use cvc_show::{
    Block, Cell, Column, Document, DocumentKind, Plot, SCHEMA, Section, Table,
    plot::{self, PlotSpot, Whisker},
    slug,
};
use std::cmp::Reverse;

/// Maximum number of candidates that have a name in the plot: candidates on the Pareto front, and candidates indistinguishable from it. If there are
/// more, only the candidates on the front have names.
const MAX_NAMES: usize = 8;

/// Builds a report of the advice for several programs.
///
/// # Errors
/// A plot cannot be drawn.
pub fn advice_report(title: &str, advice: &[Advice]) -> Result<Document, AnalysisError> {
    Ok(Document {
        schema: SCHEMA,
        kind: DocumentKind::Advice,
        campaign: title.to_owned(),
        title: title.to_owned(),
        span: None,
        sections: sections(advice)?,
        found: Vec::new(),
        data_tables: Vec::new(),
        long_rows: None,
    })
}

fn sections(advice: &[Advice]) -> Result<Vec<Section>, AnalysisError> {
    let mut section = Section {
        id: "advice",
        title: "Advice".to_owned(),
        blocks: Vec::new(),
    };
    for one in advice {
        section.blocks.push(Block::Text {
            text: one.sentence.clone(),
        });
    }
    for one in advice {
        section.blocks.push(Block::Pairs {
            pairs: one
                .assumptions
                .iter()
                .map(|a| (a.name.clone(), a.value.clone()))
                .collect(),
        });
        section.blocks.push(Block::Table(candidates(one)));
        if let Some(plot) = drawing(one)? {
            section.blocks.push(Block::Plot(plot));
        }
        let next = next(one);
        if !next.rows.is_empty() {
            section.blocks.push(Block::Table(next));
        }
    }
    Ok(vec![section])
}

fn candidates(advice: &Advice) -> Table {
    let of = |id: &str, heading: &str, unit: &str| {
        [
            Column::of(id, heading, unit),
            Column::of(&format!("{id}_low"), "95 % from", unit),
            Column::of(&format!("{id}_high"), "to", unit),
        ]
    };
    let mut columns = vec![
        Column::plain("candidate", "candidate"),
        Column::plain("standing", "standing"),
    ];
    columns.extend(of("time", "time", "s"));
    columns.extend(of("cost", "cost", "USD"));
    columns.push(Column::of("storage", "stored by a checkpoint", "bytes"));
    columns.push(Column::of("interval", "interval", "s"));
    columns.push(Column::plain("runs", "runs"));
    columns.push(Column::plain("remarks", "remarks"));
    let mut table = Table::new(
        &format!("candidates_{}", slug(&advice.program)),
        &format!("Candidates for {}", advice.program),
        "Pareto front: no other candidate is as good in all objectives and better in one. Indistinguishable: another is by its means, but the 95 % \
         intervals overlap. Dominated: another is, even at the worst ends of the intervals. Infeasible: it violates a constraint.",
        columns,
    );
    table.rows = advice
        .candidates
        .iter()
        .map(|c| {
            let numbers = |value: Option<Bounded>| {
                let finite = |v: f64| Some(v).filter(|v| v.is_finite());
                [
                    Cell::number(value.map(|v| v.value)),
                    Cell::number(value.and_then(|v| finite(v.low))),
                    Cell::number(value.and_then(|v| finite(v.high))),
                ]
            };
            let mut row = vec![Cell::text(&c.label), Cell::text(c.standing())];
            row.extend(numbers(Some(c.time_s)));
            row.extend(numbers(c.cost_usd));
            row.push(Cell::number(c.storage_bytes.map(|v| v.value)));
            row.push(Cell::number(c.interval_s));
            row.push(Cell::count(c.runs));
            row.push(Cell::text(c.remarks.join("; ")));
            row
        })
        .collect();
    table
}

/// Draws time against cost; returns `None` if a candidate has no cost.
fn drawing(advice: &Advice) -> Result<Option<Plot>, AnalysisError> {
    if !advice.objectives.contains(&"cost_usd") {
        return Ok(None);
    }
    // an unknown (infinite) interval is not drawn
    let whisker = |b: Bounded| -> Whisker {
        if b.high.is_finite() {
            (b.value, b.low, b.high)
        } else {
            (b.value, b.value, b.value)
        }
    };
    let series = ["Pareto front", "indistinguishable", "dominated"].map(str::to_owned);
    let count = |rank| {
        let ranks = advice.candidates.iter().filter_map(|c| c.standing);
        ranks.filter(|r| *r == rank).count()
    };
    let indistinguishable_are_named =
        count(ParetoRank::Front) + count(ParetoRank::Indistinguishable) <= MAX_NAMES;
    let mut spots: Vec<PlotSpot> = advice
        .candidates
        .iter()
        .filter_map(|c| {
            let series = match c.standing? {
                ParetoRank::Front => 0,
                ParetoRank::Indistinguishable => 1,
                ParetoRank::Dominated => 2,
            };
            Some(PlotSpot {
                series,
                name: if series == 0 || series == 1 && indistinguishable_are_named {
                    c.label.clone()
                } else {
                    String::new()
                },
                at: (whisker(c.time_s), whisker(c.cost_usd?)),
            })
        })
        .collect();
    // draw the front last, so that no other mark hides it
    spots.sort_by_key(|spot| Reverse(spot.series));
    let id = format!("front-{}", slug(&advice.program));
    let drawing = plot::scatter(
        &id,
        ("time, s", "cost, USD"),
        &series,
        &[(advice.program.clone(), spots)],
    )?;
    Ok(Some(Plot {
        width: drawing.width,
        keys: drawing.keys,
        panels: drawing.panels,
        id,
        title: format!("Time against cost of {}", advice.program),
        caption: format!(
            "Each candidate by its time and its cost, with 95 % intervals; lower and further left is better. Names are shown for the Pareto front{}; \
             the table has all.",
            if indistinguishable_are_named && count(ParetoRank::Indistinguishable) > 0 {
                " and for candidates indistinguishable from it"
            } else {
                ""
            }
        ),
    }))
}

fn next(advice: &Advice) -> Table {
    let mut table = Table::new(
        &format!("next_{}", slug(&advice.program)),
        "Next measurements",
        "Further repeats of two candidates that show which is faster with a probability of 80 %.",
        vec![
            Column::plain("between", "between"),
            Column::plain("and", "and"),
            Column::plain("repeats", "further repeats of each"),
            Column::of("time", "time", "s"),
            Column::of("cost", "cost", "USD"),
        ],
    );
    table.rows = advice
        .next
        .iter()
        .map(|n| {
            vec![
                Cell::text(&n.between[0]),
                Cell::text(&n.between[1]),
                Cell::count(n.repeats),
                Cell::number(n.time_s),
                Cell::number(n.cost_usd),
            ]
        })
        .collect();
    table
}
