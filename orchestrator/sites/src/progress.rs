//! Events that a site reports to the campaign runner.

use crate::install::InstallEvent;
use cvc_core::panics::catch_panic;
use cvc_journal::Event;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// An event that a site reports.
pub enum SiteEvent {
    /// A message for the user.
    Note(String),
    /// An event of an installation.
    Install(InstallEvent),
    /// An event that must be in the journal before the site continues.
    Write(Event, oneshot::Sender<()>),
    /// A task of the site panicked with this message.
    Panicked(String),
}

/// Sends a site's events to the campaign runner.
#[derive(Clone, Debug)]
pub struct SiteReporter(pub mpsc::UnboundedSender<SiteEvent>);

impl SiteReporter {
    /// Reports a message to the user.
    pub fn note(&self, what: impl Into<String>) {
        // ignore errors: after the campaign's end there is no receiver
        let _ = self.0.send(SiteEvent::Note(what.into()));
    }

    /// Reports an event of an installation.
    pub fn install(&self, event: InstallEvent) {
        let _ = self.0.send(SiteEvent::Install(event));
    }

    /// Runs a task of the site. A panic is reported and ends the campaign, which would otherwise wait for ever.
    pub async fn guard(&self, task: impl Future<Output = ()>) {
        if let Err(panic) = catch_panic(task).await {
            let _ = self.0.send(SiteEvent::Panicked(panic.to_string()));
        }
    }

    /// Runs a task of the site concurrently, until the returned handle is dropped.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        let reporter = self.clone();
        AbortOnDropHandle::new(tokio::spawn(
            async move { reporter.guard(task).await }.in_current_span(),
        ))
    }

    /// Runs a task without waiting for it; the task ends with the session at the latest.
    pub fn spawn_detached(&self, task: impl Future<Output = ()> + Send + 'static) {
        let reporter = self.clone();
        tokio::spawn(async move { reporter.guard(task).await }.in_current_span());
    }

    /// Waits until an event is written to the journal and synced. If the journal is closed, waits for ever, because then nothing may continue.
    pub async fn write(&self, event: Event) {
        let (written, done) = oneshot::channel();
        let message = self.0.send(SiteEvent::Write(event, written));
        if message.is_err() || done.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
