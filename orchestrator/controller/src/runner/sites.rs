//! The sites of a campaign that are open.

use super::scheduler::Capacity;
use cvc_cloud::Fleet;
use cvc_core::campaign::Spec;
use cvc_engine::attempt::Executor;
use cvc_sites::error::CampaignError;
use cvc_sites::progress::{SiteEvent, SiteReporter};
use cvc_sites::remote::Remote;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::mpsc;

/// What carries out the attempts of a site.
pub type SiteExecutor = Arc<dyn Executor<CampaignError>>;

/// Open sites, their cloud instances, and their events.
pub(super) struct Sites {
    executors: BTreeMap<String, SiteExecutor>,
    /// Those of them that have something on other machines, which may lose nodes and is to be closed.
    remotes: BTreeMap<String, Arc<Remote>>,
    /// Machines of clouds, of sites that are open or being opened.
    pub(super) fleets: BTreeMap<String, Arc<Fleet>>,
    pub(super) events: mpsc::UnboundedReceiver<SiteEvent>,
    event_sender: mpsc::UnboundedSender<SiteEvent>,
    /// Pairs of sites whose runs do not disturb each other.
    apart: BTreeSet<(String, String)>,
}

impl Sites {
    /// Begins with what is open from the first, since it needs no other machine.
    pub(super) fn new(executors: HashMap<String, SiteExecutor>, spec: &Spec) -> Self {
        let (event_sender, events) = mpsc::unbounded_channel();
        let pairs = spec.sites.keys().flat_map(|one| {
            spec.sites
                .keys()
                .map(move |other| (one.clone(), other.clone()))
        });
        let apart = pairs
            .filter(|(one, other)| spec.are_apart(one, other))
            .collect();
        Self {
            executors: executors.into_iter().collect(),
            remotes: BTreeMap::new(),
            fleets: BTreeMap::new(),
            events,
            event_sender,
            apart,
        }
    }

    /// The reporter for sites' events.
    pub(super) fn sender(&self) -> mpsc::UnboundedSender<SiteEvent> {
        self.event_sender.clone()
    }

    pub(super) fn reporter(&self) -> SiteReporter {
        SiteReporter(self.sender())
    }

    pub(super) fn is_open(&self, site: &str) -> bool {
        self.executors.contains_key(site)
    }

    /// The executor of an open site.
    pub(super) fn executor(&self, site: &str) -> Option<&SiteExecutor> {
        self.executors.get(site)
    }

    /// An open site on other machines.
    pub(super) fn remote(&self, site: &str) -> Option<Arc<Remote>> {
        self.remotes.get(site).cloned()
    }

    /// All open sites on other machines.
    pub(super) fn remotes(&self) -> impl Iterator<Item = Arc<Remote>> {
        self.remotes.values().cloned()
    }

    /// Adds a site on other machines, which is open now.
    pub(super) fn add(&mut self, site: &str, remote: Remote) {
        let remote = Arc::new(remote);
        self.executors.insert(site.to_owned(), remote.clone());
        self.remotes.insert(site.to_owned(), remote);
    }

    pub(super) fn remove(&mut self, site: &str) {
        self.executors.remove(site);
        self.remotes.remove(site);
    }

    /// Cores of a node of an open site.
    pub(super) fn cores(&self, site: &str) -> Option<u32> {
        Some(self.executors.get(site)?.cores())
    }
}

impl Capacity for Sites {
    fn side_by_side(&self, site: &str) -> Option<bool> {
        Some(self.executors.get(site)?.side_by_side())
    }

    fn are_neighbours(&self, site: &str, other: &str) -> bool {
        // a site that has left the campaign file may be anywhere
        !self.apart.contains(&(site.to_owned(), other.to_owned()))
    }

    fn free_nodes(
        &self,
        site: &str,
        wanted: usize,
        used: &BTreeSet<String>,
    ) -> Option<Vec<String>> {
        self.executors.get(site)?.free_nodes(wanted, used)
    }
}
