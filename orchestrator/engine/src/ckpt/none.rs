//! The checkpointer for runs without checkpoints, which are the baseline.

use super::contract::{CheckpointRun, Checkpointer, Course, Install, SessionContext};
use cvc_core::campaign::CheckpointPlan;

/// The checkpointer that takes no checkpoints.
pub(super) struct NoCheckpointer;

impl Checkpointer for NoCheckpointer {
    fn name(&self) -> &'static str {
        "none"
    }

    fn title(&self) -> &'static str {
        "no checkpoint"
    }

    fn course(&self, _: &CheckpointPlan) -> Course {
        Course::default()
    }

    fn session<'r>(&self, _: &Install, _: SessionContext<'r>) -> Box<dyn CheckpointRun + 'r> {
        Box::new(NoSession)
    }
}

/// The session of a run without checkpoints.
struct NoSession;

impl CheckpointRun for NoSession {}
