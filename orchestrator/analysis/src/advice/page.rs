//! Advice as a report.

use super::for_program::Advice;
use cvc_index::error::AnalysisError;
use cvc_model::pareto::{Bounded, Standing};
use cvc_show::{
    Block, Cell, Column, Document, DocumentKind, Plot, SCHEMA, Section, Table,
    plot::{self, Spot, Whisker},
    slug,
};
use std::cmp::Reverse;

/// Most marks of the front and of those not told apart that all have a name; of more, only the front has names.
const MOST_NAMES: usize = 8;

/// The advice for several programs as a report.
///
/// # Errors
/// When a drawing fails.
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
    let mut found = Section {
        id: "advice",
        title: "Advice".to_owned(),
        blocks: Vec::new(),
    };
    for one in advice {
        found.blocks.push(Block::Text {
            text: one.sentence.clone(),
        });
    }
    for one in advice {
        found.blocks.push(Block::Table(candidates(one)));
        if let Some(plot) = drawing(one)? {
            found.blocks.push(Block::Plot(plot));
        }
        let next = next(one);
        if !next.rows.is_empty() {
            found.blocks.push(Block::Table(next));
        }
    }
    Ok(vec![found])
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
    columns.push(Column::plain("runs", "runs"));
    columns.push(Column::plain("remarks", "remarks"));
    let mut table = Table::new(
        &format!("candidates_{}", slug(&advice.program)),
        &format!("Candidates for {}", advice.program),
        "Front: no other candidate is as good in all of these and better in one. Not told apart: another is by its means, but the 95 % \
         intervals do not show it. Dominated: another surely is.",
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
            let mut row = vec![Cell::text(&c.label), Cell::text(c.place())];
            row.extend(numbers(Some(c.time_s)));
            row.extend(numbers(c.cost_usd));
            row.push(Cell::number(c.storage_bytes.map(|v| v.value)));
            row.push(Cell::count(c.runs));
            row.push(Cell::text(c.remarks.join("; ")));
            row
        })
        .collect();
    table
}

/// Time against cost; `None` if not all candidates have a cost.
fn drawing(advice: &Advice) -> Result<Option<Plot>, AnalysisError> {
    if !advice.objectives.contains(&"cost_usd") {
        return Ok(None);
    }
    // an interval that nobody knows is not drawn
    let whisker = |b: Bounded| -> Whisker {
        if b.high.is_finite() {
            (b.value, b.low, b.high)
        } else {
            (b.value, b.value, b.value)
        }
    };
    let series = ["front", "not told apart", "dominated"].map(str::to_owned);
    let count = |standing| {
        let standings = advice.candidates.iter().filter_map(|c| c.standing);
        standings.filter(|s| *s == standing).count()
    };
    let untold_are_named = count(Standing::Front) + count(Standing::NotToldApart) <= MOST_NAMES;
    let mut spots: Vec<Spot> = advice
        .candidates
        .iter()
        .filter_map(|c| {
            let series = match c.standing? {
                Standing::Front => 0,
                Standing::NotToldApart => 1,
                Standing::Dominated => 2,
            };
            Some(Spot {
                series,
                name: if series == 0 || series == 1 && untold_are_named {
                    c.label.clone()
                } else {
                    String::new()
                },
                at: (whisker(c.time_s), whisker(c.cost_usd?)),
            })
        })
        .collect();
    // the front is drawn last, so that nothing hides it
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
            "Each candidate by its time and its cost, with 95 % intervals; lower and further left is better. Named are those of the front{}; the \
             table has all.",
            if untold_are_named && count(Standing::NotToldApart) > 0 {
                " and those not told apart from it"
            } else {
                ""
            }
        ),
    }))
}

fn next(advice: &Advice) -> Table {
    let mut table = Table::new(
        &format!("next_{}", slug(&advice.program)),
        "What to measure next",
        "More repeats of two candidates that would decide which is faster, four times in five.",
        vec![
            Column::plain("between", "between"),
            Column::plain("and", "and"),
            Column::plain("repeats", "more repeats of each"),
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
