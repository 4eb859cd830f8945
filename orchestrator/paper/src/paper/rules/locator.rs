//! Access of rules to the cells of a paper's tables, either as printed or with known misprints corrected.

use super::NotRecomputable;
use crate::paper::{
    cell::{Cell, PrintedTable},
    definition::{Kind, Likely},
    published::Paper,
};
use std::cell::RefCell;

/// Position of a cell: table, row, column.
type CellPlace = (usize, usize, usize);

/// Settings for reading cells, and a record of the cells that were read.
#[derive(Debug, Default)]
pub(in crate::paper) struct Reads {
    /// Whether misprints are replaced by their probable value.
    pub corrected: bool,
    /// An amount to add to one input.
    pub shift: Option<(CellPlace, f64)>,
    /// Inputs with their rounding error, in the order in which they were first read.
    pub inputs: Vec<(CellPlace, f64)>,
    /// A constant that is not printed but was inferred from the recomputed cells themselves, if there is one.
    pub inferred: Option<&'static str>,
    /// Anomalies whose probable value was read, as indices into the paper's anomalies.
    pub used: Vec<usize>,
}

/// A cell that is being recomputed, with its context.
#[derive(Clone, Copy, Debug)]
pub struct CellContext<'a> {
    paper: &'a Paper,
    table: usize,
    row: usize,
    column: usize,
    of: &'a [String],
    reads: &'a RefCell<Reads>,
}

impl<'a> CellContext<'a> {
    pub(in crate::paper) fn new(
        paper: &'a Paper,
        place: CellPlace,
        of: &'a [String],
        reads: &'a RefCell<Reads>,
    ) -> Self {
        Self {
            paper,
            table: place.0,
            row: place.1,
            column: place.2,
            of,
            reads,
        }
    }

    fn printed(&self) -> &'a PrintedTable {
        &self.paper.tables[self.table]
    }

    /// Returns the identifier of the table.
    pub fn table_id(&self) -> &'a str {
        &self.printed().definition.id
    }

    /// Returns the identifier of the column.
    pub fn column_id(&self) -> &'a str {
        &self.printed().definition.columns[self.column].id
    }

    /// Returns the number of decimals with which the cell itself is printed.
    pub fn decimals(&self) -> u32 {
        self.printed().cells[self.row][self.column]
            .number()
            .map_or(0, |n| n.decimals())
    }

    /// Returns the arguments of the rule.
    pub fn of(&self) -> &'a [String] {
        self.of
    }

    /// Returns the text of a column in this row; empty if nothing is printed.
    pub fn text(&self, column: &str) -> &'a str {
        let table = self.printed();
        let Some(index) = table.column(column) else {
            return "";
        };
        match self
            .meant(index)
            .and_then(|(anomaly, likely)| Some((anomaly, likely.text()?)))
        {
            Some((anomaly, text)) => {
                self.note_correction(anomaly);
                text
            }
            None => table.cells[self.row][index].text(),
        }
    }

    /// Returns whether nothing is printed in a column of this row.
    pub fn is_empty(&self, column: &str) -> bool {
        self.printed()
            .cell(self.row, column)
            .is_none_or(|c| *c == Cell::Empty)
    }

    /// Returns the probable value in a column of this row, with the index of its anomaly.
    fn meant(&self, column: usize) -> Option<(usize, &'a Likely)> {
        let corrected = self.reads.borrow().corrected;
        self.printed().attached[self.row][column]
            .iter()
            .filter(|_| corrected)
            .find_map(|a| Some((a.anomaly, a.meant()?)))
    }

    /// Records that a misprint was corrected.
    fn note_correction(&self, anomaly: usize) {
        let mut reads = self.reads.borrow_mut();
        if !reads.used.contains(&anomaly) {
            reads.used.push(anomaly);
        }
    }

    /// Records that the number depends on this constant, which was inferred from the recomputed cells themselves, so that equality with the printed
    /// number proves nothing.
    pub fn rests_on(&self, constant: &'static str) {
        self.reads.borrow_mut().inferred = Some(constant);
    }

    /// Returns the number in a column of this row.
    ///
    /// # Errors
    /// The column does not exist, or has no number.
    pub fn number(&self, column: &str) -> Result<f64, NotRecomputable> {
        let table = self.printed();
        let index = table.column(column).ok_or_else(|| {
            NotRecomputable::Other(format!(
                "table {} has no column `{column}`",
                self.table_id()
            ))
        })?;
        let Cell::Number(printed) = &table.cells[self.row][index] else {
            return Err(NotRecomputable::Other(format!(
                "`{column}` is not printed in this row"
            )));
        };
        let place = (self.table, self.row, index);
        let mut value = printed.value();
        if let Some((anomaly, likely)) = self
            .meant(index)
            .and_then(|(anomaly, likely)| Some((anomaly, likely.number()?)))
        {
            self.note_correction(anomaly);
            value = likely;
        }
        let mut reads = self.reads.borrow_mut();
        let definition = &table.definition.columns[index];
        // counts and settings are exact
        let exact = definition.kind == Kind::Setting || definition.unit.as_deref() == Some("1");
        if !exact && !reads.inputs.iter().any(|(p, _)| *p == place) {
            reads
                .inputs
                .push((place, 0.5 * 10f64.powi(-(printed.decimals() as i32))));
        }
        match reads.shift {
            Some((shifted, by)) if shifted == place => Ok(value + by),
            Some(_) | None => Ok(value),
        }
    }

    /// Returns the count in a column of this row: a whole number that is not negative.
    ///
    /// # Errors
    /// There is no such number.
    pub fn count(&self, column: &str) -> Result<u32, NotRecomputable> {
        let value = self.number(column)?;
        if value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value) {
            Ok(value as u32)
        } else {
            Err(NotRecomputable::Other(format!(
                "`{column}` is not a whole number here"
            )))
        }
    }

    /// Returns all rows of the same table.
    pub fn rows(&self) -> impl Iterator<Item = Self> + use<'a> {
        let this = *self;
        (0..this.printed().cells.len()).map(move |row| Self { row, ..this })
    }

    /// Returns all rows of another table of the paper.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn rows_of(
        &self,
        table: &str,
    ) -> Result<impl Iterator<Item = Self> + use<'a>, NotRecomputable> {
        let index = self
            .paper
            .tables
            .iter()
            .position(|t| t.definition.id == table);
        let index =
            index.ok_or_else(|| NotRecomputable::Other(format!("unknown table {table}")))?;
        let this = Self {
            table: index,
            column: 0,
            ..*self
        };
        Ok(this.rows())
    }

    /// Returns the first row of another table that has these texts in its columns; `with` is (column, text) pairs.
    ///
    /// # Errors
    /// There is no such row.
    pub fn find(&self, table: &str, with: &[(&str, &str)]) -> Result<Self, NotRecomputable> {
        self.rows_of(table)?
            .find(|row| with.iter().all(|(c, v)| row.text(c) == *v))
            .ok_or_else(|| {
                let wanted: Vec<String> = with.iter().map(|(c, v)| format!("{c} {v}")).collect();
                NotRecomputable::Other(format!(
                    "table {table} has no row for {}",
                    wanted.join(", ")
                ))
            })
    }
}
