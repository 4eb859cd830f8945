//! The models that are tried for each quantity, those first that need least.

use super::{curves, observation::Quantity};
use crate::model::{Model, dtapp, library, shmem};

/// Models of a zone.
pub(super) fn models(zone: Quantity) -> Vec<Box<dyn Model>> {
    match zone {
        Quantity::Dtapp => dtapp::models(),
        Quantity::Lb => library::models(),
        Quantity::Shmem => shmem::models(),
        _ => vec![Box::new(curves::MEAN), Box::new(curves::LOG_PROCESSES), Box::new(curves::INVERSE_ROOT), Box::new(curves::LOG_ARRAYS)],
    }
}

/// Whether a model of the data zone knows how the classes of a program differ.
pub(super) fn carries_over_classes(id: &str) -> bool {
    ["static", "array", "halo"].iter().any(|known| id.contains(known))
}
