//! Checkpoints that the program writes when it wants to.

use super::checkpointer::{Checkpointer, Course, Restart};
use cvc_core::campaign::CheckpointSettings;

/// Leaves checkpoints to the program.
pub(super) struct ApplicationCheckpointer;

impl Checkpointer for ApplicationCheckpointer {
    fn name(&self) -> &'static str {
        "application"
    }

    fn has_own_files(&self) -> bool {
        true
    }

    fn course(&self, settings: &CheckpointSettings) -> Course {
        let restart = if settings.restart_check { Restart::OwnFiles } else { Restart::Nothing };
        Course { restart, ..Course::default() }
    }
}
