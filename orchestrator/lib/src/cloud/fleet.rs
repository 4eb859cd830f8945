//! The instances of one site of one campaign: acquired in an order of words that leaks nothing, mended, and given back.
//!
//! 1. `LeaseIntended` with the whole order is synced. 2. The launch, with the lease's name as client token. 3. `LeaseAcquired` is synced before
//! anything is waited for. 4. The end of everything, and only then `LeaseReleased`. A controller that was killed in between asks for the same
//! order again, word for word, and gets the same instances; one that wants nothing any more finds them by their tags.

use super::{
    Account, Clouds, FleetOrder, Instance, InstanceState, LaunchOrder, Left, Offer, Prepared, Provider, ProviderError, Tags, Trouble,
    TypeFacts, owner, place::Place, reach::Reached,
};
use crate::{
    cost::{self, NodeRate, PriceBook},
    journal::{Event, Lease},
    remote::Speaker,
    run::{EngineError, Wish, Wishes},
    spec::{Cluster, Ec2Settings, Market},
};
use camino::{Utf8Path, Utf8PathBuf};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::OnceCell;

/// Why a node is gone that the spot market wanted back.
const RECLAIMED: &str = "the cloud took it back (spot interruption)";
/// So often the same order is given again when its answer was lost.
const MOST_LOST_ANSWERS: u32 = 4;
/// So often instances that failed are replaced in one session: once is the rule, and the spot market may take some back each hour.
const MOST_REPLACED: u32 = 12;
/// What was launched a moment ago may not be shown yet.
const SHOWN_LIMIT: Duration = Duration::from_secs(20);

/// The instances of a site.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(super) name: String,
    pub(super) settings: Ec2Settings,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) speaker: Speaker,
    pub(super) tags: Tags,
    pub(super) place: Place,
    /// Its user in the campaign file.
    login: Option<String>,
    /// What instances cost, as far as that is known.
    prices: Mutex<PriceBook>,
    /// What is left of the campaign's budget, if it has one.
    allowance_usd: Mutex<Option<f64>>,
    offer: OnceCell<Offer>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Leases of this fleet, as the journal has them.
    leases: Vec<Lease>,
    /// Instances in the order of mappings.
    machines: Vec<Instance>,
    /// Nodes that are there no more, and why.
    gone: BTreeMap<String, String>,
    replaced: u32,
}

/// What a fleet is made of.
pub(crate) struct Wanted<'a> {
    pub campaign: &'a str,
    pub site: &'a str,
    pub settings: &'a Ec2Settings,
    pub login: Option<&'a str>,
    /// Distinguishes campaigns of one name in different places.
    pub identity: &'a str,
    /// The campaign's directory.
    pub dir: &'a Utf8Path,
    /// What the journal has of this site.
    pub leases: Vec<Lease>,
    pub prices: PriceBook,
    pub speaker: Speaker,
}

impl Fleet {
    /// Nothing is asked of the cloud yet.
    pub async fn new(clouds: &dyn Clouds, wanted: Wanted<'_>) -> Result<Self, EngineError> {
        let failed = |error| EngineError::Provider { site: wanted.site.to_owned(), error: Box::new(error) };
        // what there is was launched in its own region and account, whatever the file says now
        let open = wanted.leases.iter().rfind(|l| !l.released).and_then(|l| l.order.as_ref());
        let account = match open {
            Some(order) => Account { region: Some(order.region.clone()), profile: order.profile.clone(), endpoint: order.endpoint.clone() },
            None => Account::of(wanted.settings),
        };
        let fleet = open.map_or_else(|| format!("cvc-{}-{}-{}", wanted.campaign, wanted.identity, wanted.site), |o| o.tags.fleet.clone());
        Ok(Self {
            provider: clouds.open(&account).await.map_err(failed)?,
            name: wanted.site.to_owned(),
            settings: wanted.settings.clone(),
            speaker: wanted.speaker,
            tags: Tags {
                owner: open.map_or_else(owner, |o| o.tags.owner.clone()),
                campaign: wanted.campaign.to_owned(),
                site: wanted.site.to_owned(),
                fleet,
                lease: None,
                expires: None,
            },
            place: Place::new(wanted.dir, wanted.site),
            login: wanted.login.map(str::to_owned),
            prices: Mutex::new(wanted.prices),
            allowance_usd: Mutex::default(),
            offer: OnceCell::new(),
            state: Mutex::new(State { leases: wanted.leases, ..State::default() }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, error: ProviderError) -> EngineError {
        EngineError::Provider { site: self.name.clone(), error: Box::new(error) }
    }

    /// Who logs in.
    pub(super) fn user(&self) -> String {
        let of_image = || self.offer.get().and_then(|o| o.images.first()).map(|i| i.user.clone());
        self.login.clone().or_else(of_image).unwrap_or_else(|| "root".into())
    }

    /// Instances in the order of mappings.
    pub fn machines(&self) -> Vec<Instance> {
        self.state().machines.clone()
    }

    /// Nodes that are there no more, and why, as far as it was seen.
    pub fn gone(&self) -> BTreeMap<String, String> {
        self.state().gone.clone()
    }

    /// Name of the site.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a machine is called among the nodes of its site.
    pub fn node_name(&self, machine: &Instance) -> String {
        self.entry(machine).name
    }

    /// Makes the machines the hosts of a site.
    pub fn fill(&self, cluster: &mut Cluster) {
        cluster.hosts = self.machines().iter().map(|m| self.entry(m)).collect();
        cluster.ssh = self.place.ssh();
    }

    /// Where it is noted what was set up on which instances.
    pub fn set_up_mark(&self) -> Utf8PathBuf {
        self.place.set_up()
    }

    /// Why nodes are gone that the spot market has said it takes back.
    pub fn reclaimed() -> String {
        RECLAIMED.to_owned()
    }

    /// Whether this is why a node is gone: the spot market.
    pub fn was_reclaimed(&self, why: &str) -> bool {
        why == RECLAIMED
    }

    /// Leases that are not over.
    pub(super) fn open_leases(&self) -> Vec<Lease> {
        self.state().leases.iter().filter(|l| !l.released).cloned().collect()
    }

    /// All instances, by id.
    pub(super) async fn observed(&self) -> Result<BTreeMap<String, Instance>, EngineError> {
        let all = self.provider.observe(&self.tags.fleet).await.map_err(|e| self.error(e))?;
        Ok(all.into_iter().map(|i| (i.id.clone(), i)).collect())
    }

    /// Writes an event down, and takes it in.
    pub(super) async fn write(&self, event: Event) {
        self.speaker.write(event.clone()).await;
        let entry = crate::journal::Entry { seq: 0, at: jiff::Timestamp::now(), event };
        let mut state = self.state();
        let mut folded = crate::journal::CampaignState { leases: std::mem::take(&mut state.leases), ..Default::default() };
        folded.apply(&entry);
        state.leases = folded.leases;
    }

    /// Sees to it that so many instances are there and answer; `None` when the user wants to stop.
    pub async fn up(&self, nodes: u32, wishes: &mut Wishes) -> Result<Option<Vec<Instance>>, EngineError> {
        self.place.make(&self.tags.fleet).await?;
        self.settle_open_leases().await?;
        let offer = self.offer().await?;
        loop {
            let seen = self.observed().await?;
            let mine: Vec<String> =
                self.open_leases().iter().flat_map(|l| l.instances().into_iter().map(str::to_owned).collect::<Vec<_>>()).collect();
            self.note_lost(&seen).await;
            let mut alive: Vec<Instance> = mine.iter().filter_map(|id| seen.get(id)).filter(|i| i.state.is_alive()).cloned().collect();
            // of one type and zone: a mixed fleet measures neither
            if let Some(first) = alive.first().cloned()
                && alive.iter().any(|i| i.zone != first.zone || i.instance_type != first.instance_type)
            {
                self.speaker.note(format!("{}: its instances are not alike any more; all of them are replaced", self.name));
                self.end_all(&alive).await?;
                continue;
            }
            let missing = nodes.saturating_sub(alive.len() as u32);
            if missing > 0 {
                match self.acquire(offer, missing, alive.first(), wishes).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(None),
                    // beside those that are there, there is no room: somewhere else there may be for all
                    Err(EngineError::Provider { error, .. }) if error.elsewhere() && !alive.is_empty() => {
                        self.speaker.note(format!("{}: {error}; all instances are replaced elsewhere", self.name));
                        self.end_all(&alive).await?;
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            alive.truncate(nodes as usize);
            let ids: Vec<String> = alive.iter().map(|i| i.id.clone()).collect();
            match self.reach(&ids, wishes).await? {
                Reached::All(machines) => {
                    let mut state = self.state();
                    state.machines.clone_from(&machines);
                    state.gone.clear();
                    return Ok(Some(machines));
                }
                Reached::Stopped => return Ok(None),
                Reached::Without(failed) => self.replace(&failed).await?,
            }
        }
    }

    /// Instances that failed are ended; the next look finds them missing. Once is reported, again and again is an error.
    pub async fn replace(&self, failed: &BTreeMap<String, String>) -> Result<(), EngineError> {
        let replaced = {
            let mut state = self.state();
            state.replaced += failed.len() as u32;
            state.replaced
        };
        let what: Vec<String> = failed.iter().map(|(id, why)| format!("{id} ({why})")).collect();
        let reclaimed = failed.values().all(|why| why == RECLAIMED);
        let most = if reclaimed { MOST_REPLACED } else { self.settings.nodes.min(MOST_REPLACED) };
        if replaced > most {
            let said = format!("instances fail again after they were replaced: {}", what.join(", "));
            return Err(self.error(ProviderError::before(Trouble::Other, "waiting for instances", self.provider.region(), said)));
        }
        self.speaker.note(format!("{}: replaced: {}", self.name, what.join(", ")));
        let ids: Vec<String> = failed.keys().cloned().collect();
        self.provider.terminate(&ids).await.map_err(|e| self.error(e))?;
        for lease in self.open_leases() {
            let of_it: Vec<String> = lease.instances().into_iter().filter(|id| failed.contains_key(*id)).map(str::to_owned).collect();
            if let Some(first) = of_it.first() {
                let why = failed[first].clone();
                self.write(Event::LeaseLost { lease: lease.name.clone(), instances: of_it, why }).await;
            }
        }
        // their addresses may come again with other keys
        let seen = self.observed().await?;
        for instance in ids.iter().filter_map(|id| seen.get(id)) {
            for address in instance.address.iter().chain(&instance.internal) {
                self.place.forget_host(address)?;
            }
        }
        Ok(())
    }

    /// Ends instances whose place is wanted elsewhere, and waits until nothing of their leases is left.
    async fn end_all(&self, instances: &[Instance]) -> Result<(), EngineError> {
        let ids: Vec<String> = instances.iter().map(|i| i.id.clone()).collect();
        self.provider.terminate(&ids).await.map_err(|e| self.error(e))?;
        for lease in self.open_leases() {
            self.write(Event::LeaseReleased { lease: lease.name.clone(), how: "replaced".into() }).await;
        }
        for instance in instances {
            for address in instance.address.iter().chain(&instance.internal) {
                self.place.forget_host(address)?;
            }
        }
        Ok(())
    }

    /// Leases that an earlier controller ordered, without having heard what came of them: the same order again gives the same instances.
    async fn settle_open_leases(&self) -> Result<(), EngineError> {
        for lease in self.open_leases() {
            let Some(order) = lease.order.as_ref().filter(|_| lease.job.is_none()) else { continue };
            self.speaker.note(format!("{}: {} was ordered, and its answer was not heard; it is asked for again", self.name, lease.name));
            match self.launch(order).await {
                Ok(()) => {}
                // what it needed is there no more: then it was never launched
                Err(EngineError::Provider { error, .. })
                    if error.elsewhere() || matches!(error.trouble, Trouble::NotFound | Trouble::Invalid | Trouble::Quota) =>
                {
                    self.write(Event::LeaseReleased { lease: lease.name.clone(), how: format!("it was not launched: {error}") }).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes down which instances have ended by themselves.
    async fn note_lost(&self, seen: &BTreeMap<String, Instance>) {
        for lease in self.open_leases() {
            let is_gone = |id: &&str| !lease.lost.contains_key(*id) && seen.get(*id).is_none_or(|i| !i.state.is_alive());
            let gone: Vec<String> = lease.instances().into_iter().filter(is_gone).map(str::to_owned).collect();
            if let Some(first) = gone.first() {
                let why = seen.get(first).and_then(|i| i.reason.clone()).unwrap_or_else(|| "it is not there any more".into());
                self.speaker.note(format!("{}: {} is gone: {why}", self.name, gone.join(", ")));
                self.write(Event::LeaseLost { lease: lease.name.clone(), instances: gone, why }).await;
            }
        }
    }

    async fn offer(&self) -> Result<&Offer, EngineError> {
        self.offer.get_or_try_init(|| async { self.provider.look(&self.settings).await }).await.map_err(|e| self.error(e))
    }

    /// Launches so many more, beside those that are there; `false` when the user wants to stop.
    async fn acquire(&self, offer: &Offer, count: u32, beside: Option<&Instance>, wishes: &Wishes) -> Result<bool, EngineError> {
        let tries = self.tries(offer, beside);
        let Some((first, ..)) = tries.first() else {
            let said = format!("no zone of {} has {}", self.provider.region(), self.settings.instance_types.join(" or "));
            return Err(self.error(ProviderError::before(Trouble::Capacity, "looking for instances", self.provider.region(), said)));
        };
        self.look_at_quota(&tries, count).await?;
        self.ask_prices(offer).await;
        let near = self.settings.placement_group.unwrap_or(self.settings.nodes > 1) && first.cluster_placement;
        let allow_from = match (&self.settings.allow_from, &offer.caller) {
            (Some(from), _) | (None, Some(from)) => from.clone(),
            (None, None) => {
                let said = "this machine's address, which alone may come by ssh, cannot be found out; write `allow_from`";
                return Err(self.error(ProviderError::before(Trouble::Invalid, "preparing", self.provider.region(), said)));
            }
        };
        let order = FleetOrder {
            tags: self.tags.clone(),
            public_key: self.place.make(&self.tags.fleet).await?,
            allow_from,
            subnet: self.settings.subnet.clone(),
            placement_group: near,
        };
        let prepared = self.provider.prepare(&order).await.map_err(|e| self.error(e))?;
        let mut last = None;
        for (facts, spot, zone) in &tries {
            if *wishes.borrow() > Wish::GoOn {
                return Ok(false);
            }
            let order = self.order(offer, &prepared, facts, *spot, zone.clone(), count)?;
            let lease = order.lease().to_owned();
            self.write(Event::LeaseIntended {
                lease: lease.clone(),
                site: self.name.clone(),
                nodes: count,
                order: Some(Box::new(order.clone())),
            })
            .await;
            let market = if *spot { "spot" } else { "on-demand" };
            self.speaker.note(format!(
                "{}: launching {count} {market} {} in {}",
                self.name,
                facts.name,
                zone.as_deref().unwrap_or("any zone")
            ));
            match self.launch(&order).await {
                Ok(()) => return Ok(true),
                Err(EngineError::Provider { error, .. }) if error.elsewhere() => {
                    self.speaker.note(format!("{}: {error}", self.name));
                    self.write(Event::LeaseReleased { lease, how: error.to_string() }).await;
                    last = Some(*error);
                }
                Err(EngineError::Provider { error, site }) => {
                    if error.left == Left::Clear {
                        self.write(Event::LeaseReleased { lease, how: error.to_string() }).await;
                    }
                    return Err(EngineError::Provider { error, site });
                }
                Err(error) => return Err(error),
            }
        }
        let none = || ProviderError::before(Trouble::Capacity, "launching", self.provider.region(), "there is none to be had");
        Err(self.error(last.unwrap_or_else(none)))
    }

    /// Types, markets and zones in the order in which they are tried.
    fn tries<'o>(&self, offer: &'o Offer, beside: Option<&Instance>) -> Vec<(&'o TypeFacts, bool, Option<String>)> {
        let markets: &[bool] = match self.settings.market {
            Market::OnDemand => &[false],
            Market::Spot => &[true],
            Market::SpotThenOnDemand => &[true, false],
        };
        let mut tries = Vec::new();
        for spot in markets {
            for facts in offer.types.iter().filter(|f| beside.is_none_or(|b| b.instance_type == f.name) && (!spot || f.spot)) {
                if self.settings.subnet.is_some() {
                    tries.push((facts, *spot, None));
                    continue;
                }
                let wanted = |zone: &&String| self.settings.zones.is_empty() || self.settings.zones.contains(zone);
                let mut zones: Vec<&String> = facts.zones.iter().filter(wanted).collect();
                zones.sort_by_key(|zone| self.settings.zones.iter().position(|z| z == *zone));
                let near = zones.into_iter().filter(|zone| beside.is_none_or(|b| b.zone == **zone));
                tries.extend(near.map(|zone| (facts, *spot, Some(zone.clone()))));
            }
        }
        tries
    }

    /// Before anything is launched: whether the account may have so many.
    async fn look_at_quota(&self, tries: &[(&TypeFacts, bool, Option<String>)], count: u32) -> Result<(), EngineError> {
        let mut short = None;
        let mut asked: Vec<(&str, bool)> = Vec::new();
        for (facts, spot, _) in tries {
            if asked.contains(&(facts.name.as_str(), *spot)) {
                continue;
            }
            asked.push((&facts.name, *spot));
            let Some(quota) = self.provider.quota(facts, *spot).await.map_err(|e| self.error(e))? else { return Ok(()) };
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
            Some(said) => Err(self.error(ProviderError::before(Trouble::Quota, "looking at quotas", self.provider.region(), said))),
            None => Ok(()),
        }
    }

    fn order(
        &self,
        offer: &Offer,
        prepared: &Prepared,
        facts: &TypeFacts,
        spot: bool,
        zone: Option<String>,
        count: u32,
    ) -> Result<LaunchOrder, EngineError> {
        let Some(image) = offer.image_for(facts) else {
            let said = format!("the image has no version for {}, which is {}", facts.name, facts.architecture);
            return Err(self.error(ProviderError::before(Trouble::Invalid, "choosing an image", self.provider.region(), said)));
        };
        if self.settings.efa && !facts.efa {
            let said = format!("{} has no Elastic Fabric Adapter; remove `efa`, or choose another type", facts.name);
            return Err(self.error(ProviderError::before(Trouble::Invalid, "ordering", self.provider.region(), said)));
        }
        let number = self.state().leases.len() + 1;
        let rate = self.rate_of(&facts.name, spot, Some(image.root_gib));
        // beside those that are there already
        let there = self.machines().len() as u32;
        let lifetime_s = self.lifetime_s(rate.as_ref(), count + there);
        let lasts = jiff::SignedDuration::from_secs(i64::try_from(lifetime_s).unwrap_or(i64::MAX));
        let tags = Tags {
            lease: Some(format!("{}-{number}", self.tags.fleet)),
            expires: jiff::Timestamp::now().checked_add(lasts).ok(),
            ..self.tags.clone()
        };
        // the smallest root volume is the image's
        let mut root = self.settings.root.clone();
        root.size_gib = root.size_gib.map(|gib| gib.max(image.root_gib));
        Ok(LaunchOrder {
            tags,
            region: self.provider.region().to_owned(),
            profile: self.settings.profile.clone(),
            endpoint: self.settings.endpoint.clone(),
            usd_per_hour: rate.as_ref().map(|r| r.usd_per_hour),
            zone,
            instance_type: facts.name.clone(),
            vcpus: facts.vcpus,
            count,
            spot,
            max_price_usd: self.settings.max_price_usd.filter(|_| spot),
            image: image.id.clone(),
            root_device: image.root_device.clone(),
            key_name: prepared.key_name.clone(),
            group_id: prepared.group_id.clone(),
            subnet: self.settings.subnet.clone(),
            placement_group: prepared.placement_group.clone(),
            efa: self.settings.efa,
            root,
            volumes: self.settings.volumes.clone(),
            lifetime_s,
        })
    }

    /// What a node of this type costs.
    pub fn rate_of(&self, instance_type: &str, spot: bool, root_gib: Option<u32>) -> Option<NodeRate> {
        let book = self.prices.lock().unwrap_or_else(PoisonError::into_inner);
        NodeRate::of_instance(&book, &self.settings, instance_type, spot, root_gib).ok()
    }

    /// What a node of the fleet as it is costs.
    pub fn rate(&self) -> Option<NodeRate> {
        let first = self.machines().into_iter().next()?;
        let root_gib = self.offer.get().and_then(|o| o.images.first()).map(|i| i.root_gib);
        self.rate_of(&first.instance_type, first.spot, root_gib)
    }

    /// Today's prices, in the cloud's own words; where they cannot be had, those that are known go on to count.
    async fn ask_prices(&self, offer: &Offer) {
        let types: Vec<String> = offer.types.iter().map(|t| t.name.clone()).collect();
        let spot = self.settings.market != Market::OnDemand;
        match cost::refresh(self.provider.as_ref(), &types, spot, &cost::cache_file()).await {
            Ok(book) => *self.prices.lock().unwrap_or_else(PoisonError::into_inner) = book,
            Err(error) => self.speaker.note(format!("{}: today's prices cannot be had: {error}", self.name)),
        }
    }

    /// How long instances live without cvc: no longer than what is left of the budget pays.
    pub(super) fn lifetime_s(&self, rate: Option<&NodeRate>, nodes: u32) -> u64 {
        let allowance = *self.allowance_usd.lock().unwrap_or_else(PoisonError::into_inner);
        let paid_s = match (allowance, rate) {
            (Some(usd), Some(rate)) => 3600.0 * usd / (rate.usd_per_hour * f64::from(nodes.max(1))).max(f64::MIN_POSITIVE),
            (None, _) | (_, None) => f64::INFINITY,
        };
        self.settings.lifetime_s.min(paid_s).max(1.0).floor() as u64
    }

    /// What is left of the campaign's budget.
    pub fn set_allowance(&self, usd: Option<f64>) {
        *self.allowance_usd.lock().unwrap_or_else(PoisonError::into_inner) = usd;
    }

    /// Gives an order, again if its answer was lost, and writes down what came of it.
    async fn launch(&self, order: &LaunchOrder) -> Result<(), EngineError> {
        let mut lost = 0;
        let instances = loop {
            match self.provider.launch(order).await {
                Ok(instances) => break instances,
                Err(error) if error.left == Left::Unknown && lost < MOST_LOST_ANSWERS => {
                    lost += 1;
                    self.speaker.note(format!("{}: {error}; the same order again", self.name));
                    tokio::time::sleep(Duration::from_secs(u64::from(lost))).await;
                }
                // the token was used for another order: what it gave carries the lease's tag
                Err(error) if error.trouble == Trouble::TokenMismatch => {
                    let seen = self.provider.observe(&self.tags.fleet).await.map_err(|e| self.error(e))?;
                    let of_it: Vec<Instance> = seen.into_iter().filter(|i| i.lease == order.lease()).collect();
                    if of_it.is_empty() {
                        return Err(self.error(error));
                    }
                    break of_it;
                }
                Err(error) => return Err(self.error(error)),
            }
        };
        let ids: Vec<&str> = instances.iter().map(|i| i.id.as_str()).collect();
        self.write(Event::LeaseAcquired { lease: order.lease().to_owned(), job: ids.join(",") }).await;
        Ok(())
    }

    /// Looks at the instances that are in use: which of them are gone, by the names of their nodes.
    pub async fn look_for_gone(&self) -> Result<BTreeMap<String, String>, EngineError> {
        let seen = self.observed().await?;
        let machines = self.machines();
        let mut found = BTreeMap::new();
        for machine in &machines {
            let why = match seen.get(&machine.id) {
                Some(now) if now.state.is_alive() => continue,
                Some(now) if now.reclaimed() => RECLAIMED.to_owned(),
                Some(now) => {
                    let why = now.reason.clone().unwrap_or_else(|| "nobody says why".into());
                    let how = if now.state == InstanceState::Stopped { "stopped" } else { "terminated" };
                    format!("the instance {} was {how}: {why}", now.id)
                }
                None => format!("the instance {} is not there any more", machine.id),
            };
            found.insert(self.entry(machine).name, why);
        }
        self.state().gone.clone_from(&found);
        Ok(found)
    }

    /// How long after an order without an answer its instances may still come to sight.
    pub(super) fn may_still_show(&self) -> Option<Duration> {
        let young = self.open_leases().iter().any(|l| l.job.is_none());
        young.then_some(SHOWN_LIMIT)
    }
}
