//! Writes a CSV file for each table (RFC 4180), tidy, with full precision and the units of the columns; and a file of all records.

use crate::document::{Cell, Column, ComparedValue, Document, LongRows, Mark, Table};
use crate::error::ShowError;
use camino::Utf8Path;
use cvc_core::store::StoreError;
use cvc_core::visible::inert;
use std::io::Write;

/// Suffixes of the CSV columns for a measurement.
const OF_MEASURED: [&str; 10] = [
    "_n",
    "_mean",
    "_median",
    "_sd",
    "_ci_low",
    "_ci_high",
    "_min",
    "_max",
    "_mild_outliers",
    "_severe_outliers",
];

/// Suffixes of the CSV columns for a prediction.
const OF_PREDICTED: [&str; 3] = ["", "_low", "_high"];

/// Suffixes of the CSV columns for a ratio.
const OF_COMPARED: [&str; 8] = [
    "",
    "_ci_low",
    "_ci_high",
    "_n",
    "_n_baseline",
    "_p_value",
    "_q_value",
    "_effect_size",
];

/// Suffixes of the CSV columns for a cell of a printed table: printed, recomputed, modelled, and measured value.
const OF_AGAINST: [&str; 12] = [
    "",
    "_recomputed",
    "_recomputed_minus_print",
    "_verdict",
    "_verdict_in_words",
    "_model",
    "_model_minus_print",
    "_here",
    "_here_minus_print",
    "_here_verdict",
    "_here_details",
    "_notes",
];

/// Returns names and contents of the files, one for each table.
pub(super) fn files(report: &Document) -> impl Iterator<Item = (String, String)> {
    let shown = report.tables().filter(|t| !t.page_only);
    shown
        .chain(&report.data_tables)
        .map(|t| (format!("csv/{}.csv", t.id), table(t)))
}

fn table(table: &Table) -> String {
    let kinds: Vec<&[&str]> = (0..table.columns.len())
        .map(|i| {
            let any = |is: fn(&Cell) -> bool| table.rows.iter().any(|r| is(&r[i]));
            if any(|c| matches!(c, Cell::Measured { .. })) {
                &OF_MEASURED[..]
            } else if any(|c| matches!(c, Cell::Predicted { .. })) {
                &OF_PREDICTED[..]
            } else if any(|c| matches!(c, Cell::Compared { .. })) {
                &OF_COMPARED[..]
            } else if any(|c| matches!(c, Cell::Against { against } if against.mark != Mark::Label))
            {
                &OF_AGAINST[..]
            } else {
                &[]
            }
        })
        .collect();
    let mut out = String::new();
    let head = table
        .columns
        .iter()
        .zip(&kinds)
        .flat_map(|(c, kind)| names(c, kind));
    line(&mut out, head);
    for row in &table.rows {
        let cells = row.iter().zip(&kinds);
        line(
            &mut out,
            cells.flat_map(|(cell, kind)| values(cell, kind.len())),
        );
    }
    out
}

fn names(column: &Column, endings: &[&str]) -> Vec<String> {
    if endings.is_empty() {
        vec![column.id.clone()]
    } else {
        endings
            .iter()
            .map(|e| format!("{}{e}", column.id))
            .collect()
    }
}

fn values(cell: &Cell, fields: usize) -> Vec<String> {
    let optional = |v: Option<f64>| v.map(number).unwrap_or_default();
    match cell {
        Cell::Compared { comparison: c } => {
            let numbers = [c.interval.map(|i| i.low), c.interval.map(|i| i.high)].map(optional);
            let judged = [c.p_value, c.q_value, c.effect_size].map(optional);
            [number(c.ratio)]
                .into_iter()
                .chain(numbers)
                .chain([c.n.0, c.n.1].map(|n| n.to_string()))
                .chain(judged)
                .collect()
        }
        Cell::Predicted { estimate: e } => {
            vec![
                number(e.value),
                optional(e.interval.map(|i| i.low)),
                optional(e.interval.map(|i| i.high)),
            ]
        }
        Cell::Measured { summary: s } => {
            vec![
                s.n.to_string(),
                number(s.mean),
                number(s.median),
                optional(s.sd),
                optional(s.interval.map(|i| i.low)),
                optional(s.interval.map(|i| i.high)),
                number(s.min),
                number(s.max),
                s.mild.to_string(),
                s.severe.to_string(),
            ]
        }
        Cell::Against { against: a } if fields > 0 => {
            let value =
                |b: &Option<ComparedValue>| b.as_ref().map(|b| number(b.value)).unwrap_or_default();
            let by =
                |b: &Option<ComparedValue>| b.as_ref().map(|b| number(b.by)).unwrap_or_default();
            vec![
                a.printed.clone(),
                value(&a.recomputed),
                by(&a.recomputed),
                a.mark.word().to_owned(),
                a.verdict.clone(),
                value(&a.modelled),
                by(&a.modelled),
                value(&a.measured),
                by(&a.measured),
                a.measured
                    .as_ref()
                    .and_then(|m| m.mark)
                    .map_or("", Mark::word)
                    .to_owned(),
                a.measured
                    .as_ref()
                    .map(|m| m.details.clone())
                    .unwrap_or_default(),
                a.notes.join(" "),
            ]
        }
        Cell::Empty | Cell::Text { .. } | Cell::Link { .. } | Cell::Number { .. } if fields > 0 => {
            vec![String::new(); fields]
        }
        Cell::Empty => vec![String::new()],
        Cell::Text { text } | Cell::Link { text, .. } => vec![text.clone()],
        Cell::Against { against } => vec![against.printed.clone()],
        Cell::Number { value } => vec![number(*value)],
    }
}

/// Formats a number as the shortest text that parses back to it.
fn number(value: f64) -> String {
    format!("{value}")
}

/// Writes rows that may exceed memory to a file, line by line.
pub(super) fn write_rows(
    rows: &dyn LongRows,
    path: &Utf8Path,
    out: &mut dyn Write,
) -> Result<(), ShowError> {
    let mut write = |fields: &mut dyn Iterator<Item = String>| {
        let mut text = String::new();
        line(&mut text, fields);
        out.write_all(text.as_bytes())
            .map_err(StoreError::io("write", path))
    };
    write(&mut rows.columns().into_iter())?;
    rows.each(&mut write)
}

/// Appends a line. Every line must be written by this function, because it changes fields that a spreadsheet would evaluate as a formula.
pub fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
        let field = inert(&field);
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::line;
    use cvc_core::visible::inert;

    #[test]
    fn nothing_in_a_line_is_a_formula_and_numbers_stay() {
        let written = |fields: &[&str]| {
            let mut out = String::new();
            line(&mut out, fields.iter().map(|f| (*f).to_owned()));
            out
        };
        assert_eq!(
            written(&["=1+1", "-2+3", "@SUM(A1)", "+cmd|' /C calc'!A0"]),
            "'=1+1,'-2+3,'@SUM(A1),'+cmd|' /C calc'!A0\n"
        );
        assert_eq!(
            written(&["\t=1", "\n=1", "\u{ff1d}1", "a=1", ""]),
            "'\t=1,\"'\n=1\",'\u{ff1d}1,a=1,\n"
        );
        assert_eq!(
            written(&["-2.5", "+3", "1e-9", "-0", "-inf"]),
            "-2.5,+3,1e-9,-0,-inf\n"
        );
        assert_eq!(inert("-2 %"), "'-2 %");
    }
}
