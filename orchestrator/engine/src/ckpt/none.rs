//! No checkpoint: the baseline.

use super::checkpointer::{Checkpointer, Course};
use cvc_core::campaign::CheckpointSettings;

/// Takes no checkpoint.
pub(super) struct NoCheckpointer;

impl Checkpointer for NoCheckpointer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn course(&self, _: &CheckpointSettings) -> Course {
        Course::default()
    }
}
