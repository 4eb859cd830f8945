//! Gives a fleet back, which means everything with its tag, in order, until nothing is left; or keeps it for a while.

use super::Fleet;
use crate::cloud::readiness;
use crate::error::CampaignError;
use crate::provider::ErrorKind;
use cvc_core::{
    journal::{Event, Lease},
    units::counted,
};
use cvc_engine::host::HostError;
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Time limit of removal, seconds: terminating takes minutes, and groups are in use until then.
const REMOVE_LIMIT_S: f64 = 600.0;

/// Time limit for removal. Debug builds read `CVC_REMOVE_LIMIT_S`, so that tests need not wait ten minutes.
fn remove_limit_s() -> f64 {
    #[cfg(debug_assertions)]
    if let Some(limit) = std::env::var("CVC_REMOVE_LIMIT_S").ok().and_then(|s| s.parse().ok()) {
        return limit;
    }
    REMOVE_LIMIT_S
}

/// Delay between queries for resources that may still appear.
const TICK: Duration = Duration::from_secs(2);

fn known_ids(lease: &Lease) -> Vec<String> {
    lease.instances().into_iter().filter(|id| !lease.lost.contains_key(*id)).map(str::to_owned).collect()
}

impl Fleet {
    /// Ends everything of this fleet although the journal cannot be written, because it costs money. Returns what may be left, if anything.
    pub async fn end_unwritten(&self) -> Option<String> {
        let quiet = |_: String| ();
        let work = async {
            let ids: Vec<String> = self.open_leases().iter().flat_map(known_ids).collect();
            let ended = self.provider.terminate(&ids).await;
            let there = self.provider.discover(None, Some(self.tags.fleet.as_str())).await.whole()?;
            let left = self.provider.remove(&there, remove_limit_s(), &quiet).await?;
            ended.map(|()| left)
        };
        match work.await {
            Ok(left) if left.is_empty() => None,
            Ok(left) => Some(left.iter().map(|(r, why)| format!("{} {}: {why}", r.kind, r.id)).collect::<Vec<_>>().join("; ")),
            Err(error) => Some(format!("{} may still be there: {error}", self.may_have().unwrap_or_else(|| self.tags.fleet.to_string()))),
        }
    }

    /// Ends and removes everything of this fleet. Returns an error if something stays or may stay.
    pub async fn down(&self, how: &str) -> Result<(), CampaignError> {
        match self.remove_all().await {
            Err(CampaignError::Provider { site, error }) => match self.may_have() {
                // the cloud does not say what exists: then it is what was ordered
                Some(what) => {
                    let hint = error.hint().map(|m| format!("; {m}")).unwrap_or_default();
                    return Err(CampaignError::Leftover { site, what: format!("{what} may still be there: {error}{hint}") });
                }
                None => {
                    self.place.remove()?;
                    return Err(CampaignError::Provider { site, error });
                }
            },
            other => other?,
        }
        for lease in self.open_leases() {
            self.write(Event::LeaseReleased { lease: lease.name.clone(), how: how.to_owned() }).await;
        }
        self.place.remove()?;
        Ok(())
    }

    /// What may exist in the cloud, as far as this machine knows.
    fn may_have(&self) -> Option<String> {
        let leases = self.open_leases();
        // instances by their names, or the order whose answer is unknown
        let ids =
            |lease: &cvc_core::journal::Lease| if lease.is_acquired() { lease.instances().join(", ") } else { lease.name.to_string() };
        let costly: Vec<String> = leases.iter().map(ids).collect();
        if costly.is_empty() {
            let fleet = &self.tags.fleet;
            return self.touched.load(Ordering::Relaxed).then(|| format!("a key pair or groups called {fleet}"));
        }
        Some(format!("{}, with disks, which cost until they end,", costly.join(", ")))
    }

    async fn remove_all(&self) -> Result<(), CampaignError> {
        self.settle_kept().await;
        let until = self.may_still_show().map(|limit| Instant::now() + limit);
        // first by their ids, which are certain: what was launched a moment ago may not be shown yet
        let ids: Vec<String> = self.open_leases().iter().flat_map(known_ids).collect();
        match self.provider.terminate(&ids).await {
            Ok(()) => {}
            // the cloud shows none of them any more, or not yet: the queries below go on until it does
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(self.error(error)),
        }
        let tell = |what: String| self.reporter.note(format!("{}: {what}", self.name));
        loop {
            let there = self.provider.discover(None, Some(self.tags.fleet.as_str())).await.whole().map_err(|e| self.error(e))?;
            if !there.is_empty() {
                let left = self.provider.remove(&there, remove_limit_s(), &tell).await.map_err(|e| self.error(e))?;
                if !left.is_empty() {
                    let what: Vec<String> = left.iter().map(|(r, why)| format!("{} {} in {}: {why}", r.kind, r.id, r.region)).collect();
                    return Err(CampaignError::Leftover { site: self.name.clone(), what: what.join("; ") });
                }
            }
            // an order whose answer was lost may have been carried out a moment ago
            let seen = self.observed().await?;
            let unseen = ids.iter().any(|id| !seen.contains_key(id) && self.is_young(id));
            if until.is_none_or(|until| Instant::now() > until) && !unseen {
                return Ok(());
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Extends the deadline of the instances while cvc is there. Returns whether all of them could be told.
    pub async fn extend(&self) -> Result<(), HostError> {
        let machines = self.machines();
        let gone = self.gone();
        let hosts: Vec<_> = machines.iter().map(|m| self.entry(m)).filter(|h| !gone.contains_key(&h.name)).collect();
        let seconds = self.lifetime_s(self.rate().as_ref(), machines.len() as u32);
        // in the journal first: an instance that its deadline ends while cvc is away costs until then, not until cvc notices
        self.write_deadline(seconds).await;
        readiness::set_deadline(&self.name, &hosts, &self.place.ssh(), seconds).await
    }

    async fn write_deadline(&self, seconds: u64) {
        let lasts = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        let until = jiff::Timestamp::now().checked_add(lasts).unwrap_or(jiff::Timestamp::MAX);
        for lease in self.open_leases() {
            self.write(Event::LeaseExtended { lease: lease.name.clone(), until }).await;
        }
    }

    /// Delay between two extensions of the deadline.
    pub fn extend_after(&self) -> Duration {
        Duration::from_secs_f64(self.request.lifetime_s / 4.0)
    }

    /// Keeps the instances for the next campaign by moving their deadline. Returns whether that succeeded.
    pub async fn keep(&self, keep_s: f64) -> Result<(), CampaignError> {
        let hosts: Vec<_> = self.machines().iter().map(|m| self.entry(m)).collect();
        let seconds = keep_s.ceil() as u64;
        readiness::set_deadline(&self.name, &hosts, &self.place.ssh(), seconds).await?;
        let lasts = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        let until = jiff::Timestamp::now().checked_add(lasts).unwrap_or(jiff::Timestamp::MAX);
        let leases = self.open_leases();
        for lease in &leases {
            self.write(Event::LeaseKept { lease: lease.name.clone(), until }).await;
        }
        crate::cloud::warm_pool::put(&self.campaign, &self.place, &self.tags.fleet, &self.request, until, &leases)?;
        self.reporter.note(format!(
            "{}: {} kept until {until:.0}, billed until then; `cvc down` ends this",
            self.name,
            counted(hosts.len(), "instance")
        ));
        Ok(())
    }
}
