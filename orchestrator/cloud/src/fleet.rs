//! The instances of one site of one campaign. The order of events in which they are acquired, repaired and given back leaks nothing.
//!
//! First `LeaseIntended` with the whole order is synced; then the launch, with the lease's name as client token; then `LeaseAcquired` is
//! synced, before anything is waited for; then the end of everything, and only then `LeaseReleased`. After a controller is killed in
//! between, the next one places the identical order again and gets the same instances; if it does not need them any more, it finds them by
//! their tags.

use crate::cost::PriceBook;
use crate::provider::{
    Account, Clouds, ErrorKind, FleetRequest, Instance, InstanceState, Offer, Prepared, Provider,
    ProviderError,
};
use crate::{
    key_dir::Place,
    loss::LossReason,
    readiness::{Reached, Wait},
    reconcile::{Action, Member, reconcile},
    slots::{self, Slots},
    warm_pool::{self, Kept, Ownership},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::Cluster;
use cvc_core::clock;
use cvc_core::hosts::HostEntry;
use cvc_core::ids::{FleetId, LeaseId};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_journal::budget_share::BudgetShare;
use cvc_journal::lease::{Tags, owner};
use cvc_journal::{Acquired, Event, Lease, Lineage, apply_to_leases};
use cvc_sites::error::CampaignError;
use cvc_sites::progress::SiteReporter;
use cvc_sites::ssh::Target;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use tokio::sync::{OnceCell, watch};

/// Time after which the instances of an unanswered order must be visible.
const SHOWN_LIMIT: Duration = Duration::from_secs(20);
/// Age at which the cloud is certain to show an instance, seconds.
const YOUNG_S: f64 = 120.0;
/// Delay between queries for an instance that is not shown yet.
const SHOW_TICK: Duration = Duration::from_secs(2);

/// The instances of a site.
#[derive(Debug)]
pub struct Fleet {
    pub(super) name: String,
    pub(super) request: FleetRequest,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) reporter: SiteReporter,
    pub(super) tags: Tags,
    /// The campaign's directory.
    pub(super) campaign: Utf8PathBuf,
    pub(super) place: Place,
    /// The user from the campaign file.
    pub(super) login: Option<String>,
    pub(super) keeping: Keeping,
    pub(super) preparation: Preparation,
    pub(super) limits: Limits,
    /// When this was made.
    begun: Instant,
    pub(super) state: Mutex<State>,
}

/// Whose a fleet is between campaigns.
#[derive(Debug)]
pub(super) struct Keeping {
    /// The fleet that this campaign took over from an earlier one.
    pub(super) taken: Option<Kept>,
    /// Whose the fleet is that this campaign kept.
    ownership: Ownership,
    /// Whether this session has put it in the warm pool.
    pub(super) pooled: AtomicBool,
}

/// What a launch needs, queried and made once.
#[derive(Debug)]
pub(super) struct Preparation {
    pub(super) offer: OnceCell<Offer>,
    pub(super) prepared: OnceCell<Prepared>,
    /// Whether something besides instances may have been made.
    pub(super) touched: AtomicBool,
}

/// How long the instances may run.
#[derive(Debug)]
pub(super) struct Limits {
    /// The known prices of instances.
    pub(super) prices: Mutex<PriceBook>,
    /// What is left of the campaign's budget, if it has one.
    pub(super) budget_share: watch::Sender<Option<BudgetShare>>,
    /// The end that all instances were given last.
    pub(super) set_until: Mutex<Option<Timestamp>>,
}

/// The result of asking for more instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquisition {
    Launched,
    /// The user wants to stop.
    Stopped,
}

/// The result of one action on a fleet.
enum Applied {
    /// More is to be done.
    Continue,
    /// These instances answer.
    Up(Vec<Instance>),
    /// The user wants to stop.
    Stopped,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Leases of this fleet, from the journal.
    pub(super) leases: Vec<Lease>,
    /// Instances in the order of mappings.
    machines: Vec<Instance>,
    /// Nodes that are lost.
    gone: BTreeMap<String, LossReason>,
    /// Where instances were replaced.
    slots: Slots,
    /// When this session has acquired leases, by the monotonic clock.
    acquired: BTreeMap<LeaseId, Instant>,
}

/// What to make a fleet from.
pub struct Wanted<'a> {
    /// The campaign that it is for.
    pub campaign: &'a str,
    /// Its site.
    pub site: &'a str,
    /// What is asked of the cloud.
    pub request: FleetRequest,
    /// Name to log in with; `None`: the image's.
    pub login: Option<&'a str>,
    /// Identity of the campaign.
    pub lineage: &'a Lineage,
    /// The campaign's directory.
    pub dir: &'a Utf8Path,
    /// The journal's events of this site.
    pub leases: Vec<Lease>,
    /// Whether a fleet that another campaign has kept may be taken over.
    pub takes: bool,
    /// What machines cost.
    pub prices: PriceBook,
    /// Who hears what happens.
    pub reporter: SiteReporter,
}

/// A unique name that fits a client token (64 characters) together with its suffixes.
///
/// A kept fleet may have been taken over by another campaign under its name, so the fleet after a kept one gets a new name.
fn fleet_name(campaign: &str, lineage: &Lineage, site: &str, kept: usize) -> FleetId {
    let whole = cvc_core::ids::digest_prefix(format!("{site}/{kept}").as_bytes(), 4);
    format!("cvc-{campaign:.8}-{lineage}-{site:.6}-{whole}").into()
}

impl Fleet {
    /// Creates the fleet's state without asking the cloud.
    pub async fn new(clouds: &dyn Clouds, wanted: Wanted<'_>) -> Result<Self, CampaignError> {
        let failed = |error| CampaignError::Provider {
            site: wanted.site.to_owned(),
            error: Box::new(error),
        };
        let place = Place::new(wanted.dir, wanted.site);
        // by an earlier session that was killed or could not remove everything
        let touched = place.dir().exists();
        let of_before = wanted
            .leases
            .iter()
            .rfind(|l| !l.released)
            .and_then(|l| l.order.clone());
        // one that this campaign has leases of, or any suitable kept one
        let ownership = match &of_before {
            Some(order) => warm_pool::take_back(wanted.dir, &place, &order.tags.fleet)?,
            None => {
                if wanted.takes {
                    warm_pool::take(wanted.dir, &place, &wanted.request)?;
                }
                Ownership::Own
            }
        };
        let taken = warm_pool::taken(&place);
        let open = taken
            .as_ref()
            .and_then(|t| t.leases.last())
            .map(|(order, _)| order.clone())
            .or(of_before
                .filter(|_| ownership == Ownership::Own)
                .map(|o| *o));
        // existing instances stay in their region and account, whatever the file says now
        let account = match &open {
            Some(order) => Account::of_order(order),
            None => wanted.request.account.clone(),
        };
        let kept = wanted
            .leases
            .iter()
            .filter(|l| l.kept_until.is_some())
            .count();
        let own = || fleet_name(wanted.campaign, wanted.lineage, wanted.site, kept);
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
            login: wanted.login.map(str::to_owned),
            keeping: Keeping {
                taken,
                ownership,
                pooled: AtomicBool::new(false),
            },
            preparation: Preparation {
                offer: OnceCell::new(),
                prepared: OnceCell::new(),
                touched: AtomicBool::new(touched),
            },
            limits: Limits {
                prices: Mutex::new(wanted.prices),
                budget_share: watch::Sender::new(None),
                set_until: Mutex::default(),
            },
            begun: Instant::now(),
            state: Mutex::new(State {
                leases: wanted.leases,
                ..State::default()
            }),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn error(&self, error: ProviderError) -> CampaignError {
        CampaignError::Provider {
            site: self.name.clone(),
            error: Box::new(error),
        }
    }

    /// Who logs in.
    pub(super) fn user(&self) -> String {
        let of_image = || {
            self.preparation
                .offer
                .get()
                .and_then(|o| o.images.first())
                .map(|i| i.user.clone())
        };
        self.login
            .clone()
            .or_else(of_image)
            .unwrap_or_else(|| "root".into())
    }

    /// Instances in the order of mappings.
    pub fn machines(&self) -> Vec<Instance> {
        self.state().machines.clone()
    }

    /// Nodes that are lost.
    pub fn gone(&self) -> BTreeMap<String, LossReason> {
        self.state().gone.clone()
    }

    /// Name of the site.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The region of its instances.
    pub fn region(&self) -> &str {
        self.provider.region()
    }

    /// The name of a machine among the nodes of its site.
    pub fn node_name(&self, machine: &Instance) -> String {
        self.entry(machine).name
    }

    /// Makes the machines the hosts of a site.
    pub fn fill(&self, cluster: &mut Cluster) {
        cluster.hosts = self.machines().iter().map(|m| self.entry(m)).collect();
        cluster.ssh = self.place.ssh();
    }

    /// File that records what was set up on which instances.
    pub fn set_up_mark(&self) -> Utf8PathBuf {
        self.place.set_up()
    }

    /// An instance as a host of the site.
    pub(super) fn entry(&self, instance: &Instance) -> HostEntry {
        let internal = instance.internal.clone();
        let name = internal.as_deref().map_or_else(
            || instance.id.clone(),
            |a| format!("ip-{}", a.replace(['.', ':'], "-")),
        );
        HostEntry {
            name,
            address: instance.address.clone(),
            internal,
            user: Some(self.user()),
            port: None,
            identity_file: Some(self.place.key().into_string()),
            ssh_options: Vec::new(),
        }
    }

    /// Leases that are not over.
    pub(super) fn open_leases(&self) -> Vec<Lease> {
        let mut leases = self.state().leases.clone();
        leases.retain(|lease| !lease.released);
        leases
    }

    /// All instances, by id.
    pub(super) async fn observed(&self) -> Result<BTreeMap<String, Instance>, CampaignError> {
        let all = self
            .provider
            .observe(self.tags.fleet.as_str())
            .await
            .map_err(|e| self.error(e))?;
        Ok(all.into_iter().map(|i| (i.id.clone(), i)).collect())
    }

    /// Journals an event and applies it.
    pub(super) async fn write(&self, event: Event) {
        self.reporter.write(event.clone()).await;
        let mut state = self.state();
        if let Err(illegal) = apply_to_leases(&mut state.leases, Timestamp::now(), &event) {
            let what = format!("{}: internal error (please report): {illegal}", self.name);
            self.reporter.note(what);
        }
        if let Event::LeaseAcquired { lease, .. } = event {
            state.acquired.insert(lease, Instant::now());
        }
    }

    /// Journals that instances are gone, lease by lease. `why` gets those of one.
    async fn write_lost(
        &self,
        is_gone: impl Fn(&Lease, &str) -> bool,
        why: impl Fn(&[&str]) -> String,
    ) {
        for lease in self.open_leases() {
            let mut gone = lease.instances();
            gone.retain(|id| is_gone(&lease, id));
            if !gone.is_empty() {
                let lost = Event::LeaseLost {
                    lease: lease.name.clone(),
                    why: why(&gone),
                    instances: gone.into_iter().map(|id| id.to_owned().into()).collect(),
                };
                self.write(lost).await;
            }
        }
    }

    /// Journals that a lease is over.
    pub(super) async fn write_released(&self, lease: LeaseId, how: impl ToString) {
        let how = how.to_string();
        self.write(Event::LeaseReleased { lease, how }).await;
    }

    /// Ends instances.
    async fn terminate(&self, ids: &[String]) -> Result<(), CampaignError> {
        let ended = self.provider.terminate(ids).await;
        ended.map_err(|e| self.error(e))
    }

    /// Forgets the host keys of instances: their addresses may be reused with others.
    fn forget_hosts<'i>(
        &self,
        instances: impl IntoIterator<Item = &'i Instance>,
    ) -> Result<(), CampaignError> {
        for instance in instances {
            for address in instance.address.iter().chain(&instance.internal) {
                self.place.forget_host(address)?;
            }
        }
        Ok(())
    }

    fn note(&self, what: impl fmt::Display) {
        self.reporter.note(format!("{}: {what}", self.name));
    }

    /// Brings the fleet to this many instances that answer; `None` if the user wants to stop.
    pub async fn up(
        &self,
        nodes: u32,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Vec<Instance>>, CampaignError> {
        self.place.make(self.tags.fleet.as_str()).await?;
        self.settle_kept().await;
        self.settle_open_leases().await?;
        let now = self.request.config_digest.clone();
        if self.open_leases().iter().any(|l| {
            l.order
                .as_ref()
                .and_then(|o| o.config_digest.as_ref())
                .is_some_and(|before| *before != now)
        }) {
            // the caller gives them back
            let problem = "its instances were launched with other settings and are given back; repeat the command";
            return Err(CampaignError::Site {
                site: self.name.clone(),
                problem: problem.into(),
            });
        }
        let offer = self.offer().await?;
        loop {
            let seen = self.observed().await?;
            for action in reconcile(nodes, &self.members(), &seen) {
                match self.apply(action, offer, &seen, stop_signal).await? {
                    Applied::Continue => {}
                    Applied::Up(machines) => return Ok(Some(machines)),
                    Applied::Stopped => return Ok(None),
                }
            }
        }
    }

    /// Instances that the journal says were launched, in order.
    fn members(&self) -> Vec<Member> {
        let leases = self.open_leases();
        let ids = leases.iter().flat_map(Lease::instances);
        ids.map(|id| Member {
            id: id.to_owned(),
            is_young: self.is_young(id),
        })
        .collect()
    }

    /// Carries out one action.
    async fn apply(
        &self,
        action: Action,
        offer: &Offer,
        seen: &BTreeMap<String, Instance>,
        stop_signal: &mut StopSignal,
    ) -> Result<Applied, CampaignError> {
        match action {
            Action::WaitToShow => tokio::select! {
                () = tokio::time::sleep(SHOW_TICK) => {}
                // on an error there can be no request to stop any more
                Ok(_) = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => return Ok(Applied::Stopped),
            },
            Action::NoteLost => self.note_lost(seen).await,
            Action::EndMixed(instances) => {
                self.note("its instances differ in type or zone; all of them are replaced");
                self.end_all(&instances).await?;
            }
            Action::Launch { count, beside } => {
                let acquired = self.acquire(offer, count, beside.first(), stop_signal);
                match acquired.await {
                    Ok(Acquisition::Launched) => {}
                    Ok(Acquisition::Stopped) => return Ok(Applied::Stopped),
                    // no room next to the existing instances, but perhaps elsewhere for all of them
                    Err(CampaignError::Provider { error, .. })
                        if error.elsewhere() && !beside.is_empty() =>
                    {
                        self.note(format!("{error}; all instances are replaced elsewhere"));
                        self.end_all(&beside).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
            Action::Prepare => {
                self.prepared(offer).await?;
            }
            Action::EndSurplus(surplus) => self.end_surplus(surplus).await?,
            Action::AwaitReady(ids) => {
                self.state().slots.assign_slots(&ids);
                match self.wait_until_ready(&ids, stop_signal).await? {
                    Reached::All(machines) => {
                        self.take_in_use(&machines).await;
                        return Ok(Applied::Up(machines));
                    }
                    Reached::Stopped => return Ok(Applied::Stopped),
                    Reached::Without(failed) => self.replace(&failed).await?,
                }
            }
        }
        Ok(Applied::Continue)
    }

    /// Makes instances that are ready the nodes of the site.
    async fn take_in_use(&self, machines: &[Instance]) {
        {
            let mut state = self.state();
            state.machines = machines.to_vec();
            state.gone.clear();
        }
        *self.limits.set_until.lock() = None;
        // an earlier controller, or an earlier campaign, may have set their deadlines long ago
        if let Err(error) = self.extend().await {
            self.note(format!("a deadline could not be extended: {error}"));
        }
    }

    async fn wait_until_ready(
        &self,
        ids: &[String],
        stop_signal: &mut StopSignal,
    ) -> Result<Reached, CampaignError> {
        let wait = Wait {
            site: &self.name,
            fleet: self.tags.fleet.as_str(),
            provider: self.provider.as_ref(),
            reporter: &self.reporter,
            limit: Duration::from_secs_f64(self.request.instances.ready_limit_s),
            target: &|instance| Target::new(&self.name, &self.entry(instance), &self.place.ssh()),
        };
        wait.until_ready(ids, stop_signal).await
    }

    /// Ends failed instances, so that the next query finds them missing. Repeated failures are an error.
    pub async fn replace(
        &self,
        failed: &BTreeMap<String, LossReason>,
    ) -> Result<(), CampaignError> {
        let what: Vec<String> = failed
            .iter()
            .map(|(id, why)| format!("{id} ({why})"))
            .collect();
        if self.is_replaced_too_often(failed) {
            let message = format!(
                "instances failed again after they were replaced: {}",
                what.join(", ")
            );
            return Err(self.error(ProviderError::before(
                ErrorKind::Other,
                "waiting for instances",
                self.provider.region(),
                message,
            )));
        }
        self.note(format!("replaced: {}", what.join(", ")));
        let ids: Vec<String> = failed.keys().cloned().collect();
        self.terminate(&ids).await?;
        let is_failed = |_: &Lease, id: &str| failed.contains_key(id);
        self.write_lost(is_failed, |gone| failed[gone[0]].to_string())
            .await;
        let seen = self.observed().await?;
        self.forget_hosts(ids.iter().filter_map(|id| seen.get(id)))
    }

    /// Counts instances that are to be replaced. Returns whether these are too many: of one place in this session, or, also over sessions,
    /// of the whole fleet.
    fn is_replaced_too_often(&self, failed: &BTreeMap<String, LossReason>) -> bool {
        let now = clock::now();
        let mut state = self.state();
        let lately =
            |at: &&Timestamp| now.duration_since(**at).as_secs_f64() < slots::WINDOW.as_secs_f64();
        let lost = state
            .leases
            .iter()
            .flat_map(|l| l.lost.values())
            .filter(lately)
            .count();
        let most =
            (slots::MAX_RECLAIMED + slots::MAX_FAILED) * self.request.instances.nodes as usize;
        let failed = failed
            .iter()
            .map(|(id, why)| (id.clone(), why.is_reclaim()))
            .collect();
        state.slots.count(&failed, Instant::now()).is_some() || lost > most
    }

    /// Ends instances that are no longer needed.
    async fn end_surplus(&self, surplus: Vec<Instance>) -> Result<(), CampaignError> {
        let ids: Vec<String> = surplus.iter().map(|i| i.id.clone()).collect();
        self.note(format!(
            "no longer needed and given back: {}",
            ids.join(", ")
        ));
        self.terminate(&ids).await?;
        let is_surplus = |_: &Lease, id: &str| ids.iter().any(|i| i == id);
        self.write_lost(is_surplus, |_| "no longer needed".into())
            .await;
        Ok(())
    }

    /// Ends instances in order to replace them. Their disks go with them; groups and key stay for the replacements.
    async fn end_all(&self, instances: &[Instance]) -> Result<(), CampaignError> {
        let ids: Vec<String> = instances.iter().map(|i| i.id.clone()).collect();
        self.terminate(&ids).await?;
        for lease in self.open_leases() {
            self.write_released(lease.name, "replaced").await;
        }
        self.forget_hosts(instances)
    }

    /// Settles leases that an earlier controller ordered without hearing the answer: repeating the order gives the same instances.
    async fn settle_open_leases(&self) -> Result<(), CampaignError> {
        for lease in self.open_leases() {
            let Some(order) = lease.order.as_ref().filter(|_| !lease.is_acquired()) else {
                continue;
            };
            let seen = self.observed().await?;
            let there: Vec<String> = seen
                .values()
                .filter(|i| lease.name == i.lease)
                .map(|i| i.id.clone())
                .collect();
            if there.len() == order.count as usize {
                self.note(format!(
                    "found what {} ordered: {}",
                    lease.name,
                    there.join(", ")
                ));
                self.write(Event::LeaseAcquired {
                    lease: lease.name.clone(),
                    by: Acquired::instances(there),
                })
                .await;
                continue;
            }
            let name = lease.name.clone();
            self.note(format!(
                "the answer to the order of {name} was lost; repeating the order"
            ));
            match self.launch(order).await {
                Ok(()) => {}
                // what it needed is gone, so it was never launched
                Err(CampaignError::Provider { error, .. })
                    if error.elsewhere()
                        || matches!(
                            error.kind,
                            ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Quota
                        ) =>
                {
                    self.write_released(name, format!("it was not launched: {error}"))
                        .await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Records which instances have ended by themselves.
    async fn note_lost(&self, seen: &BTreeMap<String, Instance>) {
        let is_gone = |lease: &Lease, id: &str| {
            !lease.lost.contains_key(id)
                && match seen.get(id) {
                    Some(instance) => !instance.state.is_alive(),
                    None => !self.is_young(id),
                }
        };
        let why = |gone: &[&str]| {
            let first = gone.first().and_then(|id| seen.get(*id));
            let reason = first.and_then(|instance| instance.reason.clone());
            let why = reason.unwrap_or_else(|| "it no longer exists".into());
            self.note(format!("{} is gone: {why}", gone.join(", ")));
            why
        };
        self.write_lost(is_gone, why).await;
    }

    /// Takes over a kept fleet, or notes that another campaign has it.
    pub(super) async fn settle_kept(&self) {
        if self.keeping.ownership == Ownership::Transferred {
            for lease in self.open_leases() {
                let how = "it was kept, and was taken over by another campaign";
                self.write_released(lease.name, how).await;
            }
        }
        let taken = self.keeping.taken.as_ref();
        let taken = taken.map_or(&[][..], |taken| &taken.leases);
        let of_others: Vec<&str> = taken.iter().map(|(order, _)| order.lease()).collect();
        // taken back, or never in the warm pool
        for lease in self
            .open_leases()
            .into_iter()
            .filter(|l| l.kept_until.is_some() && !of_others.contains(&l.name.as_str()))
        {
            if let Some(by) = lease.by {
                self.write(Event::LeaseAcquired {
                    lease: lease.name,
                    by,
                })
                .await;
            }
        }
        for (order, instances) in taken {
            let known = self
                .open_leases()
                .into_iter()
                .find(|l| l.name == order.lease());
            if known.is_none() {
                let before = &order.tags.campaign;
                self.note(format!(
                    "takes over the kept instances of campaign {before}: {instances}"
                ));
                let (lease, site) = (order.lease().into(), self.name.clone().into());
                self.write(Event::LeaseIntended {
                    lease,
                    site,
                    nodes: order.count,
                    order: Some(Box::new(order.clone())),
                })
                .await;
            }
            if known.is_none_or(|l| !l.is_acquired() || l.kept_until.is_some()) {
                self.write(Event::LeaseAcquired {
                    lease: order.lease().into(),
                    by: Acquired::from_text(instances),
                })
                .await;
            }
        }
    }

    /// Queries the instances in use, and returns the nodes that are lost.
    pub async fn look_for_gone(&self) -> Result<BTreeMap<String, LossReason>, CampaignError> {
        let seen = self.observed().await?;
        let machines = self.machines();
        let lost = |machine: &Instance| match seen.get(&machine.id) {
            Some(now) if now.state.is_alive() => None,
            Some(now) if now.reclaimed() => Some(LossReason::Reclaimed),
            Some(now) => {
                let stopped = now.state == InstanceState::Stopped;
                Some(LossReason::Ended {
                    instance: now.id.clone(),
                    stopped,
                    why: now.reason.clone(),
                })
            }
            None => Some(LossReason::Vanished {
                instance: machine.id.clone(),
            }),
        };
        let found: BTreeMap<String, LossReason> = machines
            .iter()
            .filter_map(|m| Some((self.entry(m).name, lost(m)?)))
            .collect();
        self.state().gone.clone_from(&found);
        Ok(found)
    }

    /// Whether an instance was launched so recently that the cloud may not show it yet. What this session did not launch is older than the
    /// session, whatever the clock says.
    pub(super) fn is_young(&self, id: &str) -> bool {
        let Some(lease) = self
            .open_leases()
            .into_iter()
            .rfind(|l| l.instances().contains(&id))
        else {
            return false;
        };
        let by_clock = lease
            .acquired
            .map(|at| clock::now().duration_since(at).as_secs_f64());
        let at_least = self
            .state()
            .acquired
            .get(&lease.name)
            .copied()
            .unwrap_or(self.begun)
            .elapsed()
            .as_secs_f64();
        by_clock.is_some_and(|s| s.max(at_least) < YOUNG_S)
    }

    /// Time during which the instances of an unanswered order may still appear.
    pub(super) fn may_still_show(&self) -> Option<Duration> {
        let young = self.open_leases().iter().any(|l| !l.is_acquired());
        young.then_some(SHOWN_LIMIT)
    }
}
