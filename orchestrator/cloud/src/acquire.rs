//! Launches instances: queries the offer, chooses types, markets and zones, checks the cost, and places the order.

use super::fleet::{Acquisition, Fleet};
use crate::cost;
use crate::provider::{
    ErrorKind, FleetOrder, FleetRequest, Instance, Offer, PreparedFleet, ProviderError, SideEffect,
    TypeFacts,
};
use cvc_core::campaign::{InstanceSpec, Market, OnInterruption};
use cvc_core::clock;
use cvc_core::ids::LeaseId;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_journal::budget_share::{BudgetShare, RELEASE_S};
use cvc_journal::lease::{LaunchOrder, Tags};
use cvc_journal::price::NodeRate;
use cvc_journal::{Acquired, Event};
use cvc_sites::error::{CampaignError, OverBudget};
use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

/// Maximum number of times that an order is repeated after its answer was lost.
const MAX_LOST_ANSWERS: u32 = 4;
/// Minimum time for which the budget must pay for new instances, seconds: time to boot, to be set up, to run something short, and to be given back.
const MIN_OF_USE_S: f64 = 120.0;
/// Time from the deadline of an instance until it has ended, seconds. The instance checks its deadline every few seconds, and then shuts down.
const END_S: f64 = 30.0;
/// Maximum time to sleep before the budget is checked again, seconds. Timers have a limit, and the wall clock may be set meanwhile.
const MAX_SLEEP_S: f64 = 3600.0;

impl Fleet {
    pub(super) async fn offer(&self) -> Result<&Offer, CampaignError> {
        self.preparation
            .offer
            .get_or_try_init(|| async { self.provider.describe_offer(&self.request).await })
            .await
            .map_err(|e| self.error(e))
    }

    /// Returns the key pair and the groups. Creates or finds them at the first call in a session, even if instances exist already: this machine's
    /// address may have changed, and the security group must allow ssh from it.
    pub(super) async fn prepared(&self, offer: &Offer) -> Result<&PreparedFleet, CampaignError> {
        self.preparation.prepared
            .get_or_try_init(|| async {
                let able = offer.types.iter().all(|t| t.cluster_placement);
                let near = self.request.instances.placement_group.unwrap_or(self.request.instances.nodes > 1) && able;
                let allow_from = match (&self.request.instances.allow_from, &offer.caller) {
                    (Some(from), _) | (None, Some(from)) => from.clone(),
                    (None, None) => {
                        let message = "cannot find this machine's public address, the only one allowed to use ssh; set `allow_from`";
                        return Err(self.error(ProviderError::before(ErrorKind::Invalid, "preparing", self.provider.region(), message)));
                    }
                };
                if is_whole_internet(&allow_from) {
                    self.reporter.note(format!(
                        "{}: `allow_from = \"{allow_from}\"` lets any host on the internet try to log in; the default is this machine only",
                        self.name
                    ));
                }
                let lasts = jiff::SignedDuration::from_secs(self.request.instances.lifetime_s as i64);
                let order = FleetOrder {
                    tags: Tags { expires: clock::on_wall(clock::now()).checked_add(lasts).ok(), ..self.tags.clone() },
                    public_key: self.place.make(self.tags.fleet.as_str()).await?,
                    allow_from,
                    subnet: self.request.instances.subnet.clone(),
                    placement_group: near,
                };
                self.preparation.touched.store(true, Ordering::Relaxed);
                self.provider.prepare(&order).await.map_err(|e| self.error(e))
            })
            .await
    }

    /// Launches `count` more instances. If `beside` is given, they have the type and the zone of this instance.
    pub(super) async fn acquire(
        &self,
        offer: &Offer,
        count: u32,
        beside: Option<&Instance>,
        stop_signal: &StopSignal,
    ) -> Result<Acquisition, CampaignError> {
        let tries = self.tries(offer, beside);
        if tries.is_empty() {
            let message = format!(
                "no zone of {} has {}",
                self.provider.region(),
                self.request.instances.instance_types.join(" or ")
            );
            return Err(self.error(ProviderError::before(
                ErrorKind::Capacity,
                "looking for instances",
                self.provider.region(),
                message,
            )));
        }
        self.check_quota(&tries, count).await?;
        let types: Vec<String> = offer.types.iter().map(|t| t.name.clone()).collect();
        self.ask_prices(&types).await;
        let prepared = self.prepared(offer).await?;
        let mut last = None;
        // types and markets whose limit is reached; the limit is common to all zones of the region
        let mut exhausted: Vec<(&str, bool)> = Vec::new();
        for (facts, spot, zone) in &tries {
            if exhausted.contains(&(facts.name.as_str(), *spot)) {
                continue;
            }
            if *stop_signal.borrow() > StopRequest::GoOn {
                return Ok(Acquisition::Stopped);
            }
            let order = self.order(offer, prepared, facts, *spot, zone.clone(), count)?;
            let lease = LeaseId::from(order.lease());
            self.write(Event::LeaseIntended {
                lease: lease.clone(),
                site: self.name.clone().into(),
                nodes: count,
                order: Some(Box::new(order.clone())),
            })
            .await;
            let market = if *spot { "spot" } else { "on-demand" };
            self.reporter.note(format!(
                "{}: launching {count} {market} {} in {}",
                self.name,
                facts.name,
                zone.as_deref().unwrap_or("any zone")
            ));
            match self.launch(&order).await {
                Ok(()) => return Ok(Acquisition::Launched),
                Err(CampaignError::Provider { error, .. })
                    if error.elsewhere() || error.kind == ErrorKind::Quota =>
                {
                    if error.kind == ErrorKind::Quota {
                        exhausted.push((&facts.name, *spot));
                    }
                    self.reporter.note(format!("{}: {error}", self.name));
                    self.write_released(lease, &error).await;
                    last = Some(*error);
                }
                Err(CampaignError::Provider { error, site }) => {
                    if error.left == SideEffect::Clear {
                        self.write_released(lease, &error).await;
                    }
                    return Err(CampaignError::Provider { error, site });
                }
                Err(error) => return Err(error),
            }
        }
        let none = || {
            ProviderError::before(
                ErrorKind::Capacity,
                "launching",
                self.provider.region(),
                "none is available",
            )
        };
        Err(self.error(last.unwrap_or_else(none)))
    }

    /// Returns the combinations of type, market (`true` for spot) and zone to try, in this order.
    fn tries<'o>(
        &self,
        offer: &'o Offer,
        beside: Option<&Instance>,
    ) -> Vec<(&'o TypeFacts, bool, Option<String>)> {
        let instances = &self.request.instances;
        let offered: Vec<&str> = offer
            .types
            .iter()
            .map(|facts| facts.name.as_str())
            .collect();
        let (markets, types) = markets_and_types(
            instances.market,
            self.request.on_interruption,
            &offered,
            &self.state().taken_types,
        );
        let mut tries = Vec::new();
        for spot in markets {
            for facts in offer
                .types
                .iter()
                .filter(|f| beside.is_none_or(|b| b.instance_type == f.name) && (!spot || f.spot))
                .filter(|f| types.contains(&f.name.as_str()))
            {
                if self.request.instances.subnet.is_some() {
                    tries.push((facts, *spot, None));
                    continue;
                }
                let wanted = |zone: &&String| {
                    self.request.instances.zones.is_empty()
                        || self.request.instances.zones.contains(zone)
                };
                let mut zones: Vec<&String> = facts.zones.iter().filter(wanted).collect();
                zones.sort_by_key(|zone| {
                    self.request.instances.zones.iter().position(|z| z == *zone)
                });
                let near = zones
                    .into_iter()
                    .filter(|zone| beside.is_none_or(|b| b.zone == **zone));
                tries.extend(near.map(|zone| (facts, *spot, Some(zone.clone()))));
            }
        }
        tries
    }

    /// Checks before the launch whether the account may have this many instances.
    async fn check_quota(
        &self,
        tries: &[(&TypeFacts, bool, Option<String>)],
        count: u32,
    ) -> Result<(), CampaignError> {
        let mut short = None;
        let mut asked: Vec<(&str, bool)> = Vec::new();
        for (facts, spot, _) in tries {
            if asked.contains(&(facts.name.as_str(), *spot)) {
                continue;
            }
            asked.push((&facts.name, *spot));
            let Some(quota) = self
                .provider
                .quota(facts, *spot)
                .await
                .map_err(|e| self.error(e))?
            else {
                return Ok(());
            };
            let needed = f64::from(facts.vcpus) * f64::from(count);
            if quota.used + needed <= quota.limit {
                return Ok(());
            }
            let market = if *spot { "spot" } else { "on-demand" };
            short.get_or_insert_with(|| {
                format!(
                    "{count} {market} {} need {needed} vCPUs; the account may have {} and {} are running",
                    facts.name, quota.limit, quota.used
                )
            });
        }
        match short {
            Some(message) => Err(self.error(ProviderError::before(
                ErrorKind::Quota,
                "looking at quotas",
                self.provider.region(),
                message,
            ))),
            None => Ok(()),
        }
    }

    fn order(
        &self,
        offer: &Offer,
        prepared: &PreparedFleet,
        facts: &TypeFacts,
        spot: bool,
        zone: Option<String>,
        count: u32,
    ) -> Result<LaunchOrder, CampaignError> {
        let Some(image) = offer.image_for(facts) else {
            let message = format!(
                "the image has no version for the processors of {}, {}",
                facts.name, facts.architecture
            );
            return Err(self.error(ProviderError::before(
                ErrorKind::Invalid,
                "choosing an image",
                self.provider.region(),
                message,
            )));
        };
        if self.request.instances.efa && !facts.efa {
            let message = format!(
                "{} has no Elastic Fabric Adapter; remove `efa`, or choose another type",
                facts.name
            );
            return Err(self.error(ProviderError::before(
                ErrorKind::Invalid,
                "ordering",
                self.provider.region(),
                message,
            )));
        }
        let number = self.state().leases.len() + 1;
        let rate = self.rate_of(&facts.name, spot, zone.as_ref(), Some(image.root_gib));
        self.pays(&facts.name, rate.as_ref(), count)?;
        let now = clock::now();
        let until = self.until(rate.as_ref().map_or(0.0, |r| r.cost_of(1.0, count)));
        let lifetime_s = until.duration_since(now).as_secs().max(1).unsigned_abs();
        let tags = Tags {
            // unique, because it is the client token, even in a fleet that another campaign began
            lease: Some(format!("{}-{}-{number}", self.tags.fleet, now.as_second()).into()),
            // by the wall clock, with which others compare it
            expires: clock::on_wall(now)
                .checked_add(jiff::SignedDuration::from_secs(
                    i64::try_from(lifetime_s).unwrap_or(i64::MAX),
                ))
                .ok(),
            ..self.tags.clone()
        };
        // the image's root volume is the minimum
        let mut root = self.request.instances.root.clone();
        root.size_gib = root.size_gib.map(|gib| gib.max(image.root_gib));
        Ok(LaunchOrder {
            tags,
            region: self.provider.region().to_owned(),
            profile: self.request.account.profile.clone(),
            endpoint: self.request.account.endpoint.clone(),
            usd_per_hour: rate.as_ref().map(|r| r.usd_per_hour),
            rate,
            zone,
            instance_type: facts.name.clone(),
            vcpus: facts.vcpus,
            count,
            spot,
            max_price_usd: self.request.instances.max_price_usd.filter(|_| spot),
            image: image.id.clone(),
            root_device: image.root_device.clone(),
            key_name: prepared.key_name.clone(),
            group_id: prepared.group_id.clone(),
            subnet: self.request.instances.subnet.clone(),
            placement_group: prepared.placement_group.clone(),
            efa: self.request.instances.efa,
            root,
            volumes: self.request.instances.volumes.clone(),
            encrypted: self.request.instances.encrypted,
            credits: self.request.instances.credits_of(&facts.name),
            lifetime_s,
            config_digest: Some(self.request.config_digest.clone()),
        })
    }

    /// Returns the known prices that this campaign may use. With a budget, old prices of the spot market are excluded.
    pub(super) fn price_book(&self) -> cost::PriceBook {
        let book = self.limits.prices.lock().clone();
        if self.limits.budget_share.borrow().is_some() {
            book.for_budget()
        } else {
            book
        }
    }

    /// Returns the price of a node of this type, from the known prices.
    pub fn rate_of(
        &self,
        instance_type: &str,
        spot: bool,
        zone: Option<&String>,
        root_gib: Option<u32>,
    ) -> Option<NodeRate> {
        // spot prices differ between zones
        let zones = zone.map_or_else(|| self.request.instances.zones.clone(), |z| vec![z.clone()]);
        let instances = InstanceSpec {
            zones,
            ..self.request.instances.clone()
        };
        let there = FleetRequest {
            instances,
            ..self.request.clone()
        };
        cost::instance_rate(&self.price_book(), &there, instance_type, spot, root_gib).ok()
    }

    /// Returns the price of a node of the fleet as its order states it; of several orders, the highest price. It stays the same when a campaign is
    /// resumed. `None` if no order states a price.
    pub fn rate(&self) -> Option<NodeRate> {
        let ordered = self.open_leases().into_iter().filter_map(|l| l.order?.rate);
        ordered.max_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour))
    }

    /// Queries the cloud's current prices. If the cloud does not respond, the prices known so far are used.
    pub(super) async fn ask_prices(&self, types: &[String]) {
        let spot = self.request.instances.market != Market::OnDemand;
        match cost::refresh(self.provider.as_ref(), types, spot, &cost::cache_file()).await {
            Ok(book) => *self.limits.prices.lock() = book,
            Err(error) => self
                .reporter
                .note(format!("{}: cannot get today's prices: {error}", self.name)),
        }
    }

    /// Checks that the rest of the budget pays for `count` instances for a useful time ([`MIN_OF_USE_S`]), at current prices, which may differ from
    /// those in the plan.
    fn pays(
        &self,
        instance_type: &str,
        rate: Option<&NodeRate>,
        count: u32,
    ) -> Result<(), CampaignError> {
        let Some(share) = self.limits.budget_share.borrow().clone() else {
            return Ok(());
        };
        let used = jiff::SignedDuration::try_from_secs_f64(MIN_OF_USE_S).unwrap_or_default();
        let left = share
            .left_after(
                clock::now()
                    .saturating_add(used)
                    .unwrap_or(jiff::Timestamp::MAX),
                0.0,
            )
            .max(0.0);
        let over = |why: String| CampaignError::OverBudget {
            site: self.name.clone(),
            over: OverBudget::new(why),
        };
        let Some(rate) = rate else {
            return Err(over(format!(
                "the price of {instance_type} is unknown, so the budget could be exceeded"
            )));
        };
        let needs = rate.billed(MIN_OF_USE_S, count);
        if needs > left {
            return Err(over(format!(
                "${left:.4} is left, but {count} {instance_type} for {MIN_OF_USE_S} s cost ${needs:.4}"
            )));
        }
        Ok(())
    }

    /// Returns the time at which the instances end if cvc does not end them: after their lifetime, or earlier if the rest of the budget does not pay
    /// for all fleets for so long. `more_usd_per_s` is the cost of instances that are to be added now.
    pub(super) fn until(&self, more_usd_per_s: f64) -> jiff::Timestamp {
        let after = |from: jiff::Timestamp, s: f64| {
            let duration = jiff::SignedDuration::try_from_secs_f64(s).unwrap_or_default();
            from.saturating_add(duration)
                .unwrap_or(jiff::Timestamp::MAX)
        };
        let own = after(clock::now(), self.request.instances.lifetime_s);
        let until = self
            .limits
            .budget_share
            .borrow()
            .as_ref()
            .map_or(own, |share| {
                own.min(after(share.until(more_usd_per_s), -END_S))
            });
        // rounded to whole seconds, as instances count time: sums of fractions differ in their last digits
        jiff::Timestamp::from_second(until.as_second()).unwrap_or(until)
    }

    /// Sets this fleet's share of the rest of the campaign's budget.
    pub fn set_budget_share(&self, share: Option<BudgetShare>) {
        self.limits.budget_share.send_replace(share);
    }

    /// Waits until the rest of the budget is only enough to give everything back.
    pub async fn budget_exhausted(&self) {
        let mut share = self.limits.budget_share.subscribe();
        loop {
            let end = share.borrow_and_update().as_ref().map(|m| m.until(0.0));
            let left_s = end.map(|end| {
                (end.duration_since(clock::now()).as_secs_f64() - RELEASE_S).clamp(0.0, MAX_SLEEP_S)
            });
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs_f64(left_s.unwrap_or_default())), if left_s.is_some() => {
                    if left_s.is_some_and(|s| s < MAX_SLEEP_S) {
                        return;
                    }
                }
                // without a sender the fleet no longer exists
                Ok(()) = share.changed() => {}
            }
        }
    }

    /// Places an order, and records the result. If the answer is lost, places the same order again.
    #[tracing::instrument(name = "lease", skip_all, fields(lease = order.lease()))]
    pub(super) async fn launch(&self, order: &LaunchOrder) -> Result<(), CampaignError> {
        let mut lost = 0;
        let instances = loop {
            match self.provider.launch(order).await {
                Ok(instances) => break instances,
                Err(error) if error.left == SideEffect::Unknown && lost < MAX_LOST_ANSWERS => {
                    lost += 1;
                    self.reporter
                        .note(format!("{}: {error}; repeating the order", self.name));
                    tokio::time::sleep(Duration::from_secs(u64::from(lost))).await;
                }
                // the token was already used for a different order, whose instances carry the lease's tag
                Err(error) if error.kind == ErrorKind::TokenMismatch => {
                    let seen = self
                        .provider
                        .observe(self.tags.fleet.as_str())
                        .await
                        .map_err(|e| self.error(e))?;
                    let of_it: Vec<Instance> = seen
                        .into_iter()
                        .filter(|i| i.lease == order.lease())
                        .collect();
                    if of_it.is_empty() {
                        return Err(self.error(error));
                    }
                    break of_it;
                }
                Err(error) => return Err(self.error(error)),
            }
        };
        let by = Acquired::instances(instances.iter().map(|i| i.id.as_str()));
        self.write(Event::LeaseAcquired {
            lease: order.lease().into(),
            by,
        })
        .await;
        Ok(())
    }
}

/// Returns whether a network is the whole internet.
fn is_whole_internet(network: &str) -> bool {
    network
        .split_once('/')
        .is_some_and(|(_, bits)| bits.parse() == Ok(0))
}

/// Returns the markets (`true` for spot) and the types to try. `offered` are the types that the region has; `taken` are the types that the spot
/// market has reclaimed in this session.
fn markets_and_types<'o>(
    market: Market,
    way: OnInterruption,
    offered: &[&'o str],
    taken: &BTreeSet<String>,
) -> (&'static [bool], Vec<&'o str>) {
    let markets: &[bool] = match market {
        Market::OnDemand => &[false],
        Market::Spot | Market::SpotThenOnDemand
            if way == OnInterruption::OnDemand && !taken.is_empty() =>
        {
            &[false]
        }
        Market::Spot => &[true],
        Market::SpotThenOnDemand => &[true, false],
    };
    let left: Vec<&str> = offered
        .iter()
        .copied()
        .filter(|name| way != OnInterruption::NextType || !taken.contains(*name))
        .collect();
    // if all types were reclaimed, all are equally good
    let types = if left.is_empty() {
        offered.to_vec()
    } else {
        left
    };
    (markets, types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_network_of_all_addresses_is_the_whole_internet() {
        assert!(is_whole_internet("0.0.0.0/0") && is_whole_internet("::/0"));
        assert!(
            !is_whole_internet("203.0.113.7/32")
                && !is_whole_internet("0.0.0.0/1")
                && !is_whole_internet("10.0.0.0/8")
        );
    }

    #[test]
    fn what_was_taken_back_is_replaced_as_the_site_says() {
        let offered = ["c5.large", "c5a.large"];
        let of = |market, way, taken: &[&str]| {
            let taken = taken.iter().map(|name| (*name).to_owned()).collect();
            markets_and_types(market, way, &offered, &taken)
        };
        let (all, one) = (offered.to_vec(), ["c5.large"]);
        let (spot, both) = (Market::Spot, Market::SpotThenOnDemand);
        use OnInterruption as On;
        assert_eq!(of(spot, On::Replace, &one), (&[true][..], all.clone()));
        assert_eq!(of(spot, On::OnDemand, &[]), (&[true][..], all.clone()));
        assert_eq!(of(spot, On::OnDemand, &one), (&[false][..], all.clone()));
        assert_eq!(of(both, On::OnDemand, &one), (&[false][..], all.clone()));
        let next = (&[true, false][..], vec!["c5a.large"]);
        assert_eq!(of(both, On::NextType, &one), next);
        assert_eq!(of(spot, On::NextType, &offered), (&[true][..], all));
    }
}
