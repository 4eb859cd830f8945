//! Gives fleets back, or keeps them.

use super::{
    CampaignRunner,
    closing_clouds::{ClosedCloud, FleetEnd},
    resources::{Failures, Resources},
};
use cvc_sites::error::CampaignError;
use tracing::Instrument;

impl Resources<'_> {
    /// Gives back the fleets of sites on which nothing runs or remains to be run.
    pub(super) fn close_idle_clouds(&mut self) {
        let is_idle = |site: &&String| {
            self.sites.is_open(site) && !self.record.scheduler.is_busy(self.record.state(), site)
        };
        let idle: Vec<String> = self.sites.fleets.keys().filter(is_idle).cloned().collect();
        for site in idle {
            self.begin_closing(&site);
        }
    }

    /// Begins to give a fleet back, or to keep it if the site says so and the budget pays for that.
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
            // do not wait for a head node that is about to go
            drop(remote);
            fleet
                .down("the campaign no longer needs it")
                .await
                .map(|()| FleetEnd::GivenBack)
        };
        self.closing
            .spawn(site, close.instrument(tracing::info_span!("site", site)));
    }

    /// Writes down that a fleet was given back. The end of the campaign tries again what failed.
    pub(super) fn settle_closed(
        &mut self,
        ClosedCloud { site, result }: ClosedCloud,
        failures: &mut Failures,
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
    /// The next fleet that is given back, when there is nothing else to wait for.
    pub(super) async fn next_closed(&mut self) -> Result<Option<ClosedCloud>, CampaignError> {
        if self.resources.closing.is_empty() {
            return Ok(None);
        }
        self.resources
            .while_listening(self.closed_clouds.recv())
            .await
    }

    /// Gives all fleets back at the same time, and waits until that is done.
    pub(super) async fn close_clouds(
        &mut self,
        failures: &mut Failures,
    ) -> Result<(), CampaignError> {
        // what could not be given back in the walk is tried again, once it has ended
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
