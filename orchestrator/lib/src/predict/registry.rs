//! The models that are tried for each quantity.

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
