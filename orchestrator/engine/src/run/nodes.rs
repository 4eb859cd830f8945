//! The nodes of an executor: their names, transport and sentinels.

use crate::{crew::Crew, transport::Transport};
use cvc_core::campaign::StorageKind;
use cvc_core::mapping::Mapping;
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
    /// Its name among the other nodes, for host files.
    pub among: String,
    /// Its own host name.
    pub hostname: String,
}

/// The nodes of an executor.
#[derive(Debug)]
pub struct Nodes {
    /// The sentinels on them.
    pub crew: Crew,
    /// The member that is this machine, and its name among the others.
    pub head: Node,
    /// Nodes of mappings, in their order.
    pub all: Vec<Node>,
    /// Transport of ranks to them.
    pub transport: Transport,
    /// Facts of each, by name.
    pub facts: BTreeMap<String, Facts>,
    /// Cloud machine of each, by name.
    pub instances: BTreeMap<String, InstanceFacts>,
    /// Network interface between them.
    pub interface: Option<String>,
}

impl Nodes {
    /// This machine alone.
    pub fn here() -> Self {
        let name = "localhost".to_owned();
        let node = Node {
            name: name.clone(),
            among: name.clone(),
            hostname: name.clone(),
        };
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

    /// Names of the other nodes that answer.
    pub fn others(&self) -> Vec<&str> {
        let lost = self.crew.lost().borrow().clone();
        self.all
            .iter()
            .map(|n| n.name.as_str())
            .filter(|n| *n != self.head.name && !lost.contains_key(*n))
            .collect()
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
        let chosen: Option<Vec<Node>> = names
            .iter()
            .take(mapping.nodes() as usize)
            .map(node)
            .collect();
        chosen.filter(|c| c.len() == mapping.nodes() as usize)
    }
}

/// The nodes of one run.
#[derive(Clone, Debug)]
pub struct AllocatedNodes {
    /// The sentinels on them.
    pub crew: Crew,
    /// This machine.
    pub head: Node,
    /// The nodes of its ranks, in the order of the mapping.
    pub ranks: Vec<Node>,
    /// How its ranks get to them.
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
        names.extend(
            self.ranks
                .iter()
                .map(|n| n.name.as_str())
                .filter(|n| *n != self.head.name),
        );
        names
    }

    /// The nodes except this one.
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

    /// Whether another node takes part.
    pub fn several(&self) -> bool {
        self.everywhere().len() > 1
    }

    /// Ends everything of the run on the other nodes. Returns the number of processes.
    pub async fn end_others(&self) -> usize {
        let others = self.others();
        if others.is_empty() {
            return 0;
        }
        let ended = self
            .crew
            .end(&others, &self.marker, &self.dirs, GRACE_S, SOON)
            .await;
        ended
            .into_iter()
            .filter_map(|(_, e)| e.ok())
            .map(|e| e.ended.len())
            .sum()
    }
}

/// Whether two names of a host mean the same: one may have its domain.
pub(crate) fn same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    a == b || (!a.is_empty() && (!a.contains('.') || !b.contains('.')) && short(a) == short(b))
}
