//! Finds what is left in a cloud by tags alone, and removes it. The journals of the campaigns that ordered it are not needed.

use crate::provider::{
    Account, Clouds, Discovery, Provider, ProviderError, Resource, ResourceKind,
};
use crate::warm_pool;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::FleetId;
use cvc_core::store::{CampaignDir, CampaignLock, StoreError, write_whole};
use cvc_journal::lease::{Tags, owner};
use cvc_journal::{self as journal, CampaignState, Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, ErrorKind},
    sync::Arc,
};

/// Time after the deadline within which instances have certainly ended by themselves, seconds. They go by their own clocks, which may differ from
/// this machine's.
const EXPIRED_S: f64 = 600.0;
/// Default time limit for removing the resources of one region, seconds.
const REMOVE_LIMIT_S: f64 = 900.0;

/// Parameters of a search for leftovers.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Accounts and regions to search.
    pub accounts: Vec<Account>,
    /// Whether to search every other region that the accounts may use, too.
    pub all_regions: bool,
    /// Owner of the resources; `None` for any.
    pub owner: Option<String>,
    /// Minimum age of resources, seconds.
    pub older_than_s: Option<f64>,
    /// Whether to search only for fleets that should have ended: the end time in the tags has passed, so the instances should have terminated
    /// themselves.
    pub expired: bool,
    /// Time limit for removing the resources of one region, seconds; `None` for 15 minutes.
    pub wait_s: Option<f64>,
    /// Directory of campaigns. Resources that these or registered campaigns use are spared; with `None` no resource is spared.
    pub campaigns: Option<Utf8PathBuf>,
}

/// A resource that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundResource {
    /// The resource.
    pub resource: Resource,
    /// Account and region of the resource.
    pub account: Account,
    /// The reason why the resource is spared; `None` if it is to be removed.
    pub left_alone: Option<String>,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweepFindings {
    /// The resources found.
    pub found: Vec<FoundResource>,
    /// Number of resources of other owners, by owner.
    pub others: BTreeMap<String, usize>,
    /// Queries that failed; the resources that they would have found are missing in `found`.
    pub refused: Vec<ProviderError>,
}

/// The result of a removal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Removed {
    /// The resources that could not be removed, each with the reason.
    pub left: Vec<(Resource, String)>,
    /// Calls that failed as a whole.
    pub refused: Vec<ProviderError>,
}

/// A campaign whose resources are spared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActiveCampaign {
    /// Owners of the resources; empty for any owner.
    pub owners: BTreeSet<String>,
    /// The reason for sparing the resources.
    pub why: String,
}

/// Facts about fleets from the journals of this machine's campaigns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CampaignFleets {
    /// Fleets of running campaigns and kept fleets, each with the reason for sparing it.
    pub fleets: BTreeMap<FleetId, String>,
    /// Campaigns, by name, that are running or whose journals cannot be read.
    pub campaigns: BTreeMap<String, Vec<ActiveCampaign>>,
    /// Accounts and regions in which a campaign has ever placed an order.
    pub accounts: Vec<Account>,
    /// Journals that cannot be read.
    pub unreadable: Vec<String>,
    /// Directories of campaigns, each with the names and fleets by which resources may belong to it.
    dirs: Vec<KnownDir>,
}

/// The directory of a campaign.
#[derive(Clone, Debug, Default, PartialEq)]
struct KnownDir {
    root: Utf8PathBuf,
    /// Names of the campaign: the name of its directory, and the name in its journal.
    names: BTreeSet<String>,
    fleets: BTreeSet<FleetId>,
}

impl KnownDir {
    /// Returns whether a resource with these tags may belong to this campaign.
    fn may_have(&self, tags: &Tags) -> bool {
        self.names.contains(&tags.campaign) || self.fleets.contains(&tags.fleet)
    }
}

/// Locks of the campaigns whose resources are being removed. While a sweep holds them, none of these campaigns can begin or continue.
type HeldLocks = BTreeMap<Utf8PathBuf, CampaignLock>;

/// Returns the path of the register of campaign directories: `$XDG_STATE_HOME/cvc/campaigns` or `~/.local/state/cvc/campaigns`.
fn registry() -> Utf8PathBuf {
    cvc_core::paths::state().join("campaigns")
}

/// Registers the directory of a campaign that uses a cloud, so that sweeps from other directories spare the campaign's resources. Returns a note if
/// the registration fails.
pub fn register(dir: &Utf8Path) -> Option<String> {
    let write = || -> Result<(), StoreError> {
        let path = dir
            .canonicalize_utf8()
            .map_err(StoreError::io("find", dir))?;
        let registry = registry();
        fs::create_dir_all(&registry).map_err(StoreError::io("make", &registry))?;
        write_whole(
            &registry.join(blake3::hash(path.as_str().as_bytes()).to_hex().as_str()),
            path.as_str().as_bytes(),
        )
    };
    write().err().map(|error| {
        format!("cannot register this campaign for `cvc sweep` from other directories: {error}")
    })
}

/// Returns whether an error means that a file does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

impl CampaignFleets {
    /// Reads the journals below a directory of campaigns, and those of all registered directories. A missing directory counts as empty.
    ///
    /// # Errors
    /// The directory, or the register, cannot be listed.
    pub fn read(campaigns: &Utf8Path) -> Result<Self, StoreError> {
        Self::read_holding(campaigns, &HeldLocks::new())
    }

    /// Like [`Self::read`], but does not count a campaign as running because its lock is in `held`: this process holds that lock.
    fn read_holding(campaigns: &Utf8Path, held: &HeldLocks) -> Result<Self, StoreError> {
        let mut dirs = BTreeSet::new();
        for path in listed(campaigns)? {
            dirs.insert(path.canonicalize_utf8().unwrap_or(path));
        }
        for entry in listed(&registry())? {
            // a directory that is still being created
            if entry.file_name().is_some_and(|name| name.starts_with('.')) {
                continue;
            }
            let path = fs::read_to_string(&entry).map_err(StoreError::io("read", &entry))?;
            dirs.insert(Utf8PathBuf::from(path.trim()));
        }
        let mut known = Self::default();
        // the pools before the campaigns: a fleet that is taken over meanwhile is then found in one or the other
        let pools: BTreeSet<&Utf8Path> = dirs
            .iter()
            .filter_map(|dir| dir.parent())
            .chain([campaigns])
            .collect();
        pools
            .into_iter()
            .for_each(|campaigns| known.add_pool(campaigns));
        for dir in dirs {
            known.add(&CampaignDir::at(&dir), held.contains_key(&dir));
        }
        Ok(known)
    }

    /// Spares the fleets in the warm pool. If a controller was killed while it kept a fleet, the journal of its campaign may not record that the
    /// fleet is kept.
    fn add_pool(&mut self, campaigns: &Utf8Path) {
        let now = jiff::Timestamp::now();
        for (fleet, campaign, until) in warm_pool::pooled(campaigns)
            .into_iter()
            .filter(|(_, _, until)| *until > now)
        {
            self.fleets
                .entry(fleet)
                .or_insert_with(|| format!("kept until {until:.0}; `cvc down {campaign}` ends it"));
        }
    }

    /// Returns the reason to spare resources that may belong to a campaign whose lock is not in `held`: it could begin or continue while they are
    /// removed. `None` if there is no such campaign.
    fn is_free(&self, tags: &Tags, held: &HeldLocks) -> Option<String> {
        let dir = self
            .dirs
            .iter()
            .find(|dir| dir.may_have(tags) && !held.contains_key(&dir.root))?;
        Some(format!(
            "the campaign {} was running a moment ago",
            dir.root.file_name().unwrap_or_default()
        ))
    }

    /// Returns the reason why a resource with these tags is spared; `None` if it is not.
    pub fn spares(&self, tags: &Tags) -> Option<&str> {
        let busy = || {
            let of_name = self.campaigns.get(&tags.campaign)?;
            of_name
                .iter()
                .find(|b| b.owners.is_empty() || b.owners.contains(&tags.owner))
                .map(|b| &b.why)
        };
        self.fleets
            .get(&tags.fleet)
            .or_else(busy)
            .map(String::as_str)
    }

    /// Takes the locks of the campaigns that may own resources with these tags. Skips locks that other processes hold.
    fn lock(&self, all: &[&Tags], held: &mut HeldLocks) {
        for dir in &self.dirs {
            if !held.contains_key(&dir.root) && all.iter().any(|tags| dir.may_have(tags)) {
                // if a controller holds the lock, its campaign is noticed when the journals are read again
                if let Ok(lock) = CampaignLock::take_for_sweep(&CampaignDir::at(&dir.root).lock()) {
                    held.insert(dir.root.clone(), lock);
                }
            }
        }
    }

    fn add(&mut self, dir: &CampaignDir, is_held: bool) {
        let name = dir.root().file_name().unwrap_or_default().to_owned();
        let under_way =
            |dir: &CampaignDir, name: &str| if is_held { None } else { under_way(dir, name) };
        match fs::metadata(dir.journal()) {
            Ok(_) => {}
            Err(e) if is_missing(&e) => return self.add_unbegun(dir, name, under_way),
            Err(e) => return self.unknown(name, &StoreError::io("read", dir.journal())(e)),
        }
        // check the lock before reading the journal: a campaign that begins afterwards has not ordered anything yet
        let busy = under_way(dir, &name);
        let entries = match journal::read(&dir.journal()) {
            Ok(entries) => entries,
            Err(error) => return self.unknown(name, &error),
        };
        let state = match CampaignState::of(&entries) {
            Ok(state) => state,
            Err(illegal) => return self.unknown(name, &illegal.in_file(&dir.journal())),
        };
        let orders = || {
            state
                .leases
                .iter()
                .filter_map(|l| Some((l, l.order.as_ref()?)))
        };
        for (_, order) in orders() {
            let account = Account::of_order(order);
            if !self.accounts.contains(&account) {
                self.accounts.push(account);
            }
        }
        let mut names: BTreeSet<String> = orders()
            .map(|(_, order)| order.tags.campaign.clone())
            .collect();
        names.extend(entries.iter().filter_map(|e| {
            if let Event::Opened { campaign, .. } = &e.event {
                Some(campaign.clone())
            } else {
                None
            }
        }));
        names.insert(name);
        let taken = warm_pool::taken_by(dir.root());
        let fleets = orders()
            .map(|(_, order)| order.tags.fleet.clone())
            .chain(taken.iter().cloned())
            .collect();
        self.dirs.push(KnownDir {
            root: dir.root().to_owned(),
            names: names.clone(),
            fleets,
        });
        if let Some(why) = busy {
            let mut owners: BTreeSet<String> = orders()
                .map(|(_, order)| order.tags.owner.clone())
                .collect();
            // a campaign without orders has no owners yet, so resources of any owner are spared
            if !owners.is_empty() {
                owners.insert(owner());
            }
            for name in names {
                self.campaigns
                    .entry(name)
                    .or_default()
                    .push(ActiveCampaign {
                        owners: owners.clone(),
                        why: why.clone(),
                    });
            }
            // including the orders of fleets that it took over from another campaign
            let open = orders()
                .filter(|(l, _)| !l.released)
                .map(|(_, order)| order.tags.fleet.clone());
            self.fleets
                .extend(open.chain(taken).map(|fleet| (fleet, why.clone())));
            return;
        }
        self.add_kept(dir, &state);
    }

    /// Records a campaign directory without a journal: its campaign may have just begun, or may begin soon.
    fn add_unbegun(
        &mut self,
        dir: &CampaignDir,
        name: String,
        under_way: impl Fn(&CampaignDir, &str) -> Option<String>,
    ) {
        if dir.root().is_dir() {
            self.dirs.push(KnownDir {
                root: dir.root().to_owned(),
                names: [name.clone()].into(),
                ..KnownDir::default()
            });
        }
        if dir.lock().is_file()
            && let Some(why) = under_way(dir, &name)
        {
            let owners = BTreeSet::new();
            let active = ActiveCampaign { owners, why };
            self.campaigns.entry(name).or_default().push(active);
        }
    }

    /// Records the fleets that a campaign keeps for the next campaign.
    fn add_kept(&mut self, dir: &CampaignDir, state: &CampaignState) {
        let now = jiff::Timestamp::now();
        for lease in state.leases.iter().filter(|l| !l.released) {
            let Some(order) = &lease.order else { continue };
            let fleet = &order.tags.fleet;
            let kept = lease
                .kept_until
                .filter(|until| *until > now && warm_pool::kept_file(dir.root(), fleet).exists());
            if let Some(until) = kept {
                let why = format!(
                    "kept until {until:.0}; `cvc down {}` ends it",
                    order.tags.campaign
                );
                self.fleets.entry(fleet.clone()).or_insert(why);
            }
        }
    }

    /// Records a campaign whose fleets are unknown, so that all resources with the campaign's name are spared.
    fn unknown(&mut self, name: String, error: &StoreError) {
        self.unreadable.push(format!(
            "{error}; all resources of the campaign {name} are left alone"
        ));
        let why = format!("the journal of the campaign {name} cannot be read");
        self.campaigns
            .entry(name)
            .or_default()
            .push(ActiveCampaign {
                owners: BTreeSet::new(),
                why,
            });
    }
}

/// Returns the entries of a directory; empty if it does not exist.
fn listed(dir: &Utf8Path) -> Result<Vec<Utf8PathBuf>, StoreError> {
    match dir.read_dir_utf8() {
        Ok(entries) => entries
            .map(|e| e.map(camino::Utf8DirEntry::into_path))
            .collect::<Result<_, _>>()
            .map_err(StoreError::io("list", dir)),
        Err(e) if is_missing(&e) => Ok(Vec::new()),
        Err(e) => Err(StoreError::io("list", dir)(e)),
    }
}

/// Returns the reason to spare the resources of a campaign that may be running; `None` if it is not running.
fn under_way(dir: &CampaignDir, name: &str) -> Option<String> {
    // checked without leaving a trace, because a dry run changes nothing
    match CampaignLock::is_held(&dir.lock()) {
        Ok(false) => None,
        Ok(true) => Some(format!("the campaign {name} is running")),
        Err(error) => Some(format!(
            "cannot determine whether the campaign {name} is running: {error}"
        )),
    }
}

impl Sweep {
    /// Searches all requested accounts and regions. If a query is refused in one region, the other regions are searched nevertheless.
    ///
    /// # Errors
    /// The campaigns of this machine cannot be listed.
    pub async fn search_regions(
        &self,
        clouds: &dyn Clouds,
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<SweepFindings, StoreError> {
        let mut findings = SweepFindings::default();
        let mut seen = BTreeSet::new();
        let now = jiff::Timestamp::now();
        let known = self.known(&HeldLocks::new())?;
        for (account, provider) in self.providers(clouds, &mut findings.refused).await {
            report(format!("looking in {}", provider.region()));
            // including the resources of other owners, to report their number
            let Discovery {
                found: there,
                refused,
            } = provider.discover(None, None).await;
            findings.refused.extend(refused);
            let youngest = youngest(&there);
            let ends = self.expired.then(|| ends(&there));
            for resource in there {
                // names, unlike identifiers, may exist in several accounts, and two profiles may refer to the same account
                let is_named = matches!(
                    resource.kind,
                    ResourceKind::KeyPair | ResourceKind::PlacementGroup
                );
                let of = is_named.then(|| (account.profile.clone(), account.endpoint.clone()));
                let expires = ends.as_ref().map(|ends| {
                    ends.get(&resource.tags.fleet)
                        .copied()
                        .unwrap_or(jiff::Timestamp::MAX)
                });
                if self.is_too_young(&resource, &youngest)
                    || expires.is_some_and(|at| now.duration_since(at).as_secs_f64() < EXPIRED_S)
                    || !seen.insert((
                        resource.kind,
                        resource.region.clone(),
                        resource.id.clone(),
                        of,
                    ))
                {
                    continue;
                }
                if self
                    .owner
                    .as_ref()
                    .is_some_and(|owner| *owner != resource.tags.owner)
                {
                    *findings.others.entry(resource.tags.owner).or_default() += 1;
                    continue;
                }
                let left_alone = known.spares(&resource.tags).map(str::to_owned);
                findings.found.push(FoundResource {
                    resource,
                    account: account.clone(),
                    left_alone,
                });
            }
        }
        Ok(findings)
    }

    /// Removes the resources that were found, except those marked as spared. Reads the journals again before each region: if a campaign has begun
    /// meanwhile, its resources are marked as spared, too.
    ///
    /// # Errors
    /// The campaigns of this machine cannot be listed; the remaining resources are then kept.
    pub async fn remove(
        &self,
        clouds: &dyn Clouds,
        found: &mut [FoundResource],
        report: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Removed, StoreError> {
        let mut removed = Removed::default();
        let mut accounts: Vec<Account> = Vec::new();
        for one in found.iter() {
            if !accounts.contains(&one.account) {
                accounts.push(one.account.clone());
            }
        }
        for account in accounts {
            let mut held = HeldLocks::new();
            let wanted: Vec<&Tags> = found
                .iter()
                .filter(|f| f.account == account && f.left_alone.is_none())
                .map(|f| &f.resource.tags)
                .collect();
            self.known(&held)?.lock(&wanted, &mut held);
            // by the current journals: while they are locked they do not change
            let known = self.known(&held)?;
            let mut here = Vec::new();
            for one in found
                .iter_mut()
                .filter(|f| f.account == account && f.left_alone.is_none())
            {
                let tags = &one.resource.tags;
                one.left_alone = known
                    .spares(tags)
                    .map(str::to_owned)
                    .or_else(|| self.campaigns.as_ref().and(known.is_free(tags, &held)));
                if one.left_alone.is_none() {
                    here.push(one.resource.clone());
                }
            }
            if here.is_empty() {
                continue;
            }
            let ended = match clouds.open(&account).await {
                Ok(provider) => {
                    provider
                        .remove(&here, self.wait_s.unwrap_or(REMOVE_LIMIT_S), report)
                        .await
                }
                Err(error) => Err(error),
            };
            match ended {
                Ok(left) => removed.left.extend(left),
                Err(error) => {
                    removed.left.extend(
                        here.into_iter()
                            .map(|resource| (resource, error.to_string())),
                    );
                    removed.refused.push(error);
                }
            }
        }
        Ok(removed)
    }

    fn known(&self, held: &HeldLocks) -> Result<CampaignFleets, StoreError> {
        self.campaigns.as_ref().map_or_else(
            || Ok(CampaignFleets::default()),
            |campaigns| CampaignFleets::read_holding(campaigns, held),
        )
    }

    /// Opens each account in each region to search, once. Adds failures to `refused`.
    async fn providers(
        &self,
        clouds: &dyn Clouds,
        refused: &mut Vec<ProviderError>,
    ) -> Vec<(Account, Arc<dyn Provider>)> {
        let mut all: Vec<(Account, Arc<dyn Provider>)> = Vec::new();
        let mut wanted = self.accounts.clone();
        let mut listed = Vec::new();
        let mut next = 0;
        while let Some(account) = wanted.get(next).cloned() {
            next += 1;
            let provider = match clouds.open(&account).await {
                Ok(provider) => provider,
                Err(error) => {
                    refused.push(error);
                    continue;
                }
            };
            let account = Account {
                region: Some(provider.region().to_owned()),
                ..account
            };
            if all.iter().any(|(known, _)| *known == account) {
                continue;
            }
            let nowhere = Account {
                region: None,
                ..account.clone()
            };
            if self.all_regions && !listed.contains(&nowhere) {
                match provider.regions().await {
                    Ok(regions) => {
                        wanted.extend(regions.into_iter().map(|region| Account {
                            region: Some(region),
                            ..nowhere.clone()
                        }));
                        listed.push(nowhere);
                    }
                    Err(error) => refused.push(error),
                }
            }
            all.push((account, provider));
        }
        all
    }

    fn is_too_young(
        &self,
        resource: &Resource,
        youngest: &BTreeMap<FleetId, jiff::Timestamp>,
    ) -> bool {
        self.older_than_s.is_some_and(|limit_s| {
            // clouds do not report the age of a group: its age is that of the resources used with it
            let since = resource
                .since
                .or_else(|| youngest.get(&resource.tags.fleet).copied())
                .or(resource.tags.expires);
            since.is_some_and(|since| {
                jiff::Timestamp::now().duration_since(since).as_secs_f64() < limit_s
            })
        })
    }
}

/// Returns the end time of each fleet according to its tags: the latest end of the fleet's instances, or of its other resources if it has no
/// instance. A resource without an end in its tags never ends.
fn ends(there: &[Resource]) -> BTreeMap<FleetId, jiff::Timestamp> {
    let mut ends: BTreeMap<FleetId, (bool, jiff::Timestamp)> = BTreeMap::new();
    for resource in there {
        let of_it = (
            resource.kind == ResourceKind::Instance,
            resource.tags.expires.unwrap_or(jiff::Timestamp::MAX),
        );
        ends.entry(resource.tags.fleet.clone())
            .and_modify(|known| *known = of_it.max(*known))
            .or_insert(of_it);
    }
    ends.into_iter()
        .map(|(fleet, (_, at))| (fleet, at))
        .collect()
}

/// Returns the start time of the youngest resource of each fleet.
fn youngest(there: &[Resource]) -> BTreeMap<FleetId, jiff::Timestamp> {
    let mut youngest = BTreeMap::new();
    for (fleet, since) in there.iter().filter_map(|r| Some((&r.tags.fleet, r.since?))) {
        youngest
            .entry(fleet.clone())
            .and_modify(|known| *known = since.max(*known))
            .or_insert(since);
    }
    youngest
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::campaign::Disk;
    use cvc_journal::Journal;

    fn of(campaign: &str) -> Tags {
        Tags {
            owner: "ada@laptop".into(),
            campaign: campaign.into(),
            fleet: format!("cvc-{campaign}").into(),
            ..Tags::default()
        }
    }

    #[test]
    fn a_campaign_is_spared_while_its_lock_is_held_and_when_its_journal_cannot_be_read() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(temporary.path()).expect("UTF-8");
        let dirs: Vec<CampaignDir> = ["held", "free", "damaged"]
            .map(|name| CampaignDir::new(root, name))
            .into();
        for dir in &dirs {
            fs::create_dir_all(dir.root()).expect("makes");
            Journal::open(
                &dir.journal(),
                dir.root().file_name().expect("a name"),
                |_| Ok(()),
            )
            .expect("opens");
        }
        fs::write(dirs[2].journal(), "{\"seq\":1}\n").expect("writes");
        let lock = CampaignLock::take(&dirs[0].lock(), "cvc run").expect("takes");
        let search_regions = || {
            let mut known = CampaignFleets::default();
            dirs.iter().for_each(|dir| known.add(dir, false));
            known
        };
        let known = search_regions();
        assert_eq!(
            known.spares(&of("held")),
            Some("the campaign held is running")
        );
        assert_eq!(known.spares(&of("free")), None);
        assert!(!dirs[1].lock().exists(), "to look makes no file");
        assert!(
            known.spares(&of("damaged")).is_some() && known.unreadable.len() == 1,
            "{known:?}"
        );
        drop(lock);
        assert_eq!(search_regions().spares(&of("held")), None);
    }

    #[test]
    fn a_campaign_cannot_continue_while_its_resources_are_removed() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(temporary.path())
            .expect("UTF-8")
            .canonicalize_utf8()
            .expect("a path");
        let dirs: Vec<CampaignDir> = ["swept", "other"]
            .map(|name| CampaignDir::new(&root, name))
            .into();
        for dir in &dirs {
            fs::create_dir_all(dir.root()).expect("makes");
            Journal::open(
                &dir.journal(),
                dir.root().file_name().expect("a name"),
                |_| Ok(()),
            )
            .expect("opens");
        }
        let read = |held: &HeldLocks| {
            let mut known = CampaignFleets::default();
            dirs.iter()
                .for_each(|dir| known.add(dir, held.contains_key(dir.root())));
            known
        };
        let mut held = HeldLocks::new();
        read(&held).lock(&[&of("swept")], &mut held);
        assert_eq!(held.keys().collect::<Vec<_>>(), [dirs[0].root()]);
        assert!(matches!(
            CampaignLock::take(&dirs[0].lock(), "cvc run"),
            Err(StoreError::Locked { .. })
        ));
        assert_eq!(
            CampaignLock::sweeping(&dirs[0].lock()),
            Some(std::process::id().to_string())
        );
        // a lock that the sweep itself holds does not spare the resource
        assert_eq!(read(&held).spares(&of("swept")), None);
        drop(held);
        let _lock = CampaignLock::take(&dirs[0].lock(), "cvc run").expect("takes");
        assert_eq!(CampaignLock::sweeping(&dirs[0].lock()), None);
        let mut held = HeldLocks::new();
        read(&held).lock(&[&of("swept")], &mut held);
        assert_eq!(
            read(&held).spares(&of("swept")),
            Some("the campaign swept is running")
        );
    }

    /// Writes the record of a kept fleet to a directory, with an order that has these tags.
    fn write_record(dir: &Utf8Path, tags: &Tags) {
        let tags = Tags {
            site: "cloud".into(),
            ..tags.clone()
        };
        let order = serde_json::json!({
            "tags": tags, "region": "us-east-1", "instance_type": "c5.large", "vcpus": 2, "count": 1, "spot": false, "image": "ami-1",
            "root_device": "/dev/xvda", "key_name": "k", "group_id": "sg-1", "efa": false, "volumes": [], "lifetime_s": 60,
            "root": Disk { kind: "gp3".into(), size_gib: Some(8), iops: None, throughput_mib_s: None },
        });
        serde_json::from_value::<cvc_journal::lease::LaunchOrder>(order.clone()).expect("an order");
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        let keeper = dir.parent().unwrap_or(dir).with_file_name("keeper");
        let record = serde_json::json!({ "schema": 1, "keeper": keeper, "digest": "d", "until": until, "leases": [[order, "i-1"]] });
        fs::create_dir_all(dir).expect("makes");
        fs::write(dir.join("kept.json"), record.to_string()).expect("writes");
    }

    #[test]
    fn a_fleet_in_the_warm_pool_is_spared_although_no_journal_says_that_it_is_kept() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(temporary.path()).expect("UTF-8");
        let dir = CampaignDir::new(root, "keeper");
        fs::create_dir_all(dir.root()).expect("makes");
        Journal::open(&dir.journal(), "keeper", |_| Ok(())).expect("opens");
        let known = || CampaignFleets::read(root).expect("reads");
        assert_eq!(known().spares(&of("keeper")), None);
        write_record(&root.join(".kept/cvc-keeper"), &of("keeper"));
        let known = known();
        let why = known.spares(&of("keeper")).unwrap_or_default();
        assert!(
            why.starts_with("kept until") && why.ends_with("`cvc down keeper` ends it"),
            "{why}"
        );
    }

    #[test]
    fn a_fleet_that_was_just_taken_over_is_the_takers_although_its_journal_does_not_say_so() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(temporary.path())
            .expect("UTF-8")
            .canonicalize_utf8()
            .expect("a path");
        let dir = CampaignDir::new(&root, "taker");
        fs::create_dir_all(dir.root()).expect("makes");
        Journal::open(&dir.journal(), "taker", |_| Ok(())).expect("opens");
        write_record(&dir.root().join("cloud/aws"), &of("keeper"));
        let lock = CampaignLock::take(&dir.lock(), "cvc run").expect("takes");
        assert_eq!(
            CampaignFleets::read(&root)
                .expect("reads")
                .spares(&of("keeper")),
            Some("the campaign taker is running")
        );
        drop(lock);
        // its controller was killed: the resource may be removed, but not while the next controller begins to use it
        let mut held = HeldLocks::new();
        let known = CampaignFleets::read(&root).expect("reads");
        assert_eq!(known.spares(&of("keeper")), None);
        assert_eq!(
            known.is_free(&of("keeper"), &held).as_deref(),
            Some("the campaign taker was running a moment ago")
        );
        known.lock(&[&of("keeper")], &mut held);
        assert_eq!(held.keys().collect::<Vec<_>>(), [dir.root()]);
        assert_eq!(known.is_free(&of("keeper"), &held), None);
    }

    #[test]
    fn a_fleet_is_over_when_its_last_instance_is_although_its_groups_were_to_end_before() {
        let at = |s: i64| jiff::Timestamp::from_second(s).expect("a time");
        let resource = |kind, fleet: &str, expires: Option<i64>| Resource {
            kind,
            id: "x".into(),
            region: "r".into(),
            tags: Tags {
                fleet: fleet.into(),
                expires: expires.map(at),
                ..Tags::default()
            },
            since: None,
            state: String::new(),
            instance_type: None,
            spot: false,
            size_gib: None,
            volume_type: None,
        };
        use ResourceKind::{Instance, SecurityGroup};
        let ends = ends(&[
            resource(SecurityGroup, "a", Some(90)),
            resource(Instance, "a", Some(20)),
            resource(Instance, "a", Some(30)),
            resource(SecurityGroup, "b", Some(90)),
            resource(Instance, "c", None),
            resource(Instance, "c", Some(5)),
        ]);
        let shown: Vec<(&str, i64)> = ends
            .iter()
            .map(|(f, t)| (f.as_str(), t.as_second()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", 30),
                ("b", 90),
                ("c", jiff::Timestamp::MAX.as_second())
            ]
        );
    }

    #[test]
    fn what_was_found_counts_as_everything_only_if_no_question_was_refused() {
        let error = ProviderError::before(
            crate::provider::ErrorKind::Denied,
            "looking for volumes",
            "r",
            "no",
        );
        assert_eq!(Discovery::default().all_shown(), Ok(Vec::new()));
        assert_eq!(
            Discovery {
                found: Vec::new(),
                refused: vec![error.clone()]
            }
            .all_shown(),
            Err(error)
        );
    }
}
