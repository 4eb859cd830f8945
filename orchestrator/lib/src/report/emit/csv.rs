//! One tidy CSV file for each table (RFC 4180), with full precision and the units of the store; and all records.

use crate::report::model::{Cell, Column, RecordRow, Report, Table};

/// What is written of a measurement, as endings of its column's name.
const OF_MEASURED: [&str; 10] = ["n", "mean", "median", "sd", "ci_low", "ci_high", "min", "max", "mild_outliers", "severe_outliers"];

/// Names and contents of the files.
pub(super) fn files(report: &Report) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = report.tables().map(|t| (format!("{}.csv", t.id), table(t))).collect();
    files.push(("records.csv".to_owned(), records(report)));
    files
}

fn table(table: &Table) -> String {
    let measured: Vec<bool> = (0..table.columns.len()).map(|i| table.rows.iter().any(|r| matches!(r[i], Cell::Measured { .. }))).collect();
    let mut out = String::new();
    let head = table.columns.iter().zip(&measured).flat_map(|(c, m)| names(c, *m));
    line(&mut out, head);
    for row in &table.rows {
        line(&mut out, row.iter().zip(&measured).flat_map(|(cell, m)| values(cell, *m)));
    }
    out
}

fn names(column: &Column, measured: bool) -> Vec<String> {
    if measured { OF_MEASURED.map(|m| format!("{}_{m}", column.id)).to_vec() } else { vec![column.id.clone()] }
}

fn values(cell: &Cell, measured: bool) -> Vec<String> {
    match cell {
        Cell::Measured { summary: s } => {
            let optional = |v: Option<f64>| v.map(number).unwrap_or_default();
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
        Cell::Empty | Cell::Text { .. } | Cell::Number { .. } if measured => vec![String::new(); OF_MEASURED.len()],
        Cell::Empty => vec![String::new()],
        Cell::Text { text } => vec![text.clone()],
        Cell::Number { value } => vec![number(*value)],
    }
}

/// The shortest text that reads back to the same number.
fn number(value: f64) -> String {
    format!("{value}")
}

fn records(report: &Report) -> String {
    let records = &report.records;
    let mut out = String::new();
    let own = RecordRow::COLUMNS.iter().map(|c| (*c).to_owned());
    line(&mut out, own.chain(["value".to_owned()]).chain(records.factors.iter().map(|f| factor(f))));
    for row in &records.rows {
        let own = row.text.iter().map(|t| t.clone().unwrap_or_default());
        let value = row.value.map(number).unwrap_or_default();
        line(&mut out, own.chain([value]).chain(records.points[row.point].iter().cloned()));
    }
    out
}

/// A factor's column, told apart from the record's own.
fn factor(name: &str) -> String {
    if RecordRow::COLUMNS.contains(&name) || name == "value" { format!("factor_{name}") } else { name.to_owned() }
}

fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
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
