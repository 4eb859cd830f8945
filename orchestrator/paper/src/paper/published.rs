//! A published work.

use super::{
    cell::PrintedTable,
    claim::Claim,
    definition::{Anomaly, FigureDefinition},
};

/// A published work with its tables.
#[derive(Clone, Debug)]
pub struct Paper {
    /// Name of the paper's folder.
    pub id: String,
    /// Title, as published.
    pub title: String,
    /// Authors.
    pub authors: Vec<String>,
    /// Year, if it is known.
    pub year: Option<u32>,
    /// Place of publication.
    pub published: Option<String>,
    /// A note for readers.
    pub note: Option<String>,
    /// Tables of the paper, in the order of `paper.toml`.
    pub tables: Vec<PrintedTable>,
    /// Errors and doubtful passages in the paper.
    pub anomalies: Vec<Anomaly>,
    /// Claims of the paper about its numbers.
    pub claims: Vec<Claim>,
    /// Figures whose numbers are in a table.
    pub figures: Vec<FigureDefinition>,
    /// Anomalies of the text and of the work as a whole, as indices into `anomalies`.
    pub(super) notes: Vec<usize>,
}

impl Paper {
    /// Returns a table by its identifier, with or without the paper's name before it: `5.1`, `thesis-5.1`.
    pub fn table(&self, id: &str) -> Option<&PrintedTable> {
        let bare = id
            .strip_prefix(&self.id)
            .and_then(|rest| rest.strip_prefix('-'))
            .unwrap_or(id);
        self.tables.iter().find(|t| t.definition.id == bare)
    }

    /// Returns the anomalies of the text and of the work as a whole.
    pub fn notes(&self) -> impl Iterator<Item = &Anomaly> {
        self.notes.iter().map(|i| &self.anomalies[*i])
    }
}
