//! Comparison of two sides: sites of one campaign, or campaigns. Points that are equal in all factors are compared quantity by quantity, and
//! each comparison ends in a verdict; what must be equal is compared as equality.
//!
//! | file | what |
//! | --- | --- |
//! | `side.rs` | one side: the results of a campaign, or of one of its sites |
//! | `matching.rs` | which points of the sides are equal |
//! | `environment.rs` | what differs around the programs |
//! | `quantities.rs` | what is compared, and how |
//! | `row.rs` | one quantity of one pair of points, with its verdict |
//! | `over_points.rs` | a quantity over all points |
//! | `answers.rs` | the questions of who compares a cluster with a cloud, answered in sentences |
//! | `page.rs` | the same as a report |

mod answers;
mod environment;
mod matching;
mod over_points;
mod page;
mod quantities;
mod row;
mod side;

pub use environment::EnvironmentDifference;
pub use matching::Unmatched;
pub use over_points::QuantityOverPoints;
pub use row::{ComparedRow, Outcome, SideValue};
pub use side::Side;

use crate::report::Report;
use cvc_core::app::descriptor::Better;
use cvc_model::stats::{Comparison, adjust};
use serde::Serialize;

/// Version of the form in which comparisons are written to JSON.
pub const SCHEMA: u32 = 1;

/// The largest relative difference that does not matter, unless the user says another.
pub const USUAL_MARGIN: f64 = 0.05;

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

    /// The comparison of these quantities alone; `None` if one is not compared.
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

    /// The comparison as a report, for all its formats.
    pub fn report(&self) -> Report {
        page::report(self)
    }
}

/// Compares the second side with the first.
///
/// `margin` is the largest relative difference that does not matter. Of all quantities that are called different, 5 % are false on average
/// (Benjamini and Hochberg's adjustment over the whole comparison).
pub fn compare_sides(first: &Side, second: &Side, margin: f64) -> SideComparison {
    let matching = matching::matching(first, second);
    let mut compared = quantities::compared(first, second, &matching.pairs);
    adjust(
        compared
            .iter_mut()
            .filter_map(|row| row.comparison.as_mut()),
    );
    let rows: Vec<ComparedRow> = compared
        .into_iter()
        .map(|row| ComparedRow::judged(row, margin))
        .collect();
    let mut environment = environment::from_factors(&matching);
    environment.extend(environment::from_facts(first, second));
    let quantities = over_points::over_points(&rows);
    let mut comparison = SideComparison {
        schema: SCHEMA,
        first: first.name().to_owned(),
        second: second.name().to_owned(),
        margin,
        answers: Vec::new(),
        environment,
        pairs: matching.pairs.len(),
        unmatched: matching.unmatched,
        quantities,
        rows,
    };
    comparison.answers = answers::answers(first, second, &comparison);
    comparison
}

/// A comparison before it is judged.
pub(crate) struct Compared {
    pub quantity: String,
    pub unit: String,
    pub at: String,
    pub first: SideValue,
    pub second: SideValue,
    /// Which way is better, if either is.
    pub better: Option<Better>,
    /// Whether the values must be equal: numbers of files, structures.
    pub must_be_equal: bool,
    /// What one side has and the other has not, in words.
    pub missing: Option<String>,
    /// Second over first; `None` where nothing can be divided.
    pub comparison: Option<Comparison>,
}
