//! Gives a fleet back: removes everything with the fleet's tag, in order, until nothing is left. Or keeps the fleet for a while.

use super::Fleet;
use crate::provider::{ErrorKind, ProviderError, Resource};
use crate::{readiness, warm_pool};
use cvc_core::clock;
use cvc_core::units::counted;
use cvc_engine::host::HostError;
use cvc_journal::spending;
use cvc_journal::{Event, Lease};
use cvc_sites::error::CampaignError;
use jiff::Timestamp;
use parking_lot::Mutex;
use std::{
    collections::HashSet,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// Time limit for removing a fleet, seconds. Terminating instances takes minutes, and groups are in use until then.
const REMOVE_LIMIT_S: f64 = 600.0;

/// Returns the time limit for removing a fleet, seconds. Debug builds read `CVC_REMOVE_LIMIT_S`, so that tests need not wait ten minutes.
fn remove_limit_s() -> f64 {
    #[cfg(debug_assertions)]
    if let Some(limit) = std::env::var("CVC_REMOVE_LIMIT_S")
        .ok()
        .and_then(|s| s.parse().ok())
    {
        return limit;
    }
    REMOVE_LIMIT_S
}

/// Time limit of one round of removal, after which the cloud is queried again.
const REMOVE_ROUND: Duration = Duration::from_secs(30);

/// Delay between two queries for resources that the cloud may not show yet.
const TICK: Duration = Duration::from_secs(2);

fn known_ids(lease: &Lease) -> Vec<String> {
    lease
        .instances()
        .into_iter()
        .filter(|id| !lease.lost.contains_key(*id))
        .map(str::to_owned)
        .collect()
}

impl Fleet {
    /// Ends all resources of this fleet, because they cost money. Called when the journal cannot be written. Returns a description of what may be
    /// left; `None` if nothing is left.
    pub async fn end_unwritten(&self) -> Option<String> {
        // another campaign may have taken the fleet over
        if self.keeping.pooled.load(Ordering::Relaxed) {
            return None;
        }
        let quiet = |_: String| ();
        let until = self.may_still_show().map(|limit| Instant::now() + limit);
        let work = async {
            // instances that another campaign took over have leases here until that is recorded
            let own = self.open_leases().into_iter().filter(|l| {
                l.order
                    .as_ref()
                    .is_some_and(|o| o.tags.fleet == self.tags.fleet)
            });
            let ids: Vec<String> = own.flat_map(|l| known_ids(&l)).collect();
            let ended = self.provider.terminate(&ids).await;
            loop {
                let left = self.remove_shown(&quiet).await?;
                // instances that were just launched, but not recorded, may not be shown yet
                if !left.is_empty() || until.is_none_or(|until| Instant::now() > until) {
                    return ended.map(|()| left);
                }
                tokio::time::sleep(TICK).await;
            }
        };
        match work.await {
            Ok(left) if left.is_empty() => None,
            Ok(left) => Some(
                left.iter()
                    .map(|(r, why)| format!("{} {}: {why}", r.kind, r.id))
                    .collect::<Vec<_>>()
                    .join("; "),
            ),
            Err(error) => Some(format!(
                "{} may still be there: {error}",
                self.may_have()
                    .unwrap_or_else(|| self.tags.fleet.to_string())
            )),
        }
    }

    /// Removes the resources of this fleet that the cloud shows, and returns those that still exist at the time limit. Queries the cloud again in
    /// each round, because an instance that the cloud shows late may use a volume that it shows at once.
    async fn remove_shown(
        &self,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError> {
        let deadline = Instant::now() + Duration::from_secs_f64(remove_limit_s());
        let said = Mutex::new(HashSet::new());
        // later rounds repeat the messages of earlier ones
        let tell_once = |what: String| {
            if said.lock().insert(what.clone()) {
                report(what);
            }
        };
        loop {
            let fleet = Some(self.tags.fleet.as_str());
            let there = self.provider.discover(None, fleet).await.all_shown()?;
            if there.is_empty() {
                return Ok(Vec::new());
            }
            let begin = Instant::now();
            let end = deadline.min(begin + REMOVE_ROUND);
            let limit_s = end.saturating_duration_since(begin).as_secs_f64();
            let left = self.provider.remove(&there, limit_s, &tell_once).await?;
            // resources that remain before the time limit cannot be removed
            if left.is_empty() || Instant::now() < end || end == deadline {
                return Ok(left);
            }
        }
    }

    /// Ends and removes all resources of this fleet. Returns an error if a resource is or may be left.
    pub async fn down(&self, how: &str) -> Result<(), CampaignError> {
        match self.remove_all().await {
            Err(CampaignError::Provider { site, error }) => match self.may_have() {
                // the cloud does not report which resources exist, so all that were ordered are assumed to exist
                Some(what) => {
                    let hint = error.hint().map(|m| format!("; {m}")).unwrap_or_default();
                    return Err(CampaignError::Leftover {
                        site,
                        what: format!("{what} may still be there: {error}{hint}"),
                    });
                }
                None => {
                    self.place.remove()?;
                    return Err(CampaignError::Provider { site, error });
                }
            },
            other => other?,
        }
        for lease in self.open_leases() {
            self.write_released(lease.name, how).await;
        }
        self.place.remove()?;
        Ok(())
    }

    /// Describes the resources that may exist in the cloud according to the leases and files of this machine; `None` if there are none.
    fn may_have(&self) -> Option<String> {
        let leases = self.open_leases();
        // the identifiers of instances, or the name of an order without an answer
        let ids = |lease: &cvc_journal::Lease| {
            if lease.is_acquired() {
                lease.instances().join(", ")
            } else {
                lease.name.to_string()
            }
        };
        let costly: Vec<String> = leases.iter().map(ids).collect();
        if costly.is_empty() {
            let fleet = &self.tags.fleet;
            return self
                .preparation
                .touched
                .load(Ordering::Relaxed)
                .then(|| format!("a key pair or groups called {fleet}"));
        }
        Some(format!(
            "{}, with disks, which cost until they end,",
            costly.join(", ")
        ))
    }

    async fn remove_all(&self) -> Result<(), CampaignError> {
        self.settle_kept().await;
        let until = self.may_still_show().map(|limit| Instant::now() + limit);
        // first by identifiers, which are certain: instances that were just launched may not be shown yet
        let ids: Vec<String> = self.open_leases().iter().flat_map(known_ids).collect();
        match self.provider.terminate(&ids).await {
            Ok(()) => {}
            // the cloud no longer shows any of them, or does not show them yet; the queries below continue until it does
            Err(error) if error.kind == ErrorKind::NotFound => {}
            Err(error) => return Err(self.error(error)),
        }
        let report = |what: String| self.reporter.note(format!("{}: {what}", self.name));
        loop {
            let left = self.remove_shown(&report).await;
            let left = left.map_err(|e| self.error(e))?;
            if !left.is_empty() {
                let what: Vec<String> = left
                    .iter()
                    .map(|(r, why)| format!("{} {} in {}: {why}", r.kind, r.id, r.region))
                    .collect();
                return Err(CampaignError::Leftover {
                    site: self.name.clone(),
                    what: what.join("; "),
                });
            }
            // an order whose answer was lost may have been carried out just now
            let seen = self.observed().await?;
            let unseen = ids
                .iter()
                .any(|id| !seen.contains_key(id) && self.is_young(id));
            if until.is_none_or(|until| Instant::now() > until) && !unseen {
                return Ok(());
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Moves the deadline of the instances to the latest time that their lifetime and the budget allow now. Returns an error if an instance did not
    /// receive the new deadline.
    pub async fn extend(&self) -> Result<(), HostError> {
        // before instances exist, the order contains the deadline
        if self.machines().is_empty() {
            return Ok(());
        }
        loop {
            let until = self.until(0.0);
            if self
                .limits
                .set_until
                .lock()
                .is_some_and(|sent| sent.duration_since(until).as_secs() == 0)
            {
                return Ok(());
            }
            // journaled first: an instance that ends at its deadline while cvc is away costs until that time, not until cvc notices
            self.write_deadlines(until, |before| before < until).await;
            if self.until(0.0) < until {
                // another fleet got a later end in the meantime
                continue;
            }
            self.set_deadlines(until).await?;
            // an earlier end is effective only once the instances have received it
            self.write_deadlines(until, |before| before > until).await;
            *self.limits.set_until.lock() = Some(until);
            return Ok(());
        }
    }

    /// Sets the deadline on all instances, and the end time in their tags.
    async fn set_deadlines(&self, until: Timestamp) -> Result<(), HostError> {
        let machines = self.machines();
        let gone = self.gone();
        let there = || {
            machines
                .iter()
                .filter(|m| !gone.contains_key(&self.entry(m).name))
        };
        let ids: Vec<String> = there().map(|m| m.id.clone()).collect();
        // a tag with an earlier end would let others treat the fleet as expired
        if let Err(error) = self.provider.mark_expiry(&ids, clock::on_wall(until)).await {
            self.reporter.note(format!(
                "{}: {error}; `cvc sweep --expired` may end its instances too early",
                self.name
            ));
        }
        let hosts: Vec<_> = there().map(|m| self.entry(m)).collect();
        let seconds = until
            .duration_since(clock::now())
            .as_secs()
            .max(0)
            .unsigned_abs();
        readiness::set_deadline(&self.name, &hosts, &self.place.ssh(), seconds).await
    }

    /// Journals a new deadline for some leases: those for whose present deadline `replaces` returns true.
    async fn write_deadlines(&self, until: Timestamp, replaces: impl Fn(Timestamp) -> bool) {
        for lease in self.open_leases() {
            if spending::promised_until(&lease).is_none_or(&replaces) {
                self.write(Event::LeaseExtended {
                    lease: lease.name.clone(),
                    until,
                })
                .await;
            }
        }
    }

    /// Returns the delay between two extensions of the instances' deadline, a quarter of their lifetime.
    pub(super) fn extend_after(&self) -> Duration {
        Duration::from_secs_f64(self.request.instances.lifetime_s / 4.0)
    }

    /// Keeps the instances for the next campaign for `keep_s` seconds, by moving their deadline and putting the fleet into the warm pool. Returns an
    /// error if that failed.
    pub async fn keep(&self, keep_s: f64) -> Result<(), CampaignError> {
        let seconds = keep_s.ceil() as u64;
        let lasts = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        let until = clock::now().checked_add(lasts).unwrap_or(Timestamp::MAX);
        self.write_deadlines(until, |before| before < until).await;
        self.set_deadlines(until).await?;
        let leases = self.open_leases();
        // put in the warm pool first: until the journal records it as well, the instances belong to this campaign, whose next controller finds them
        // there
        let on_wall = clock::on_wall(until);
        warm_pool::put(
            &self.campaign,
            &self.place,
            &self.tags.fleet,
            &self.request,
            on_wall,
            &leases,
        )?;
        self.keeping.pooled.store(true, Ordering::Relaxed);
        for lease in &leases {
            self.write(Event::LeaseKept {
                lease: lease.name.clone(),
                until,
            })
            .await;
        }
        self.reporter.note(format!(
            "{}: {} kept until {on_wall:.0}, billed until then; `cvc down` ends this",
            self.name,
            counted(self.machines().len(), "instance")
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::known_ids;
    use cvc_journal::{Acquired, CampaignState, Entry, Event};

    /// Checks that an instance that no longer exists is not ended: the cloud would refuse the whole list for one unknown instance.
    #[test]
    fn an_instance_that_is_gone_is_not_ended() {
        let mut state = CampaignState::default();
        for event in [
            Event::LeaseIntended {
                lease: "l".into(),
                site: "a".into(),
                nodes: 2,
                order: None,
            },
            Event::LeaseAcquired {
                lease: "l".into(),
                by: Acquired::instances(["i-1", "i-2"]),
            },
            Event::LeaseLost {
                lease: "l".into(),
                instances: vec!["i-1".into()],
                why: "taken back".into(),
            },
        ] {
            let at = jiff::Timestamp::UNIX_EPOCH;
            state.apply(&Entry { seq: 1, at, event }).expect("legal");
        }
        assert_eq!(known_ids(&state.leases[0]), ["i-2"]);
    }
}
