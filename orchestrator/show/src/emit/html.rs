//! Writes a self-contained HTML page with its style, its script and its plots. All text is escaped.

use super::policy::{self, PageHead};
use crate::{
    document::{Against, Block, Cell, ComparedValue, Confidence, Document, Mark, Plot, Table},
    format::{Style, numeric, ratio, unit_beside},
};
use cvc_core::render_error::RenderError;
use cvc_core::visible::visible;
use cvc_model::stats::Outlier;
use handlebars::{Handlebars, html_escape};
use serde_json::{Value, json};

const PAGE: &str = include_str!("../../../../templates/report/report.html.hbs");
const STYLE: &str = include_str!("../../../../templates/report/report.css");
const SCRIPT: &str = include_str!("../../../../templates/report/report.js");

/// Number of rows above which a table gets its own scroll area.
const LONG: usize = 40;

/// Maximum number of rows of a folded table, since a page with all rows of a large campaign would open slowly.
const MAX_FOLDED: usize = 2000;

/// Number of rows in all tables above which each table is limited to [`MAX_OF_MANY`] rows, so that a page of 10^5 runs opens as fast as one of a
/// hundred.
const MANY: usize = 4000;

/// Maximum number of rows of each table in a large report.
const MAX_OF_MANY: usize = 200;

pub(super) fn page(report: &Document) -> Result<String, RenderError> {
    let failed = |detail: String| RenderError {
        what: "the page".to_owned(),
        detail,
    };
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine
        .register_template_string("page", PAGE)
        .map_err(|e| failed(e.to_string()))?;
    let tables = report
        .sections
        .iter()
        .flat_map(|s| &s.blocks)
        .filter_map(|block| match block {
            Block::Table(table) => Some(table.rows.len()),
            _ => None,
        });
    let is_large = tables.sum::<usize>() > MANY;
    let blocks = |of: &[Block]| -> Vec<Value> {
        let is_plot = |at: Option<&Block>| matches!(at, Some(Block::Plot(_)));
        let one = |(at, of_one): (usize, &Block)| {
            let mut value = block(of_one, is_large);
            // consecutive plots share a row
            let before = at.checked_sub(1).and_then(|at| of.get(at));
            if is_plot(Some(of_one)) {
                value["opens"] = json!(!is_plot(before));
                value["closes"] = json!(!is_plot(of.get(at + 1)));
            }
            value
        };
        of.iter().enumerate().map(one).collect()
    };
    let sections: Vec<Value> = report
        .sections
        .iter()
        .map(|s| {
            // if a table has the id of its section, the id belongs to the table, as in links to older reports
            let id = if report.tables().any(|t| t.id == s.id) {
                format!("section-{}", s.id)
            } else {
                s.id.to_owned()
            };
            json!({ "id": id, "title": s.title, "blocks": blocks(&s.blocks) })
        })
        .collect();
    // The campaign's name is not repeated if it is the title.
    let name = Some(&report.campaign).filter(|name| **name != report.title);
    let head = PageHead::with(STYLE, SCRIPT);
    let context = json!({
        "kind": report.kind.label(), "title": report.title, "name": name, "policy": head.policy, "style": head.style, "script": head.script,
        "sections": sections,
    });
    let page = engine
        .render("page", &context)
        .map_err(|e| failed(e.to_string()))?;
    // escapes control characters of terminals and characters that reverse the order of text
    Ok(visible(&page).into_owned())
}

fn block(block: &Block, is_large: bool) -> Value {
    let of = |kind: &str, value: Value| json!({ "text": null, "warning": null, "pairs": null, "command": null, "table": null, "plot": null, "opens": false, "closes": false, kind: value });
    match block {
        Block::Text { text } | Block::Item { text, .. } | Block::Line { text } => {
            of("text", json!(with_code(text)))
        }
        Block::Warning { text } => of("warning", json!(with_code(text))),
        Block::Pairs { pairs } => of(
            "pairs",
            pairs
                .iter()
                .map(|(name, value)| json!({ "name": name, "value": value }))
                .collect(),
        ),
        Block::Command { text } => of("command", json!(text)),
        Block::Table(t) => of("table", table(t, is_large)),
        Block::Plot(p) => of(
            "plot",
            json!({
                "id": p.id, "title": p.title, "caption": p.caption, "width": p.width, "panel": panel_width(p), "keys": p.keys, "panels": p.panels,
            }),
        ),
    }
}

/// Returns the width of a panel in pixels, read from its drawing; all panels of a plot have the same width.
fn panel_width(plot: &Plot) -> u32 {
    let width = plot
        .panels
        .first()
        .and_then(|svg| svg.split_once(" width=\""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .and_then(|(width, _)| width.parse().ok());
    width.unwrap_or(plot.width)
}

/// Escapes a text, and marks the parts between backticks as code.
fn with_code(text: &str) -> String {
    policy::with_code(text, html_escape)
}

fn table(table: &Table, is_large: bool) -> Value {
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|i| !table.columns[*i].data_only)
        .collect();
    let styles: Vec<Style> = shown.iter().map(|i| Style::of(table, *i)).collect();
    let columns: Vec<Value> = shown
        .iter()
        .zip(&styles)
        .map(|(i, style)| {
            json!({
                // A long name may break after an underscore.
                "heading": table.columns[*i].heading.replace('_', "_\u{200b}"),
                "unit": unit_beside(&table.columns[*i].heading, style),
                "better": table.columns[*i].better,
                "class": class(table, *i),
            })
        })
        .collect();
    // Rows are written here, because the template engine takes half a minute for a hundred thousand cells.
    let classes: Vec<&str> = shown.iter().map(|i| class(table, *i)).collect();
    let mut rows = String::new();
    let most = match (is_large, table.folded) {
        (true, _) => MAX_OF_MANY,
        (false, true) => MAX_FOLDED,
        (false, false) => usize::MAX,
    };
    for row in table.rows.iter().take(most) {
        rows.push_str("<tr>");
        for ((i, style), class) in shown.iter().zip(&styles).zip(&classes) {
            write_cell(&mut rows, &row[*i], style, class, &table.columns[*i].id);
        }
        rows.push_str("</tr>\n");
    }
    let mut caption = table.caption.clone();
    if table.rows.len() > most {
        caption.push_str(&format!(
            " The first {most} of {} rows: the CSV and JSON files have all.",
            table.rows.len()
        ));
    }
    let notes: Vec<Value> = table
        .notes
        .iter()
        .map(|n| json!({ "mark": n.mark, "text": n.text }))
        .collect();
    json!({ "id": table.id, "title": table.title, "caption": caption, "folded": table.folded, "long": table.rows.len() > LONG, "dense": dense(shown.len()), "columns": columns, "rows": rows, "notes": notes })
}

/// Returns the CSS class of a table by its number of columns: many columns need small type on paper.
fn dense(columns: usize) -> &'static str {
    match columns {
        0..=8 => "",
        9..=14 => "dense",
        _ => "densest",
    }
}

/// Returns the CSS class of a column: numbers are right-aligned, texts are left-aligned, and long texts may break.
fn class(table: &Table, column: usize) -> &'static str {
    let cells = || table.rows.iter().map(|r| &r[column]);
    let longest = cells()
        .map(|c| {
            if let Cell::Text { text } = c {
                text.chars().count()
            } else {
                0
            }
        })
        .max()
        .unwrap_or(0);
    if cells().any(|c| matches!(c, Cell::Measured { .. } | Cell::Compared { .. })) {
        "num measured"
    } else if cells().any(|c| matches!(c, Cell::Predicted { .. })) {
        "num predicted"
    } else if numeric(table, column) {
        "num"
    } else if longest > 28 {
        "long"
    } else {
        "txt"
    }
}

/// Writes a cell; all texts in it are escaped.
fn write_cell(out: &mut String, cell: &Cell, style: &Style, class: &str, column: &str) {
    match cell {
        Cell::Empty => element(out, &format!("{class} none"), "", "", "\u{2013}", ""),
        Cell::Text { text } => element(out, class, text, "", text, ""),
        Cell::Number { value } => {
            // Failures are highlighted.
            let class = if column == "failed" && *value > 0.0 {
                "num bad"
            } else {
                class
            };
            element(
                out,
                class,
                &value.to_string(),
                "",
                &style.number(*value),
                "",
            );
        }
        Cell::Link { text, to } => {
            let link = format!("<a href=\"#{}\">{}</a>", html_escape(to), html_escape(text));
            element(out, class, text, "", "", &link);
        }
        Cell::Against { against } => write_against(out, against, class),
        Cell::Compared { comparison } => {
            let (main, interval, details) = ratio(comparison);
            element(
                out,
                class,
                &comparison.ratio.to_string(),
                &details,
                &main,
                &below(&interval),
            );
        }
        Cell::Predicted { estimate } => {
            let (main, interval, details) = style.prediction(estimate);
            element(
                out,
                class,
                &estimate.value.to_string(),
                &details,
                &main,
                &below(&interval),
            );
        }
        Cell::Measured { summary: s } => {
            let flag = match s.outlier() {
                None => "",
                Some(Outlier::Mild) => {
                    "<span class=\"flag mild\" aria-label=\"mild outliers\">\u{25b3}</span>"
                }
                Some(Outlier::Severe) => {
                    "<span class=\"flag severe\" aria-label=\"severe outliers\">\u{25b2}</span>"
                }
            };
            let interval = match (s.n, s.min < s.max) {
                (1, _) => "n = 1".to_owned(),
                (_, false) => "\u{b1} 0".to_owned(),
                (_, true) => style.interval(s),
            };
            let more = format!("{flag}{}", below(&interval));
            element(
                out,
                class,
                &s.mean.to_string(),
                &style.details(s),
                &style.number(s.mean),
                &more,
            );
        }
    }
}

/// Writes a printed number, and below it the numbers that it is compared with.
fn write_against(out: &mut String, a: &Against, class: &str) {
    let mut more = String::new();
    let symbol = a.symbol();
    if !symbol.is_empty() {
        let confidence = a
            .confidence
            .map(|c| format!(", confidence {}", c.word()))
            .unwrap_or_default();
        more.push_str(&format!(
            " <span class=\"mark\" aria-label=\"{}{confidence}\">{symbol}</span>",
            a.mark.word(),
        ));
    }
    for note in &a.notes {
        more.push_str(&format!("<sup>{}</sup>", html_escape(note)));
    }
    let mut beside = |kind: &str, sign: &str, beside: &ComparedValue, mark: Option<Mark>| {
        let deviation = if mark.or(beside.mark).is_some_and(Mark::is_equal) {
            String::new()
        } else {
            format!(" <i>{}</i>", html_escape(&beside.deviation()))
        };
        let mark = beside
            .mark
            .map(|m| format!(" <b class=\"{}\">{}</b>", m.class(), m.symbol()))
            .unwrap_or_default();
        more.push_str(&format!(
            "<span class=\"beside {kind}\" title=\"{}\"><span aria-hidden=\"true\">{sign}</span> {}{deviation}{mark}</span>",
            html_escape(&beside.details),
            html_escape(&beside.shown)
        ));
    };
    if let Some(b) = &a.recomputed {
        beside("recomputed", "=", b, Some(a.mark));
    }
    if let Some(b) = &a.modelled {
        beside("modelled", "\u{25c7}", b, None);
    }
    if let Some(b) = &a.measured {
        beside("here", "\u{25cf}", b, None);
    }
    let unsure = match a.confidence {
        Some(Confidence::Medium | Confidence::Low) => " unsure",
        Some(Confidence::High) | None => "",
    };
    let class = format!("{class} against {}{unsure}", a.mark.class());
    let anchor = a.anchor.as_deref().unwrap_or_default();
    let texts = [&a.printed, &a.verdict, &a.printed].map(String::as_str);
    named_element(out, anchor, &class, texts, &more);
}

/// Returns the markup of a cell's second line.
fn below(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("<span class=\"ci\">{}</span>", html_escape(text))
    }
}

/// Writes the element of a cell. `more` is markup; all other texts are escaped.
fn element(out: &mut String, class: &str, sort: &str, title: &str, text: &str, more: &str) {
    named_element(out, "", class, [sort, title, text], more);
}

/// Writes the element of a cell with an identifier for links, unless the identifier is empty.
fn named_element(
    out: &mut String,
    id: &str,
    class: &str,
    [sort, title, text]: [&str; 3],
    more: &str,
) {
    let id = if id.is_empty() {
        String::new()
    } else {
        format!(" id=\"{}\"", html_escape(id))
    };
    let title = if title.is_empty() {
        String::new()
    } else {
        format!(" title=\"{}\"", html_escape(title))
    };
    let (sort, text) = (html_escape(sort), html_escape(text));
    out.push_str(&format!(
        "<td{id} class=\"{class}\" data-sort=\"{sort}\"{title}>{text}{more}</td>"
    ));
}

#[cfg(test)]
mod tests {
    use super::with_code;

    #[test]
    fn backticks_become_code_and_everything_is_escaped() {
        assert_eq!(
            with_code("Resume it with `cvc run <file>` & wait."),
            "Resume it with <code>cvc run &lt;file&gt;</code> &amp; wait."
        );
        assert_eq!(with_code("a ` alone <b>"), "a &#x60; alone &lt;b&gt;");
        assert_eq!(with_code("none"), "none");
    }
}
