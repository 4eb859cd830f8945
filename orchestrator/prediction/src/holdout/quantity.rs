//! The quantity of the index that each predicted quantity is compared with.

use crate::predict;
use cvc_core::quantity::Quantity;
use cvc_core::record::names;
use cvc_core::units::MIB;

/// The quantity of the index (`summaries`) that it is compared with, and what that is to be multiplied by; `None` if the index has no
/// summary of it. `zone_rule` is what [`predict::zone_rule`] says of the campaign.
pub fn measured(quantity: Quantity, zone_rule: usize) -> Option<(&'static str, f64)> {
    match quantity {
        Quantity::Stored => Some((names::CKPT_STORED_BYTES, 1.0 / MIB)),
        Quantity::Latency => Some((names::CKPT_LATENCY_S, 1.0)),
        Quantity::App => Some((names::WALL_S, 1.0)),
        Quantity::Dtapp | Quantity::Lb | Quantity::Shmem => predict::ZONES
            .iter()
            .find(|(q, _)| *q == quantity)
            .map(|(_, names)| (names[zone_rule], 1.0 / MIB)),
        other => predict::TAKEN
            .iter()
            .find(|(_, q, _)| *q == other)
            .map(|(name, _, factor)| (*name, *factor)),
    }
}
