//! The open sites of a campaign.

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

/// The executor of a site's attempts.
pub type SiteExecutor = Arc<dyn Executor<CampaignError>>;

/// Open sites, their cloud instances, and the events of sites.
pub(super) struct Sites {
    executors: BTreeMap<String, SiteExecutor>,
    /// Open sites on other machines, which may lose nodes and must be closed.
    remotes: BTreeMap<String, Arc<Remote>>,
    /// Cloud machines of the sites that are open or being opened.
    pub(super) fleets: BTreeMap<String, Arc<Fleet>>,
    pub(super) events: mpsc::UnboundedReceiver<SiteEvent>,
    event_sender: mpsc::UnboundedSender<SiteEvent>,
    /// Pairs of sites whose runs do not disturb each other.
    independent: BTreeSet<(String, String)>,
}

impl Sites {
    /// Creates the set of open sites. It begins with the sites in `executors`, which need no other machine.
    pub(super) fn new(executors: HashMap<String, SiteExecutor>, spec: &Spec) -> Self {
        let (event_sender, events) = mpsc::unbounded_channel();
        let pairs = spec.sites.keys().flat_map(|one| {
            spec.sites
                .keys()
                .map(move |other| (one.clone(), other.clone()))
        });
        let independent = pairs
            .filter(|(one, other)| spec.are_apart(one, other))
            .collect();
        Self {
            executors: executors.into_iter().collect(),
            remotes: BTreeMap::new(),
            fleets: BTreeMap::new(),
            events,
            event_sender,
            independent,
        }
    }

    /// Returns a sender for events of sites.
    pub(super) fn sender(&self) -> mpsc::UnboundedSender<SiteEvent> {
        self.event_sender.clone()
    }

    pub(super) fn reporter(&self) -> SiteReporter {
        SiteReporter(self.sender())
    }

    pub(super) fn is_open(&self, site: &str) -> bool {
        self.executors.contains_key(site)
    }

    /// Returns the executor of an open site.
    pub(super) fn executor(&self, site: &str) -> Option<&SiteExecutor> {
        self.executors.get(site)
    }

    /// Returns an open site on other machines.
    pub(super) fn remote(&self, site: &str) -> Option<Arc<Remote>> {
        self.remotes.get(site).cloned()
    }

    /// Returns all open sites on other machines.
    pub(super) fn remotes(&self) -> impl Iterator<Item = Arc<Remote>> {
        self.remotes.values().cloned()
    }

    /// Adds a site on other machines that is now open.
    pub(super) fn add(&mut self, site: &str, remote: Remote) {
        let remote = Arc::new(remote);
        self.executors.insert(site.to_owned(), remote.clone());
        self.remotes.insert(site.to_owned(), remote);
    }

    pub(super) fn remove(&mut self, site: &str) {
        self.executors.remove(site);
        self.remotes.remove(site);
    }

    /// Returns the number of cores of a node of an open site; `None` if unknown.
    pub(super) fn cores(&self, site: &str) -> Option<u32> {
        Some(self.executors.get(site)?.cores())
    }
}

impl Capacity for Sites {
    fn side_by_side(&self, site: &str) -> Option<bool> {
        Some(self.executors.get(site)?.side_by_side())
    }

    fn are_neighbours(&self, site: &str, other: &str) -> bool {
        // a site that is no longer in the campaign file may share any machine
        !self
            .independent
            .contains(&(site.to_owned(), other.to_owned()))
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
