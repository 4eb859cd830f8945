//! Writes the tables as Markdown, for a README or a pull request. Plots are left out.

use crate::{
    document::{Block, Document, DocumentKind, Table},
    format::{Style, numeric, plain, unit_beside},
};
use cvc_core::visible::visible;

pub(super) fn text(report: &Document) -> String {
    let name = match report.kind {
        DocumentKind::Campaign => format!("Report of campaign {}", escape(&report.campaign)),
        DocumentKind::Paper | DocumentKind::Comparison | DocumentKind::Advice => {
            format!("{}: {}", report.kind.label(), escape(&report.campaign))
        }
    };
    let mut out = if report.title == report.campaign {
        format!("# {name}\n")
    } else {
        format!("# {}\n\n{name}\n", escape(&report.title))
    };
    for section in &report.sections {
        if section.blocks.iter().all(|b| matches!(b, Block::Plot(_))) {
            continue;
        }
        out.push_str(&format!("\n## {}\n", section.title));
        for block in &section.blocks {
            match block {
                Block::Text { text } | Block::Item { text, .. } | Block::Line { text } => {
                    out.push_str(&format!("\n{}\n", escape(text)))
                }
                Block::Warning { text } => {
                    out.push_str(&format!("\n> **Note:** {}\n", escape(text)))
                }
                Block::Pairs { pairs } => {
                    out.push('\n');
                    for (name, value) in pairs {
                        out.push_str(&format!("- {}: {}\n", escape(name), escape(value)));
                    }
                }
                Block::Command { text } => {
                    out.push('\n');
                    // The text is an indented block, because no content can end such a block.
                    for line in text.lines() {
                        out.push_str(&format!("    {line}\n"));
                    }
                }
                Block::Table(table) if !table.folded => write_table(&mut out, table),
                Block::Table(_) | Block::Plot(_) => {}
            }
        }
    }
    // escapes control characters of terminals
    visible(&out).into_owned()
}

fn write_table(out: &mut String, table: &Table) {
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|i| !table.columns[*i].data_only)
        .collect();
    let styles: Vec<Style> = shown.iter().map(|i| Style::of(table, *i)).collect();
    out.push_str(&format!(
        "\n### {}\n\n{}\n\n",
        escape(&table.title),
        escape(&table.caption)
    ));
    let heads = shown.iter().zip(&styles).map(|(i, style)| {
        let unit = unit_beside(&table.columns[*i].heading, style)
            .map(|u| format!(", {u}"))
            .unwrap_or_default();
        format!("{}{unit}", table.columns[*i].heading)
    });
    row(out, heads.map(|h| escape(&h)));
    row(
        out,
        shown.iter().map(|i| {
            if numeric(table, *i) {
                "--:".to_owned()
            } else {
                "---".to_owned()
            }
        }),
    );
    for cells in &table.rows {
        row(
            out,
            shown
                .iter()
                .zip(&styles)
                .map(|(i, style)| escape(&plain(&cells[*i], style))),
        );
    }
    if !table.notes.is_empty() {
        out.push('\n');
    }
    for note in &table.notes {
        out.push_str(&format!(
            "- {}: {}\n",
            escape(&note.mark),
            escape(&note.text)
        ));
    }
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        out.push_str(&format!(" {cell} |"));
    }
    out.push('\n');
}

/// Escapes text so that Markdown readers take no part of it for markup, a link or an image. The text may be the output of any program.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let follows = |next: &str| text[at + c.len_utf8()..].starts_with(next);
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            // a bracket needs no escape unless the next character makes it a link or an image
            ']' if follows("(") || follows("[") || follows(":") => out.push_str("\\]"),
            // some readers turn addresses into links
            ':' if follows("//") => out.push_str("\\:"),
            '@' => out.push_str("\\@"),
            '.' if text[..at].to_ascii_lowercase().ends_with("www") => out.push_str("\\."),
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
