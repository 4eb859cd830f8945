//! Open MPI 4 and 5: mpirun, and OMPIO's or ROMIO's settings.

use super::{
    io_evidence::{IoEvidence, Output},
    launch::{Launch, LaunchRequest},
    launcher::{Ask, Features, Launcher, MpiInstall},
    missing::Missing,
    romio,
};
use crate::{render::Template, transport::Transport};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::campaign::{MpiIo, MpiLibrary};
use std::collections::BTreeSet;

/// Host file of Open MPI on one node.
const HOSTS: Template = Template::new(
    "launch/hosts.openmpi.hbs",
    include_str!("../../../../templates/launch/hosts.openmpi.hbs"),
);

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
    install
        .version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok())
        .is_some_and(|major| major >= 5)
}

/// Variables without which mpirun refuses to work for root; the first are of ORTE, the rest of PRRTE.
const ALLOW_ROOT: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];
/// Number of those that ORTE reads.
const ALLOW_ROOT_ORTE: usize = 2;

/// Open MPI, with mpirun.
pub(super) struct OpenMpi;

#[async_trait]
impl Launcher for OpenMpi {
    fn name(&self) -> &'static str {
        "openmpi"
    }

    fn title(&self) -> &'static str {
        "Open MPI"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["mpirun.openmpi", "mpiexec.openmpi"]
    }

    fn marks(&self) -> &'static [&'static str] {
        &["Open MPI", "OpenRTE", "PRRTE"]
    }

    fn packages(&self) -> (&'static str, &'static str) {
        ("openmpi-bin", "libopenmpi-dev")
    }

    fn version(&self, answer: &str) -> Option<String> {
        let mut words = answer.split_whitespace();
        words
            .find(|w| w.starts_with(|c: char| c.is_ascii_digit()) && w.contains('.'))
            .map(str::to_owned)
    }

    async fn ask_features(
        &self,
        ask: &Ask<'_>,
        _: &str,
        library: &MpiLibrary,
    ) -> Result<Features, Missing> {
        let info = ask
            .beside("ompi_info")
            .or_else(|| ask.beside("ompi_info.openmpi"))
            .map_or("ompi_info".into(), Utf8PathBuf::into_string);
        let parameters = ask
            .run(&[
                &info,
                "--parsable",
                "--param",
                "io",
                "ompio",
                "--level",
                "9",
            ])
            .await
            .unwrap_or_default();
        let mut ompio_parameters: Vec<String> = parameters
            .lines()
            .filter_map(|l| {
                l.trim()
                    .strip_prefix("mca:io:ompio:param:io_ompio_")?
                    .split(':')
                    .next()
            })
            .map(str::to_owned)
            .collect();
        ompio_parameters.dedup();
        let components = ask
            .run(&[&info, "--parsable", "--component", "io:all"])
            .await
            .unwrap_or_default();
        let components = if components.contains("mca:io:") {
            components
        } else {
            ask.run(&["ompi_info", "--parsable"])
                .await
                .unwrap_or_default()
        };
        let romio_component = components
            .lines()
            .filter_map(|l| l.trim().strip_prefix("mca:io:")?.split(':').next())
            .find(|c| c.starts_with("romio"))
            .map(str::to_owned);
        let io = library.io.unwrap_or(MpiIo::Ompio);
        if io == MpiIo::Romio && romio_component.is_none() {
            return Err(ask.unusable(
                "this Open MPI has no ROMIO component, and the campaign asks for `io = \"romio\"`",
            ));
        }
        Ok(Features {
            device: None,
            io,
            romio_component,
            ompio_parameters,
        })
    }

    fn launch(&self, install: &MpiInstall, request: &LaunchRequest) -> Launch {
        let option = runtime(install).option;
        let hosts = if by_sequence(request) {
            Template::HOSTS_BY_RANK
        } else {
            HOSTS
        };
        let mut launch = Launch {
            files: vec![("hosts", hosts)],
            launcher_processes: launcher_processes(request),
            ..Launch::default()
        };
        match request.transport {
            Transport::Local => {}
            Transport::Ssh => launch.add_ssh_wrapper(),
            Transport::Slurm(_) => launch.configure_inner_srun(),
        }
        let hostfile = request.run_dir.join("hosts").into_string();
        launch.argv = vec![
            install.mpiexec.to_string(),
            "--hostfile".into(),
            hostfile,
            "--bind-to".into(),
            "none".into(),
        ];
        for (name, value) in runtime_parameters(install, request) {
            launch
                .argv
                .extend([option.to_owned(), name.to_owned(), value]);
        }
        for (name, value) in parameters(install, request, &mut launch) {
            launch
                .argv
                .extend(["--mca".to_owned(), name.to_owned(), value]);
        }
        if request.transport != Transport::Local {
            launch.argv.extend(
                request
                    .export
                    .iter()
                    .flat_map(|name| ["-x".to_owned(), name.clone()]),
            );
        }
        launch.argv.extend(mapping_args(install, request));
        launch
            .argv
            .extend(["-np".into(), request.mapping.processes().to_string()]);
        if nix::unistd::geteuid().is_root() {
            let count = if has_prrte(install) {
                ALLOW_ROOT.len()
            } else {
                ALLOW_ROOT_ORTE
            };
            for (name, value) in &ALLOW_ROOT[..count] {
                launch.env(name, *value);
            }
        }
        launch
    }

    fn srun_plugin(&self) -> &'static str {
        "pmix"
    }

    fn configure_srun(&self, install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch) {
        // with the tree fence of Slurm's PMIx plugin 10 of 180 starts of Open MPI 4.1.4 over two nodes died in MPI_Init by a message from a
        // rank that was ahead (a null call-back in btl_tcp), and 4 of 250 without a choice; with the ring 0 of 360
        launch.env("SLURM_PMIX_FENCE", "ring");
        // srun takes no --mca: the same parameters by their variables
        for (name, value) in parameters(install, request, launch) {
            launch.env(&format!("OMPI_MCA_{name}"), value);
        }
    }

    fn rank_env(&self, name: &str, value: &str) -> Vec<String> {
        vec!["-x".to_owned(), format!("{name}={value}")]
    }

    fn check_io(
        &self,
        install: &MpiInstall,
        request: &LaunchRequest,
        output: &Output<'_>,
        seen: &mut IoEvidence,
    ) {
        match install.io {
            MpiIo::Romio => romio::check(request, output.stdout, seen),
            MpiIo::Ompio => check_ompio(install, request, output, seen),
        }
    }

    fn sieves_writes(&self) -> bool {
        true
    }

    fn anonymous_env(&self) -> &'static [(&'static str, &'static str)] {
        // to a user who is not root they mean nothing
        &ALLOW_ROOT
    }

    fn hang_hint(&self) -> &'static str {
        "give the `interface` between the nodes, and make sure that no firewall separates them"
    }

    fn silence_is_inconclusive(&self) -> bool {
        // seen where runs of the same launcher went well: in a login's environment mpirun may start no daemon at all
        true
    }
}

fn runtime(install: &MpiInstall) -> Runtime {
    if has_prrte(install) { PRRTE } else { ORTE }
}

/// Whether ranks are placed one by one: by slots Open MPI begins with the node on which mpirun runs, wherever the host file has it; by
/// sequence it does as it is told.
fn by_sequence(request: &LaunchRequest) -> bool {
    request.transport != Transport::Local
}

/// mpirun, and what it starts beside ranks; it is itself the daemon of its own node.
fn launcher_processes(request: &LaunchRequest) -> u32 {
    let daemons = request.other_nodes();
    match request.transport {
        Transport::Local => 1,
        Transport::Ssh => 1 + daemons,
        // and srun, which starts them
        Transport::Slurm(_) => 1 + daemons + u32::from(daemons > 0),
    }
}

/// Parameters of the runtime that starts daemons and ranks.
fn runtime_parameters(install: &MpiInstall, request: &LaunchRequest) -> Vec<Parameter> {
    let runtime = runtime(install);
    // several jobs on one node collide in the shared default: under DMTCP all of them have the same process ids
    let mut set = vec![(runtime.tmpdir, request.tmp_dir.to_string())];
    match request.transport {
        Transport::Local => {}
        Transport::Ssh => set.extend([
            (runtime.agent, request.ssh_wrapper().into_string()),
            // every daemon is started from here: the wrapper is on this node, and a node on the way could be lost
            (runtime.no_tree, "1".to_owned()),
            // named, because inside somebody's batch job another would be chosen
            (
                "plm",
                if has_prrte(install) {
                    "ssh".to_owned()
                } else {
                    "rsh".to_owned()
                },
            ),
            ("ras", "^slurm".to_owned()),
        ]),
        // the job's nodes come from Slurm, or daemons are started on other nodes than their ranks are mapped to; the host file chooses
        Transport::Slurm(_) => set.push(("plm", "slurm".to_owned())),
    }
    set.extend(
        request
            .network_interface()
            .map(|interface| (runtime.interface, interface.to_owned())),
    );
    set
}

/// How ranks are placed.
fn mapping_args(install: &MpiInstall, request: &LaunchRequest) -> Vec<String> {
    let by = if by_sequence(request) { "seq" } else { "slot" };
    let words = match (has_prrte(install), request.oversubscribe) {
        (true, true) => return vec!["--map-by".to_owned(), format!("{by}:OVERSUBSCRIBE")],
        (true, false) | (false, false) => vec!["--map-by", by],
        (false, true) => vec!["--map-by", by, "--oversubscribe"],
    };
    words.into_iter().map(str::to_owned).collect()
}

/// Parameters of the library itself, whoever starts it.
fn parameters(
    install: &MpiInstall,
    request: &LaunchRequest,
    launch: &mut Launch,
) -> Vec<Parameter> {
    let mut set: Vec<Parameter> = Vec::new();
    if request.oversubscribed() {
        // ranks that share a core must give it up while they wait: microseconds instead of 20 ms for each message
        set.push(("mpi_yield_when_idle", "1".into()));
    }
    let shared_memory = if has_prrte(install) {
        "btl_sm_backing_directory"
    } else {
        "btl_vader_backing_directory"
    };
    set.push((shared_memory, request.tmp_dir.to_string()));
    if let Some(interface) = request.network_interface() {
        set.push(("btl_tcp_if_include", interface.to_owned()));
    }
    if request.collective_io {
        io(install, request, launch, &mut set);
    }
    set
}

fn io(
    install: &MpiInstall,
    request: &LaunchRequest,
    launch: &mut Launch,
    set: &mut Vec<Parameter>,
) {
    match install.io {
        MpiIo::Romio => {
            if let Some(component) = &install.romio_component {
                set.push(("io", component.clone()));
            }
            romio::configure(request, launch);
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

/// Compares what OMPIO was told with the components that it selected and with the ranks that wrote.
fn check_ompio(
    install: &MpiInstall,
    request: &LaunchRequest,
    output: &Output<'_>,
    seen: &mut IoEvidence,
) {
    let after = |mark: &str| -> BTreeSet<String> {
        output
            .stderr
            .lines()
            .filter_map(|l| Some(l.split_once(mark)?.1.split_whitespace().next()?.to_owned()))
            .collect()
    };
    let io = after("Selected io module ");
    let fcoll: BTreeSet<String> = output
        .stderr
        .lines()
        .filter_map(|l| {
            l.split_once("select: component ")?
                .1
                .strip_suffix(" selected")
                .map(str::to_owned)
        })
        .collect();
    seen.selected.extend(
        io.iter()
            .map(|c| format!("io {c}"))
            .chain(fcoll.iter().map(|c| format!("fcoll {c}"))),
    );
    if request.aggregators.is_some() || request.cb_buffer.is_some() {
        if io.is_empty() {
            seen.unseen
                .push("OMPIO did not report that it opened a file".into());
        } else if io.iter().any(|c| c != "ompio") {
            seen.ignored.push(format!(
                "io ompio requested, but Open MPI selected {}",
                Vec::from_iter(io.clone()).join(" and ")
            ));
        }
        if fcoll.is_empty() && !io.is_empty() {
            seen.unseen
                .push("OMPIO did not report which fcoll component it selected".into());
        } else if !fcoll.is_empty() && !fcoll.contains("vulcan") {
            seen.ignored.push(format!(
                "fcoll vulcan requested, but Open MPI selected {}",
                Vec::from_iter(fcoll).join(" and ")
            ));
        }
    }
    // a parameter that this version does not have is accepted without a word
    let asked = [
        ("num_aggregators", request.aggregators.is_some()),
        ("bytes_per_agg", request.cb_buffer.is_some()),
    ];
    for (name, _) in asked
        .iter()
        .filter(|(name, asked)| *asked && !install.ompio_parameters.iter().any(|p| p == name))
    {
        seen.ignored.push(format!(
            "this Open MPI has no parameter io_ompio_{name} (ompi_info --param io ompio --level 9)"
        ));
    }
    if let Some(buffer) = request.cb_buffer {
        seen.unobservable.push(format!(
            "io_ompio_bytes_per_agg = {}: OMPIO does not report what it used",
            buffer.0
        ));
    }
    if let (Some(aggregators), None) = (request.aggregators, output.writers) {
        seen.unobservable.push(format!(
            "io_ompio_num_aggregators = {aggregators}: this program does not count its writers, and OMPIO does not report them"
        ));
    }
    // OMPIO tells no number of its own: the ranks that wrote are the evidence
    seen.aggregators = output.writers;
}
