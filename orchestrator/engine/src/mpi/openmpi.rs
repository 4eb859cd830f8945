//! Open MPI 4 and 5: mpirun, and OMPIO's or ROMIO's settings.

use super::{
    io_evidence::{IoEvidence, LaunchOutput},
    launch::{Launch, LaunchRequest},
    launcher::{Ask, Features, Launcher, MpiInstall},
    missing::Missing,
    romio,
};
use crate::{render::Template, transport::Transport};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::campaign::{MpiIo, MpiLibrary};
use cvc_core::io_settings::FCOLL;
use std::collections::BTreeSet;

/// Template of Open MPI's host file for one node.
const HOSTS: Template = Template::new(
    "launch/hosts.openmpi.hbs",
    include_str!("../../../../templates/launch/hosts.openmpi.hbs"),
);

/// Template of Open MPI's rank file for several nodes, used if threads are bound.
const RANKS: Template = Template::new(
    "launch/ranks.openmpi.hbs",
    include_str!("../../../../templates/launch/ranks.openmpi.hbs"),
);

/// An MCA parameter with its value. The name is as in `--mca` and `OMPI_MCA_…`.
type Parameter = (&'static str, String);

/// Names of common parameters of the runtime system: ORTE in version 4, PRRTE in 5.
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

/// Returns whether this is Open MPI 5 or later, which uses PRRTE.
fn has_prrte(install: &MpiInstall) -> bool {
    install
        .version
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok())
        .is_some_and(|major| major >= 5)
}

/// Variables without which mpirun refuses to run for root. The first ones are for ORTE, the others for PRRTE.
const ALLOW_ROOT: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];
/// Number of variables in [`ALLOW_ROOT`] that ORTE reads.
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
            .next_to_launcher("ompi_info")
            .or_else(|| ask.next_to_launcher("ompi_info.openmpi"))
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
                "this Open MPI has no ROMIO component, but the campaign requests `io = \"romio\"`",
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
        let hosts = match (by_sequence(request), request.bound_threads()) {
            (true, Some(_)) => RANKS,
            (true, None) => Template::HOSTS_BY_RANK,
            (false, _) => HOSTS,
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
        launch.argv = vec![install.mpiexec.to_string()];
        launch.argv.extend(placing_args(install, request));
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
        // with the tree fence of Slurm's PMIx plugin 10 of 180 starts of Open MPI 4.1.4 over two nodes died in MPI_Init because of a message from a
        // rank that was ahead (a null call-back in btl_tcp); without this setting 4 of 250 did, with the ring fence 0 of 360
        launch.env("SLURM_PMIX_FENCE", "ring");
        // srun has no --mca: set the same parameters by environment variables
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
        output: &LaunchOutput<'_>,
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
        // the variables have no effect for users other than root
        &ALLOW_ROOT
    }

    fn hang_hint(&self) -> &'static str {
        "give the `interface` between the nodes, and make sure that no firewall separates them"
    }

    fn silence_is_inconclusive(&self) -> bool {
        // observed in successful runs of the same launcher: in a login's environment mpirun may start no daemon at all
        true
    }
}

fn runtime(install: &MpiInstall) -> Runtime {
    if has_prrte(install) { PRRTE } else { ORTE }
}

/// Returns whether ranks are mapped in sequence. Mapping by slots begins with the node on which mpirun runs, whatever its position in the host file;
/// mapping by sequence keeps the given order.
fn by_sequence(request: &LaunchRequest) -> bool {
    request.transport != Transport::Local
}

/// Returns the number of processes in addition to ranks: mpirun, which is also the daemon of its own node, and the processes that it starts.
fn launcher_processes(request: &LaunchRequest) -> u32 {
    let daemons = request.other_nodes();
    match request.transport {
        Transport::Local => 1,
        Transport::Ssh => 1 + daemons,
        // and the srun that starts the daemons
        Transport::Slurm(_) => 1 + daemons + u32::from(daemons > 0),
    }
}

/// Returns parameters of the runtime system that starts daemons and ranks.
fn runtime_parameters(install: &MpiInstall, request: &LaunchRequest) -> Vec<Parameter> {
    let runtime = runtime(install);
    // several jobs on one node collide in the shared default directory: under DMTCP all of them have the same process ids
    let mut set = vec![(runtime.tmpdir, request.tmp_dir.to_string())];
    match request.transport {
        Transport::Local => {}
        Transport::Ssh => set.extend([
            (runtime.agent, request.ssh_wrapper().into_string()),
            // start every daemon from here: only this node has the wrapper, and an intermediate node could be lost
            (runtime.no_tree, "1".to_owned()),
            // set explicitly, because inside another batch job another component would be chosen
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
        // nodes must come from Slurm's job, or daemons start on other nodes than their ranks are mapped to; the host file selects among them
        Transport::Slurm(_) => set.push(("plm", "slurm".to_owned())),
    }
    set.extend(
        request
            .network_interface()
            .map(|interface| (runtime.interface, interface.to_owned())),
    );
    set
}

/// Returns the launcher's arguments that place and bind ranks.
fn placing_args(install: &MpiInstall, request: &LaunchRequest) -> Vec<String> {
    let hosts = request.run_dir.join("hosts").into_string();
    let hostfile = ["--hostfile".to_owned(), hosts.clone()];
    let (threads, to) = (request.bound_threads(), request.bound_to());
    let by = match (by_sequence(request), threads) {
        // a rank file assigns each rank to cores of a node
        (true, Some(_)) if has_prrte(install) => {
            return ["--map-by".to_owned(), format!("rankfile:FILE={hosts}")].into();
        }
        (true, Some(_)) => return ["--rankfile".to_owned(), hosts].into(),
        (true, None) => "seq".to_owned(),
        (false, Some(threads)) => format!("slot:PE={threads}"),
        (false, None) => "slot".to_owned(),
    };
    let mut words = Vec::from(hostfile);
    words.extend([
        "--bind-to".to_owned(),
        threads.map_or("none", |_| to).to_owned(),
    ]);
    if threads.is_some() && request.hardware_threads {
        words.push("--use-hwthread-cpus".to_owned());
    }
    let (by, option) = match (has_prrte(install), request.oversubscribe) {
        (true, true) if by.contains(':') => (format!("{by},OVERSUBSCRIBE"), None),
        (true, true) => (format!("{by}:OVERSUBSCRIBE"), None),
        (false, true) => (by, Some("--oversubscribe".to_owned())),
        (true | false, false) => (by, None),
    };
    words.extend(["--map-by".to_owned(), by]);
    words.extend(option);
    words
}

/// Returns parameters of the library itself, for any launcher.
fn parameters(
    install: &MpiInstall,
    request: &LaunchRequest,
    launch: &mut Launch,
) -> Vec<Parameter> {
    let mut set: Vec<Parameter> = Vec::new();
    if request.oversubscribed() {
        // ranks that share a core must yield it while they wait: a message then takes microseconds instead of 20 ms
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
    if request.sets_io() {
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
            // this logs the component selected for each opened file to standard error, as evidence
            set.push(("io_base_verbose", "10".into()));
            set.push(("fcoll_base_verbose", "10".into()));
            set.extend(requested_fcoll(request).map(|fcoll| (FCOLL, fcoll.to_owned())));
            if let Some(aggregators) = request.aggregators {
                set.push(("io_ompio_num_aggregators", aggregators.to_string()));
            }
            if let Some(buffer) = request.cb_buffer {
                set.push(("io_ompio_bytes_per_agg", buffer.0.to_string()));
            }
            let settings = request.io_of(MpiIo::Ompio).filter(|of| of.key != FCOLL);
            set.extend(settings.map(|of| (of.key, of.value.clone())));
        }
    }
}

/// Returns the component for collective I/O that the settings require.
fn requested_fcoll(request: &LaunchRequest) -> Option<&str> {
    let mut settings = request.io_of(MpiIo::Ompio);
    let named = settings.find(|of| of.key == FCOLL);
    // choose the component that respects the number of aggregators; others always write from one rank
    let buffers = request.aggregators.is_some() || request.cb_buffer.is_some();
    named
        .map(|of| of.value.as_str())
        .or(buffers.then_some("vulcan"))
}

/// Compares the settings of OMPIO with the components that it selected and the number of ranks that wrote.
fn check_ompio(
    install: &MpiInstall,
    request: &LaunchRequest,
    output: &LaunchOutput<'_>,
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
                // exclude `component dynamic is not selected`
                .filter(|name| !name.contains(' '))
                .map(str::to_owned)
        })
        .collect();
    seen.selected.extend(
        io.iter()
            .map(|c| format!("io {c}"))
            .chain(fcoll.iter().map(|c| format!("fcoll {c}"))),
    );
    let fcoll_wanted = requested_fcoll(request);
    if fcoll_wanted.is_some() || request.io_of(MpiIo::Ompio).next().is_some() {
        if io.is_empty() {
            seen.unseen
                .push("OMPIO did not report that it opened a file".into());
        } else if io.iter().any(|c| c != "ompio") {
            seen.ignored.push(format!(
                "io ompio requested, but Open MPI selected {}",
                Vec::from_iter(io.clone()).join(" and ")
            ));
        }
    }
    if let Some(wanted) = fcoll_wanted {
        if fcoll.is_empty() && !io.is_empty() {
            seen.unseen
                .push("OMPIO did not report which fcoll component it selected".into());
        } else if !fcoll.is_empty() && !fcoll.contains(wanted) {
            seen.ignored.push(format!(
                "fcoll {wanted} requested, but Open MPI selected {}",
                Vec::from_iter(fcoll).join(" and ")
            ));
        }
    }
    let settings = request
        .io_of(MpiIo::Ompio)
        .filter_map(|of| Some((of.key.strip_prefix("io_ompio_")?, &of.value)));
    let settings: Vec<(&str, &String)> = settings.collect();
    // this version silently accepts a parameter that it does not have
    let asked = [
        ("num_aggregators", request.aggregators.is_some()),
        ("bytes_per_agg", request.cb_buffer.is_some()),
    ];
    let set = asked.into_iter().filter(|(_, asked)| *asked);
    let set = set.map(|(name, _)| name);
    for name in set
        .chain(settings.iter().map(|(name, _)| *name))
        .filter(|name| !install.ompio_parameters.iter().any(|p| p == name))
    {
        seen.ignored.push(format!(
            "this Open MPI has no parameter io_ompio_{name} (ompi_info --param io ompio --level 9)"
        ));
    }
    seen.unobservable
        .extend(settings.iter().map(|(name, value)| {
            format!("io_ompio_{name} = {value}: OMPIO does not report what it used")
        }));
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
    // OMPIO does not report the number of aggregators: the number of ranks that wrote is the evidence
    seen.aggregators = output.writers;
}
