//! The sites of a campaign that are open.

use super::scheduler::Capacity;
use crate::{
    cloud::Fleet,
    progress::{SiteEvent, SiteReporter},
    remote::Remote,
};
use cvc_engine::attempt::LocalExecutor;
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};
use tokio::sync::mpsc;

/// Where the runs of a site are carried out.
#[derive(Clone)]
pub(super) enum Place {
    /// On this machine.
    Here(Arc<LocalExecutor>),
    /// On others.
    Remote(Arc<Remote>),
}

/// Open sites, machines that clouds gave for them, and what they tell.
pub(super) struct Sites {
    places: HashMap<String, Place>,
    /// Machines of clouds, of sites that are open or being opened.
    pub(super) fleets: HashMap<String, Arc<Fleet>>,
    pub(super) events: mpsc::UnboundedReceiver<SiteEvent>,
    event_sender: mpsc::UnboundedSender<SiteEvent>,
}

impl Sites {
    pub(super) fn new(places: HashMap<String, Place>) -> Self {
        let (event_sender, events) = mpsc::unbounded_channel();
        Self { places, fleets: HashMap::new(), events, event_sender }
    }

    /// Where sites send what they tell.
    pub(super) fn sender(&self) -> mpsc::UnboundedSender<SiteEvent> {
        self.event_sender.clone()
    }

    pub(super) fn reporter(&self) -> SiteReporter {
        SiteReporter(self.sender())
    }

    pub(super) fn is_open(&self, site: &str) -> bool {
        self.places.contains_key(site)
    }

    pub(super) fn place(&self, site: &str) -> Option<&Place> {
        self.places.get(site)
    }

    /// A site on this machine.
    pub(super) fn here(&self, site: &str) -> Option<&LocalExecutor> {
        match self.places.get(site)? {
            Place::Here(executor) => Some(executor),
            Place::Remote(_) => None,
        }
    }

    /// A site on other machines.
    pub(super) fn remote(&self, site: &str) -> Option<Arc<Remote>> {
        match self.places.get(site)? {
            Place::Here(_) => None,
            Place::Remote(remote) => Some(Arc::clone(remote)),
        }
    }

    /// All sites on other machines.
    pub(super) fn remotes(&self) -> impl Iterator<Item = Arc<Remote>> {
        self.places.keys().filter_map(|site| self.remote(site))
    }

    pub(super) fn add(&mut self, site: &str, remote: Remote) {
        self.places.insert(site.to_owned(), Place::Remote(Arc::new(remote)));
    }

    pub(super) fn remove(&mut self, site: &str) {
        self.places.remove(site);
    }

    /// Cores of a node of an open site.
    pub(super) fn cores(&self, site: &str) -> Option<u32> {
        match self.places.get(site)? {
            Place::Here(executor) => Some(executor.site.cores),
            Place::Remote(remote) => Some(remote.ready().cores),
        }
    }

    /// Tells each fleet what is left for it: without cvc each ends by what it can have alone.
    pub(super) fn share_allowance(&self, usd: Option<f64>) {
        let fleets = self.fleets.len().max(1) as f64;
        self.fleets.values().for_each(|f| f.set_allowance(usd.map(|usd| usd / fleets)));
    }
}

impl Capacity for Sites {
    fn side_by_side(&self, site: &str) -> Option<bool> {
        Some(match self.places.get(site)? {
            Place::Here(_) => false,
            Place::Remote(remote) => remote.side_by_side(),
        })
    }

    fn free_nodes(&self, site: &str, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        match self.places.get(site)? {
            // this machine counts as all the nodes that a mapping may want
            Place::Here(executor) => Some(executor.nodes.all.iter().map(|n| n.name.clone()).collect()),
            Place::Remote(remote) => remote.free_nodes(wanted, used),
        }
    }
}
