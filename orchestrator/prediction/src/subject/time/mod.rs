//! The time of a checkpoint and of the program alone, and how often to take checkpoints.

mod latency;
mod node;
mod program;
mod published;
mod schedules;

pub(crate) use schedules::schedules;

use crate::predict::{Forecasts, Observation, Predictor, Question};
use crate::subject::contract::Subject;

/// The time of a checkpoint. It follows from the sizes of images.
pub(super) struct Time;

impl Subject for Time {
    fn is_observed(&self, observations: &[Observation]) -> bool {
        super::image::Image.is_observed(observations)
    }

    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts) {
        predictor.latency(question, to);
    }
}
