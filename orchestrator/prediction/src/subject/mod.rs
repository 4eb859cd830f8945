//! Subjects of predictions. Each has a folder with its observations, its models, and its lines of a forecast.
//!
//! | folder | subject |
//! | --- | --- |
//! | `image` | zones, images, files, and everything that one checkpoint stores |
//! | `own` (a file) | checkpoints that the program writes itself, and their operations |
//! | `time` | the time of a checkpoint and of the program alone, and the interval between checkpoints |
//! | `totals` | totals of observations that have only sizes and times |
//! | `delta` | the method to store a series of checkpoints; its questions have no setting, so it is separate |

mod contract;
pub mod delta;
mod image;
mod own;
pub(crate) mod time;
mod totals;

use contract::Subject;
pub(crate) use image::LAUNCHERS_OF_FURTHER_NODE;

/// The subjects of a checkpoint, in the order of tables.
pub(crate) const SUBJECTS: [&dyn Subject; 4] =
    [&image::Image, &own::Own, &time::Time, &totals::Totals];
