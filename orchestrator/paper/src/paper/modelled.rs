//! What a model says of a printed cell.

use cvc_model::{Estimate, Tier};
use serde::Serialize;

/// What another model says: neither print nor a recomputation nor a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Modelled {
    /// The number.
    pub estimate: Estimate,
    /// Which model.
    pub model: String,
    /// What it needs.
    pub tier: Tier,
    /// Where its constants come from. Constants read from the paper's measured cells are not a prediction of those cells.
    pub basis: &'static str,
}
