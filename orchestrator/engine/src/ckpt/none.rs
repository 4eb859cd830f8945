//! No checkpoint: the baseline.

use super::contract::{CheckpointRun, Checkpointer, Course, Install, SessionContext};
use cvc_core::campaign::CheckpointSettings;

/// Takes no checkpoint.
pub(super) struct NoCheckpointer;

impl Checkpointer for NoCheckpointer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn title(&self) -> &'static str {
        "no checkpoint"
    }

    fn course(&self, _: &CheckpointSettings) -> Course {
        Course::default()
    }

    fn session<'r>(&self, _: &Install, _: SessionContext<'r>) -> Box<dyn CheckpointRun + 'r> {
        Box::new(NoSession)
    }
}

/// Has no part in a run.
struct NoSession;

impl CheckpointRun for NoSession {}
