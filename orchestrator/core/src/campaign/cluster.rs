//! Sites of several machines: the checked settings of hosts, ssh and Slurm.

use super::checker::yes;
use crate::{
    hosts::{HostEntry, SshSettings},
    inventory::Inventory,
};
use serde::{Deserialize, Serialize};

/// The machines of a site and how to reach them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Nodes in the order of mappings; empty for Slurm, which names them when it gives them.
    pub hosts: Vec<HostEntry>,
    /// Where the hosts come from, if that is an inventory.
    #[serde(skip)]
    pub inventory: Option<InventorySource>,
    /// Where MPI is launched, if that is not the first host; with Slurm the login node, `None` being this machine.
    pub head: Option<HostEntry>,
    /// How ssh is used.
    pub ssh: SshSettings,
    /// Directory on the nodes for cvc's own files and for runs without a storage area; as written, `~` is the home there. With Slurm it
    /// must be seen by the login node and all nodes.
    pub base: String,
    /// Network interface that MPI uses between nodes; `None` leaves it to the library.
    pub interface: Option<String>,
    /// Cores of a node, where they are not to be taken from what the nodes say.
    pub cores: Option<u32>,
    /// Whether points that need few nodes run at the same time on different ones.
    pub side_by_side: bool,
    /// Silence after which a node counts as lost, seconds.
    pub lost_after_s: f64,
    /// How to request nodes.
    pub slurm: Option<SlurmSettings>,
}

impl Cluster {
    /// Nodes that mappings may use; as many as they want while nobody has asked for them.
    pub fn nodes(&self) -> u32 {
        self.known_nodes().unwrap_or(u32::MAX)
    }

    /// The same; `None` while nobody has asked for them.
    pub fn known_nodes(&self) -> Option<u32> {
        match &self.slurm {
            Some(slurm) => Some(slurm.nodes),
            None if self.unknown_hosts().is_some() => None,
            None => Some(u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)),
        }
    }

    /// The inventory that was not asked for the hosts yet.
    pub fn unknown_hosts(&self) -> Option<&Inventory> {
        match &self.inventory {
            Some(InventorySource::Unasked(inventory)) => Some(inventory),
            Some(InventorySource::Asked) | None => None,
        }
    }
}

/// An inventory that a site's hosts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InventorySource {
    /// It was not asked for the hosts yet.
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
    /// Maximum number of nodes of an allocation; mappings over more are excluded.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub nodes: u32,
    /// Partition. Default: the cluster's.
    pub partition: Option<String>,
    /// Account that is charged.
    pub account: Option<String>,
    /// Features that nodes must have.
    pub constraint: Option<String>,
    /// Quality of service.
    pub qos: Option<String>,
    /// An existing reservation.
    pub reservation: Option<String>,
    /// Time limit of a job, seconds, rounded up to minutes. Default: one hour.
    #[serde(default = "an_hour")]
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub time_limit_s: f64,
    /// Whether nodes are not shared with other jobs. Default: true.
    #[serde(default = "yes")]
    pub exclusive: bool,
    /// What a job covers. Default: `campaign`.
    #[serde(default)]
    pub allocation: Allocation,
    /// Whether a job may be requeued. Default: false.
    #[serde(default)]
    pub requeue: bool,
    /// Time limit for a job in the queue, seconds. Default: none.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub queue_limit_s: Option<f64>,
    /// What starts the ranks. Default: `library`.
    #[serde(default)]
    pub launcher: SlurmLauncher,
    /// Further arguments of sbatch.
    #[serde(default)]
    pub sbatch_args: Vec<String>,
}

fn an_hour() -> f64 {
    3600.0
}

/// What a Slurm job is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// One job holds the nodes for the whole campaign, and its runs happen inside it.
    #[default]
    Campaign,
    /// Each run is a job of its own.
    Run,
}

/// What starts the ranks inside a Slurm job.
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

/// Delay between Slurm's SIGTERM and the time limit, seconds; the signal may come up to a minute earlier.
pub const WARNING_S: u32 = 30;
