//! The output of a command, a list of blocks.

use crate::document::{Block, Table};

/// The blocks of the output, in order.
#[derive(Clone, Debug, Default)]
pub struct Blocks(pub Vec<Block>);

impl Blocks {
    /// Adds a paragraph.
    pub fn say(&mut self, text: impl Into<String>) {
        self.0.push(Block::Text { text: text.into() });
    }

    /// Adds a paragraph that is indented by this many levels.
    pub fn item(&mut self, level: usize, text: impl Into<String>) {
        let text = text.into();
        self.0.push(Block::Item { level, text });
    }

    /// Adds a line that is never wrapped.
    pub fn line(&mut self, text: impl Into<String>) {
        self.0.push(Block::Line { text: text.into() });
    }

    /// Adds an empty line, and then a line that is never wrapped.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.gap();
        self.line(text);
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.line("");
    }

    /// Adds a list of names with their values.
    pub fn pairs(&mut self, pairs: impl IntoIterator<Item = (&'static str, String)>) {
        let pairs = pairs.into_iter();
        let pairs = pairs
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        self.0.push(Block::Pairs { pairs });
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.0.push(Block::Table(table));
    }

    /// Adds at most `limit` rows of a table. If there are more, adds the text that `more` returns for the number of rows left out.
    pub fn first_rows(&mut self, mut table: Table, limit: usize, more: impl Fn(usize) -> String) {
        let left_out = table.rows.len().saturating_sub(limit);
        table.rows.truncate(limit);
        self.table(table);
        if left_out > 0 {
            self.say(more(left_out));
        }
    }
}
