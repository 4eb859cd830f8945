//! MPI libraries: where they are, how they are started, which I/O settings they take and whether they took them.
//!
//! To add one: a file here, a variant of [`MpiFamily`](crate::spec::MpiFamily), a host-file template in `templates/launch/`.

mod evidence;
mod find;
mod mpich;
mod openmpi;

pub use evidence::{IoEvidence, check_io};
pub use find::{Missing, MpiInstall, find, is_executable, on_path, version_said};
pub use mpich::hints as romio_hints;

use crate::{mapping::Mapping, spec::MpiFamily, units::ByteSize};
use camino::Utf8PathBuf;
use std::collections::BTreeMap;

/// What a launcher is to start. Pure data: no path is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchRequest {
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Names of the nodes, in the order of the mapping.
    pub hosts: Vec<String>,
    /// Cores of a node, to tell when ranks share one.
    pub cores_per_node: u32,
    /// I/O settings asked for.
    pub aggregators: Option<u32>,
    /// Collective buffer for each aggregator.
    pub cb_buffer: Option<ByteSize>,
    /// Whether the program writes collectively at all.
    pub collective_io: bool,
    /// Whether it runs under DMTCP.
    pub dmtcp: bool,
    /// Where host and hint files go; `$RUN` in scripts.
    pub run_dir: Utf8PathBuf,
    /// Short private directory for session files.
    pub tmp_dir: Utf8PathBuf,
}

/// How a program is started: the launcher's arguments in front of it, environment, files that must be there first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Launcher and its arguments; the program and its arguments follow.
    pub argv: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Files by name in the run's directory, with the template that makes each.
    pub files: Vec<(&'static str, crate::render::Template)>,
    /// Processes of the launcher itself that a checkpointer sees, on a single node.
    pub launcher_processes: u32,
}

impl LaunchRequest {
    /// Aggregators that one node must be able to carry.
    fn aggregators_per_node(&self) -> Option<u32> {
        self.aggregators.map(|a| a.div_ceil(self.mapping.nodes().max(1)))
    }

    /// Whether some node has more ranks than cores.
    fn oversubscribed(&self) -> bool {
        self.mapping.node_loads().any(|load| load > self.cores_per_node)
    }
}

/// The launch of a program by this library.
pub fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut launch = match install.family {
        MpiFamily::Mpich => mpich::launch(install, request),
        MpiFamily::OpenMpi => openmpi::launch(install, request),
    };
    launch.argv.extend(install.args.iter().cloned());
    launch.env.extend(install.env.clone());
    launch
}
