//! What a launcher is to start, and how it is started.

use crate::{render::Template, transport::Transport};
use camino::Utf8PathBuf;
use cvc_core::mapping::Mapping;
use cvc_core::units::ByteSize;
use std::collections::BTreeMap;

/// What a launcher is to start. Pure data: no path is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchRequest {
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Names of the nodes, in the order of the mapping. Inside a Slurm job they must be in Slurm's own order: the libraries' launchers keep to it
    /// whatever they are told, and the ranks of Open MPI under srun end by a segmentation fault in any other.
    pub hosts: Vec<String>,
    /// Cores of a node, to tell when ranks share one.
    pub cores_per_node: u32,
    /// I/O settings asked for.
    pub aggregators: Option<u32>,
    /// Collective buffer for each aggregator.
    pub cb_buffer: Option<ByteSize>,
    /// Whether the program writes collectively at all.
    pub collective_io: bool,
    /// Where host and hint files go; `$RUN` in scripts.
    pub run_dir: Utf8PathBuf,
    /// Short private directory for session files, the same path on every node.
    pub tmp_dir: Utf8PathBuf,
    /// How the launcher gets to the other nodes.
    pub transport: Transport,
    /// Network interface between the nodes; `None` leaves it to the library.
    pub interface: Option<String>,
    /// Whether a node may get more ranks than it has cores.
    pub oversubscribe: bool,
    /// Names of variables that ranks on other nodes must get; their values are in the launcher's environment.
    pub export: Vec<String>,
    /// Value of `CVC_RUN`, which marks every process of the run, also those that the launcher starts on other nodes.
    pub marker: String,
}

impl LaunchRequest {
    /// Aggregators that one node must be able to carry.
    pub(super) fn aggregators_per_node(&self) -> Option<u32> {
        self.aggregators
            .map(|a| a.div_ceil(self.mapping.nodes().max(1)))
    }

    /// Whether some node has more ranks than cores.
    pub(super) fn oversubscribed(&self) -> bool {
        self.mapping
            .node_loads()
            .any(|load| load > self.cores_per_node)
    }

    /// Nodes that are used, with the number of ranks of each, in the order of ranks.
    pub fn placement(&self) -> impl Iterator<Item = (&str, u32)> {
        self.hosts
            .iter()
            .map(String::as_str)
            .zip(self.mapping.node_loads())
    }

    /// Nodes beside the first.
    pub(super) fn other_nodes(&self) -> u32 {
        self.mapping.nodes().saturating_sub(1)
    }

    /// The script that launchers call instead of ssh; it is one of [`Launch::files`].
    pub fn ssh_wrapper(&self) -> Utf8PathBuf {
        self.run_dir.join(SSH_WRAPPER)
    }

    /// The network interface, where ranks use one.
    pub(super) fn network_interface(&self) -> Option<&str> {
        self.interface
            .as_deref()
            .filter(|_| self.transport != Transport::Local)
    }
}

/// How a program is started: the launcher's arguments in front of it, environment, files that must be there first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Launcher and its arguments; the program and its arguments follow.
    pub argv: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Files by name in the run's directory, with the template that makes each.
    pub files: Vec<(&'static str, Template)>,
    /// Processes beside the ranks that a checkpointer sees, on all nodes together, with the launcher on the first of them.
    pub launcher_processes: u32,
}

impl Launch {
    /// Sets a variable.
    pub(super) fn env(&mut self, name: &str, value: impl Into<String>) {
        self.env.insert(name.to_owned(), value.into());
    }

    /// Adds the script that stands for ssh.
    pub(super) fn add_ssh_wrapper(&mut self) {
        self.files.push((SSH_WRAPPER, Template::SSH_WRAPPER));
    }

    /// Configures the srun that a library's launcher calls itself: other steps (cvc's own on each node) hold resources of the job, and ranks
    /// are not to be bound to cores.
    pub(super) fn configure_inner_srun(&mut self) {
        for (name, value) in [
            ("SLURM_OVERLAP", "1"),
            ("SLURM_CPU_BIND", "none"),
            ("SLURM_KILL_BAD_EXIT", "1"),
        ] {
            self.env(name, value);
        }
    }
}

/// Name of the script that launchers call instead of ssh, in the run's directory.
pub const SSH_WRAPPER: &str = "ssh-to-node.sh";
