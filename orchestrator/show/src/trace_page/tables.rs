//! The tables of a trace's page: findings, missing data, files, processes.

use super::{
    text::{self, escape},
    words::by_severity,
};
use cvc_trace::{
    document::{ShownStream, TraceDocument},
    findings::Severity,
};
use serde_json::{Value, json};

/// Maximum number of rows of a table, so that the page of a trace with a million files opens fast.
const MAX_ROWS: usize = 300;

/// Maximum number of characters of a name; a longer one is shortened in its middle.
const MAX_CHARACTERS: usize = 300;

/// A cell: its CSS class and its text.
type Cell = (&'static str, String);

/// Returns the data of a table for the template. `rows` are the rows to show, `all` is the number of all rows.
pub(super) fn table(
    id: &str,
    columns: &[(&'static str, &str)],
    rows: impl Iterator<Item = Vec<Cell>>,
    all: usize,
) -> Value {
    // the cells are written here, because the template engine is slow for many cells
    let mut body = String::new();
    for row in rows.take(MAX_ROWS) {
        body.push_str("<tr>");
        for (class, text) in row {
            let text = match class {
                "code" => text::with_code(&text),
                _ => escape(&cut(text)),
            };
            let none = if text == "–" { " none" } else { "" };
            body.push_str(&format!("<td class=\"{class}{none}\">{text}</td>"));
        }
        body.push_str("</tr>\n");
    }
    let more = (all > MAX_ROWS).then(|| {
        format!(
            "The first {} of {} rows; the JSON of the trace has all.",
            MAX_ROWS,
            text::count(all as u64)
        )
    });
    let heads: Vec<Value> = columns
        .iter()
        .map(|(class, name)| json!({ "class": class, "name": name }))
        .collect();
    json!({ "id": id, "columns": heads, "rows": body, "more": more, "long": all > 12 })
}

fn cut(text: String) -> String {
    let n = text.chars().count();
    if n <= MAX_CHARACTERS {
        return text;
    }
    let half = MAX_CHARACTERS / 2;
    let (start, end): (String, String) = (
        text.chars().take(half).collect(),
        text.chars().skip(n - half).collect(),
    );
    format!("{start} … {end}")
}

fn number(n: u64) -> Cell {
    ("num", text::count(n))
}

/// Returns a cell with a number, or with a dash if the number is unknown.
fn maybe(n: Option<u64>) -> Cell {
    n.map_or_else(|| ("num", "–".to_owned()), number)
}

fn size(bytes: u64) -> Cell {
    ("num", text::size(bytes as f64))
}

pub(super) fn findings(document: &TraceDocument) -> Option<Value> {
    let columns = [
        ("txt", "Severity"),
        ("txt", "Code"),
        ("txt", "Drishti"),
        ("long", "Observation"),
        ("code", "Recommendation"),
        ("path", "File"),
    ];
    let rows = by_severity(document).into_iter().map(|f| {
        let class = match f.severity {
            Severity::High => "high",
            Severity::Warning => "warn",
            Severity::Good => "good",
            Severity::Info => "txt",
        };
        vec![
            (class, f.severity.word().to_owned()),
            ("txt", f.code.to_owned()),
            ("txt", f.drishti.unwrap_or("–").to_owned()),
            ("long", f.evidence.clone()),
            ("code", f.hint.unwrap_or("–").to_owned()),
            (
                "path",
                f.file.clone().unwrap_or_else(|| "whole trace".to_owned()),
            ),
        ]
    });
    let all = document.findings.len();
    (all > 0).then(|| table("table-findings", &columns, rows, all))
}

pub(super) fn missing(document: &TraceDocument) -> Option<Value> {
    let all: Vec<Value> = document
        .missing
        .iter()
        .map(|m| json!({ "part": escape(&cut(m.part.clone())), "problem": escape(&cut(m.problem.clone())) }))
        .collect();
    let more = (document.more_missing > 0)
        .then(|| format!("and {} more", text::count(document.more_missing)));
    (!all.is_empty() || more.is_some()).then(|| json!({ "all": all, "more": more }))
}

/// Returns four cells about operations of one kind: number, bytes, rate and pattern.
fn stream(of: &ShownStream) -> [Cell; 4] {
    if of.operations == 0 {
        return std::array::from_fn(|i| (if i < 3 { "num" } else { "txt" }, "–".to_owned()));
    }
    [
        number(of.operations),
        size(of.bytes),
        ("num", text::rate(of.bandwidth_mib_s)),
        ("txt", of.pattern.clone()),
    ]
}

pub(super) fn files(document: &TraceDocument) -> Value {
    let columns = [
        ("path", "File"),
        ("txt", "Access"),
        ("txt", "Interface"),
        ("num", "Readers"),
        ("num", "Writers"),
        ("num", "Reads"),
        ("num", "Read"),
        ("num", "Read MiB/s"),
        ("txt", "Order of reads"),
        ("num", "Writes"),
        ("num", "Written"),
        ("num", "Write MiB/s"),
        ("txt", "Order of writes"),
        ("num", "Opens"),
        ("num", "Syncs"),
        ("num", "Other operations"),
        ("num", "Time of these"),
    ];
    let rows = document.files.iter().map(|f| {
        let mut row = vec![
            ("path", f.path.clone()),
            ("txt", f.access.to_owned()),
            ("txt", f.interface.unwrap_or("–").to_owned()),
            maybe(f.readers.map(|n| n as u64)),
            maybe(f.writers.map(|n| n as u64)),
        ];
        row.extend(stream(&f.reads));
        row.extend(stream(&f.writes));
        row.extend([
            number(f.opens),
            number(f.syncs),
            number(f.metadata_operations),
            ("num", text::time(f.metadata_s)),
        ]);
        row
    });
    table("table-files", &columns, rows, document.files.len())
}

pub(super) fn processes(document: &TraceDocument) -> Value {
    let columns = [
        ("txt", "Process"),
        ("txt", "Node"),
        ("path", "Program"),
        ("num", "Read"),
        ("num", "Written"),
        ("num", "Time in operations"),
        ("num", "Last transfer"),
    ];
    let rows = document.processes.iter().map(|p| {
        vec![
            ("txt", p.process.clone()),
            ("txt", p.host.clone().unwrap_or_else(|| "–".to_owned())),
            ("path", p.program.clone().unwrap_or_else(|| "–".to_owned())),
            size(p.read_bytes),
            size(p.written_bytes),
            ("num", text::time(p.time_s)),
            ("num", p.last_s.map_or_else(|| "–".to_owned(), text::time)),
        ]
    });
    table("table-processes", &columns, rows, document.processes.len())
}

/// Returns the table of counters for each module of the logs. Modules are layers, so they are not summed.
pub(super) fn modules(document: &TraceDocument) -> Option<Value> {
    let columns = [
        ("txt", "Module"),
        ("num", "Files"),
        ("num", "Opens"),
        ("num", "Reads"),
        ("num", "Read"),
        ("num", "Writes"),
        ("num", "Written"),
        ("num", "Time in reads"),
        ("num", "Time in writes"),
        ("num", "Other time"),
        ("num", "First"),
        ("num", "Last"),
        ("txt", "Common sizes"),
        ("num", "MiB/s along the slowest path"),
    ];
    let bytes = |n: Option<u64>| n.map_or_else(|| ("num", "–".to_owned()), size);
    let time = |s: Option<f64>| ("num", s.map_or_else(|| "–".to_owned(), text::time));
    let rows = document
        .logs
        .iter()
        .flat_map(|log| &log.modules)
        .map(|module| {
            let mut row = vec![("txt", module.title()), number(module.files)];
            let Some(of) = &module.counts else {
                row.resize(columns.len(), ("num", "–".to_owned()));
                return row;
            };
            let sizes: Vec<String> = of
                .common_sizes
                .iter()
                .map(|(bytes, n)| format!("{bytes} B ({n})"))
                .collect();
            row.extend([
                maybe(of.opens),
                maybe(of.reads),
                bytes(of.read_bytes),
                maybe(of.writes),
                bytes(of.written_bytes),
                time(of.read_s),
                time(of.write_s),
                time(of.meta_s),
                time(of.first_s),
                time(of.last_s),
                ("txt", sizes.join(", ")),
                ("num", text::rate(module.bandwidth_mib_s)),
            ]);
            row
        });
    let all = document.logs.iter().map(|log| log.modules.len()).sum();
    (all > 0).then(|| table("table-modules", &columns, rows, all))
}
