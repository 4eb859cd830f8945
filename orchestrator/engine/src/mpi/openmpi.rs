//! Open MPI 4 and 5: mpirun, and OMPIO's or ROMIO's settings.

use super::{Launch, LaunchRequest, MpiInstall, Reach, mpich};
use crate::render::Template;
use cvc_core::campaign::MpiIo;

/// An MCA parameter, as `--mca` and `OMPI_MCA_…` know it.
type Parameter = (&'static str, String);

/// How the runtime (ORTE in 4, PRRTE in 5) calls what both have.
struct Runtime {
    /// Option that sets a parameter of the runtime.
    option: &'static str,
    agent: &'static str,
    no_tree: &'static str,
    tmpdir: &'static str,
    interface: &'static str,
}

const ORTE: Runtime = Runtime {
    option: "--mca",
    agent: "plm_rsh_agent",
    no_tree: "plm_rsh_no_tree_spawn",
    tmpdir: "orte_tmpdir_base",
    interface: "oob_tcp_if_include",
};

const PRRTE: Runtime = Runtime {
    option: "--prtemca",
    agent: "plm_ssh_agent",
    no_tree: "plm_ssh_no_tree_spawn",
    tmpdir: "prte_tmpdir_base",
    interface: "prte_if_include",
};

/// Whether this is Open MPI 5 or newer, with PRRTE.
fn has_prrte(install: &MpiInstall) -> bool {
    install.version.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 5)
}

pub(super) fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let runtime = if has_prrte(install) { PRRTE } else { ORTE };
    // by slots Open MPI begins with the node on which mpirun runs, wherever the host file has it; by sequence it does as it is told
    let sequence = request.reach != Reach::Local;
    let hosts = if sequence { Template::HostsByRank } else { Template::HostsOpenMpi };
    let mut launch = Launch { files: vec![("hosts", hosts)], launcher_processes: 1, ..Launch::default() };
    let mut argv = vec![
        install.mpiexec.to_string(),
        "--hostfile".into(),
        request.run_dir.join("hosts").into_string(),
        "--bind-to".into(),
        "none".into(),
    ];
    let mut set = |name: &str, value: String| argv.extend([runtime.option.to_owned(), name.to_owned(), value]);
    // several jobs on one node collide in the shared default: under DMTCP all of them have the same process ids
    set(runtime.tmpdir, request.tmp_dir.to_string());
    match &request.reach {
        Reach::Local => {}
        Reach::Ssh { wrapper } => {
            launch.files.push((super::SSH_WRAPPER, Template::SshWrapper));
            set(runtime.agent, wrapper.to_string());
            // every daemon is started from here: the wrapper is on this node, and a node on the way could be lost
            set(runtime.no_tree, "1".into());
            // named, because inside somebody's batch job another would be chosen
            set("plm", if has_prrte(install) { "ssh".into() } else { "rsh".into() });
            set("ras", "^slurm".into());
            // the daemons; mpirun is the one of its own node
            launch.launcher_processes += request.other_nodes();
        }
        Reach::Slurm { .. } => {
            // the job's nodes come from Slurm, or daemons are started on other nodes than their ranks are mapped to; the host file chooses
            set("plm", "slurm".into());
            super::srun_settings(&mut launch);
            // srun, and the daemons
            launch.launcher_processes += request.other_nodes() + u32::from(request.other_nodes() > 0);
        }
    }
    if let (Some(interface), false) = (&request.interface, request.reach == Reach::Local) {
        set(runtime.interface, interface.clone());
    }
    for (name, value) in library(install, request, &mut launch) {
        argv.extend(["--mca".to_owned(), name.to_owned(), value]);
    }
    if request.reach != Reach::Local {
        for name in &request.export {
            argv.extend(["-x".to_owned(), name.clone()]);
        }
    }
    let by = if sequence { "seq" } else { "slot" };
    if has_prrte(install) {
        let by = if request.oversubscribe { format!("{by}:OVERSUBSCRIBE") } else { by.to_owned() };
        argv.extend(["--map-by".to_owned(), by]);
    } else {
        argv.extend(["--map-by", by].map(String::from));
        if request.oversubscribe {
            argv.push("--oversubscribe".into());
        }
    }
    argv.extend(["-np".into(), request.mapping.processes().to_string()]);
    launch.argv = argv;
    if nix::unistd::geteuid().is_root() {
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            launch.env(name, "1");
        }
        if has_prrte(install) {
            for name in ["PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                launch.env(name, "1");
            }
        }
    }
    launch
}

/// What the library itself is told, whoever starts it.
pub(super) fn library(install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch) -> Vec<Parameter> {
    let mut set: Vec<Parameter> = Vec::new();
    if request.oversubscribed() {
        // ranks that share a core must give it up while they wait: microseconds instead of 20 ms for each message
        set.push(("mpi_yield_when_idle", "1".into()));
    }
    let shared_memory = if has_prrte(install) { "btl_sm_backing_directory" } else { "btl_vader_backing_directory" };
    set.push((shared_memory, request.tmp_dir.to_string()));
    if let (Some(interface), false) = (&request.interface, request.reach == Reach::Local) {
        set.push(("btl_tcp_if_include", interface.clone()));
    }
    if request.collective_io {
        io(install, request, launch, &mut set);
    }
    set
}

fn io(install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch, set: &mut Vec<Parameter>) {
    match install.io {
        MpiIo::Romio => {
            if let Some(component) = &install.romio_component {
                set.push(("io", component.clone()));
            }
            mpich::romio(request, launch);
        }
        MpiIo::Ompio => {
            set.push(("io", "ompio".into()));
            // what each opened file really selected goes to standard error: the evidence
            set.push(("io_base_verbose", "10".into()));
            set.push(("fcoll_base_verbose", "10".into()));
            if request.aggregators.is_some() || request.cb_buffer.is_some() {
                // the component that keeps to the number of aggregators; others write from one rank whatever is asked
                set.push(("fcoll", "vulcan".into()));
            }
            if let Some(aggregators) = request.aggregators {
                set.push(("io_ompio_num_aggregators", aggregators.to_string()));
            }
            if let Some(buffer) = request.cb_buffer {
                set.push(("io_ompio_bytes_per_agg", buffer.0.to_string()));
            }
        }
    }
}
