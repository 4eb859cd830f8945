//! What was measured here, for the cells of a paper's tables.

use serde::Serialize;
use std::collections::BTreeMap;

/// A cell of a table of a paper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CellKey {
    /// Identifier of the table, as in `paper.toml`: `5.1`.
    pub table: String,
    /// Row, from 0, in the order of print.
    pub row: usize,
    /// Identifier of the column, as in `paper.toml`: `dtapp_MiB`.
    pub column: String,
}

impl CellKey {
    /// The cell of a table's row and column.
    pub fn new(table: &str, row: usize, column: &str) -> Self {
        Self { table: table.to_owned(), row, column: column.to_owned() }
    }
}

/// A number that was measured here, by real runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredHere {
    /// Mean, in the unit of the cell's column.
    pub value: f64,
    /// Runs.
    pub n: usize,
    /// Standard deviation; `None` for one run.
    pub sd: Option<f64>,
    /// From which campaign and runs.
    pub from: String,
    /// How far it may be from print and still count as the same, in percent of print.
    pub tolerance_pct: f64,
    /// Why it differs from print by more than chance, if that is known: another version of a library, another layout of the image.
    pub cause: Option<String>,
}

/// What was measured, by cell.
pub type Measurements = BTreeMap<CellKey, MeasuredHere>;
