//! The cells of a printed table.

use super::{
    definition::{Effect, Kind, Likely, TableDefinition},
    printed::Printed,
};
use serde::Serialize;

/// A printed cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "cell", content = "printed", rename_all = "kebab-case")]
pub enum Cell {
    /// An empty cell.
    Empty,
    /// Text.
    Label(String),
    /// A number.
    Number(Printed),
}

impl Cell {
    /// Returns the printed text.
    pub fn text(&self) -> &str {
        match self {
            Self::Empty => "",
            Self::Label(text) => text,
            Self::Number(printed) => printed.text(),
        }
    }

    /// Returns the number; `None` for a text or an empty cell.
    pub fn number(&self) -> Option<&Printed> {
        match self {
            Self::Number(printed) => Some(printed),
            Self::Empty | Self::Label(_) => None,
        }
    }
}

/// Returns the name of a row: the texts of its label cells, and its numbers with their headings.
pub(super) fn row_name<'c>(
    definition: &TableDefinition,
    cells: impl Iterator<Item = &'c Cell>,
) -> String {
    let names: Vec<String> = definition
        .columns
        .iter()
        .zip(cells)
        .filter(|(c, cell)| {
            matches!(c.kind, Kind::Label | Kind::Setting) && !cell.text().is_empty()
        })
        .map(|(c, cell)| {
            let text = cell.text();
            if text.chars().any(|ch| ch.is_ascii_alphabetic()) {
                text.to_owned()
            } else {
                format!("{} {text}", c.heading)
            }
        })
        .collect();
    names.join(", ")
}

/// An anomaly at a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attached {
    /// Index into the paper's anomalies.
    pub anomaly: usize,
    pub effect: Effect,
    pub likely: Option<Likely>,
}

impl Attached {
    /// Returns the probable value if the printed one is wrong; otherwise `None`.
    pub fn meant(&self) -> Option<&Likely> {
        self.likely
            .as_ref()
            .filter(|_| self.effect == Effect::Wrong)
    }
}

/// A misprint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misprint<'t> {
    /// Index into the paper's anomalies.
    pub anomaly: usize,
    /// The probable value, if known.
    pub likely: Option<&'t Likely>,
}

/// A printed table.
#[derive(Clone, Debug)]
pub struct PrintedTable {
    /// Definition of the table.
    pub definition: TableDefinition,
    pub(super) cells: Vec<Vec<Cell>>,
    /// Anomalies of each cell, by row and column.
    pub(super) attached: Vec<Vec<Vec<Attached>>>,
    /// Anomalies of the whole table, as indices into the paper's anomalies.
    pub(super) notes: Vec<usize>,
}

impl PrintedTable {
    /// Returns the rows in printed order, each with a cell for every column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.cells
    }

    /// Returns the name of a row, composed of its label cells.
    pub fn row_name(&self, row: usize) -> String {
        self.cells.get(row).map_or_else(String::new, |cells| {
            row_name(&self.definition, cells.iter())
        })
    }

    /// Returns the index of a column.
    pub fn column(&self, id: &str) -> Option<usize> {
        self.definition.columns.iter().position(|c| c.id == id)
    }

    /// Returns the misprint of a cell; `None` if it has none.
    pub fn misprint(&self, row: usize, column: &str) -> Option<Misprint<'_>> {
        let attached = self.attached.get(row)?.get(self.column(column)?)?;
        attached
            .iter()
            .find(|a| a.effect == Effect::Wrong)
            .map(|a| Misprint {
                anomaly: a.anomaly,
                likely: a.likely.as_ref(),
            })
    }

    /// Returns a cell.
    pub fn cell(&self, row: usize, column: &str) -> Option<&Cell> {
        self.cells.get(row)?.get(self.column(column)?)
    }
}
