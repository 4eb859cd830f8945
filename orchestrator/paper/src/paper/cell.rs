//! The cells of a table in print.

use super::{
    definition::{Effect, Kind, Likely, TableDefinition},
    printed::Printed,
};
use serde::Serialize;

/// A cell in print.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "cell", content = "printed", rename_all = "kebab-case")]
pub enum Cell {
    /// Nothing is printed.
    Empty,
    /// Text.
    Label(String),
    /// A number.
    Number(Printed),
}

impl Cell {
    /// As it is printed.
    pub fn text(&self) -> &str {
        match self {
            Self::Empty => "",
            Self::Label(text) => text,
            Self::Number(printed) => printed.text(),
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<&Printed> {
        match self {
            Self::Number(printed) => Some(printed),
            Self::Empty | Self::Label(_) => None,
        }
    }
}

/// What names a row: its cells that say what it is about; numbers with their headings.
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
    /// What was probably meant, if the cell is wrong.
    pub fn meant(&self) -> Option<&Likely> {
        self.likely
            .as_ref()
            .filter(|_| self.effect == Effect::Wrong)
    }
}

/// That a cell is wrong in print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Misprint<'t> {
    /// Index into the paper's anomalies.
    pub anomaly: usize,
    /// What was probably meant, if that is known.
    pub likely: Option<&'t Likely>,
}

/// A table in print.
#[derive(Clone, Debug)]
pub struct PrintedTable {
    /// What it is.
    pub definition: TableDefinition,
    pub(super) cells: Vec<Vec<Cell>>,
    /// Anomalies of each cell.
    pub(super) attached: Vec<Vec<Vec<Attached>>>,
    /// Anomalies of the table as a whole, as indices into the paper's.
    pub(super) notes: Vec<usize>,
}

impl PrintedTable {
    /// Rows in the order of print, each with a cell for every column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.cells
    }

    /// What names a row: the cells that say what it is about.
    pub fn row_name(&self, row: usize) -> String {
        self.cells.get(row).map_or_else(String::new, |cells| {
            row_name(&self.definition, cells.iter())
        })
    }

    /// Index of a column.
    pub fn column(&self, id: &str) -> Option<usize> {
        self.definition.columns.iter().position(|c| c.id == id)
    }

    /// That a cell is wrong in print, if it is.
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

    /// A cell.
    pub fn cell(&self, row: usize, column: &str) -> Option<&Cell> {
        self.cells.get(row)?.get(self.column(column)?)
    }
}
