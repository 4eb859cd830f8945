//! How ranks on other nodes are started.

use cvc_core::campaign::SlurmLauncher;

/// How a launcher reaches the other nodes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// There are no other nodes: all ranks are on this machine.
    Local,
    /// By ssh from the launcher's node.
    Ssh,
    /// Inside a Slurm job: by the library's launcher, or by srun itself.
    Slurm(SlurmLauncher),
}

impl Transport {
    /// Names of all transports.
    pub const NAMES: [&str; 3] = ["local", "ssh", "slurm"];

    /// Returns the name by which conditions of quirks refer to the transport.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ssh => "ssh",
            Self::Slurm(_) => "slurm",
        }
    }
}
