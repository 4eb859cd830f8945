//! All cells that are wrong in print, in one list.

use super::{
    definition::{ColumnDefinition, TableDefinition},
    judge::{Reproduction, Verdict},
};
use cvc_show::Confidence;

/// A cell that is wrong in print.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundMisprint<'r> {
    /// Its table.
    pub table: &'r TableDefinition,
    /// Row, from 0, in the order of print.
    pub row: usize,
    /// What names the row.
    pub about: String,
    /// Its column.
    pub column: &'r ColumnDefinition,
    /// As printed.
    pub printed: &'r str,
    /// What was probably meant.
    pub likely: &'r str,
    /// What comes out of the paper's own inputs, in the unit of the column.
    pub recomputed: Option<f64>,
    /// Name of the anomaly that says so.
    pub anomaly: &'r str,
    /// Why.
    pub why: &'r str,
    /// How sure that is.
    pub confidence: Confidence,
}

/// Lists all cells that are wrong in print, in the order of print.
pub fn misprints(of: &Reproduction) -> Vec<FoundMisprint<'_>> {
    let mut found = Vec::new();
    for table in &of.tables {
        for (row, cells) in table.rows.iter().enumerate() {
            for (column, cell) in table.definition.columns.iter().zip(cells) {
                if let Verdict::PrintedWrong {
                    anomaly,
                    likely,
                    why,
                    confidence,
                    ..
                } = &cell.verdict
                {
                    found.push(FoundMisprint {
                        table: &table.definition,
                        row,
                        about: table.row_name(row),
                        column,
                        printed: cell.printed.text(),
                        likely,
                        recomputed: cell.recomputed.map(|(r, _)| r.value()),
                        anomaly,
                        why,
                        confidence: *confidence,
                    });
                }
            }
        }
    }
    found
}
