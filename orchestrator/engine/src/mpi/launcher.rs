//! The contract of a family of MPI libraries ([`Launcher`]), and an installed library of a family ([`MpiInstall`]).

use super::{
    io_evidence::{IoEvidence, LaunchOutput},
    launch::{Launch, LaunchRequest},
    missing::Missing,
};
use crate::host::{Host, LocalHost};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{MpiIo, MpiLibrary};
use cvc_core::paths::is_executable;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt, time::Duration};

/// Time limit of one query to an installed program.
const LIMIT: Duration = Duration::from_secs(20);

/// A family of MPI libraries: how cvc finds, starts and configures its libraries, and how it reads their output.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Name in campaign files, hazard lists (`quirks.toml`) and Ansible variables. Distributions use it as the suffix of the family's programs.
    fn name(&self) -> &'static str;

    /// Display name.
    fn title(&self) -> &'static str;

    /// Description of the family's launcher, for the error that a launcher is not of the requested family.
    fn launcher_title(&self) -> &'static str {
        self.title()
    }

    /// Names of launchers that only this family has.
    fn programs(&self) -> &'static [&'static str];

    /// Texts that identify this family: its answer to `--version` contains at least one of them, and the answers of other families contain none. They
    /// are also passed to `grep -E`.
    fn marks(&self) -> &'static [&'static str];

    /// Names of Debian's packages: the launcher's package, and the compiler wrappers' package.
    fn packages(&self) -> (&'static str, &'static str);

    /// Parses the version from the answer to `--version`.
    fn version(&self, answer: &str) -> Option<String>;

    /// Parses the network device from the answer to `--version`, if the family has one and prints it.
    fn device(&self, _answer: &str) -> Option<String> {
        None
    }

    /// Queries features of a library that exist only in this family.
    ///
    /// # Errors
    /// The library lacks a requested feature.
    async fn ask_features(
        &self,
        ask: &Ask<'_>,
        answer: &str,
        library: &MpiLibrary,
    ) -> Result<Features, Missing>;

    /// Builds the command by which the family's own launcher starts ranks.
    fn launch(&self, install: &MpiInstall, request: &LaunchRequest) -> Launch;

    /// The `--mpi` plugin with which srun starts this family's ranks.
    fn srun_plugin(&self) -> &'static str;

    /// Adds the library's own settings to the command by which srun starts ranks.
    fn configure_srun(&self, install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch);

    /// Returns launcher arguments that set a variable for the ranks alone.
    fn rank_env(&self, name: &str, value: &str) -> Vec<String>;

    /// Collects the I/O settings that a run's output shows.
    fn check_io(
        &self,
        install: &MpiInstall,
        request: &LaunchRequest,
        output: &LaunchOutput<'_>,
        seen: &mut IoEvidence,
    );

    /// Whether the family's own I/O layer may lose data when several processes write adjacent parts of one file: OMPIO reads a block, changes it and
    /// writes it back.
    fn sieves_writes(&self) -> bool {
        false
    }

    /// Environment variables for a test launch by a user whose name on the node is unknown and who may be root there.
    fn anonymous_env(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Hint of `cvc doctor` if a test program does its work, but its job then hangs or fails.
    fn hang_hint(&self) -> &'static str;

    /// Whether a test launch that prints nothing until its time limit may have a cause other than faulty nodes.
    fn silence_is_inconclusive(&self) -> bool {
        false
    }
}

/// An installed MPI library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MpiInstall {
    /// Name of the library in the campaign.
    pub name: String,
    /// Family of the library.
    pub family: &'static dyn Launcher,
    /// Path of the launcher.
    pub mpiexec: Utf8PathBuf,
    /// Version.
    pub version: String,
    /// MPICH's device (`ch3:nemesis`, `ch4:ucx`), if the library reports it.
    pub device: Option<String>,
    /// The I/O layer that runs use.
    pub io: MpiIo,
    /// Name of Open MPI's ROMIO component (`romio321`), if the library has one.
    pub romio_component: Option<String>,
    /// Names of OMPIO's parameters, without `io_ompio_`.
    pub ompio_parameters: Vec<String>,
    /// Additional environment variables: the campaign's, and a module's.
    pub env: BTreeMap<String, String>,
    /// Additional arguments of the launcher.
    pub args: Vec<String>,
}

impl MpiInstall {
    /// Describes the library in one line, for messages and for the facts of a run.
    pub fn describe(&self) -> String {
        let device = self
            .device
            .as_ref()
            .map(|d| format!(" ({d})"))
            .unwrap_or_default();
        let io = self.io.title();
        format!("{} {}{device}, {io}", self.family.title(), self.version)
    }

    /// Returns the path of another program of the library: from the launcher's directory, with the launcher's suffix (`mpicc.mpich` next to
    /// `mpiexec.mpich`).
    pub fn companion(&self, program: &str) -> Option<Utf8PathBuf> {
        let suffix = self.family.name();
        let name = if self.mpiexec.extension() == Some(suffix) {
            format!("{program}.{suffix}")
        } else {
            program.to_owned()
        };
        Some(self.mpiexec.parent()?.join(name)).filter(|p| is_executable(p))
    }
}

/// Properties that a library reports, apart from its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features {
    /// MPICH's device.
    pub device: Option<String>,
    /// The I/O layer that runs use.
    pub io: MpiIo,
    /// Name of Open MPI's ROMIO component.
    pub romio_component: Option<String>,
    /// Names of OMPIO's parameters, without `io_ompio_`.
    pub ompio_parameters: Vec<String>,
}

impl Features {
    /// Creates the properties of a library whose only I/O layer is ROMIO.
    pub fn romio(device: Option<String>) -> Self {
        Self {
            device,
            io: MpiIo::Romio,
            romio_component: None,
            ompio_parameters: Vec::new(),
        }
    }
}

/// Queries the programs of a library on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The library's name in the campaign.
    pub name: &'a str,
    /// Path of its launcher.
    pub mpiexec: &'a Utf8Path,
    /// Additional environment variables.
    pub env: &'a BTreeMap<String, String>,
}

impl Ask<'_> {
    /// Runs a program, and returns standard output and standard error; `None` if it cannot be run.
    pub async fn run(&self, argv: &[&str]) -> Option<String> {
        self.try_run(argv).await.ok()
    }

    /// Returns the path of a program in the launcher's directory.
    pub fn next_to_launcher(&self, program: &str) -> Option<Utf8PathBuf> {
        self.mpiexec
            .parent()
            .map(|d| d.join(program))
            .filter(|p| is_executable(p))
    }

    /// Returns the error that the library cannot be used as the campaign requires.
    pub fn unusable(&self, problem: impl fmt::Display) -> Missing {
        Missing {
            what: format!("`{}`: {problem}", self.name),
            hint: "check the library's entry in the campaign file".into(),
        }
    }

    pub(super) async fn try_run(&self, argv: &[&str]) -> Result<String, crate::host::HostError> {
        let argv: Vec<String> = argv.iter().map(|a| (*a).to_owned()).collect();
        LocalHost
            .run(&argv, self.env, LIMIT)
            .await
            .map(|o| format!("{}\n{}", o.stdout, o.stderr))
    }
}

impl dyn Launcher + '_ {
    /// Returns whether the answer to `--version` is from this family.
    pub fn recognizes(&self, answer: &str) -> bool {
        self.marks().iter().any(|mark| answer.contains(mark))
    }

    /// Returns the version in the answer to `--version`; `unknown` if it has none.
    pub fn version_or_unknown(&self, answer: &str) -> String {
        self.version(answer).unwrap_or_else(|| "unknown".into())
    }
}

impl fmt::Debug for dyn Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Launcher {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Serialize for dyn Launcher {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Returns the rest of the first line that begins with this name.
pub(super) fn field(answer: &str, name: &str) -> Option<String> {
    answer
        .lines()
        .find_map(|l| l.trim().strip_prefix(name))
        .map(|v| v.trim().to_owned())
        .filter(|v| !v.is_empty())
}
