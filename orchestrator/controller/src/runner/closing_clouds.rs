//! Gives fleets back concurrently: that takes minutes, while runs of other sites continue and other fleets cost.

use cvc_sites::error::CampaignError;
use std::collections::BTreeSet;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// How a fleet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FleetEnd {
    GivenBack,
    /// The fleet is kept for the next campaign.
    Kept,
}

/// A fleet that was given back or kept, or whose giving back failed.
pub(super) struct ClosedCloud {
    pub(super) site: String,
    pub(super) result: Result<FleetEnd, CampaignError>,
}

/// Receiver of the ends of fleets, in the order in which they end.
pub(super) type ClosedClouds = mpsc::UnboundedReceiver<ClosedCloud>;

/// Fleets that are being given back.
pub(super) struct ClosingClouds {
    tasks: JoinSet<()>,
    sites: BTreeSet<String>,
    ended: mpsc::UnboundedSender<ClosedCloud>,
}

impl ClosingClouds {
    pub(super) fn new() -> (Self, ClosedClouds) {
        let (ended, closed) = mpsc::unbounded_channel();
        let (tasks, sites) = (JoinSet::new(), BTreeSet::new());
        (
            Self {
                tasks,
                sites,
                ended,
            },
            closed,
        )
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Returns whether the fleet of a site is being given back.
    pub(super) fn has(&self, site: &str) -> bool {
        self.sites.contains(site)
    }

    /// Begins to give the fleet of a site back. The caller calls [`note_ended`](Self::note_ended) when it has read the result.
    pub(super) fn spawn(
        &mut self,
        site: &str,
        close: impl Future<Output = Result<FleetEnd, CampaignError>> + Send + 'static,
    ) {
        self.sites.insert(site.to_owned());
        let (site, sender) = (site.to_owned(), self.ended.clone());
        let close = AbortOnDropHandle::new(tokio::spawn(close.in_current_span()));
        self.tasks.spawn(async move {
            let result = close
                .await
                .unwrap_or_else(|e| Err(CampaignError::internal(e.to_string())));
            // without a receiver the session has ended
            let _ = sender.send(ClosedCloud { site, result });
        });
    }

    /// Records that the result of a fleet's end was read.
    pub(super) fn note_ended(&mut self, site: &str) {
        self.sites.remove(site);
    }

    /// Stops giving fleets back, because nothing can be journaled any more.
    pub(super) async fn abort(&mut self) {
        self.tasks.shutdown().await;
        self.sites.clear();
    }
}
