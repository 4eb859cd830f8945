//! An MPI library that was found.

use super::launcher::Launcher;
use camino::Utf8PathBuf;
use cvc_core::{campaign::MpiIo, paths::is_executable};
use serde::Serialize;
use std::collections::BTreeMap;

/// An MPI library that was found, with what it says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MpiInstall {
    /// Its name in the campaign.
    pub name: String,
    /// Its family.
    pub family: &'static dyn Launcher,
    /// The launcher.
    pub mpiexec: Utf8PathBuf,
    /// Version.
    pub version: String,
    /// MPICH's device (`ch3:nemesis`, `ch4:ucx`), if it says so.
    pub device: Option<String>,
    /// The I/O layer that runs use.
    pub io: MpiIo,
    /// Name of Open MPI's ROMIO component (`romio321`), if it has one.
    pub romio_component: Option<String>,
    /// Names of OMPIO's parameters, without `io_ompio_`.
    pub ompio_parameters: Vec<String>,
    /// Extra environment: the campaign's, and a module's.
    pub env: BTreeMap<String, String>,
    /// Extra arguments of the launcher.
    pub args: Vec<String>,
}

impl MpiInstall {
    /// Describes the library in one line, for people and for the facts of a run.
    pub fn describe(&self) -> String {
        let device = self.device.as_ref().map(|d| format!(" ({d})")).unwrap_or_default();
        let io = match self.io {
            MpiIo::Ompio => "OMPIO",
            MpiIo::Romio => "ROMIO",
        };
        format!("{} {}{device}, {io}", self.family.title(), self.version)
    }

    /// Returns a program of the library: in the launcher's directory, with the launcher's suffix (`mpicc.mpich` beside `mpiexec.mpich`).
    pub fn companion(&self, program: &str) -> Option<Utf8PathBuf> {
        let suffix = self.family.name();
        let name = if self.mpiexec.extension() == Some(suffix) { format!("{program}.{suffix}") } else { program.to_owned() };
        Some(self.mpiexec.parent()?.join(name)).filter(|p| is_executable(p))
    }
}

/// Software that is not installed, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {hint}")]
pub struct Missing {
    /// What is missing, and where it was looked for.
    pub what: String,
    /// How to get it.
    pub hint: String,
}
