//! What a site says to the coordinator.

use crate::install::InstallEvent;
use cvc_core::journal::Event;
use tokio::sync::{mpsc, oneshot};

/// What a site says.
pub(crate) enum SiteEvent {
    /// Something for people.
    Note(String),
    /// Something about an installation.
    Install(InstallEvent),
    /// Something that must be in the journal before the site goes on.
    Write(Event, oneshot::Sender<()>),
}

/// Says it.
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

    /// Waits until it is written and synced. Never ends when nobody writes any more: then nothing may go on.
    pub async fn write(&self, event: Event) {
        let (written, done) = oneshot::channel();
        let said = self.0.send(SiteEvent::Write(event, written));
        if said.is_err() || done.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
