//! The value of a model for a printed cell.

use cvc_model::{Estimate, Tier};
use serde::Serialize;

/// The value of another model. It is neither a printed, nor a recomputed, nor a measured number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Modelled {
    /// The number.
    pub estimate: Estimate,
    /// Name of the model.
    pub model: String,
    /// The data that the model needs.
    pub tier: Tier,
    /// Source of its constants. Constants read from the paper's measured cells are not a prediction of those cells.
    pub basis: &'static str,
}
