//! The contract of a family of MPI libraries, and a library of one that was found: neither can do without the other.

use super::{
    io_evidence::{IoEvidence, Output},
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

/// Time limit of one question to an installed program.
const LIMIT: Duration = Duration::from_secs(20);

/// A family of MPI libraries: how its members are found, started, given I/O settings and judged by their output.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Name in campaign files, quirks and Ansible variables; distributions use it as the suffix of the family's programs.
    fn name(&self) -> &'static str;

    /// Name for people.
    fn title(&self) -> &'static str;

    /// What a launcher that is another family's is told not to be.
    fn launcher_title(&self) -> &'static str {
        self.title()
    }

    /// Names of launchers that only this family has.
    fn programs(&self) -> &'static [&'static str];

    /// Words of which the answer to `--version` has at least one, in this family only. They are searched by `grep -E`, too.
    fn marks(&self) -> &'static [&'static str];

    /// Debian's packages: the launcher's, and the compiler wrappers'.
    fn packages(&self) -> (&'static str, &'static str);

    /// Reads the version from the answer to `--version`.
    fn version(&self, answer: &str) -> Option<String>;

    /// Reads the network device from the answer to `--version`, where the family has such a thing and says it there.
    fn device(&self, _answer: &str) -> Option<String> {
        None
    }

    /// Asks a library for what only this family has.
    ///
    /// # Errors
    /// When it lacks what the campaign asks for.
    async fn ask_features(
        &self,
        ask: &Ask<'_>,
        answer: &str,
        library: &MpiLibrary,
    ) -> Result<Features, Missing>;

    /// Builds the launch by the family's own launcher.
    fn launch(&self, install: &MpiInstall, request: &LaunchRequest) -> Launch;

    /// The `--mpi` plugin by which srun starts its ranks.
    fn srun_plugin(&self) -> &'static str;

    /// Adds the library's own settings to a launch by srun.
    fn configure_srun(&self, install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch);

    /// Arguments by which the launcher sets a variable for the ranks alone.
    fn rank_env(&self, name: &str, value: &str) -> Vec<String>;

    /// Collects what the output of a run says of its I/O settings.
    fn check_io(
        &self,
        install: &MpiInstall,
        request: &LaunchRequest,
        output: &Output<'_>,
        seen: &mut IoEvidence,
    );

    /// Whether processes that write parts of one file through its own I/O layer may lose what others write beside them, as OMPIO does where it
    /// reads, changes and writes back.
    fn sieves_writes(&self) -> bool {
        false
    }

    /// Environment for a test launch on a node where the user is not known.
    fn anonymous_env(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What the doctor advises when a test program finishes but its job hangs or fails.
    fn hang_hint(&self) -> &'static str;

    /// Whether a test launch that stays silent proves too little to call the nodes bad.
    fn silence_is_inconclusive(&self) -> bool {
        false
    }
}

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
        let device = self
            .device
            .as_ref()
            .map(|d| format!(" ({d})"))
            .unwrap_or_default();
        let io = match self.io {
            MpiIo::Ompio => "OMPIO",
            MpiIo::Romio => "ROMIO",
        };
        format!("{} {}{device}, {io}", self.family.title(), self.version)
    }

    /// Returns a program of the library: in the launcher's directory, with the launcher's suffix (`mpicc.mpich` beside `mpiexec.mpich`).
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

/// What a library says of itself beside its version.
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
    /// A library whose only I/O layer is ROMIO.
    pub fn romio(device: Option<String>) -> Self {
        Self {
            device,
            io: MpiIo::Romio,
            romio_component: None,
            ompio_parameters: Vec::new(),
        }
    }
}

/// Asks the programs of a library on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The library's name in the campaign.
    pub name: &'a str,
    /// Its launcher.
    pub mpiexec: &'a Utf8Path,
    /// Extra environment.
    pub env: &'a BTreeMap<String, String>,
}

impl Ask<'_> {
    /// Runs a program and returns both of its streams; `None` if it cannot be run.
    pub async fn run(&self, argv: &[&str]) -> Option<String> {
        self.try_run(argv).await.ok()
    }

    /// Returns a program in the launcher's directory.
    pub fn beside(&self, program: &str) -> Option<Utf8PathBuf> {
        self.mpiexec
            .parent()
            .map(|d| d.join(program))
            .filter(|p| is_executable(p))
    }

    /// Says that the library cannot be used as the campaign wants it.
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
    /// Whether the answer to `--version` is one of this family.
    pub fn recognizes(&self, answer: &str) -> bool {
        self.marks().iter().any(|mark| answer.contains(mark))
    }

    /// The version in the answer to `--version`; `unknown` where there is none.
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

/// The rest of the first line that begins with this name.
pub(super) fn field(answer: &str, name: &str) -> Option<String> {
    answer
        .lines()
        .find_map(|l| l.trim().strip_prefix(name))
        .map(|v| v.trim().to_owned())
        .filter(|v| !v.is_empty())
}
