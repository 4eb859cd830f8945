//! One self-contained page: its style, its script and its plots stand in it. Every text goes through the template's escaping.

use crate::{
    report::{
        format::{Style, ratio},
        model::{Block, Cell, Report, Table},
    },
    stats::Outlier,
    store::StoreError,
};
use handlebars::Handlebars;
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../../../templates/report/report.html.hbs");
const STYLE: &str = include_str!("../../../../../templates/report/report.css");
const SCRIPT: &str = include_str!("../../../../../templates/report/report.js");

pub(super) fn page(report: &Report) -> Result<String, StoreError> {
    let failed = |detail: String| StoreError::Render { what: "the page".to_owned(), detail };
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine.register_template_string("page", PAGE).map_err(|e| failed(e.to_string()))?;
    let sections: Vec<Value> = report
        .sections
        .iter()
        .map(|s| json!({ "id": s.id, "title": s.title, "blocks": s.blocks.iter().map(block).collect::<Vec<_>>() }))
        .collect();
    let context = json!({ "campaign": report.campaign, "style": STYLE, "script": SCRIPT, "sections": sections });
    engine.render("page", &context).map_err(|e| failed(e.to_string()))
}

fn block(block: &Block) -> Value {
    let of = |kind: &str, value: Value| json!({ "text": null, "warning": null, "pairs": null, "command": null, "table": null, "plot": null, kind: value });
    match block {
        Block::Text { text } => of("text", json!(text)),
        Block::Warning { text } => of("warning", json!(text)),
        Block::Pairs { pairs } => of("pairs", pairs.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()),
        Block::Command { text } => of("command", json!(text)),
        Block::Table(t) => of("table", table(t)),
        Block::Plot(p) => of("plot", json!({ "id": p.id, "title": p.title, "caption": p.caption, "svg": p.svg, "width": p.width })),
    }
}

fn table(table: &Table) -> Value {
    let shown: Vec<usize> = (0..table.columns.len()).filter(|i| !table.columns[*i].data_only).collect();
    let styles: Vec<Style> = shown.iter().map(|i| Style::of(table, *i)).collect();
    let columns: Vec<Value> = shown
        .iter()
        .zip(&styles)
        .map(|(i, style)| json!({ "heading": table.columns[*i].heading, "unit": style.unit, "class": class(table, *i) }))
        .collect();
    let rows: Vec<Vec<Value>> = table
        .rows
        .iter()
        .map(|row| shown.iter().zip(&styles).map(|(i, style)| cell(&row[*i], style, class(table, *i), &table.columns[*i].id)).collect())
        .collect();
    json!({ "id": table.id, "title": table.title, "caption": table.caption, "folded": table.folded, "columns": columns, "rows": rows })
}

/// Numbers stand to the right, texts to the left; long texts may break.
fn class(table: &Table, column: usize) -> &'static str {
    let cells = || table.rows.iter().map(|r| &r[column]);
    let longest = cells().map(|c| if let Cell::Text { text } = c { text.chars().count() } else { 0 }).max().unwrap_or(0);
    if cells().any(|c| matches!(c, Cell::Measured { .. } | Cell::Compared { .. })) {
        "num measured"
    } else if cells().any(|c| matches!(c, Cell::Number { .. })) {
        "num"
    } else if longest > 28 {
        "long"
    } else {
        "txt"
    }
}

fn cell(cell: &Cell, style: &Style, class: &str, column: &str) -> Value {
    let of = |main: String, sort: String, title: String, interval: String, flag: &str, class: String| json!({ "main": main, "sort": sort, "title": title, "interval": interval, "flag": flag, "class": class });
    let plain = |main: String, sort: String, class: &str| of(main, sort, String::new(), String::new(), "", class.to_owned());
    match cell {
        Cell::Empty => plain("\u{2013}".to_owned(), String::new(), &format!("{class} none")),
        Cell::Text { text } => plain(text.clone(), text.clone(), class),
        Cell::Number { value } => {
            // Failures are seen at a glance.
            let failed = column == "failed" && *value > 0.0;
            plain(style.number(*value), value.to_string(), if failed { "num bad" } else { class })
        }
        Cell::Compared { comparison } => {
            let (main, interval, details) = ratio(comparison);
            of(main, comparison.ratio.to_string(), details, interval, "", class.to_owned())
        }
        Cell::Measured { summary: s } => {
            let flag = match s.outlier() {
                None => "",
                Some(Outlier::Mild) => "mild",
                Some(Outlier::Severe) => "severe",
            };
            let below = match (s.n, s.min < s.max) {
                (1, _) => "n = 1".to_owned(),
                (_, false) => "± 0".to_owned(),
                (_, true) => style.interval(s),
            };
            of(style.number(s.mean), s.mean.to_string(), style.details(s), below, flag, class.to_owned())
        }
    }
}
