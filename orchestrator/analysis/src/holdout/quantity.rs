//! The quantity of the index that each predicted quantity is compared with.

use crate::predict;
use cvc_core::{quantity::Quantity, record::names, units::MIB};

/// The quantity of the index (`summaries`) that it is compared with, and what that is to be multiplied by; `None` if the index has no
/// summary of it.
pub fn measured(quantity: Quantity) -> Option<(&'static str, f64)> {
    match quantity {
        Quantity::Stored => Some((names::CKPT_STORED_BYTES, 1.0 / MIB)),
        Quantity::Latency => Some((names::CKPT_LATENCY_S, 1.0)),
        Quantity::App => Some((names::WALL_S, 1.0)),
        other => predict::TAKEN.iter().find(|(_, q, _)| *q == other).map(|(name, _, factor)| (*name, *factor)),
    }
}
