//! Results of the comparison of two sides.

use super::{
    environment::EnvironmentDifference, matching::Unmatched, over_points::QuantityOverPoints,
    row::ComparedRow,
};
use crate::results::scaling::ScalingCurve;
use serde::Serialize;

/// Version of the JSON format of comparisons.
pub const SCHEMA: u32 = 1;

/// The comparison of two sides.
#[derive(Clone, Debug, Serialize)]
pub struct SideComparison {
    /// Version of this format.
    pub schema: u32,
    /// Name of the first side, the baseline.
    pub first: String,
    /// Name of the second side, which is compared with the first.
    pub second: String,
    /// Relative difference up to which two values count as the same.
    pub margin: f64,
    /// The answers, in sentences.
    pub answers: Vec<String>,
    /// Differences in the environment of the programs.
    pub environment: Vec<EnvironmentDifference>,
    /// Number of pairs of equal points.
    pub pairs: usize,
    /// Points of either side without an equal point on the other side.
    pub unmatched: Vec<Unmatched>,
    /// Each quantity over all pairs of points.
    pub quantities: Vec<QuantityOverPoints>,
    /// Each quantity of each pair of points.
    pub rows: Vec<ComparedRow>,
    /// Scaling on each side of the programs that were measured with at least three numbers of processes.
    pub scaling: [SideScaling; 2],
}

/// How programs scale on a side.
#[derive(Clone, Debug, Serialize)]
pub struct SideScaling {
    /// Name of the side.
    pub side: String,
    /// Scaling curves without and with checkpoints.
    pub curves: Vec<ScalingCurve>,
}

/// The name of a quantity that was not compared.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not measured on both sides")]
pub struct NotCompared(String);

impl SideComparison {
    /// Returns whether any quantity differs by more than scatter and margin, or differs although it must be equal.
    pub fn differs(&self) -> bool {
        self.rows.iter().any(|row| row.outcome.differs())
    }

    /// Returns whether any quantity is worse on the second side, or differs although it must be equal.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(ComparedRow::is_worse)
    }

    /// Returns whether any quantity is undecided.
    pub fn is_undecided(&self) -> bool {
        self.rows.iter().any(|row| row.outcome.is_unknown())
    }

    /// Restricts the comparison to these quantities.
    ///
    /// # Errors
    /// One of these quantities was not compared.
    pub fn only(mut self, quantities: &[String]) -> Result<Self, NotCompared> {
        if let Some(unknown) = quantities
            .iter()
            .find(|name| !self.quantities.iter().any(|q| q.quantity == **name))
        {
            return Err(NotCompared(unknown.clone()));
        }
        self.rows.retain(|row| quantities.contains(&row.quantity));
        self.quantities.retain(|q| quantities.contains(&q.quantity));
        Ok(self)
    }
}
