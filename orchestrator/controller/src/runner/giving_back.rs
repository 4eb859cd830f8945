//! Gives fleets back, or keeps them.

use super::{super::observe::Progress, CampaignRunner, Step, closing_clouds::ClosedCloud};
use cvc_journal::Event;
use cvc_sites::error::CampaignError;
use std::collections::BTreeSet;
use tracing::Instrument;

impl CampaignRunner<'_> {
    /// Gives back the fleets of sites on which nothing runs or remains to be run.
    pub(super) fn close_idle_clouds(&mut self) {
        let is_idle = |site: &&String| {
            self.sites.is_open(site) && !self.scheduler.is_busy(self.journal.state(), site)
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
                    Ok(()) => return Ok(true),
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
                .map(|()| false)
        };
        self.closing
            .spawn(site, close.instrument(tracing::info_span!("site", site)));
    }

    /// Writes down that a fleet was given back. Returns its error if that failed; the end of the campaign tries again.
    pub(super) fn settle_closed(
        &mut self,
        ClosedCloud { site, result }: ClosedCloud,
    ) -> Result<Result<(), CampaignError>, CampaignError> {
        Ok(match result {
            Ok(is_kept) => {
                self.sites.fleets.remove(&site);
                if !is_kept {
                    self.journal.write(Event::SiteClosed {
                        site: site.into(),
                        forgotten: false,
                    })?;
                }
                Ok(())
            }
            Err(error) => Err(error),
        })
    }

    /// The next fleet that is given back, when there is nothing else to wait for.
    pub(super) async fn next_closed(&mut self) -> Result<Option<Step>, CampaignError> {
        Ok(self.wait_for_closed().await?.map(Step::Closed))
    }

    async fn wait_for_closed(&mut self) -> Result<Option<ClosedCloud>, CampaignError> {
        if self.closing.is_empty() {
            return Ok(None);
        }
        // others may begin to be given back meanwhile
        let mut ended = self.closing.take_ended();
        let closed = self.while_listening(ended.recv()).await;
        self.closing
            .put_back(ended, closed.as_ref().ok().and_then(Option::as_ref));
        closed
    }

    /// Gives all fleets back, side by side, and waits until that is done. Returns the first failure.
    pub(super) async fn close_clouds(&mut self) -> Result<Option<CampaignError>, CampaignError> {
        let mut first = None;
        // what could not be given back in the walk is tried again, once it has ended
        let mut waiting: BTreeSet<String> = self.sites.fleets.keys().cloned().collect();
        waiting.retain(|site| !self.closing.has(site));
        loop {
            for site in std::mem::take(&mut waiting) {
                self.begin_closing(&site);
            }
            let Some(closed) = self.wait_for_closed().await? else {
                break;
            };
            match self.settle_closed(closed)? {
                Ok(()) => {}
                Err(error) if first.is_none() => first = Some(error),
                Err(error) => self.observer.on(&Progress::Site {
                    what: error.to_string(),
                }),
            }
        }
        Ok(first)
    }
}
