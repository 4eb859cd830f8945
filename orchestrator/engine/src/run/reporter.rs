//! Reports events of a running attempt to the controller or agent that started it.

use cvc_core::ids::RunId;
use cvc_os::proc::ProcessId;
use tokio::sync::mpsc;

/// An event of a running attempt.
#[derive(Clone, Debug)]
pub enum AttemptEvent {
    /// The shepherd has started; its process.
    Started(ProcessId),
    /// The attempt has entered this stage.
    Stage(String),
}

/// Reports events of one run.
#[derive(Clone, Debug)]
pub struct AttemptReporter {
    /// The run.
    pub run: RunId,
    /// Channel to which the events are sent.
    pub to: mpsc::UnboundedSender<(RunId, AttemptEvent)>,
}

impl AttemptReporter {
    /// Reports an event.
    pub fn emit(&self, event: AttemptEvent) {
        // the receiver is dropped once the campaign cannot continue
        let _ = self.to.send((self.run.clone(), event));
    }

    /// Reports that the run has entered a stage.
    pub fn stage(&self, stage: &str) {
        self.emit(AttemptEvent::Stage(stage.to_owned()));
    }
}
