//! Events that a site reports to the campaign runner.

use crate::install::InstallEvent;
use cvc_core::panics::catch_panic;
use cvc_journal::Event;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// An event that a site reports.
pub enum SiteEvent {
    /// A line for the user.
    Note(String),
    /// An event of an installation.
    Install(InstallEvent),
    /// An event that must be in the journal before the site goes on.
    Write(Event, oneshot::Sender<()>),
    /// A task of the site panicked with this message.
    Panicked(String),
}

/// Reports to the campaign runner.
#[derive(Clone, Debug)]
pub struct SiteReporter(pub mpsc::UnboundedSender<SiteEvent>);

impl SiteReporter {
    /// Reports a line for the user.
    pub fn note(&self, what: impl Into<String>) {
        // once the campaign has ended nobody listens
        let _ = self.0.send(SiteEvent::Note(what.into()));
    }

    /// Reports an event of an installation.
    pub fn install(&self, event: InstallEvent) {
        let _ = self.0.send(SiteEvent::Install(event));
    }

    /// Carries out a task of the site. A panic ends the campaign, which would otherwise wait for what never comes.
    pub async fn guard(&self, task: impl Future<Output = ()>) {
        if let Err(panic) = catch_panic(task).await {
            let _ = self.0.send(SiteEvent::Panicked(panic));
        }
    }

    /// Carries out a task of the site beside others, until the handle is dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        let reporter = self.clone();
        AbortOnDropHandle::new(tokio::spawn(
            async move { reporter.guard(task).await }.in_current_span(),
        ))
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
