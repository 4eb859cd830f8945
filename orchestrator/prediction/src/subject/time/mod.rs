//! The time of a checkpoint and of the program alone, and the interval between checkpoints.

mod latency;
mod node;
mod program;
mod published;
mod schedules;

pub(crate) use schedules::schedules;
pub use schedules::schedules_for;

use crate::predict::{Forecasts, Observation, Predictor, Question};
use crate::subject::contract::Subject;

/// Subject of the time of a checkpoint, which follows from the sizes of images.
pub(super) struct Time;

impl Subject for Time {
    fn is_observed(&self, observations: &[Observation]) -> bool {
        super::image::Image.is_observed(observations)
    }

    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts) {
        predictor.latency(question, to);
        predictor.restart(question, to);
    }
}
