//! Formats blocks as text for terminals and pipes.

use crate::{
    document::{Block, Cell, Column, Narrow, Table},
    format::{Style, numeric, plain},
};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, TableStyle,
};
use std::fmt::{self, Write as _};

const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// Minimum plausible width of a terminal, columns; a smaller one is treated as unknown.
const MIN_WIDTH: u16 = 20;

/// Minimum number of characters that a shortened text keeps.
const MIN_SHORTENED: usize = 12;

/// Returns the width of the terminal; `None` if standard output is not a terminal, or its width is unknown.
pub fn terminal_width() -> Option<usize> {
    comfy_table::Table::new()
        .set_content_arrangement(ContentArrangement::Dynamic)
        .width()
        .filter(|width| *width >= MIN_WIDTH)
        .map(usize::from)
}

/// Indents a text. On a terminal, also wraps it between words.
pub fn paragraph(indent: &str, text: &str) -> String {
    wrap(indent, text, terminal_width())
}

fn wrap(indent: &str, text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("{indent}{text}");
    };
    // further lines are indented more, so that the items of a list can be distinguished
    let further = format!("{indent}  ");
    let options = textwrap::Options::new(width)
        .initial_indent(indent)
        .subsequent_indent(&further)
        .break_words(false)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::fill(text, options)
}

/// Formats blocks for a terminal of this width; each block ends with a line end.
pub fn text(blocks: &[Block], width: Option<usize>) -> String {
    let mut out = String::new();
    let paragraph = |indent: &str, text: &str| wrap(indent, text, width);
    for block in blocks {
        let _ = match block {
            Block::Text { text } => writeln!(out, "{}", paragraph("", text)),
            Block::Warning { text } => {
                writeln!(out, "{}", paragraph("", &format!("warning: {text}")))
            }
            Block::Item { level, text } => {
                writeln!(out, "{}", paragraph(&"  ".repeat(*level), text))
            }
            Block::Line { text } | Block::Command { text } => writeln!(out, "{text}"),
            Block::Pairs { pairs } => pairs
                .iter()
                .try_for_each(|(name, value)| writeln!(out, "{name}: {value}")),
            Block::Table(table) => writeln!(out, "{}", made(table, width).trim_fmt()),
            Block::Plot(_) => Ok(()),
        };
    }
    out
}

/// Returns whether a table fits the terminal's width; without a terminal, every table does.
pub fn fits(table: &Table) -> bool {
    terminal_width().is_none_or(|width| fits_in(table, width))
}

/// Returns whether a table is at most this wide without shortening and wrapping.
pub fn fits_in(table: &Table, width: usize) -> bool {
    let text = made(table, None).trim_fmt();
    text.lines().all(|line| line.chars().count() <= width)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&made(self, terminal_width()).trim_fmt())
    }
}

/// Lays out a table. Its only rule is the one below the header, so that it fits narrow terminals and scripts can split it. Words are never broken.
fn made(table: &Table, width: Option<usize>) -> comfy_table::Table {
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|i| !table.columns[*i].data_only)
        .collect();
    let styles: Vec<Style> = shown.iter().map(|i| Style::of(table, *i)).collect();
    let mut made = comfy_table::Table::new();
    made.load_style(STYLE);
    let width = width.or(table.fallback_width.map(usize::from));
    if let Some(width) = width {
        made.set_content_arrangement(ContentArrangement::Dynamic);
        made.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    let heading = |(i, style): (&usize, &Style)| {
        let column = &table.columns[*i];
        match crate::format::unit_beside(&column.heading, style) {
            Some(unit) => format!("{} ({unit})", column.heading),
            None => column.heading.clone(),
        }
    };
    made.set_header(shown.iter().zip(&styles).map(heading));
    let cell = |cell: &Cell, style: &Style| match cell {
        Cell::Empty if style.unit.is_some() => "-".to_owned(),
        cell => plain(cell, style),
    };
    let mut rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            let cells = shown.iter().zip(&styles);
            cells.map(|(i, style)| cell(&row[*i], style)).collect()
        })
        .collect();
    if let Some(width) = width {
        let columns: Vec<&Column> = shown.iter().map(|i| &table.columns[*i]).collect();
        shorten_to(&columns, &mut rows, width);
    }
    let headings: Vec<String> = shown.iter().zip(&styles).map(heading).collect();
    let has_wrap = shown
        .iter()
        .any(|i| table.columns[*i].narrow == Narrow::Wrap);
    let is_tight = width.is_some_and(|width| !has_wrap && natural_width(&headings, &rows) > width);
    for row in rows {
        made.add_row(row);
    }
    let last = shown.len().saturating_sub(1);
    for ((number, column), i) in made.column_iter_mut().enumerate().zip(&shown) {
        column.set_padding((0, u16::from(number != last && !is_tight)));
        let of = &table.columns[*i];
        if of.narrow != Narrow::Wrap {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
        if of.right || numeric(table, *i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    made
}

/// Returns the width of a table whose columns are separated by two blanks.
fn natural_width(headings: &[String], rows: &[Vec<String>]) -> usize {
    let widest = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.max().unwrap_or(0).max(headings[at].chars().count())
    };
    let all: usize = (0..headings.len()).map(|at| widest(at) + 2).sum();
    all.saturating_sub(2)
}

/// Shortens texts until the table has this width, if possible.
fn shorten_to(columns: &[&Column], rows: &mut [Vec<String>], width: usize) {
    let width_of = |rows: &[Vec<String>], at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells
            .max()
            .unwrap_or(0)
            .max(columns[at].heading.chars().count())
    };
    for at in (0..columns.len()).filter(|at| columns[*at].narrow == Narrow::Shorten) {
        let all: usize = (0..columns.len()).map(|at| 2 + width_of(rows, at)).sum();
        let room = width_of(rows, at).saturating_sub(all.saturating_sub(width + 2));
        for row in rows.iter_mut() {
            row[at] = shortened(&row[at], room.max(MIN_SHORTENED));
        }
    }
}

/// Shortens a text to at most `room` characters by cutting its middle, because names differ at their ends.
fn shortened(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let kept = room.saturating_sub(1);
    let head = kept / 4;
    let begin: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(length - (kept - head)).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::{shorten_to, shortened, wrap};
    use crate::document::{Narrow, Table};

    #[test]
    fn text_is_wrapped_between_words_and_only_on_terminals() {
        assert_eq!(wrap("  ", "one two three", Some(9)), "  one two\n    three");
        assert_eq!(
            wrap("  ", "a-word-that-is-too-long b", Some(9)),
            "  a-word-that-is-too-long\n    b"
        );
        assert_eq!(wrap("  ", "one two three", None), "  one two three");
    }

    #[test]
    fn long_names_keep_their_ends_and_tables_get_as_narrow_as_they_can() {
        assert_eq!(
            shortened("ckpt_bt.A.x_1f-41000-6a.dmtcp", 13),
            "ckp…-6a.dmtcp"
        );
        assert_eq!(shortened("bt.A.x", 6), "bt.A.x");
        let table = Table::plain(["image", "role"]).narrow("image", Narrow::Shorten);
        let columns: Vec<_> = table.columns.iter().collect();
        let row = || {
            vec![vec![
                "a/very/long/path/to/an/image".to_owned(),
                "rank".to_owned(),
            ]]
        };
        let length = |width| {
            let mut rows = row();
            shorten_to(&columns, &mut rows, width);
            rows[0][0].chars().count()
        };
        assert_eq!(length(26), 20);
        assert_eq!(length(3), 12);
        assert_eq!(length(80), 28);
    }
}
