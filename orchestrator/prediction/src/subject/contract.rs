//! What a subject of predictions does.

use crate::predict::{Forecasts, Observation, Predictor, Question};

/// A subject of predictions.
pub(crate) trait Subject {
    /// Whether a question about it can be put to these observations.
    fn is_observed(&self, observations: &[Observation]) -> bool;

    /// Adds its lines to those of the subjects before it.
    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts);
}
