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
        Self {
            table: table.to_owned(),
            row,
            column: column.to_owned(),
        }
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
    /// The campaigns, each once.
    #[serde(skip)]
    pub campaigns: Vec<String>,
    /// Tolerance against print, in percent of print.
    pub tolerance_pct: f64,
    /// Why it may differ by more, if that is known: another version of a library, another layout of the image.
    pub reason: Option<Reason>,
}

/// Why a measurement differs, and by how much that makes it differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// In words.
    pub because: String,
    /// Lowest and highest distance that it explains, in the unit of the cell's column; any other distance is unexplained.
    pub explains: [f64; 2],
}

/// Whether a measurement of today agrees with print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Within its tolerance of print.
    WithPrint,
    /// Within its tolerance of what was probably meant, where print is wrong.
    WithLikely,
    /// No, and the distance is one that the known reason explains.
    Explained,
    /// No, and nothing that is known explains it.
    Differs,
}

impl MeasuredHere {
    /// Whether it agrees with a printed number, or with the one that was probably meant in its place. This is the only place where that is
    /// decided.
    pub fn agreement(&self, printed: f64, likely: Option<f64>) -> Agreement {
        agreement(
            self.value,
            (printed, likely),
            self.tolerance_pct,
            self.reason.as_ref(),
        )
    }
}

/// The same for a number that is not a cell: a difference of cells.
pub fn agreement(
    measured: f64,
    (printed, likely): (f64, Option<f64>),
    tolerance_pct: f64,
    reason: Option<&Reason>,
) -> Agreement {
    let near = |to: f64| (measured - to).abs() <= tolerance_pct / 100.0 * to.abs();
    // where print is wrong, a reason explains the distance to what was meant
    let by = measured - likely.unwrap_or(printed);
    match reason {
        _ if likely.is_some_and(near) => Agreement::WithLikely,
        _ if near(printed) => Agreement::WithPrint,
        Some(Reason {
            explains: [low, high],
            ..
        }) if (*low..=*high).contains(&by) => Agreement::Explained,
        Some(_) | None => Agreement::Differs,
    }
}

/// What was measured, by cell.
pub type Measurements = BTreeMap<CellKey, MeasuredHere>;

#[cfg(test)]
mod tests {
    use super::{Agreement, Reason, agreement};

    #[test]
    fn a_reason_explains_its_range_and_no_other_distance() {
        let reason = Reason {
            because: "today's libraries".into(),
            explains: [45.5, 51.5],
        };
        let of = |measured: f64, likely: Option<f64>| {
            agreement(measured, (2.45, likely), 1.0, Some(&reason))
        };
        assert_eq!(of(2.46, None), Agreement::WithPrint);
        assert_eq!(of(50.93, None), Agreement::Explained);
        // neither no distance of that kind nor ten times it
        for wrong in [2.5, 40.0, 60.0, 500.0, -50.0, f64::NAN] {
            assert_eq!(of(wrong, None), Agreement::Differs, "{wrong}");
        }
        assert_eq!(
            agreement(50.93, (2.45, None), 1.0, None),
            Agreement::Differs
        );
        // where print is wrong, what was meant counts
        assert_eq!(of(50.93, Some(51.0)), Agreement::WithLikely);
        assert_eq!(of(50.93, Some(30.0)), Agreement::Differs);
        assert_eq!(of(50.93, Some(4.0)), Agreement::Explained);
    }
}
