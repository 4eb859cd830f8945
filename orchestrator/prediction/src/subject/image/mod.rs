//! Images: their zones, the files in which they are stored, and the files next to them.

mod compose;
mod compressed;
mod covariates;
mod zones;

pub(crate) use covariates::LAUNCHERS_OF_FURTHER_NODE;

use crate::predict::{Forecasts, Observation, Predictor, Question};
use crate::subject::contract::Subject;
use cvc_core::quantity::Quantity;

/// Subject of the sizes of images and files.
pub(super) struct Image;

/// Returns whether observations have zones or images, so that zones can be predicted and added up.
pub(super) fn has_parts(observations: &[Observation]) -> bool {
    let parts = [
        Quantity::Dtapp,
        Quantity::Lb,
        Quantity::Shmem,
        Quantity::Image,
    ];
    let has = |o: &Observation| parts.iter().any(|part| o.value(*part).is_some());
    observations.iter().any(has)
}

impl Subject for Image {
    fn is_observed(&self, observations: &[Observation]) -> bool {
        observations.is_empty() || has_parts(observations)
    }

    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts) {
        predictor.sizes(question, to);
    }
}
