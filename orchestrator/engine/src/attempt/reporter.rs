//! What a run under way tells the coordinator.

use cvc_core::ids::RunId;
use cvc_probe::proc::ProcessId;
use tokio::sync::mpsc;

/// What happened in a run.
#[derive(Clone, Debug)]
pub enum News {
    /// Its shepherd is alive.
    Started(ProcessId),
    /// What it does now.
    Stage(String),
}

/// Tells of one run.
#[derive(Clone, Debug)]
pub struct Teller {
    pub run: RunId,
    pub to: mpsc::UnboundedSender<(RunId, News)>,
}

impl Teller {
    pub fn tell(&self, news: News) {
        // nobody listens any more once the campaign cannot go on
        let _ = self.to.send((self.run.clone(), news));
    }

    pub fn stage(&self, stage: &str) {
        self.tell(News::Stage(stage.to_owned()));
    }
}
