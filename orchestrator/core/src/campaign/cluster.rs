//! Sites of several machines: the checked settings of hosts, ssh and Slurm.

use super::checker::yes;
use crate::{
    hosts::{HostEntry, SshSettings},
    inventory::Inventory,
    nodelist,
};
use serde::{Deserialize, Serialize};

/// The machines of a site and how to reach them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Nodes in the order of mappings; empty for Slurm, which names the nodes when it allocates them.
    pub hosts: Vec<HostEntry>,
    /// The inventory from which the hosts come, if any.
    #[serde(skip)]
    pub inventory: Option<InventorySource>,
    /// The host that launches MPI; `None` for the first of `hosts`. With Slurm, the login node; `None` for this machine.
    pub head: Option<HostEntry>,
    /// ssh settings.
    pub ssh: SshSettings,
    /// Directory on the nodes for cvc's own files and for runs without a storage area, as written; `~` is the home directory on the node. With Slurm,
    /// the login node and all nodes must see the same directory.
    pub base: String,
    /// Network interface that MPI uses between nodes; `None` leaves it to the library.
    pub interface: Option<String>,
    /// Cores of a node; `None` if the nodes are queried.
    pub cores: Option<u32>,
    /// Whether points that need few nodes run at the same time on different nodes.
    pub side_by_side: bool,
    /// Silence after which a node counts as lost, seconds.
    pub lost_after_s: f64,
    /// How to request nodes; only with Slurm.
    pub slurm: Option<SlurmSettings>,
}

impl Cluster {
    /// Returns the number of nodes that mappings may use; unlimited if the nodes have not been queried yet.
    pub fn nodes(&self) -> u32 {
        self.known_nodes().unwrap_or(u32::MAX)
    }

    /// Like [`nodes`](Self::nodes), but `None` until the nodes have been queried.
    pub fn known_nodes(&self) -> Option<u32> {
        match &self.slurm {
            Some(slurm) => Some(slurm.nodes),
            None if self.unknown_hosts().is_some() => None,
            None => Some(u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)),
        }
    }

    /// Returns the inventory if it has not been queried yet; otherwise `None`.
    pub fn unknown_hosts(&self) -> Option<&Inventory> {
        match &self.inventory {
            Some(InventorySource::Unasked(inventory)) => Some(inventory),
            Some(InventorySource::Asked) | None => None,
        }
    }
}

/// Where the hosts of a site come from, if the campaign file names an inventory for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InventorySource {
    /// The inventory has not been queried for the hosts yet.
    Unasked(Inventory),
    /// The hosts were known before the campaign file was read.
    Asked,
}

/// How to request nodes from Slurm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Slurm"))]
#[serde(deny_unknown_fields, expecting = "a table with settings of Slurm")]
pub struct SlurmSettings {
    /// Maximum nodes of an allocation; larger mappings are excluded.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub nodes: u32,
    /// Partition. Default: the cluster's.
    pub partition: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Required node features.
    pub constraint: Option<String>,
    /// Required nodes, as in `n[1-4],n7`; more may be added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodelist: Option<String>,
    /// Excluded nodes, as in `n5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<String>,
    /// GPUs per node: a number, or a type and a number as in `a100:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<Gpus>,
    /// Licences of the job, as in `matlab:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub licenses: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// An existing reservation.
    pub reservation: Option<String>,
    /// Time limit of a job, seconds, rounded up to minutes. Default: one hour.
    #[serde(default = "an_hour")]
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub time_limit_s: f64,
    /// Whether nodes are exclusive to the job. Default: true.
    #[serde(default = "yes")]
    pub exclusive: bool,
    /// Scope of a job. Default: `campaign`.
    #[serde(default)]
    pub allocation: Allocation,
    /// Whether a job may be requeued. Default: false.
    #[serde(default)]
    pub requeue: bool,
    /// Time limit for a job in the queue, seconds. Default: none.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub queue_limit_s: Option<f64>,
    /// Launcher of the ranks. Default: `library`.
    #[serde(default)]
    pub launcher: SlurmLauncher,
    /// Further arguments of sbatch.
    #[serde(default)]
    pub sbatch_args: Vec<String>,
}

/// GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a number of GPUs, or a type and a number as in \"a100:2\""
)]
pub enum Gpus {
    /// Number, of any type.
    Number(u32),
    /// `TYPE:NUMBER`.
    Typed(String),
}

impl std::fmt::Display for Gpus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Typed(text) => f.write_str(text),
        }
    }
}

impl SlurmSettings {
    /// Returns the time limit of a job in minutes, rounded up, as Slurm needs it.
    pub fn time_limit_min(&self) -> u64 {
        (self.time_limit_s / 60.0).ceil().max(1.0) as u64
    }

    /// Returns the options of sbatch and srun that determine a job's nodes and account, in a fixed order. Slurm refuses a list of nodes that is
    /// longer than the job, so the job gets the first `nodes` nodes of the list.
    pub fn placement(&self, nodes: u32) -> impl Iterator<Item = (&'static str, String)> + use<> {
        [
            ("partition", self.partition.clone()),
            ("account", self.account.clone()),
            ("constraint", self.constraint.clone()),
            (
                "nodelist",
                self.nodelist.as_deref().map(|list| first_of(list, nodes)),
            ),
            ("exclude", self.exclude.clone()),
            (
                "gpus-per-node",
                self.gpus_per_node.as_ref().map(Gpus::to_string),
            ),
            ("licenses", self.licenses.clone()),
            ("qos", self.qos.clone()),
            ("reservation", self.reservation.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Returns the first `most` nodes of a list. A list with at most that many nodes stays as written.
fn first_of(list: &str, most: u32) -> String {
    match nodelist::expand(list) {
        Ok(names) if names.len() > most as usize => nodelist::compress(&names[..most as usize]),
        _ => list.to_owned(),
    }
}

fn an_hour() -> f64 {
    3600.0
}

/// Scope of a Slurm job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// One job for all runs of the campaign.
    #[default]
    Campaign,
    /// One job per run.
    Run,
}

/// Launcher of the ranks inside a Slurm job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SlurmLauncher {
    /// The MPI library's own launcher.
    #[default]
    Library,
    /// srun, with PMI-2 for MPICH and PMIx for Open MPI.
    Srun,
}

/// Time between Slurm's SIGTERM and the time limit, seconds; the signal may come up to a minute earlier.
pub const WARNING_S: u32 = 30;
