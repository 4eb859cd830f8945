//! Text for terminals: paths, tables, paragraphs.

use camino::{Utf8Path, Utf8PathBuf};
use comfy_table::{ContentLineStyle, LineStyle, TableStyle};

/// A path for messages: relative to the current directory if it is below it.
pub fn shown(path: &Utf8Path) -> Utf8PathBuf {
    let here = std::env::current_dir()
        .ok()
        .and_then(|d| Utf8PathBuf::from_path_buf(d).ok());
    here.and_then(|h| path.strip_prefix(h).ok().map(Utf8Path::to_owned))
        .unwrap_or_else(|| path.to_owned())
}

const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// A text table: one line below the header and no others, so that it fits narrow terminals and scripts can cut it. Words are never broken;
/// the columns in `free` may be wrapped between words.
pub fn table<'a>(header: impl IntoIterator<Item = &'a str>, free: &[&str]) -> comfy_table::Table {
    let header: Vec<&str> = header.into_iter().collect();
    let mut table = comfy_table::Table::new();
    table.load_style(STYLE);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(&header);
    let last = header.len().saturating_sub(1);
    for (number, (column, name)) in table.column_iter_mut().zip(&header).enumerate() {
        column.set_padding((0, if number == last { 0 } else { 1 }));
        if !free.contains(name) {
            column.set_constraint(comfy_table::ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// Terminals that say that they are narrower do not know how wide they are, columns.
const LEAST_WIDTH: u16 = 20;

/// The width of the terminal; `None` if standard output is not one, or does not say it.
pub fn terminal_width() -> Option<usize> {
    comfy_table::Table::new()
        .set_content_arrangement(comfy_table::ContentArrangement::Dynamic)
        .width()
        .filter(|width| *width >= LEAST_WIDTH)
        .map(usize::from)
}

/// Indents text and, on a terminal, wraps it between words.
pub fn paragraph(indent: &str, text: &str) -> String {
    wrap(indent, text, terminal_width())
}

fn wrap(indent: &str, text: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return format!("{indent}{text}");
    };
    // further lines are indented a little more, so that items of a list can be told apart
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

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn text_is_wrapped_between_words_and_only_on_terminals() {
        assert_eq!(wrap("  ", "one two three", Some(9)), "  one two\n    three");
        assert_eq!(
            wrap("  ", "a-word-that-is-too-long b", Some(9)),
            "  a-word-that-is-too-long\n    b"
        );
        assert_eq!(wrap("  ", "one two three", None), "  one two three");
    }
}
