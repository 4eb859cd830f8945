//! Gives a fleet back, which means everything with its tag, in order, until nothing is left; or keeps it for a while.

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

/// Time limit of removal, seconds: terminating takes minutes, and groups are in use until then.
const REMOVE_LIMIT_S: f64 = 600.0;

/// Time limit for removal. Debug builds read `CVC_REMOVE_LIMIT_S`, so that tests need not wait ten minutes.
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

/// Time limit of a round of removal, after which the cloud is asked again what is there.
const REMOVE_ROUND: Duration = Duration::from_secs(30);

/// Delay between queries for resources that may still appear.
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
    /// Ends everything of this fleet although the journal cannot be written, because it costs money. Returns what may be left, if anything.
    pub async fn end_unwritten(&self) -> Option<String> {
        // any campaign may have it by now
        if self.keeping.pooled.load(Ordering::Relaxed) {
            return None;
        }
        let quiet = |_: String| ();
        let until = self.may_still_show().map(|limit| Instant::now() + limit);
        let work = async {
            // what was given away has leases here until that is written down
            let own = self.open_leases().into_iter().filter(|l| {
                l.order
                    .as_ref()
                    .is_some_and(|o| o.tags.fleet == self.tags.fleet)
            });
            let ids: Vec<String> = own.flat_map(|l| known_ids(&l)).collect();
            let ended = self.provider.terminate(&ids).await;
            loop {
                let left = self.remove_shown(&quiet).await?;
                // what was launched a moment ago, and could not be written down, may not be shown yet
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

    /// Removes what the cloud shows of this fleet, and returns what is still there at the limit. It asks again in each round: an instance
    /// that is shown late may hold a volume that was shown at once.
    async fn remove_shown(
        &self,
        tell: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Vec<(Resource, String)>, ProviderError> {
        let deadline = Instant::now() + Duration::from_secs_f64(remove_limit_s());
        let said = Mutex::new(HashSet::new());
        // a later round repeats what an earlier one said
        let tell_once = |what: String| {
            if said.lock().insert(what.clone()) {
                tell(what);
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
            // what is left before the time is up is refused for good
            if left.is_empty() || Instant::now() < end || end == deadline {
                return Ok(left);
            }
        }
    }

    /// Ends and removes everything of this fleet. Returns an error if something stays or may stay.
    pub async fn down(&self, how: &str) -> Result<(), CampaignError> {
        match self.remove_all().await {
            Err(CampaignError::Provider { site, error }) => match self.may_have() {
                // the cloud does not say what exists: then it is what was ordered
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

    /// What may exist in the cloud, as far as this machine knows.
    fn may_have(&self) -> Option<String> {
        let leases = self.open_leases();
        // instances by their names, or the order whose answer is unknown
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
            let left = self.remove_shown(&tell).await;
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
            // an order whose answer was lost may have been carried out a moment ago
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

    /// Moves the deadline of the instances while cvc is there, to the end that their lifetime and the budget allow now. Returns whether all
    /// of them could be told.
    pub async fn extend(&self) -> Result<(), HostError> {
        // until they are there, the order says it
        if self.machines().is_empty() {
            return Ok(());
        }
        loop {
            let until = self.until(0.0);
            if self
                .limits
                .set_until
                .lock()
                .is_some_and(|told| told.duration_since(until).as_secs() == 0)
            {
                return Ok(());
            }
            // in the journal first: an instance that its deadline ends while cvc is away costs until then, not until cvc notices
            self.write_deadlines(until, |before| before < until).await;
            if self.until(0.0) < until {
                // another fleet was promised something meanwhile
                continue;
            }
            self.tell(until).await?;
            // an earlier end counts only once they know it
            self.write_deadlines(until, |before| before > until).await;
            *self.limits.set_until.lock() = Some(until);
            return Ok(());
        }
    }

    /// Tells all instances, and all who look at their tags, when they end.
    async fn tell(&self, until: Timestamp) -> Result<(), HostError> {
        let machines = self.machines();
        let gone = self.gone();
        let there = || {
            machines
                .iter()
                .filter(|m| !gone.contains_key(&self.entry(m).name))
        };
        let ids: Vec<String> = there().map(|m| m.id.clone()).collect();
        // from outside it must not seem to be over before it is
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

    /// Writes a deadline down for the leases whose present one is to be replaced.
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

    /// Delay between two extensions of the deadline.
    pub(super) fn extend_after(&self) -> Duration {
        Duration::from_secs_f64(self.request.instances.lifetime_s / 4.0)
    }

    /// Keeps the instances for the next campaign by moving their deadline. Returns whether that succeeded.
    pub async fn keep(&self, keep_s: f64) -> Result<(), CampaignError> {
        let seconds = keep_s.ceil() as u64;
        let lasts = jiff::SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        let until = clock::now().checked_add(lasts).unwrap_or(Timestamp::MAX);
        self.write_deadlines(until, |before| before < until).await;
        self.tell(until).await?;
        let leases = self.open_leases();
        // in the warm pool first: until the journal says so, too, they are this campaign's, and its next controller finds them there
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

    /// The cloud refuses a whole list for one instance that it no longer knows.
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
