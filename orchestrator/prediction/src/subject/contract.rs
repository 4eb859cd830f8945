//! Interface of a subject of predictions.

use crate::predict::{Forecasts, Observation, Predictor, Question};

/// A subject of predictions.
pub(crate) trait Subject {
    /// Returns whether these observations allow predictions of the subject.
    fn is_observed(&self, observations: &[Observation]) -> bool;

    /// Adds the lines of the subject after those of earlier subjects.
    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts);
}
