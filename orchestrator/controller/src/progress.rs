//! Events that a site reports to the campaign runner.

use crate::install::InstallEvent;
use cvc_core::journal::Event;
use tokio::sync::{mpsc, oneshot};

/// An event that a site reports.
pub(crate) enum SiteEvent {
    /// A line for the user.
    Note(String),
    /// An event of an installation.
    Install(InstallEvent),
    /// An event that must be in the journal before the site goes on.
    Write(Event, oneshot::Sender<()>),
}

/// Reports to the campaign runner.
#[derive(Clone, Debug)]
pub(crate) struct SiteReporter(pub mpsc::UnboundedSender<SiteEvent>);

impl SiteReporter {
    pub fn note(&self, what: impl Into<String>) {
        // once the campaign has ended nobody listens
        let _ = self.0.send(SiteEvent::Note(what.into()));
    }

    pub fn install(&self, event: InstallEvent) {
        let _ = self.0.send(SiteEvent::Install(event));
    }

    /// Waits until an event is written and synced. Waits forever if the journal is closed, because then nothing may go on.
    pub async fn write(&self, event: Event) {
        let (written, done) = oneshot::channel();
        let message = self.0.send(SiteEvent::Write(event, written));
        if message.is_err() || done.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
