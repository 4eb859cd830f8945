//! The processes that a launcher starts, and the command by which it starts them.

use crate::{render::Template, transport::Transport};
use camino::Utf8PathBuf;
use cvc_core::io_settings::IoValue;
use cvc_core::mapping::Mapping;
use cvc_core::mpi_io::MpiIo;
use cvc_core::units::ByteSize;
use std::collections::BTreeMap;

/// The processes that a launcher is to start. Plain data: no path is examined.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchRequest {
    /// Numbers of processes and nodes.
    pub mapping: Mapping,
    /// Names of the nodes, in the order of the mapping. Inside a Slurm job they must be in Slurm's own order: the libraries' launchers always use
    /// that order, and with any other order ranks of Open MPI under srun crash with a segmentation fault.
    pub hosts: Vec<String>,
    /// Number of cores of a node. If it is smaller than the number of ranks or threads there, they share cores.
    pub cores_per_node: u32,
    /// Whether threads are bound to hardware threads instead of cores, because a node has too few physical cores.
    pub hardware_threads: bool,
    /// Requested number of aggregators of collective I/O.
    pub aggregators: Option<u32>,
    /// Requested size of each aggregator's buffer for collective I/O.
    pub cb_buffer: Option<ByteSize>,
    /// Requested settings of one I/O layer.
    pub io: Vec<IoValue>,
    /// Whether the program writes collectively.
    pub collective_io: bool,
    /// Directory of host files and hint files; `$RUN` in scripts.
    pub run_dir: Utf8PathBuf,
    /// Short private directory for session files; it has the same path on every node.
    pub tmp_dir: Utf8PathBuf,
    /// How the launcher reaches the other nodes.
    pub transport: Transport,
    /// Network interface between the nodes; with `None` the library chooses one.
    pub interface: Option<String>,
    /// Whether a node may get more ranks than it has cores.
    pub oversubscribe: bool,
    /// Names of variables that ranks on other nodes need as well. Their values are in the launcher's environment.
    pub export: Vec<String>,
    /// Value of `CVC_RUN`, which marks every process of the run, including processes that the launcher starts on other nodes.
    pub marker: String,
}

impl LaunchRequest {
    /// Returns whether I/O is configured and verified: if the program writes collectively, or if a setting is requested.
    pub(super) fn sets_io(&self) -> bool {
        self.collective_io || !self.io.is_empty()
    }

    /// Returns the requested settings of an I/O layer.
    pub(super) fn io_of(&self, layer: MpiIo) -> impl Iterator<Item = &IoValue> {
        self.io.iter().filter(move |of| of.layer == layer)
    }

    /// Returns the number of aggregators that one node must be able to run.
    pub(super) fn aggregators_per_node(&self) -> Option<u32> {
        self.aggregators
            .map(|a| a.div_ceil(self.mapping.nodes().max(1)))
    }

    /// Returns the number of threads of each process that are bound to separate cores: the mapping's number; `None` if a node has too few cores for
    /// that.
    pub fn bound_threads(&self) -> Option<u32> {
        self.mapping.threads().filter(|_| !self.oversubscribed())
    }

    /// Returns the unit to which threads are bound, in the launchers' terms.
    pub(super) fn bound_to(&self) -> &'static str {
        if self.hardware_threads {
            "hwthread"
        } else {
            "core"
        }
    }

    /// Returns whether some node has more ranks, or more threads of ranks, than cores.
    pub(super) fn oversubscribed(&self) -> bool {
        self.mapping.oversubscribes(self.cores_per_node)
    }

    /// Returns the used nodes, each with its number of ranks, in the order of ranks.
    pub fn placement(&self) -> impl Iterator<Item = (&str, u32)> {
        self.hosts
            .iter()
            .map(String::as_str)
            .zip(self.mapping.node_loads())
    }

    /// Returns the number of nodes other than the first.
    pub(super) fn other_nodes(&self) -> u32 {
        self.mapping.nodes().saturating_sub(1)
    }

    /// Returns the path of the script that launchers call instead of ssh. It is one of [`Launch::files`].
    pub fn ssh_wrapper(&self) -> Utf8PathBuf {
        self.run_dir.join(SSH_WRAPPER)
    }

    /// Returns the network interface, if ranks communicate over one.
    pub(super) fn network_interface(&self) -> Option<&str> {
        self.interface
            .as_deref()
            .filter(|_| self.transport != Transport::Local)
    }
}

/// The command that starts a program: the launcher with its arguments, environment variables, and files that must exist before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Launcher and its arguments, to which the program and its arguments are appended.
    pub argv: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Files by name in the run's directory, each with its template.
    pub files: Vec<(&'static str, Template)>,
    /// Number of launcher processes on all nodes together, if the launcher runs on the first node. They connect to a checkpointer in addition to the
    /// ranks.
    pub launcher_processes: u32,
}

impl Launch {
    /// Sets an environment variable.
    pub(super) fn env(&mut self, name: &str, value: impl Into<String>) {
        self.env.insert(name.to_owned(), value.into());
    }

    /// Adds the script that launchers call instead of ssh.
    pub(super) fn add_ssh_wrapper(&mut self) {
        self.files.push((SSH_WRAPPER, Template::SSH_WRAPPER));
    }

    /// Sets OpenMP's number of threads for each process. If threads are bound, also binds each thread to a core of its process.
    pub(super) fn configure_threads(&mut self, request: &LaunchRequest) {
        let Some(threads) = request.mapping.threads() else {
            return;
        };
        let (places, bind) = match (request.bound_threads(), request.hardware_threads) {
            (None, _) => (None, "false"),
            (Some(_), true) => (Some("threads"), "close"),
            (Some(_), false) => (Some("cores"), "close"),
        };
        let values = [
            Some(threads.to_string()),
            places.map(str::to_owned),
            Some(bind.to_owned()),
        ];
        for (name, value) in THREAD_VARIABLES.iter().zip(values) {
            if let Some(value) = value {
                self.env(name, value);
            }
        }
    }

    /// Configures the srun that a library's launcher calls internally. Other steps (cvc's own, one on each node) hold resources of the job, so the
    /// steps must overlap; and srun must not bind ranks to cores.
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

/// Names of the variables that [`Launch::configure_threads`] sets.
pub const THREAD_VARIABLES: [&str; 3] = ["OMP_NUM_THREADS", "OMP_PLACES", "OMP_PROC_BIND"];

/// File name, in the run's directory, of the script that launchers call instead of ssh.
pub const SSH_WRAPPER: &str = "ssh-to-node.sh";
