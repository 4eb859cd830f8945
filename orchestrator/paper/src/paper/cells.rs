//! All cells of a paper in one long table, for use by other programs.

use super::{
    judge::{CellVerdict, JudgedCell, Reproduction, significant_digits},
    verdict_words::describe_verdict,
};
use cvc_show::{Cell, Column, Table};

/// Significant digits of computed numbers: as many as a double always represents exactly.
const DIGITS: usize = 15;

/// Returns a table with one row for each judged cell, in printed order: the printed number, the numbers compared with it, and the verdict.
pub(super) fn table(of: &Reproduction) -> Table {
    let columns = [
        "table",
        "page",
        "row",
        "about",
        "column",
        "heading",
        "unit",
        "printed",
        "recomputed",
        "model",
        "measured",
        "verdict",
        "confidence",
        "likely",
        "anomalies",
        "note",
    ];
    let mut table = Table::new(
        "cells",
        "All cells",
        "One row for each judged cell.",
        columns.map(|c| Column::plain(c, c)).to_vec(),
    );
    for t in &of.tables {
        for (n, cells) in t.rows.iter().enumerate() {
            let about = t.row_name(n);
            for (column, cell) in t.definition.columns.iter().zip(cells) {
                if matches!(cell.verdict, CellVerdict::Empty | CellVerdict::Label) {
                    continue;
                }
                let (mark, verdict) = describe_verdict(&cell.verdict);
                let (confidence, likely) = match &cell.verdict {
                    CellVerdict::PrintedWrong {
                        confidence, likely, ..
                    } => (confidence.word(), likely.as_str()),
                    _ => ("", ""),
                };
                let number =
                    |value: Option<f64>| Cell::number(value.map(|v| significant_digits(v, DIGITS)));
                table.rows.push(vec![
                    Cell::text(&t.definition.id),
                    Cell::number(t.definition.page.map(f64::from)),
                    Cell::count(n + 1),
                    Cell::text(&about),
                    Cell::text(&column.id),
                    Cell::text(&column.heading),
                    Cell::text(column.unit.as_deref().unwrap_or_default()),
                    Cell::text(cell.printed.text()),
                    number(cell.recomputed.map(|(r, _)| r.value())),
                    number(cell.modelled.as_ref().map(|(m, _)| m.estimate.value)),
                    number(cell.measured.as_ref().map(|m| m.measured.value)),
                    Cell::text(mark.word()),
                    Cell::text(confidence),
                    Cell::text(likely),
                    Cell::text(cell.anomalies.join(" ")),
                    Cell::text(note(&verdict, cell)),
                ]);
            }
        }
    }
    table
}

/// Returns the verdict as text, with the reason why a measurement differs.
fn note(verdict: &str, cell: &JudgedCell) -> String {
    let reason = cell
        .measured
        .as_ref()
        .and_then(|m| m.measured.reason.as_ref());
    match reason {
        Some(reason) => format!("{verdict}; measured here: {}", reason.because),
        None => verdict.to_owned(),
    }
}
