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

/// The same of runs that all have one load of a node: a constant is all that they tell where the library's layout tells no more.
pub(super) fn models_of_one_load(zone: Quantity) -> Vec<Box<dyn Model>> {
    let constant = (zone == Quantity::Shmem).then(|| Box::new(curves::MEAN) as Box<dyn Model>);
    models(zone).into_iter().chain(constant).collect()
}
