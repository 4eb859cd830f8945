//! The nodes that an executor has: what they are called, how they are reached, who answers on them.

use crate::{crew::Crew, transport::Transport};
use cvc_core::{campaign::StorageKind, mapping::Mapping};
use cvc_probe::sentinel::{Facts, InstanceFacts};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// Time limit of requests that take milliseconds on a healthy node.
pub const SOON: Duration = Duration::from_secs(30);
/// Time limit of requests that read or remove all that a run may have written.
pub const LATER: Duration = Duration::from_secs(1800);
/// Delay between TERM and KILL on nodes, seconds.
const GRACE_S: f64 = 1.5;

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name in the campaign: in reports, and for the crew.
    pub name: String,
    /// What the other nodes call it: in host files.
    pub among: String,
    /// What it calls itself.
    pub hostname: String,
}

/// The nodes that an executor has.
#[derive(Debug)]
pub struct Nodes {
    /// The sentinels on them.
    pub crew: Crew,
    /// The member that is this machine, and what the others call it.
    pub head: Node,
    /// Nodes of mappings, in their order.
    pub all: Vec<Node>,
    /// How ranks get to them.
    pub transport: Transport,
    /// What each is like, by name.
    pub facts: BTreeMap<String, Facts>,
    /// Which machine of a cloud each is, by name.
    pub instances: BTreeMap<String, InstanceFacts>,
    /// Network interface between them.
    pub interface: Option<String>,
}

impl Nodes {
    /// This machine alone.
    pub fn here() -> Self {
        let name = "localhost".to_owned();
        let node = Node { name: name.clone(), among: name.clone(), hostname: name.clone() };
        Self {
            crew: Crew::here(&name),
            head: node.clone(),
            all: vec![node],
            transport: Transport::Local,
            facts: BTreeMap::new(),
            instances: BTreeMap::new(),
            interface: None,
        }
    }

    /// Names of the nodes beside this machine that are heard of.
    pub fn others(&self) -> Vec<&str> {
        let lost = self.crew.lost().borrow().clone();
        self.all.iter().map(|n| n.name.as_str()).filter(|n| *n != self.head.name && !lost.contains_key(*n)).collect()
    }

    /// The nodes of these names, in this order, as many as the mapping needs.
    pub fn choose(&self, names: &[String], mapping: &Mapping) -> Option<Vec<Node>> {
        let node = |name: &String| {
            let mut node = self.all.iter().find(|n| n.name == *name).cloned()?;
            // one that was away when the others were asked has said it since
            if node.hostname.is_empty() {
                node.hostname = self.crew.hostname(name).unwrap_or_default();
            }
            Some(node)
        };
        let chosen: Option<Vec<Node>> = names.iter().take(mapping.nodes() as usize).map(node).collect();
        chosen.filter(|c| c.len() == mapping.nodes() as usize)
    }
}

/// The nodes of one run.
#[derive(Clone, Debug)]
pub struct AllocatedNodes {
    pub crew: Crew,
    pub head: Node,
    /// Where its ranks are to be, in the order of the mapping.
    pub ranks: Vec<Node>,
    pub transport: Transport,
    /// Whether all of them see the same files where it works.
    pub storage: StorageKind,
    /// What marks its processes.
    pub marker: String,
    /// Directories that are its own on every node.
    pub dirs: Vec<PathBuf>,
}

impl AllocatedNodes {
    /// Every node that the run touches, this one first.
    pub fn everywhere(&self) -> Vec<&str> {
        let mut names = vec![self.head.name.as_str()];
        names.extend(self.ranks.iter().map(|n| n.name.as_str()).filter(|n| *n != self.head.name));
        names
    }

    /// Those beside this one.
    pub fn others(&self) -> Vec<&str> {
        self.everywhere().split_off(1)
    }

    /// Nodes whose directories hold files of the run, each file being seen from one of them.
    pub fn places(&self) -> Vec<&str> {
        match self.storage {
            StorageKind::Shared => vec![self.head.name.as_str()],
            StorageKind::NodeLocal => self.everywhere(),
        }
    }

    /// Whether a node beside this one takes part.
    pub fn several(&self) -> bool {
        self.everywhere().len() > 1
    }

    /// Ends all that there is of the run on the other nodes; how many processes that were.
    pub async fn end_others(&self) -> usize {
        let others = self.others();
        if others.is_empty() {
            return 0;
        }
        let ended = self.crew.end(&others, &self.marker, &self.dirs, GRACE_S, SOON).await;
        ended.into_iter().filter_map(|(_, e)| e.ok()).map(|e| e.ended.len()).sum()
    }
}
