//! What a run under way tells whoever started it: the controller, or the agent.

use cvc_core::ids::RunId;
use cvc_os::proc::ProcessId;
use tokio::sync::mpsc;

/// An event of a running attempt.
#[derive(Clone, Debug)]
pub enum AttemptEvent {
    /// Its shepherd is alive.
    Started(ProcessId),
    /// Its stage.
    Stage(String),
}

/// Reports events of one run.
#[derive(Clone, Debug)]
pub struct AttemptReporter {
    /// The run.
    pub run: RunId,
    /// Where its events go.
    pub to: mpsc::UnboundedSender<(RunId, AttemptEvent)>,
}

impl AttemptReporter {
    /// Reports an event.
    pub fn tell(&self, event: AttemptEvent) {
        // the receiver is gone once the campaign cannot go on
        let _ = self.to.send((self.run.clone(), event));
    }

    /// Reports the stage of the run.
    pub fn stage(&self, stage: &str) {
        self.tell(AttemptEvent::Stage(stage.to_owned()));
    }
}
