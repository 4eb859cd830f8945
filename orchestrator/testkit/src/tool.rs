//! Tools that a machine may lack. A test that needs a missing tool is reported as skipped; it never passes silently.

use std::{
    env,
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::program::on_path;

/// Environment variable with the path of a file to which every skipped test is appended.
pub const LOG: &str = "CVC_SKIPPED_LOG";

/// A tool that tests may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// DMTCP: `$CVC_DMTCP_ROOT/bin`, PATH, /usr/local/bin.
    Dmtcp,
    /// DMTCP that was built with `--enable-forked-checkpointing`: `$CVC_DMTCP_FORKED_ROOT/bin`.
    DmtcpForked,
    /// MPICH's launcher on PATH.
    Mpich,
    /// An MPICH that DMTCP can restart: `$CVC_MPICH_ROOT/bin/mpiexec`, or the one on PATH unless it is built for UCX only.
    MpichForRestart,
    /// Open MPI's launcher on PATH.
    OpenMpi,
    /// Chromium, to open reports as readers do.
    Chromium,
    /// strace.
    Strace,
    /// Reads counters of the kernel and of the hardware.
    Perf,
    /// DFTracer's library for preloading: `$CVC_DFTRACER_LIB`, or the one that the set-up brings.
    DfTracer,
    /// The compiler wrapper of HDF5 with MPI.
    Hdf5Parallel,
    /// Compiled NAS Parallel Benchmarks: `$CVC_NPB_DIR/<mpi>/bt.W.x`.
    Npb,
    /// LAMMPS on PATH.
    Lammps,
    /// The right to mount a tmpfs, to simulate a full disk.
    Tmpfs,
    /// LaTeX, to typeset reports as readers do.
    Latex,
    /// Python 3, for comparison in benchmarks and to read reports.
    Python,
    /// Python 3 with pandas and matplotlib, to run notebooks.
    Plotting,
    /// The system's Python 3 with mpi4py, h5py and scikit-learn, for the example that trains a neural network.
    Training,
    /// The tools of [`Self::Training`] with PyTorch, for the example's variant.
    TrainingWithTorch,
    /// An active virtual environment with Keras on TensorFlow, for the example's variant.
    Keras,
    /// LULESH: `$CVC_LULESH_DIR/openmpi/lulesh2.0`.
    Lulesh,
    /// pigz on PATH.
    Pigz,
    /// Several nodes on this machine: [`crate::Lab`].
    Lab,
    /// A lab, and the files for a node in Portuguese: the locale's source, and the translations of the C library and coreutils.
    Portuguese,
    /// A lab, and Slurm with its daemons.
    Slurm,
    /// Slurm on a lab, with accounting.
    SlurmAccounting,
    /// A lab, and GlusterFS.
    Gluster,
    /// A lab, and MooseFS.
    MooseFs,
    /// A lab, and disks for its nodes: [`crate::lab::Disk`].
    Disks,
    /// A lab, and the programs that build [`crate::lab::Image::Base`].
    LabImage,
    /// An MPICH that works across nodes: `$CVC_MPICH5/bin/mpiexec`, or the one that the set-up installs in [`crate::lab::cache`].
    Mpich5,
    /// ansible-playbook: on PATH, or in the private environment that the set-up and cvc make.
    Ansible,
    /// moto with its EC2 server, in the private environment that the set-up makes.
    Moto,
    /// Loop devices, for the disks of instances.
    LoopDevices,
    /// ansible-lint, in addition to ansible-playbook.
    AnsibleLint,
    /// cargo-deny, which checks `deny.toml`.
    CargoDeny,
    /// mdBook, which builds the pages as a site.
    MdBook,
    /// The validator of RO-Crates (roc-validator of PyPI): `$CVC_ROCRATE_VALIDATOR`, or on PATH.
    RoCrateValidator,
}

/// Programs of GlusterFS.
const GLUSTER: &[&str] = &["glusterd", "gluster", "mount.glusterfs"];
/// Programs of MooseFS.
const MOOSEFS: &[&str] = &["mfsmaster", "mfschunkserver", "mfsmount"];

impl Tool {
    /// Returns the path of the tool, if it is present.
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::DmtcpForked => {
                let root = env::var_os("CVC_DMTCP_FORKED_ROOT")?;
                let launch = Path::new(&root).join("bin").join("dmtcp_launch");
                launch.is_file().then_some(launch)
            }
            Self::Dmtcp => {
                let given = env::var_os("CVC_DMTCP_ROOT")
                    .map(|root| Path::new(&root).join("bin").join("dmtcp_launch"));
                given
                    .into_iter()
                    .chain(on_path("dmtcp_launch"))
                    .chain([PathBuf::from("/usr/local/bin/dmtcp_launch")])
                    .find(|p| p.is_file())
            }
            Self::Mpich => find_launcher(&["mpiexec.mpich", "mpiexec.hydra", "mpiexec"], "HYDRA"),
            Self::MpichForRestart => {
                let given = env::var_os("CVC_MPICH_ROOT")
                    .map(|root| Path::new(&root).join("bin").join("mpiexec"));
                given.into_iter().chain(Self::Mpich.find()).find(|p| {
                    version_mentions(p, "HYDRA") && !version_mentions(p, "--with-device=ch4:ucx")
                })
            }
            Self::OpenMpi => find_launcher(
                &["mpiexec.openmpi", "mpirun.openmpi", "mpiexec"],
                "Open MPI",
            )
            .or_else(|| {
                find_launcher(&["mpiexec.openmpi", "mpirun.openmpi", "mpiexec"], "OpenRTE")
            }),
            Self::Chromium => ["chromium", "chromium-browser", "google-chrome"]
                .iter()
                .find_map(|n| on_path(n)),
            Self::Strace => on_path("strace"),
            Self::Perf => on_path("perf"),
            Self::DfTracer => find_dftracer(),
            Self::Hdf5Parallel => ["h5pcc.mpich", "h5pcc.openmpi", "h5pcc"]
                .iter()
                .find_map(|n| on_path(n)),
            Self::Npb => env::var_os("CVC_NPB_DIR")
                .map(PathBuf::from)
                .filter(|p| p.is_dir()),
            Self::Lammps => ["lmp", "lmp_mpi"].iter().find_map(|n| on_path(n)),
            Self::Tmpfs => {
                on_path("mount").filter(|_| nix::unistd::geteuid().is_root() && can_mount())
            }
            Self::Latex => ["pdflatex", "tectonic"].iter().find_map(|n| on_path(n)),
            Self::Python => on_path("python3"),
            Self::Plotting => on_path("python3").filter(|python| {
                let mut command = Command::new(python);
                command.args(["-c", "import pandas, matplotlib"]);
                command.output().is_ok_and(|o| o.status.success())
            }),
            Self::Training => has_modules("mpi4py, h5py, sklearn"),
            Self::TrainingWithTorch => has_modules("mpi4py, h5py, sklearn, torch"),
            Self::Keras => modules_of(
                PathBuf::from(env::var_os("VIRTUAL_ENV")?).join("bin/python3"),
                "keras, tensorflow",
            ),
            Self::Lulesh => env::var_os("CVC_LULESH_DIR")
                .map(PathBuf::from)
                .filter(|p| p.join("openmpi/lulesh2.0").is_file()),
            Self::Pigz => on_path("pigz"),
            Self::CargoDeny => on_path("cargo-deny"),
            Self::MdBook => on_path("mdbook"),
            Self::RoCrateValidator => env::var_os("CVC_ROCRATE_VALIDATOR")
                .map(PathBuf::from)
                .into_iter()
                .chain(on_path("rocrate-validator"))
                .find(|p| p.is_file()),
            Self::Ansible => find_ansible_program("ansible-playbook"),
            Self::AnsibleLint => find_ansible_program("ansible-lint"),
            Self::Moto => crate::cloud::moto(),
            Self::LoopDevices => crate::cloud::disks::loop_devices_exist()
                .then(|| PathBuf::from("/dev/loop-control")),
            Self::Mpich5 => {
                let given = env::var_os("CVC_MPICH5").map(PathBuf::from);
                given
                    .into_iter()
                    .chain([crate::lab::cache().join("mpich5")])
                    .map(|root| root.join("bin/mpiexec"))
                    .find(|p| p.is_file())
            }
            Self::Portuguese => {
                let needed = ["i18n/locales/pt_BR", "locale/pt_BR/LC_MESSAGES/libc.mo"];
                let there = on_path("localedef").is_some()
                    && needed
                        .iter()
                        .all(|file| Path::new("/usr/share").join(file).is_file());
                Self::Lab.find().filter(|_| there)
            }
            Self::Slurm => crate::lab::missing_for_slurm()
                .is_none()
                .then(|| PathBuf::from("/usr/sbin/slurmctld")),
            Self::Gluster => crate::lab::missing_for_file_system(GLUSTER)
                .is_none()
                .then(|| PathBuf::from("/usr/sbin/glusterd")),
            Self::MooseFs => crate::lab::missing_for_file_system(MOOSEFS)
                .is_none()
                .then(|| PathBuf::from("/usr/sbin/mfsmaster")),
            Self::Disks => crate::lab::missing_for_disks()
                .is_none()
                .then(|| PathBuf::from("/dev/loop-control")),
            Self::LabImage => crate::lab::missing_for_image()
                .is_none()
                .then(|| on_path("mmdebstrap"))
                .flatten(),
            Self::SlurmAccounting => crate::lab::missing_for_accounting()
                .is_none()
                .then(|| PathBuf::from("/usr/sbin/slurmdbd")),
            Self::Lab => crate::lab::missing()
                .is_none()
                .then(|| PathBuf::from("/usr/sbin/sshd")),
        }
    }

    /// Returns the reason why a tool is missing, if its name is not enough to explain it.
    pub fn reason(self) -> Option<String> {
        match self {
            Self::Lab => crate::lab::missing(),
            Self::Portuguese if Self::Lab.find().is_none() => crate::lab::missing(),
            Self::SlurmAccounting => crate::lab::missing_for_accounting(),
            Self::Disks => crate::lab::missing_for_disks(),
            Self::LabImage => crate::lab::missing_for_image(),
            Self::Gluster => crate::lab::missing_for_file_system(GLUSTER),
            Self::MooseFs => crate::lab::missing_for_file_system(MOOSEFS),
            Self::Slurm => crate::lab::missing_for_slurm(),
            Self::Dmtcp
            | Self::DmtcpForked
            | Self::Mpich
            | Self::MpichForRestart
            | Self::OpenMpi
            | Self::Chromium
            | Self::Strace
            | Self::Perf
            | Self::DfTracer
            | Self::Hdf5Parallel
            | Self::Npb
            | Self::Lammps
            | Self::Lulesh
            | Self::Pigz
            | Self::TrainingWithTorch
            | Self::Keras
            | Self::Tmpfs
            | Self::Latex
            | Self::Python
            | Self::Plotting
            | Self::Training
            | Self::CargoDeny
            | Self::MdBook
            | Self::RoCrateValidator
            | Self::Ansible
            | Self::AnsibleLint
            | Self::Moto
            | Self::LoopDevices
            | Self::Portuguese
            | Self::Mpich5 => None,
        }
    }

    /// Returns the tool's name, with the variable that locates it if it is not on PATH.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dmtcp => "DMTCP (on PATH, or CVC_DMTCP_ROOT)",
            Self::DmtcpForked => {
                "DMTCP built with --enable-forked-checkpointing (CVC_DMTCP_FORKED_ROOT)"
            }
            Self::Mpich => "MPICH",
            Self::MpichForRestart => {
                "an MPICH that DMTCP can restart, ch3 or ch4:ofi (CVC_MPICH_ROOT)"
            }
            Self::OpenMpi => "Open MPI",
            Self::Chromium => "Chromium",
            Self::Strace => "strace",
            Self::Perf => "linux-perf",
            Self::DfTracer => "DFTracer (brought by the set-up, or CVC_DFTRACER_LIB)",
            Self::Hdf5Parallel => "parallel HDF5",
            Self::Npb => "NAS Parallel Benchmarks (CVC_NPB_DIR)",
            Self::Lammps => "LAMMPS",
            Self::Lulesh => "LULESH (CVC_LULESH_DIR)",
            Self::Pigz => "pigz",
            Self::TrainingWithTorch => {
                "the system's Python 3 with mpi4py, h5py, scikit-learn and PyTorch (apt-get install python3-torch)"
            }
            Self::Keras => "an active virtual environment with TensorFlow (VIRTUAL_ENV)",
            Self::Tmpfs => "the right to mount a tmpfs (root)",
            Self::Latex => "LaTeX (pdflatex or tectonic)",
            Self::Python => "python3",
            Self::Training => {
                "the system's Python 3 with mpi4py, h5py and scikit-learn (apt-get install python3-mpi4py python3-h5py python3-sklearn)"
            }
            Self::Plotting => {
                "python3 with pandas and matplotlib (Debian, Ubuntu: python3-pandas, python3-matplotlib)"
            }
            Self::CargoDeny => "cargo-deny",
            Self::MdBook => "mdBook (cargo install mdbook)",
            Self::RoCrateValidator => {
                "roc-validator (rocrate-validator on PATH, or CVC_ROCRATE_VALIDATOR)"
            }
            Self::Ansible => "ansible-core (on PATH, or installed by the set-up)",
            Self::AnsibleLint => "ansible-lint (on PATH, or installed by the set-up)",
            Self::LoopDevices => "loop devices",
            Self::Moto => "moto with its server (installed by the set-up)",
            Self::Mpich5 => "MPICH 5 (installed by the set-up, or CVC_MPICH5)",
            Self::Portuguese => {
                "the Portuguese locale and the translations of the C library (Debian, Ubuntu: locales)"
            }
            Self::Slurm => "Slurm on a lab (slurmctld, slurmd, slurm-client, munge)",
            Self::Gluster => "GlusterFS on a lab (glusterfs-server, glusterfs-client, FUSE)",
            Self::MooseFs => {
                "MooseFS on a lab (moosefs-master, moosefs-chunkserver, moosefs-client, FUSE)"
            }
            Self::Disks => "disks for a lab (loop devices, ext4, util-linux, e2fsprogs)",
            Self::LabImage => "a minimal image for a lab (mmdebstrap, apt-utils, apt)",
            Self::SlurmAccounting => "Slurm on a lab with accounting (slurmdbd, mariadb-server)",
            Self::Lab => "a lab of nodes (root, namespaces, overlayfs, sshd, iproute2)",
        }
    }
}

/// Finds a program of Ansible on PATH or in a private environment, `ansible-VERSION` in the cache of cvc.
fn find_ansible_program(name: &str) -> Option<PathBuf> {
    let cache = crate::user_cache::user_cache()?.join("cvc");
    let environments = std::fs::read_dir(cache)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path());
    let mine = environments.filter(|p| {
        p.file_name()
            .is_some_and(|n| n.to_string_lossy().starts_with("ansible-"))
    });
    on_path(name)
        .into_iter()
        .chain(mine.map(|e| e.join("bin").join(name)))
        .find(|p| p.is_file())
}

/// Returns the path of DFTracer's library for preloading: the one that the variable names, or that of `dftracer-VERSION` in cvc's cache.
fn find_dftracer() -> Option<PathBuf> {
    let cache = crate::user_cache::user_cache()?.join("cvc");
    let brought = std::fs::read_dir(cache)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("dftracer-"))
        .flat_map(|entry| ["lib64", "lib"].map(|lib| entry.path().join("dftracer").join(lib)))
        .map(|lib| lib.join("libdftracer_preload.so"));
    let given = env::var_os("CVC_DFTRACER_LIB").map(PathBuf::from);
    given.into_iter().chain(brought).find(|p| p.is_file())
}

/// Returns the system's Python if it has these modules. Another Python on PATH is ignored, because it lacks the distribution's packages.
fn has_modules(modules: &str) -> Option<PathBuf> {
    modules_of(PathBuf::from("/usr/bin/python3"), modules)
}

/// Returns this Python if it has these modules.
fn modules_of(python: PathBuf, modules: &str) -> Option<PathBuf> {
    let mut command = Command::new(&python);
    command.args(["-c", &format!("import {modules}")]);
    let is_there = command.output().is_ok_and(|o| o.status.success());
    is_there.then_some(python)
}

/// Returns the path of the first of these launchers whose `--version` contains this word.
fn find_launcher(names: &[&str], word: &str) -> Option<PathBuf> {
    names
        .iter()
        .filter_map(|n| on_path(n))
        .find(|p| version_mentions(p, word))
}

fn version_mentions(program: &Path, word: &str) -> bool {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(word))
}

/// Checks whether a tmpfs can be mounted: in a container, being root is not enough.
fn can_mount() -> bool {
    let Ok(dir) = tempfile::tempdir() else {
        return false;
    };
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(args)
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|s| s.success())
    };
    run("mount", &["-t", "tmpfs", "-o", "size=64k", "cvc-test"]) && run("umount", &[])
}

/// Returns whether a tool is present; reports the test as skipped if it is not.
pub fn is_there(tool: Tool, test: &str) -> bool {
    if tool.find().is_some() {
        return true;
    }
    match tool.reason() {
        Some(reason) => skipped(test, &format!("{}: {reason}", tool.name())),
        None => skipped(test, tool.name()),
    }
    false
}

/// Reports a test as skipped: one line on standard error, and one in the file that [`LOG`] names.
pub fn skipped(test: &str, needs: &str) {
    let line = format!("SKIPPED {test}: needs {needs}\n");
    // not with eprintln!, whose output the test harness hides if a test passes; and in one write, so that lines of parallel tests are not mixed
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = env::var_os(LOG).filter(|l| !l.is_empty()) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap_or_else(|e| panic!("{}: {e}", log.display()));
        file.write_all(line.as_bytes())
            .unwrap_or_else(|e| panic!("{}: {e}", log.display()));
    }
}

/// Returns the path of a test, from the type name of an item in the test.
pub fn test_path(inner: &'static str) -> &'static str {
    inner
        .trim_end_matches("::here")
        .trim_end_matches("::{{closure}}")
}

/// Skips the test visibly if one of the tools is missing. Use this macro in the test function itself, because the macro returns from the function.
#[macro_export]
macro_rules! require {
    ($($tool:expr),+ $(,)?) => {{
        fn here() {}
        let test = $crate::tool::test_path(::std::any::type_name_of_val(&here));
        $(if !$crate::tool::is_there($tool, test) { return; })+
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls the parts of `require!` for a tool that no machine has.
    #[test]
    fn a_skipped_test_is_named_and_counted() {
        fn here() {}
        let path = test_path(std::any::type_name_of_val(&here));
        assert_eq!(
            path,
            "cvc_testkit::tool::tests::a_skipped_test_is_named_and_counted"
        );
        if env::var_os("CVC_TESTKIT_INNER").is_some() {
            skipped(path, "a tool that no machine has");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("skipped.log");
        let finished = Command::new(env::current_exe().expect("this test"))
            .args([
                "--exact",
                "tool::tests::a_skipped_test_is_named_and_counted",
            ])
            .env("CVC_TESTKIT_INNER", "1")
            .env(LOG, &log)
            .output()
            .expect("starts");
        let line = format!("SKIPPED {path}: needs a tool that no machine has\n");
        assert!(
            finished.status.success() && String::from_utf8_lossy(&finished.stderr).contains(&line),
            "{finished:?}"
        );
        assert_eq!(std::fs::read_to_string(&log).expect("the log"), line);
    }
}
