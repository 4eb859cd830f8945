//! The instances of one site of one campaign. Events and calls are ordered so that no instance is leaked when they are acquired, repaired and given
//! back.
//!
//! First, `LeaseIntended` with the whole order is synced to the journal. Then the instances are launched; the name of the lease is the client token.
//! Then `LeaseAcquired` is synced, before cvc waits for anything. `LeaseReleased` is written only after everything has ended. If a controller is
//! killed in between, the next controller places the identical order again and gets the same instances. If it does not need them any more, it finds
//! them by their tags.

use crate::cost::PriceBook;
use crate::provider::{
    Account, Clouds, ErrorKind, FleetRequest, Instance, InstanceState, Offer, PreparedFleet,
    Provider, ProviderError,
};
use crate::{
    key_dir::KeyPlace,
    loss::LossReason,
    readiness::{Reached, Wait},
    reconcile::{Action, FleetMember, reconcile},
    slots::{self, Slots},
    warm_pool::{self, KeptFleet, Ownership},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{Cluster, OnInterruption};
use cvc_core::clock;
use cvc_core::hosts::HostEntry;
use cvc_core::ids::{FleetId, LeaseId};
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_journal::budget_share::BudgetShare;
use cvc_journal::lease::{Tags, owner};
use cvc_journal::{Acquired, Event, Lease, Lineage, apply_to_leases};
use cvc_sites::error::CampaignError;
use cvc_sites::progress::SiteReporter;
use cvc_sites::ssh::SshTarget;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use tokio::sync::{OnceCell, watch};

/// Time within which the cloud must show the instances of an order if the answer to the order was lost.
const SHOWN_LIMIT: Duration = Duration::from_secs(20);
/// Age from which the cloud certainly shows an instance in its answers, seconds.
const YOUNG_S: f64 = 120.0;
/// Delay between two queries for an instance that the cloud does not show yet.
const SHOW_TICK: Duration = Duration::from_secs(2);

/// The instances of a site.
#[derive(Debug)]
pub struct Fleet {
    pub(super) name: String,
    pub(super) request: FleetRequest,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) reporter: SiteReporter,
    pub(super) tags: Tags,
    /// Directory of the campaign.
    pub(super) campaign: Utf8PathBuf,
    pub(super) place: KeyPlace,
    /// User name for logins; `None` for the image's user.
    pub(super) login: Option<String>,
    pub(super) keeping: Keeping,
    pub(super) preparation: Preparation,
    pub(super) limits: FleetLimits,
    /// Time at which this session created this value, and so began to use the fleet.
    begun: Instant,
    pub(super) state: Mutex<FleetState>,
}

/// Facts about keeping a fleet for another campaign.
#[derive(Debug)]
pub(super) struct Keeping {
    /// The record of the kept fleet that this campaign took over; `None` if it launches its own instances.
    pub(super) taken: Option<KeptFleet>,
    /// Whether this campaign owns the fleet of its leases, or another one has taken it over.
    ownership: Ownership,
    /// Whether this session has put the fleet in the warm pool.
    pub(super) pooled: AtomicBool,
}

/// What has to be known and prepared before a launch; each part is queried or created once.
#[derive(Debug)]
pub(super) struct Preparation {
    pub(super) offer: OnceCell<Offer>,
    pub(super) prepared: OnceCell<PreparedFleet>,
    /// Whether resources other than instances may have been created.
    pub(super) touched: AtomicBool,
}

/// Limits of the instances' life.
#[derive(Debug)]
pub(super) struct FleetLimits {
    /// The known prices of instances.
    pub(super) prices: Mutex<PriceBook>,
    /// This fleet's share of the rest of the campaign's budget; `None` without a budget.
    pub(super) budget_share: watch::Sender<Option<BudgetShare>>,
    /// The end time that was last sent to all instances.
    pub(super) set_until: Mutex<Option<Timestamp>>,
}

/// Result of requesting more instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquisition {
    Launched,
    /// The user wants to stop.
    Stopped,
}

/// What follows from an action on a fleet.
enum Applied {
    /// Further actions are necessary.
    Continue,
    /// These instances are ready.
    Up(Vec<Instance>),
    /// The user wants to stop.
    Stopped,
}

#[derive(Debug, Default)]
pub(super) struct FleetState {
    /// Leases of this fleet, from the journal.
    pub(super) leases: Vec<Lease>,
    /// Instances in the order of mappings.
    machines: Vec<Instance>,
    /// Nodes that are lost.
    gone: BTreeMap<String, LossReason>,
    /// The places of the fleet's instances. A replacement takes over the place of the lost instance.
    slots: Slots,
    /// Instance types that the spot market reclaimed in this session.
    pub(super) taken_types: BTreeSet<String>,
    /// Times at which this session acquired leases, by the monotonic clock.
    acquired: BTreeMap<LeaseId, Instant>,
}

/// Parameters of a new fleet.
pub struct NewFleet<'a> {
    /// Name of the campaign.
    pub campaign: &'a str,
    /// Name of the site.
    pub site: &'a str,
    /// The request to the cloud.
    pub request: FleetRequest,
    /// User name for logins; `None` for the image's user.
    pub login: Option<&'a str>,
    /// Identity of the campaign.
    pub lineage: &'a Lineage,
    /// The campaign's directory.
    pub dir: &'a Utf8Path,
    /// Leases of this site, from the journal.
    pub leases: Vec<Lease>,
    /// Whether the fleet may take over instances that another campaign has kept.
    pub takes: bool,
    /// Prices of machines.
    pub prices: PriceBook,
    /// Receiver of the site's events.
    pub reporter: SiteReporter,
}

/// Returns the unique name of a fleet. It is short enough for a client token (64 characters) even with the suffixes that are added to it.
///
/// `kept` counts the earlier fleets of this site that were kept. Another campaign may have taken them over under their old names, so the next fleet
/// gets a new name.
fn fleet_name(campaign: &str, lineage: &Lineage, site: &str, kept: usize) -> FleetId {
    let whole = cvc_core::ids::digest_prefix(format!("{site}/{kept}").as_bytes(), 4);
    format!("cvc-{campaign:.8}-{lineage}-{site:.6}-{whole}").into()
}

impl Fleet {
    /// Creates the fleet from its leases in the journal, or takes over one that another campaign has kept. Does not query the cloud.
    pub async fn new(clouds: &dyn Clouds, wanted: NewFleet<'_>) -> Result<Self, CampaignError> {
        let failed = |error| CampaignError::Provider {
            site: wanted.site.to_owned(),
            error: Box::new(error),
        };
        let place = KeyPlace::new(wanted.dir, wanted.site);
        // the directory stays if an earlier session was killed, or could not remove everything
        let touched = place.dir().exists();
        let of_before = wanted
            .leases
            .iter()
            .rfind(|l| !l.released)
            .and_then(|l| l.order.clone());
        // a fleet that this campaign has leases of, otherwise any suitable kept fleet
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
        // existing instances stay in their region and account, even if the campaign file has changed
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
            limits: FleetLimits {
                prices: Mutex::new(wanted.prices),
                budget_share: watch::Sender::new(None),
                set_until: Mutex::default(),
            },
            begun: Instant::now(),
            state: Mutex::new(FleetState {
                leases: wanted.leases,
                ..FleetState::default()
            }),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FleetState> {
        self.state.lock()
    }

    pub(super) fn error(&self, error: ProviderError) -> CampaignError {
        CampaignError::Provider {
            site: self.name.clone(),
            error: Box::new(error),
        }
    }

    /// Returns the user name for logins to the instances.
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

    /// Returns the instances in the order of mappings.
    pub fn machines(&self) -> Vec<Instance> {
        self.state().machines.clone()
    }

    /// Returns the nodes that are lost, with the reasons.
    pub fn gone(&self) -> BTreeMap<String, LossReason> {
        self.state().gone.clone()
    }

    /// Returns the name of the site.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the region of the instances.
    pub fn region(&self) -> &str {
        self.provider.region()
    }

    /// Returns the name by which the nodes of the site know an instance.
    pub fn node_name(&self, machine: &Instance) -> String {
        self.entry(machine).name
    }

    /// Enters the instances as the hosts of a site, with the ssh settings to reach them.
    pub fn fill(&self, cluster: &mut Cluster) {
        cluster.hosts = self.machines().iter().map(|m| self.entry(m)).collect();
        cluster.ssh = self.place.ssh();
    }

    /// Returns the path of the file in which cvc records which instances are set up.
    pub fn set_up_mark(&self) -> Utf8PathBuf {
        self.place.set_up()
    }

    /// Returns an instance as a host of the site.
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

    /// Returns the leases that have not been released.
    pub(super) fn open_leases(&self) -> Vec<Lease> {
        let mut leases = self.state().leases.clone();
        leases.retain(|lease| !lease.released);
        leases
    }

    /// Queries the cloud, and returns all instances by their identifiers.
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

    /// Journals the loss of instances, separately for each lease. `why` receives the lost instances of a lease, and returns the reason.
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

    /// Journals that a lease has ended.
    pub(super) async fn write_released(&self, lease: LeaseId, how: impl ToString) {
        let how = how.to_string();
        self.write(Event::LeaseReleased { lease, how }).await;
    }

    /// Terminates instances.
    async fn terminate(&self, ids: &[String]) -> Result<(), CampaignError> {
        let ended = self.provider.terminate(ids).await;
        ended.map_err(|e| self.error(e))
    }

    /// Removes the pinned host keys of instances that have ended, because machines with other keys may get the same addresses.
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

    /// Launches, replaces or ends instances until the fleet has `nodes` ready ones, and returns these; `None` if the user wants to stop.
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
            // the caller gives the instances back
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

    /// Returns the instances that were launched according to the journal, in order.
    fn members(&self) -> Vec<FleetMember> {
        let leases = self.open_leases();
        let ids = leases.iter().flat_map(Lease::instances);
        ids.map(|id| FleetMember {
            id: id.to_owned(),
            is_young: self.is_young(id),
        })
        .collect()
    }

    /// Carries out one action of [`reconcile`](crate::reconcile::reconcile), and returns what follows from it.
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
                // an error means that no further request to stop can arrive
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
                    // the zone of the existing instances has no capacity, but another zone may have enough for all of them
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

    /// Makes these ready instances the nodes of the site.
    async fn take_in_use(&self, machines: &[Instance]) {
        {
            let mut state = self.state();
            state.machines = machines.to_vec();
            state.gone.clear();
        }
        *self.limits.set_until.lock() = None;
        // their deadlines may have been set long ago, by an earlier controller or campaign
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
            target: &|instance| {
                SshTarget::new(&self.name, &self.entry(instance), &self.place.ssh())
            },
        };
        wait.until_ready(ids, stop_signal).await
    }

    /// Terminates the instance of a node, as the spot market would do after a notice.
    ///
    /// # Errors
    /// The node has no instance, or the cloud refuses.
    pub async fn take_node(&self, node: &str) -> Result<(), CampaignError> {
        let machine = self
            .machines()
            .into_iter()
            .find(|machine| self.node_name(machine) == node);
        let machine = machine.ok_or_else(|| CampaignError::Site {
            site: self.name.clone(),
            problem: format!("no instance is its node {node}"),
        })?;
        self.terminate(&[machine.id]).await
    }

    /// Ends failed instances, so that the next call of [`Self::up`] finds them missing and launches replacements. If instances fail too often, that
    /// is an error.
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
        if failed.values().any(LossReason::is_reclaim) {
            self.note_interruption(failed).await?;
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

    /// Records that the spot market reclaimed instances. If the replacements will have another type, also gives back the instances that cannot be
    /// combined with them.
    async fn note_interruption(
        &self,
        failed: &BTreeMap<String, LossReason>,
    ) -> Result<(), CampaignError> {
        let machines = self.machines();
        let taken =
            |machine: &&Instance| failed.get(&machine.id).is_some_and(LossReason::is_reclaim);
        let types: Vec<String> = machines
            .iter()
            .filter(taken)
            .map(|m| m.instance_type.clone())
            .collect();
        self.state().taken_types.extend(types);
        match self.request.on_interruption {
            OnInterruption::Replace => Ok(()),
            OnInterruption::OnDemand => {
                self.note("an instance was reclaimed: its replacement is on demand (on_interruption)");
                Ok(())
            }
            OnInterruption::NextType => {
                self.note("an instance was reclaimed: the fleet gets the next of `instance_types` (on_interruption)");
                let rest: Vec<Instance> = machines.into_iter().filter(|m| !failed.contains_key(&m.id)).collect();
                let ids: Vec<String> = rest.iter().map(|m| m.id.clone()).collect();
                if ids.is_empty() {
                    return Ok(());
                }
                self.terminate(&ids).await?;
                self.write_lost(|_, id| ids.iter().any(|i| i == id), |_| "replaced by another type".into()).await;
                self.forget_hosts(&rest)
            }
            OnInterruption::Fail => Err(CampaignError::Site {
                site: self.name.clone(),
                problem: "an instance was reclaimed, and `on_interruption = \"fail\"` forbids a replacement".into(),
            }),
        }
    }

    /// Counts the instances to be replaced. Returns whether too many were lost within the last hour: at one place in this session, or in the whole
    /// fleet in all sessions.
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

    /// Ends instances that are to be replaced, together with their disks. The key pair and the groups stay for the replacements.
    async fn end_all(&self, instances: &[Instance]) -> Result<(), CampaignError> {
        let ids: Vec<String> = instances.iter().map(|i| i.id.clone()).collect();
        self.terminate(&ids).await?;
        for lease in self.open_leases() {
            self.write_released(lease.name, "replaced").await;
        }
        self.forget_hosts(instances)
    }

    /// Settles leases that an earlier controller ordered without receiving the answer: repeating the order returns the same instances.
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
                    "found the instances that {} ordered: {}",
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
                // resources that the launch needs do not exist, so the order was never carried out
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

    /// Journals the instances that have ended by themselves.
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
            self.note(format!("{} is lost: {why}", gone.join(", ")));
            why
        };
        self.write_lost(is_gone, why).await;
    }

    /// Journals what became of kept fleets: that another campaign took this campaign's fleet over, that this campaign took its own back, or that it
    /// took over another campaign's.
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
        // the fleet was taken back, or was never in the warm pool
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

    /// Returns whether an instance was launched so recently that the cloud may not show it yet. If another session launched the instance, it is at
    /// least as old as this session, whatever the wall clock shows.
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

    /// Returns the time within which instances may still appear, because the answer to an order has not been received; `None` if all orders were
    /// answered.
    pub(super) fn may_still_show(&self) -> Option<Duration> {
        let young = self.open_leases().iter().any(|l| !l.is_acquired());
        young.then_some(SHOWN_LIMIT)
    }
}
