//! The models that are tried for each quantity, those first that need least.

use super::{curves, observation::Quantity};
use crate::model::Model;

/// Models of a zone.
pub(super) fn models(zone: Quantity) -> Vec<Box<dyn Model>> {
    match zone {
        Quantity::Dtapp => vec![Box::new(curves::INVERSE_ROOT)],
        Quantity::Lb => vec![Box::new(curves::MEAN)],
        Quantity::Shmem => vec![Box::new(curves::MEAN), Box::new(curves::PER_NODE)],
        _ => vec![Box::new(curves::MEAN), Box::new(curves::LOG_PROCESSES), Box::new(curves::INVERSE_ROOT), Box::new(curves::LOG_ARRAYS)],
    }
}

/// Whether a model of the data zone knows how the classes of a program differ.
pub(super) fn carries_over_classes(id: &str) -> bool {
    ["static", "array", "halo"].iter().any(|known| id.contains(known))
}
