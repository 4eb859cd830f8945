//! What predictions are of: each subject has a folder, with what counts as observed, its models, and its lines of a forecast.
//!
//! | folder | of what |
//! | --- | --- |
//! | `image` | zones, images, files, and everything that one checkpoint stores |
//! | `time` | the time of a checkpoint and of the program alone, and how often to take checkpoints |
//! | `totals` | sizes and times of observations that have nothing else |
//! | `delta` | by which method to store a series of checkpoints; its questions have no setting, so it stands by itself |

pub mod delta;
mod image;
pub(crate) mod time;
mod totals;

use crate::predict::{Forecasts, Observation, Predictor, Question};

/// A subject of predictions.
pub(crate) trait Subject {
    /// Whether a question about it can be put to these observations.
    fn is_observed(&self, observations: &[Observation]) -> bool;

    /// Adds its lines to those of the subjects before it.
    fn forecast(&self, predictor: &Predictor<'_>, question: &Question, to: &mut Forecasts);
}

/// The subjects of a checkpoint, in the order of tables.
pub(crate) const SUBJECTS: [&dyn Subject; 3] = [&image::Image, &time::Time, &totals::Totals];
