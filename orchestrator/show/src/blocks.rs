//! What a command answers: blocks, in order.

use crate::document::{Block, Table};

/// Blocks that a command adds one after another.
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

    /// Adds an empty line, and a line below it.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.gap();
        self.line(text);
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.line("");
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.0.push(Block::Table(table));
    }

    /// Adds the first rows of a table, `limit` at most, and how many more there are of what a row is.
    pub fn first_rows(&mut self, mut table: Table, limit: usize, more: impl Fn(usize) -> String) {
        let left_out = table.rows.len().saturating_sub(limit);
        table.rows.truncate(limit);
        self.table(table);
        if left_out > 0 {
            self.say(more(left_out));
        }
    }
}
