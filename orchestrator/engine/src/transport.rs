//! How ranks get to nodes.

use cvc_core::campaign::SlurmLauncher;

/// How a launcher gets to the other nodes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// There are none: all ranks are on this machine.
    Local,
    /// By ssh from the node where the launcher runs.
    Ssh,
    /// Inside a Slurm job, by the library's launcher or by srun itself.
    Slurm(SlurmLauncher),
}

impl Transport {
    /// Names of all transports.
    pub const NAMES: [&str; 3] = ["local", "ssh", "slurm"];

    /// Returns the name by which quirks ask for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ssh => "ssh",
            Self::Slurm(_) => "slurm",
        }
    }
}
