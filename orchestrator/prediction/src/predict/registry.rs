//! The models that are tried for each quantity.

use super::curves;
use cvc_core::quantity::Quantity;
use cvc_model::{Model, dtapp, headers, library, shmem};

/// Models of a zone.
pub(super) fn models(zone: Quantity) -> Vec<Box<dyn Model>> {
    match zone {
        Quantity::Dtapp => dtapp::models(),
        Quantity::Lb => library::models(),
        Quantity::Shmem => shmem::models(),
        // the lines stand for programs of which it is not known which pages they write
        Quantity::Headers => headers::models().into_iter().chain(lines()).collect(),
        _ => lines(),
    }
}

/// Lines in something that is always known.
fn lines() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(curves::MEAN),
        Box::new(curves::LOG_PROCESSES),
        Box::new(curves::INVERSE_ROOT),
        Box::new(curves::LOG_ARRAYS),
    ]
}
