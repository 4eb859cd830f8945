//! Measurements made here, by cell of a paper's tables.

use serde::Serialize;
use std::collections::BTreeMap;

/// Key of a cell in a table of a paper.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CellKey {
    /// Identifier of the table as in `paper.toml`, such as `5.1`.
    pub table: String,
    /// Row in printed order, counted from 0.
    pub row: usize,
    /// Identifier of the column as in `paper.toml`, such as `dtapp_MiB`.
    pub column: String,
}

impl CellKey {
    /// Returns the key of a table's row and column.
    pub fn new(table: &str, row: usize, column: &str) -> Self {
        Self {
            table: table.to_owned(),
            row,
            column: column.to_owned(),
        }
    }
}

/// A number measured here in real runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredHere {
    /// Mean, in the unit of the cell's column.
    pub value: f64,
    /// Number of runs.
    pub n: usize,
    /// Standard deviation; `None` for one run.
    pub sd: Option<f64>,
    /// The campaign and the runs, as text.
    pub from: String,
    /// Names of the campaigns, without duplicates.
    #[serde(skip)]
    pub campaigns: Vec<String>,
    /// Tolerance in percent of the printed number.
    pub tolerance_pct: f64,
    /// Known reason for a larger difference, such as another version of a library or another layout of the image.
    pub reason: Option<UnmeasuredReason>,
}

/// The reason why a measurement differs, with the differences that it explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnmeasuredReason {
    /// The reason for the difference.
    pub because: String,
    /// Minimum and maximum difference that the reason explains, in the unit of the cell's column. Any other difference is unexplained.
    pub explains: [f64; 2],
}

/// Whether a measurement made here agrees with the printed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Within the tolerance of the printed number.
    WithPrint,
    /// Within the tolerance of the probable value, because the printed number is wrong.
    WithLikely,
    /// Outside the tolerance, but the known reason explains the difference.
    Explained,
    /// Outside the tolerance, for no known reason.
    Differs,
}

impl MeasuredHere {
    /// Returns whether the measurement agrees with a printed number, or with the probable value if the printed number is wrong. All verdicts use
    /// this function.
    pub fn agreement(&self, printed: f64, likely: Option<f64>) -> Agreement {
        agreement(
            self.value,
            (printed, likely),
            self.tolerance_pct,
            self.reason.as_ref(),
        )
    }
}

/// Returns the agreement for a number that is not a cell, such as a difference of cells.
pub fn agreement(
    measured: f64,
    (printed, likely): (f64, Option<f64>),
    tolerance_pct: f64,
    reason: Option<&UnmeasuredReason>,
) -> Agreement {
    let near = |to: f64| (measured - to).abs() <= tolerance_pct / 100.0 * to.abs();
    // if the printed number is wrong, a reason explains the difference from the probable value
    let by = measured - likely.unwrap_or(printed);
    match reason {
        _ if likely.is_some_and(near) => Agreement::WithLikely,
        _ if near(printed) => Agreement::WithPrint,
        Some(UnmeasuredReason {
            explains: [low, high],
            ..
        }) if (*low..=*high).contains(&by) => Agreement::Explained,
        Some(_) | None => Agreement::Differs,
    }
}

/// Measurements by cell.
pub type Measurements = BTreeMap<CellKey, MeasuredHere>;

#[cfg(test)]
mod tests {
    use super::{Agreement, UnmeasuredReason, agreement};

    #[test]
    fn a_reason_explains_its_range_and_no_other_distance() {
        let reason = UnmeasuredReason {
            because: "today's libraries".into(),
            explains: [45.5, 51.5],
        };
        let of = |measured: f64, likely: Option<f64>| {
            agreement(measured, (2.45, likely), 1.0, Some(&reason))
        };
        assert_eq!(of(2.46, None), Agreement::WithPrint);
        assert_eq!(of(50.93, None), Agreement::Explained);
        // neither a difference of the opposite sign nor one ten times as large is explained
        for wrong in [2.5, 40.0, 60.0, 500.0, -50.0, f64::NAN] {
            assert_eq!(of(wrong, None), Agreement::Differs, "{wrong}");
        }
        assert_eq!(
            agreement(50.93, (2.45, None), 1.0, None),
            Agreement::Differs
        );
        // if the printed number is wrong, the probable value counts
        assert_eq!(of(50.93, Some(51.0)), Agreement::WithLikely);
        assert_eq!(of(50.93, Some(30.0)), Agreement::Differs);
        assert_eq!(of(50.93, Some(4.0)), Agreement::Explained);
    }
}
