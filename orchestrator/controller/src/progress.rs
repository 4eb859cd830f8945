//! What a site tells the campaign runner.

use crate::install::InstallEvent;
use cvc_core::journal::Event;
use tokio::sync::{mpsc, oneshot};

/// Something that a site tells.
pub(crate) enum SiteEvent {
    /// A line for the user.
    Note(String),
    /// Something about an installation.
    Install(InstallEvent),
    /// Something that must be in the journal before the site goes on.
    Write(Event, oneshot::Sender<()>),
}

/// Reports to the campaign runner.
#[derive(Clone, Debug)]
pub(crate) struct SiteReporter(pub mpsc::UnboundedSender<SiteEvent>);

impl SiteReporter {
    pub fn note(&self, what: impl Into<String>) {
        // nobody listens any more when the campaign has ended
        let _ = self.0.send(SiteEvent::Note(what.into()));
    }

    pub fn install(&self, event: InstallEvent) {
        let _ = self.0.send(SiteEvent::Install(event));
    }

    /// Waits until an event is written and synced. Never ends once the journal is closed: then nothing may go on.
    pub async fn write(&self, event: Event) {
        let (written, done) = oneshot::channel();
        let said = self.0.send(SiteEvent::Write(event, written));
        if said.is_err() || done.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
