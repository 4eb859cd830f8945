//! What predictions are of: each subject has a folder, with what counts as observed, its models, and its lines of a forecast.
//!
//! | folder | of what |
//! | --- | --- |
//! | `image` | zones, images, files, and everything that one checkpoint stores |
//! | `time` | the time of a checkpoint and of the program alone, and how often to take checkpoints |
//! | `totals` | sizes and times of observations that have nothing else |
//! | `delta` | by which method to store a series of checkpoints; its questions have no setting, so it stands by itself |

mod contract;
pub mod delta;
mod image;
pub(crate) mod time;
mod totals;

use contract::Subject;

/// The subjects of a checkpoint, in the order of tables.
pub(crate) const SUBJECTS: [&dyn Subject; 3] = [&image::Image, &time::Time, &totals::Totals];
