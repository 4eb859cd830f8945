//! Gives fleets back, or keeps them.

use super::{
    CampaignRunner,
    closing_clouds::{ClosedCloud, FleetEnd},
    resources::{FailureCounts, Resources},
};
use cvc_sites::error::CampaignError;
use tracing::Instrument;

impl Resources<'_> {
    /// Gives back the fleets of sites on which no run is active or remains.
    pub(super) fn close_idle_clouds(&mut self) {
        let is_idle = |site: &&String| {
            self.sites.is_open(site) && !self.record.scheduler.is_busy(self.record.state(), site)
        };
        let idle: Vec<String> = self.sites.fleets.keys().filter(is_idle).cloned().collect();
        for site in idle {
            self.begin_closing(&site);
        }
    }

    /// Begins to give the fleet of a site back. If the site requests that its instances be kept, and the budget pays for that, the fleet is kept
    /// instead.
    pub(super) fn begin_closing(&mut self, site: &str) {
        let Some(fleet) = self
            .sites
            .fleets
            .get(site)
            .cloned()
            .filter(|_| !self.closing.has(site))
        else {
            return;
        };
        let remote = self.sites.remote(site);
        let keep_s = self
            .record
            .spec
            .sites
            .get(site)
            .and_then(|s| s.ec2.as_ref())
            .and_then(|e| e.keep_s);
        let keep_s = keep_s.filter(|s| {
            fleet.gone().is_empty() && self.budget.pays_for_keeping(&self.budget_view(), *s)
        });
        self.sites.remove(site);
        let (name, reporter) = (site.to_owned(), self.sites.reporter());
        let close = async move {
            if let (Some(keep_s), Some(remote)) = (keep_s, &remote) {
                let kept = async {
                    remote.close().await?;
                    fleet.keep(keep_s).await
                };
                match kept.await {
                    Ok(()) => return Ok(FleetEnd::Kept),
                    Err(error) => reporter.note(format!(
                        "{name}: its instances cannot be kept and are given back: {error}"
                    )),
                }
            }
            // do not wait for a head node that is about to be terminated
            drop(remote);
            fleet
                .down("the campaign no longer needs it")
                .await
                .map(|()| FleetEnd::GivenBack)
        };
        self.closing
            .spawn(site, close.instrument(tracing::info_span!("site", site)));
    }

    /// Handles the end of a fleet, and journals it if the fleet was given back. A failure is reported, and giving the fleet back is tried again at
    /// the end of the session.
    pub(super) fn settle_closed(
        &mut self,
        ClosedCloud { site, result }: ClosedCloud,
        failures: &mut FailureCounts,
    ) -> Result<(), CampaignError> {
        self.closing.note_ended(&site);
        match result {
            Ok(end) => {
                self.sites.fleets.remove(&site);
                match end {
                    FleetEnd::Kept => Ok(()),
                    FleetEnd::GivenBack => self.record.site_closed(&site),
                }
            }
            Err(error) => {
                failures.add(error, &mut self.record);
                Ok(())
            }
        }
    }
}

impl CampaignRunner<'_> {
    /// Waits for the next fleet that was given back. Called when there is no other event to wait for.
    pub(super) async fn next_closed(&mut self) -> Result<Option<ClosedCloud>, CampaignError> {
        if self.resources.closing.is_empty() {
            return Ok(None);
        }
        self.resources
            .while_listening(self.closed_clouds.recv())
            .await
    }

    /// Gives all fleets back at the same time, and waits until every fleet has ended or failed to end.
    pub(super) async fn close_clouds(
        &mut self,
        failures: &mut FailureCounts,
    ) -> Result<(), CampaignError> {
        // fleets whose instances could not be given back during the session are tried again at its end
        for site in self
            .resources
            .sites
            .fleets
            .keys()
            .cloned()
            .collect::<Vec<_>>()
        {
            self.resources.begin_closing(&site);
        }
        while let Some(closed) = self.next_closed().await? {
            self.resources.settle_closed(closed, failures)?;
        }
        Ok(())
    }
}
