//! Fleets that are being given back, beside everything else: that takes minutes, while runs of other sites go on and other fleets cost.

use cvc_sites::error::CampaignError;
use std::collections::BTreeSet;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// The end of a fleet.
pub(super) struct ClosedCloud {
    pub(super) site: String,
    /// Whether it is kept for the next campaign.
    pub(super) result: Result<bool, CampaignError>,
}

/// Fleets that are being given back.
pub(super) struct ClosingClouds {
    tasks: JoinSet<()>,
    sites: BTreeSet<String>,
    ended: mpsc::UnboundedReceiver<ClosedCloud>,
    ended_sender: mpsc::UnboundedSender<ClosedCloud>,
}

impl Default for ClosingClouds {
    fn default() -> Self {
        let (ended_sender, ended) = mpsc::unbounded_channel();
        Self {
            tasks: JoinSet::new(),
            sites: BTreeSet::new(),
            ended,
            ended_sender,
        }
    }
}

impl ClosingClouds {
    pub(super) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Whether the fleet of a site is being given back.
    pub(super) fn has(&self, site: &str) -> bool {
        self.sites.contains(site)
    }

    /// Begins to give the fleet of a site back. The work says whether it is kept.
    pub(super) fn spawn(
        &mut self,
        site: &str,
        close: impl Future<Output = Result<bool, CampaignError>> + Send + 'static,
    ) {
        self.sites.insert(site.to_owned());
        let (site, sender) = (site.to_owned(), self.ended_sender.clone());
        let close = AbortOnDropHandle::new(tokio::spawn(close.in_current_span()));
        self.tasks.spawn(async move {
            let result = close
                .await
                .unwrap_or_else(|e| Err(CampaignError::internal(e.to_string())));
            // without a receiver the campaign has ended
            let _ = sender.send(ClosedCloud { site, result });
        });
    }

    /// Waits for the next one; for ever if there is none.
    pub(super) async fn next(&mut self) -> Option<ClosedCloud> {
        let closed = self.ended.recv().await?;
        self.sites.remove(&closed.site);
        Some(closed)
    }

    /// The ends of fleets, for waiting without the rest; [`Self::put_back`] follows.
    pub(super) fn take_ended(&mut self) -> mpsc::UnboundedReceiver<ClosedCloud> {
        std::mem::replace(&mut self.ended, mpsc::unbounded_channel().1)
    }

    /// Takes the ends of fleets back, of which this one was read.
    pub(super) fn put_back(
        &mut self,
        ended: mpsc::UnboundedReceiver<ClosedCloud>,
        read: Option<&ClosedCloud>,
    ) {
        self.ended = ended;
        if let Some(closed) = read {
            self.sites.remove(&closed.site);
        }
    }

    /// Stops giving back, because nothing can be written down any more.
    pub(super) async fn abort(&mut self) {
        self.tasks.shutdown().await;
        self.sites.clear();
    }
}
