//! The instances of one site of one campaign: acquired in an order of events that leaks nothing, repaired, and given back.
//!
//! First `LeaseIntended` with the whole order is synced; then the launch, with the lease's name as client token; then `LeaseAcquired` is synced,
//! before anything is waited for; then the end of everything, and only then `LeaseReleased`. A controller that was killed in between asks for
//! the same order again, word for word, and gets the same instances; one that wants nothing any more finds them by their tags.

use crate::cloud::{
    key_dir::Place,
    loss::LossReason,
    readiness::{Reached, Wait},
    reconcile::{Action, Member, reconcile},
    warm_pool::{self, Kept},
};
use crate::error::CampaignError;
use crate::provider::{Account, Clouds, ErrorKind, FleetRequest, Instance, InstanceState, Offer, Prepared, Provider, ProviderError};
use crate::{cost::PriceBook, progress::SiteReporter, ssh::Target};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::lease::{Tags, owner};
use cvc_core::{
    campaign::Cluster,
    hosts::HostEntry,
    ids::FleetId,
    journal::{Acquired, Event, Lease},
    stop::{StopRequest, StopSignal},
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::OnceCell;

/// Maximum number of failed instances that are replaced in one session: once is the rule, and the spot market may take some back each hour.
const MOST_REPLACED: u32 = 12;
/// Time within which the instances of an order without an answer come to sight.
const SHOWN_LIMIT: Duration = Duration::from_secs(20);
/// Age at which the cloud is certain to show an instance, seconds.
const YOUNG_S: f64 = 120.0;
/// Delay between looks for an instance that is not shown yet.
const SHOW_TICK: Duration = Duration::from_secs(2);

/// The instances of a site.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(super) name: String,
    pub(super) request: FleetRequest,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) reporter: SiteReporter,
    pub(super) tags: Tags,
    /// The campaign's directory.
    pub(super) campaign: Utf8PathBuf,
    pub(super) place: Place,
    /// What was kept by an earlier campaign, and is this one's now.
    pub(super) taken: Option<Kept>,
    /// What this campaign has kept is another's now.
    pub(super) given_away: bool,
    pub(super) prepared: OnceCell<Prepared>,
    /// Something besides instances may have been made.
    pub(super) touched: AtomicBool,
    /// Its user in the campaign file.
    pub(super) login: Option<String>,
    /// What instances cost, as far as that is known.
    pub(super) prices: Mutex<PriceBook>,
    /// What is left of the campaign's budget, if it has one.
    pub(super) allowance_usd: Mutex<Option<f64>>,
    pub(super) offer: OnceCell<Offer>,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Leases of this fleet, as the journal has them.
    pub(super) leases: Vec<Lease>,
    /// Instances in the order of mappings.
    machines: Vec<Instance>,
    /// Nodes that are lost.
    gone: BTreeMap<String, LossReason>,
    replaced: u32,
}

/// What a fleet is made of.
pub(crate) struct Wanted<'a> {
    pub campaign: &'a str,
    pub site: &'a str,
    pub request: FleetRequest,
    pub login: Option<&'a str>,
    /// Distinguishes campaigns of one name in different places.
    pub identity: &'a str,
    /// The campaign's directory.
    pub dir: &'a Utf8Path,
    /// What the journal has of this site.
    pub leases: Vec<Lease>,
    /// Whether a fleet that another campaign has kept may be taken over.
    pub takes: bool,
    pub prices: PriceBook,
    pub reporter: SiteReporter,
}

/// A name that is short enough for a client token (64 characters) with what is put behind it, and still no other fleet's.
///
/// One that was kept may have been taken over by another campaign, under its name: after each the next one has another.
fn fleet_name(campaign: &str, identity: &str, site: &str, kept: usize) -> FleetId {
    let whole = cvc_core::ids::digest_prefix(format!("{identity}/{campaign}/{site}/{kept}").as_bytes(), 8);
    format!("cvc-{campaign:.16}-{site:.12}-{whole}").into()
}

impl Fleet {
    /// Nothing is asked of the cloud yet.
    pub async fn new(clouds: &dyn Clouds, wanted: Wanted<'_>) -> Result<Self, CampaignError> {
        let failed = |error| CampaignError::Provider { site: wanted.site.to_owned(), error: Box::new(error) };
        let place = Place::new(wanted.dir, wanted.site);
        // by an earlier session that was killed, or could not remove everything
        let touched = place.dir().exists();
        let open: Vec<&Lease> = wanted.leases.iter().filter(|l| !l.released).collect();
        let is_kept = !open.is_empty() && open.iter().all(|l| l.kept_until.is_some());
        let of_before = open.last().and_then(|l| l.order.clone());
        // one that this campaign has kept, or any that suits; a kept one that is not on the warm_pool any more is another's now
        let took = match &of_before {
            Some(order) if is_kept => warm_pool::take(wanted.dir, &place, Some(&order.tags.fleet), &wanted.request)?,
            None if wanted.takes => warm_pool::take(wanted.dir, &place, None, &wanted.request)?,
            Some(_) | None => false,
        };
        let taken = warm_pool::taken(&place);
        let given_away = is_kept && !took && taken.is_none();
        let open =
            taken.as_ref().and_then(|t| t.leases.last()).map(|(order, _)| order.clone()).or(of_before.filter(|_| !given_away).map(|o| *o));
        // what there is was launched in its own region and account, whatever the file says now
        let account = match &open {
            Some(order) => Account::of_order(order),
            None => wanted.request.account.clone(),
        };
        let kept = wanted.leases.iter().filter(|l| l.kept_until.is_some()).count();
        let own = || fleet_name(wanted.campaign, wanted.identity, wanted.site, kept);
        let fleet = open.as_ref().map_or_else(own, |o| o.tags.fleet.clone());
        Ok(Self {
            provider: clouds.open(&account).await.map_err(failed)?,
            name: wanted.site.to_owned(),
            request: wanted.request,
            reporter: wanted.reporter,
            tags: Tags {
                owner: open.as_ref().map_or_else(owner, |o| o.tags.owner.clone()),
                campaign: wanted.campaign.to_owned(),
                site: wanted.site.into(),
                fleet,
                lease: None,
                expires: None,
            },
            campaign: wanted.dir.to_owned(),
            place,
            taken,
            given_away,
            login: wanted.login.map(str::to_owned),
            prices: Mutex::new(wanted.prices),
            allowance_usd: Mutex::default(),
            offer: OnceCell::new(),
            prepared: OnceCell::new(),
            touched: AtomicBool::new(touched),
            state: Mutex::new(State { leases: wanted.leases, ..State::default() }),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn error(&self, error: ProviderError) -> CampaignError {
        CampaignError::Provider { site: self.name.clone(), error: Box::new(error) }
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

    /// Nodes that were seen to be lost.
    pub fn gone(&self) -> BTreeMap<String, LossReason> {
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

    /// An instance as a host of the site.
    pub(super) fn entry(&self, instance: &Instance) -> HostEntry {
        let internal = instance.internal.clone();
        let name = internal.as_deref().map_or_else(|| instance.id.clone(), |a| format!("ip-{}", a.replace(['.', ':'], "-")));
        HostEntry {
            name,
            address: instance.address.clone(),
            internal,
            user: Some(self.user()),
            port: None,
            identity_file: Some(self.place.key().into_string()),
        }
    }

    /// Leases that are not over.
    pub(super) fn open_leases(&self) -> Vec<Lease> {
        self.state().leases.iter().filter(|l| !l.released).cloned().collect()
    }

    /// All instances, by id.
    pub(super) async fn observed(&self) -> Result<BTreeMap<String, Instance>, CampaignError> {
        let all = self.provider.observe(self.tags.fleet.as_str()).await.map_err(|e| self.error(e))?;
        Ok(all.into_iter().map(|i| (i.id.clone(), i)).collect())
    }

    /// Writes an event down, and takes it in.
    pub(super) async fn write(&self, event: Event) {
        self.reporter.write(event.clone()).await;
        let entry = cvc_core::journal::Entry { seq: 0, at: jiff::Timestamp::now(), event };
        let mut state = self.state();
        let mut folded = cvc_core::journal::CampaignState { leases: std::mem::take(&mut state.leases), ..Default::default() };
        if let Err(illegal) = folded.apply(&entry) {
            self.reporter.note(format!("{}: internal error (please report): {illegal}", self.name));
        }
        state.leases = folded.leases;
    }

    /// Brings the fleet to this many instances that answer; `None` when the user wants to stop.
    pub async fn up(&self, nodes: u32, stop_signal: &mut StopSignal) -> Result<Option<Vec<Instance>>, CampaignError> {
        self.place.make(self.tags.fleet.as_str()).await?;
        self.settle_kept().await;
        self.settle_open_leases().await?;
        let now = self.request.config_digest.clone();
        if self.open_leases().iter().any(|l| l.order.as_ref().and_then(|o| o.config_digest.as_ref()).is_some_and(|before| *before != now)) {
            // they are given back by whoever hears this
            let problem = "its instances were launched with other settings, and are given back; type the command again";
            return Err(CampaignError::Site { site: self.name.clone(), problem: problem.into() });
        }
        let offer = self.offer().await?;
        loop {
            let seen = self.observed().await?;
            for action in reconcile(nodes, &self.members(), &seen) {
                if let Some(end) = self.apply(action, offer, &seen, stop_signal).await? {
                    return Ok(end);
                }
            }
        }
    }

    /// Instances that the journal says were launched, in order.
    fn members(&self) -> Vec<Member> {
        let leases = self.open_leases();
        let ids = leases.iter().flat_map(Lease::instances);
        ids.map(|id| Member { id: id.to_owned(), is_young: self.is_young(id) }).collect()
    }

    /// Does something; gives the end of bringing the fleet up, if that is reached: its instances, or nothing when the user wants to stop.
    async fn apply(
        &self,
        action: Action,
        offer: &Offer,
        seen: &BTreeMap<String, Instance>,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Option<Vec<Instance>>>, CampaignError> {
        match action {
            Action::WaitToShow => tokio::select! {
                () = tokio::time::sleep(SHOW_TICK) => {}
                // an error means that nobody can ask for a stop any more
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(Some(None)),
            },
            Action::NoteLost => self.note_lost(seen).await,
            Action::EndMixed(instances) => {
                self.reporter.note(format!("{}: its instances differ in type or zone; all of them are replaced", self.name));
                self.end_all(&instances).await?;
            }
            Action::Launch { count, beside } => match self.acquire(offer, count, beside.first(), stop_signal).await {
                Ok(true) => {}
                Ok(false) => return Ok(Some(None)),
                // beside those that are there, there is no room: somewhere else there may be for all
                Err(CampaignError::Provider { error, .. }) if error.elsewhere() && !beside.is_empty() => {
                    self.reporter.note(format!("{}: {error}; all instances are replaced elsewhere", self.name));
                    self.end_all(&beside).await?;
                }
                Err(error) => return Err(error),
            },
            Action::Prepare => {
                self.prepared(offer).await?;
            }
            Action::EndSurplus(surplus) => self.end_surplus(surplus).await?,
            Action::AwaitReady(ids) => match self.wait_until_ready(&ids, stop_signal).await? {
                Reached::All(machines) => {
                    self.take_in_use(&machines).await;
                    return Ok(Some(Some(machines)));
                }
                Reached::Stopped => return Ok(Some(None)),
                Reached::Without(failed) => self.replace(&failed).await?,
            },
        }
        Ok(None)
    }

    /// Takes instances that are ready as the nodes of the site.
    async fn take_in_use(&self, machines: &[Instance]) {
        {
            let mut state = self.state();
            state.machines = machines.to_vec();
            state.gone.clear();
        }
        // an earlier controller, or an earlier campaign, may have set their deadlines long ago
        if let Err(error) = self.extend().await {
            self.reporter.note(format!("{}: a deadline could not be moved on: {error}", self.name));
        }
    }

    async fn wait_until_ready(&self, ids: &[String], stop_signal: &mut StopSignal) -> Result<Reached, CampaignError> {
        let wait = Wait {
            site: &self.name,
            fleet: self.tags.fleet.as_str(),
            provider: self.provider.as_ref(),
            reporter: &self.reporter,
            limit: Duration::from_secs_f64(self.request.ready_limit_s),
            target: &|instance| Target::new(&self.name, &self.entry(instance), &self.place.ssh()),
        };
        wait.until_ready(ids, stop_signal).await
    }

    /// Instances that failed are ended; the next look finds them missing. Once is reported, again and again is an error.
    pub async fn replace(&self, failed: &BTreeMap<String, LossReason>) -> Result<(), CampaignError> {
        let replaced = {
            let mut state = self.state();
            state.replaced += failed.len() as u32;
            state.replaced
        };
        let what: Vec<String> = failed.iter().map(|(id, why)| format!("{id} ({why})")).collect();
        let reclaimed = failed.values().all(LossReason::is_reclaim);
        let most = if reclaimed { MOST_REPLACED } else { self.request.nodes.min(MOST_REPLACED) };
        if replaced > most {
            let said = format!("instances fail again after they were replaced: {}", what.join(", "));
            return Err(self.error(ProviderError::before(ErrorKind::Other, "waiting for instances", self.provider.region(), said)));
        }
        self.reporter.note(format!("{}: replaced: {}", self.name, what.join(", ")));
        let ids: Vec<String> = failed.keys().cloned().collect();
        self.provider.terminate(&ids).await.map_err(|e| self.error(e))?;
        for lease in self.open_leases() {
            let of_it: Vec<String> = lease.instances().into_iter().filter(|id| failed.contains_key(*id)).map(str::to_owned).collect();
            if let Some(first) = of_it.first() {
                let why = failed[first].to_string();
                self.write(Event::LeaseLost { lease: lease.name.clone(), instances: of_it.into_iter().map(Into::into).collect(), why })
                    .await;
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

    /// Ends instances that nothing needs any more, and that cost.
    async fn end_surplus(&self, surplus: Vec<Instance>) -> Result<(), CampaignError> {
        let ids: Vec<String> = surplus.iter().map(|i| i.id.clone()).collect();
        self.reporter.note(format!("{}: not needed any more, and given back: {}", self.name, ids.join(", ")));
        self.provider.terminate(&ids).await.map_err(|e| self.error(e))?;
        for lease in self.open_leases() {
            let of_it: Vec<String> = lease.instances().into_iter().filter(|id| ids.iter().any(|i| i == id)).map(str::to_owned).collect();
            if !of_it.is_empty() {
                self.write(Event::LeaseLost {
                    lease: lease.name.clone(),
                    instances: of_it.into_iter().map(Into::into).collect(),
                    why: "not needed any more".into(),
                })
                .await;
            }
        }
        Ok(())
    }

    /// Ends instances whose place is wanted elsewhere. Their disks go with them; groups and key stay for those that take their place.
    async fn end_all(&self, instances: &[Instance]) -> Result<(), CampaignError> {
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
    async fn settle_open_leases(&self) -> Result<(), CampaignError> {
        for lease in self.open_leases() {
            let Some(order) = lease.order.as_ref().filter(|_| !lease.is_acquired()) else { continue };
            let seen = self.observed().await?;
            let there: Vec<String> = seen.values().filter(|i| lease.name == i.lease).map(|i| i.id.clone()).collect();
            if there.len() == order.count as usize {
                self.reporter.note(format!("{}: {} was ordered, and is there: {}", self.name, lease.name, there.join(", ")));
                self.write(Event::LeaseAcquired { lease: lease.name.clone(), by: Acquired::instances(there) }).await;
                continue;
            }
            self.reporter.note(format!("{}: {} was ordered, and its answer was not heard; it is asked for again", self.name, lease.name));
            match self.launch(order).await {
                Ok(()) => {}
                // what it needed is there no more: then it was never launched
                Err(CampaignError::Provider { error, .. })
                    if error.elsewhere() || matches!(error.kind, ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Quota) =>
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
            let is_gone =
                |id: &&str| !lease.lost.contains_key(*id) && seen.get(*id).map_or_else(|| !self.is_young(id), |i| !i.state.is_alive());
            let gone: Vec<String> = lease.instances().into_iter().filter(is_gone).map(str::to_owned).collect();
            if let Some(first) = gone.first() {
                let why = seen.get(first).and_then(|i| i.reason.clone()).unwrap_or_else(|| "it is not there any more".into());
                self.reporter.note(format!("{}: {} is gone: {why}", self.name, gone.join(", ")));
                self.write(Event::LeaseLost { lease: lease.name.clone(), instances: gone.into_iter().map(Into::into).collect(), why })
                    .await;
            }
        }
    }

    /// A fleet that was kept is this campaign's from now on, or not any more.
    pub(super) async fn settle_kept(&self) {
        if self.given_away {
            for lease in self.open_leases() {
                let how = "it was kept, and another campaign took it over or it was ended";
                self.write(Event::LeaseReleased { lease: lease.name.clone(), how: how.into() }).await;
            }
        }
        let Some(taken) = &self.taken else { return };
        for (order, instances) in &taken.leases {
            let known = self.open_leases().into_iter().find(|l| l.name == order.lease());
            if known.is_none() {
                self.reporter.note(format!("{}: takes over what the campaign {} has kept: {instances}", self.name, order.tags.campaign));
                let (lease, site) = (order.lease().into(), self.name.clone().into());
                self.write(Event::LeaseIntended { lease, site, nodes: order.count, order: Some(Box::new(order.clone())) }).await;
            }
            if known.is_none_or(|l| !l.is_acquired() || l.kept_until.is_some()) {
                self.write(Event::LeaseAcquired { lease: order.lease().into(), by: Acquired::from_text(instances) }).await;
            }
        }
    }

    /// Looks at the instances in use, and gives the nodes that are lost.
    pub async fn look_for_gone(&self) -> Result<BTreeMap<String, LossReason>, CampaignError> {
        let seen = self.observed().await?;
        let machines = self.machines();
        let lost = |machine: &Instance| match seen.get(&machine.id) {
            Some(now) if now.state.is_alive() => None,
            Some(now) if now.reclaimed() => Some(LossReason::Reclaimed),
            Some(now) => {
                let stopped = now.state == InstanceState::Stopped;
                Some(LossReason::Ended { instance: now.id.clone(), stopped, why: now.reason.clone() })
            }
            None => Some(LossReason::Vanished { instance: machine.id.clone() }),
        };
        let found: BTreeMap<String, LossReason> = machines.iter().filter_map(|m| Some((self.entry(m).name, lost(m)?))).collect();
        self.state().gone.clone_from(&found);
        Ok(found)
    }

    /// Whether an instance was launched so lately that the cloud may not show it yet.
    pub(super) fn is_young(&self, id: &str) -> bool {
        let lease = self.open_leases().into_iter().rfind(|l| l.instances().contains(&id));
        let since = lease.and_then(|l| l.acquired).map(|at| jiff::Timestamp::now().duration_since(at).as_secs_f64());
        since.is_some_and(|s| s < YOUNG_S)
    }

    /// How long after an order without an answer its instances may still come to sight.
    pub(super) fn may_still_show(&self) -> Option<Duration> {
        let young = self.open_leases().iter().any(|l| !l.is_acquired());
        young.then_some(SHOWN_LIMIT)
    }
}
