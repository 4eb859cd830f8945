//! A published work.

use super::{cell::PrintedTable, definition::Anomaly};

/// A published work with its tables.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Name of its folder.
    pub id: String,
    /// Title, as published.
    pub title: String,
    /// Authors.
    pub authors: Vec<String>,
    /// Year, if it is known.
    pub year: Option<u32>,
    /// Where it was published.
    pub published: Option<String>,
    /// What a reader has to know.
    pub note: Option<String>,
    /// Its tables, in the order of `paper.toml`.
    pub tables: Vec<PrintedTable>,
    /// What is wrong or doubtful in print.
    pub anomalies: Vec<Anomaly>,
    /// Anomalies of the text and of the work as a whole, as indices.
    pub(super) notes: Vec<usize>,
}

impl Paper {
    /// A table by its identifier, also with the paper's name before it: `5.1`, `thesis-5.1`.
    pub fn table(&self, id: &str) -> Option<&PrintedTable> {
        let bare = id
            .strip_prefix(&self.id)
            .and_then(|rest| rest.strip_prefix('-'))
            .unwrap_or(id);
        self.tables.iter().find(|t| t.definition.id == bare)
    }

    /// Anomalies of the text and of the work as a whole.
    pub fn notes(&self) -> impl Iterator<Item = &Anomaly> {
        self.notes.iter().map(|i| &self.anomalies[*i])
    }
}
