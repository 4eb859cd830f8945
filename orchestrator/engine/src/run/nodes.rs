//! The nodes of an executor: their names, transport and sentinels.

use super::file_system::UsedFileSystem;
use crate::{crew::Crew, transport::Transport};
use cvc_core::campaign::StorageKind;
use cvc_core::mapping::Mapping;
use cvc_probe::sentinel::{InstanceFacts, NodeFacts};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// Time limit of requests that take milliseconds on a healthy node.
pub const SOON: Duration = Duration::from_secs(30);
/// Time limit of requests that read or remove all files of a run.
pub const LATER: Duration = Duration::from_secs(1800);
/// Delay between TERM and KILL on nodes, seconds.
const GRACE_S: f64 = 1.5;

/// One node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name of the node in the campaign, used in reports and in the crew.
    pub name: String,
    /// Name by which the other nodes reach this node, for host files.
    pub among: String,
    /// The node's own host name.
    pub hostname: String,
}

/// The nodes of an executor.
#[derive(Debug)]
pub struct Nodes {
    /// The sentinels on the nodes.
    pub crew: Crew,
    /// This machine, which is a member of the crew, too.
    pub head: Node,
    /// The nodes of mappings, in the order of mappings.
    pub all: Vec<Node>,
    /// How ranks on the nodes are started.
    pub transport: Transport,
    /// Facts about each node, by name.
    pub facts: BTreeMap<String, NodeFacts>,
    /// Cloud machine of each node, by name.
    pub instances: BTreeMap<String, InstanceFacts>,
    /// Network interface between the nodes.
    pub interface: Option<String>,
}

impl Nodes {
    /// Returns this machine as the only node.
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

    /// Returns the names of the other nodes that answer.
    pub fn others(&self) -> Vec<&str> {
        let lost = self.crew.lost().borrow().clone();
        self.all
            .iter()
            .map(|n| n.name.as_str())
            .filter(|n| *n != self.head.name && !lost.contains_key(*n))
            .collect()
    }

    /// Returns the nodes with the first of these names, as many as the mapping needs, in this order; `None` if there are too few.
    pub fn choose(&self, names: &[String], mapping: &Mapping) -> Option<Vec<Node>> {
        let node = |name: &String| {
            let mut node = self.all.iter().find(|n| n.name == *name).cloned()?;
            // a node that was not available when the others were queried has reported its host name later
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
    /// The sentinels on the nodes.
    pub crew: Crew,
    /// This machine.
    pub head: Node,
    /// The nodes of the run's ranks, in the order of the mapping.
    pub ranks: Vec<Node>,
    /// How the ranks on the nodes are started.
    pub transport: Transport,
    /// Whether all nodes share the files in the run's working directory.
    pub storage: StorageKind,
    /// The marker of the run's processes.
    pub marker: String,
    /// Directories that belong to the run alone, on every node.
    pub dirs: Vec<PathBuf>,
    /// The run's file system, if cvc has deployed it or counts its operations.
    pub file_system: Option<UsedFileSystem>,
}

impl AllocatedNodes {
    /// Returns the name of every node that the run uses, this machine first.
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

    /// Returns the names of the run's nodes without this machine.
    pub fn others(&self) -> Vec<&str> {
        self.everywhere().split_off(1)
    }

    /// Returns the names of the nodes to query for the run's files: only this machine if all nodes share the files, otherwise all nodes.
    pub fn places(&self) -> Vec<&str> {
        match self.storage {
            StorageKind::Shared => vec![self.head.name.as_str()],
            StorageKind::NodeLocal => self.everywhere(),
        }
    }

    /// Returns whether the file system of the run's files was found to be gone.
    pub fn has_lost_files(&self) -> bool {
        self.file_system
            .as_ref()
            .is_some_and(UsedFileSystem::is_lost)
    }

    /// Waits until the file system of the run's files is gone, and describes the problem.
    pub async fn wait_lost_files(&self) -> String {
        match &self.file_system {
            Some(file_system) => file_system.wait_lost(&self.crew).await,
            None => std::future::pending().await,
        }
    }

    /// Returns whether the run uses a node other than this machine.
    pub fn several(&self) -> bool {
        self.everywhere().len() > 1
    }

    /// Ends all processes of the run on the other nodes. Returns the number of processes ended.
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

/// Returns whether two names mean the same host: one of them may include the domain.
pub(crate) fn same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    a == b || (!a.is_empty() && (!a.contains('.') || !b.contains('.')) && short(a) == short(b))
}
