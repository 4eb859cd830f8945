//! The tables as Markdown, for a README or a pull request. Plots are left to the page.

use crate::report::{
    format::{Style, ratio, unit_beside},
    model::{Block, Cell, Report, Table},
};

pub(super) fn text(report: &Report) -> String {
    let name = format!("Report of campaign {}", escape(&report.campaign));
    let mut out = if report.title == report.campaign { format!("# {name}\n") } else { format!("# {}\n\n{name}\n", escape(&report.title)) };
    for section in &report.sections {
        if section.blocks.iter().all(|b| matches!(b, Block::Plot(_))) {
            continue;
        }
        out.push_str(&format!("\n## {}\n", section.title));
        for block in &section.blocks {
            match block {
                Block::Text { text } => out.push_str(&format!("\n{}\n", escape(text))),
                Block::Warning { text } => out.push_str(&format!("\n> **Note:** {}\n", escape(text))),
                Block::Pairs { pairs } => {
                    out.push('\n');
                    for (name, value) in pairs {
                        out.push_str(&format!("- {}: {}\n", escape(name), escape(value)));
                    }
                }
                Block::Command { text } => {
                    out.push('\n');
                    // Indented: no text can end it early.
                    for line in text.lines() {
                        out.push_str(&format!("    {line}\n"));
                    }
                }
                Block::Table(table) if !table.folded => write_table(&mut out, table),
                Block::Table(_) | Block::Plot(_) => {}
            }
        }
    }
    out
}

fn write_table(out: &mut String, table: &Table) {
    let shown: Vec<usize> = (0..table.columns.len()).filter(|i| !table.columns[*i].data_only).collect();
    let styles: Vec<Style> = shown.iter().map(|i| Style::of(table, *i)).collect();
    out.push_str(&format!("\n### {}\n\n{}\n\n", escape(&table.title), escape(&table.caption)));
    let heads = shown.iter().zip(&styles).map(|(i, style)| {
        let unit = unit_beside(&table.columns[*i].heading, style).map(|u| format!(", {u}")).unwrap_or_default();
        format!("{}{unit}", table.columns[*i].heading)
    });
    row(out, heads.map(|h| escape(&h)));
    let numeric = |i: usize| {
        table
            .rows
            .iter()
            .any(|r| matches!(r[i], Cell::Number { .. } | Cell::Measured { .. } | Cell::Predicted { .. } | Cell::Compared { .. }))
    };
    row(out, shown.iter().map(|i| if numeric(*i) { "--:".to_owned() } else { "---".to_owned() }));
    for cells in &table.rows {
        row(out, shown.iter().zip(&styles).map(|(i, style)| escape(&cell(&cells[*i], style))));
    }
}

fn cell(cell: &Cell, style: &Style) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text { text } => text.clone(),
        Cell::Number { value } => style.number(*value),
        Cell::Compared { comparison } => {
            let (main, interval, _) = ratio(comparison);
            format!("{main} {interval}").trim_end().to_owned()
        }
        Cell::Predicted { estimate } => {
            let (main, interval, _) = style.prediction(estimate);
            format!("{main} {interval}")
        }
        Cell::Measured { summary } => {
            let mut text = style.number(summary.mean);
            // An interval without width says nothing that the mean does not.
            if summary.min < summary.max {
                text.push_str(&format!(" {}", style.interval(summary)));
            }
            if summary.outlier().is_some() {
                text.push_str(" (outliers)");
            }
            text
        }
    }
}

fn row(out: &mut String, cells: impl Iterator<Item = String>) {
    out.push('|');
    for cell in cells {
        out.push_str(&format!(" {cell} |"));
    }
    out.push('\n');
}

/// Text that no Markdown reader takes for markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
