//! Lists all misprints of a paper.

use super::{
    definition::{ColumnDefinition, TableDefinition},
    judge::{CellVerdict, Reproduction},
};
use cvc_show::Confidence;

/// A cell that is wrong in print.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundMisprint<'r> {
    /// Table with the cell.
    pub table: &'r TableDefinition,
    /// Row in printed order, counted from 0.
    pub row: usize,
    /// Name of the row.
    pub about: String,
    /// Column of the cell.
    pub column: &'r ColumnDefinition,
    /// The printed text.
    pub printed: &'r str,
    /// The probable value.
    pub likely: &'r str,
    /// The number recomputed from the paper's own inputs, in the unit of the column.
    pub recomputed: Option<f64>,
    /// Name of the anomaly that marks the cell as wrong.
    pub anomaly: &'r str,
    /// The reason why the printed text is wrong.
    pub why: &'r str,
    /// The confidence that the printed text is wrong.
    pub confidence: Confidence,
}

/// Returns all cells that are wrong in print, in printed order.
pub fn misprints(of: &Reproduction) -> Vec<FoundMisprint<'_>> {
    let mut found = Vec::new();
    for table in &of.tables {
        for (row, cells) in table.rows.iter().enumerate() {
            for (column, cell) in table.definition.columns.iter().zip(cells) {
                if let CellVerdict::PrintedWrong {
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
