//! What the comparison of two sides found.

use super::{
    environment::EnvironmentDifference,
    matching::Unmatched,
    over_points::QuantityOverPoints,
    row::{ComparedRow, Outcome},
};
use serde::Serialize;

/// Version of the form in which comparisons are written to JSON.
pub const SCHEMA: u32 = 1;

/// The comparison of two sides.
#[derive(Clone, Debug, Serialize)]
pub struct SideComparison {
    /// Version of this form.
    pub schema: u32,
    /// Name of the first side, with which the second is compared.
    pub first: String,
    /// Name of the second side.
    pub second: String,
    /// Relative difference up to which two values count as the same.
    pub margin: f64,
    /// The answers, in sentences.
    pub answers: Vec<String>,
    /// What differs around the programs.
    pub environment: Vec<EnvironmentDifference>,
    /// Number of pairs of equal points.
    pub pairs: usize,
    /// Points without an equal one on the other side.
    pub unmatched: Vec<Unmatched>,
    /// Each quantity over all pairs of points.
    pub quantities: Vec<QuantityOverPoints>,
    /// Each quantity of each pair of points.
    pub rows: Vec<ComparedRow>,
}

impl SideComparison {
    /// Whether something differs that is larger than the scatter and the margin, or is not equal though it must be.
    pub fn differs(&self) -> bool {
        self.rows.iter().any(|row| row.outcome.differs())
    }

    /// Whether something is larger or smaller on the second side whose other direction is better, or is not equal though it must be.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(ComparedRow::is_worse)
    }

    /// Whether of some quantity nothing is shown.
    pub fn is_untold(&self) -> bool {
        self.rows
            .iter()
            .any(|row| matches!(row.outcome, Outcome::CannotTell { .. }))
    }

    /// The comparison of these quantities alone.
    ///
    /// # Errors
    /// When one of them is not compared: its name.
    pub fn only(mut self, quantities: &[String]) -> Result<Self, String> {
        if let Some(unknown) = quantities
            .iter()
            .find(|name| !self.quantities.iter().any(|q| q.quantity == **name))
        {
            return Err(unknown.clone());
        }
        self.rows.retain(|row| quantities.contains(&row.quantity));
        self.quantities.retain(|q| quantities.contains(&q.quantity));
        Ok(self)
    }
}
