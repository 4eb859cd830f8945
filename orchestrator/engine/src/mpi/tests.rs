//! Tests of each launcher's settings, for each way to reach the other nodes.

use super::*;
use crate::{
    render::{self, Template},
    transport::Transport,
};
use cvc_core::campaign::{MpiFamily, MpiIo, MpiLibrary, MpiSource, SlurmLauncher};

fn install(family: MpiFamily, version: &str) -> MpiInstall {
    MpiInstall {
        name: "m".into(),
        family: launcher(family),
        mpiexec: match family {
            MpiFamily::Mpich => "/opt/mpich/bin/mpiexec".into(),
            MpiFamily::OpenMpi => "/opt/openmpi/bin/mpirun".into(),
        },
        version: version.into(),
        device: (family == MpiFamily::Mpich).then(|| "ch4:ofi".into()),
        io: MpiIo::Romio,
        romio_component: None,
        ompio_parameters: vec![],
        env: Default::default(),
        args: vec![],
    }
}

fn request(mapping: &str, transport: Transport) -> LaunchRequest {
    LaunchRequest {
        mapping: mapping.parse().expect("a mapping"),
        hosts: ["n3", "n1", "n2", "n4"].map(String::from).into(),
        cores_per_node: 2,
        hardware_threads: false,
        aggregators: None,
        cb_buffer: None,
        io: vec![],
        collective_io: false,
        run_dir: "/r".into(),
        tmp_dir: "/t".into(),
        transport,
        interface: Some("eth0".into()),
        oversubscribe: false,
        export: vec!["CVC_RUN".into(), "TMPDIR".into()],
        marker: "r@/c".into(),
    }
}

/// Returns the command as text, without the arguments that only root gets, so that it is the same for all users.
fn show(install: &MpiInstall, request: &LaunchRequest) -> String {
    let launch = launch(install, request);
    let env = launch
        .env
        .iter()
        .filter(|(name, _)| !name.contains("ALLOW_RUN_AS_ROOT"));
    let mut text = format!("{}\n", launch.argv.join(" "));
    env.for_each(|(name, value)| text += &format!("  {name}={value}\n"));
    for (name, template) in &launch.files {
        if template.is_executable() {
            text += &format!("  file {name}, executable\n");
        } else {
            let file = render::render(*template, &file_values(request)).expect("renders");
            text += &format!("  file {name}: {}\n", file.trim_end().replace('\n', " | "));
        }
    }
    text + &format!(
        "  {} processes in addition to the ranks\n",
        launch.launcher_processes
    )
}

#[test]
fn launch_command_lines() {
    let ways = [
        ("one node", Transport::Local),
        ("ssh", Transport::Ssh),
        (
            "the library's own launcher in a Slurm job",
            Transport::Slurm(SlurmLauncher::Library),
        ),
        ("srun", Transport::Slurm(SlurmLauncher::Srun)),
    ];
    let mut text = String::new();
    for (family, version) in [
        (MpiFamily::Mpich, "4.2.1"),
        (MpiFamily::OpenMpi, "4.1.4"),
        (MpiFamily::OpenMpi, "5.0.3"),
    ] {
        for (name, transport) in ways {
            let mapping = if transport == Transport::Local {
                "1Nx2P"
            } else {
                "1Nx2P+2Nx1P"
            };
            text += &format!(
                "== {family:?} {version}, {name}\n{}",
                show(&install(family, version), &request(mapping, transport))
            );
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn nodes_get_more_ranks_than_cores_only_where_that_is_allowed() {
    for (transport, family, word) in [
        (Transport::Ssh, MpiFamily::OpenMpi, "--oversubscribe"),
        (
            Transport::Slurm(SlurmLauncher::Srun),
            MpiFamily::Mpich,
            "--overcommit",
        ),
    ] {
        let mut request = request("2Nx3P", transport);
        let has = |request: &LaunchRequest| {
            launch(&install(family, "4.1.4"), request)
                .argv
                .iter()
                .any(|a| a == word)
        };
        assert!(!has(&request), "{word}");
        request.oversubscribe = true;
        assert!(has(&request), "{word}");
    }
}

#[test]
fn threads_are_bound_by_each_launcher_unless_they_share_cores() {
    const SRUN: Transport = Transport::Slurm(SlurmLauncher::Srun);
    let cases = [
        (
            MpiFamily::Mpich,
            "4.2.1",
            Transport::Local,
            "-bind-to core:2",
        ),
        (MpiFamily::Mpich, "4.2.1", Transport::Ssh, "-bind-to core:2"),
        (
            MpiFamily::OpenMpi,
            "4.1.4",
            Transport::Local,
            "--bind-to core --map-by slot:PE=2",
        ),
        (
            MpiFamily::OpenMpi,
            "4.1.4",
            Transport::Ssh,
            "--rankfile /r/hosts",
        ),
        (
            MpiFamily::OpenMpi,
            "5.0.3",
            Transport::Local,
            "--bind-to core --map-by slot:PE=2",
        ),
        (
            MpiFamily::OpenMpi,
            "5.0.3",
            Transport::Ssh,
            "--map-by rankfile:FILE=/r/hosts",
        ),
        (
            MpiFamily::Mpich,
            "4.2.1",
            SRUN,
            "--cpu-bind=cores --cpus-per-task=2",
        ),
    ];
    for (family, version, transport, words) in cases {
        let install = install(family, version);
        let mapping = if transport == Transport::Local {
            "1Nx1Px2T"
        } else {
            "2Nx1Px2T"
        };
        let mut request = request(mapping, transport);
        let text = show(&install, &request);
        assert!(text.contains(words), "{text}");
        for set in [
            "OMP_NUM_THREADS=2",
            "OMP_PLACES=cores",
            "OMP_PROC_BIND=close",
        ] {
            assert!(text.contains(set), "{text}");
        }
        if words.contains("rank") {
            let ranks = "file hosts: rank 0=n3 slot=0-1 | rank 1=n1 slot=0-1\n";
            assert!(text.contains(ranks), "{text}");
        }
        request.hardware_threads = true;
        let text = show(&install, &request);
        assert!(text.contains("OMP_PLACES=threads"), "{text}");
        // more threads than cores: no binding
        request.cores_per_node = 1;
        request.oversubscribe = true;
        let text = show(&install, &request);
        assert!(!text.contains(words), "{text}");
        assert!(
            text.contains("OMP_PROC_BIND=false") && !text.contains("OMP_PLACES"),
            "{text}"
        );
        // without threads OpenMP gets no settings
        request.mapping = mapping.trim_end_matches("x2T").parse().expect("a mapping");
        assert!(!show(&install, &request).contains("OMP_"));
    }
}

/// Runs the script that replaces ssh, with a fake `ssh` next to it that prints its arguments.
#[test]
fn the_wrapper_of_ssh_understands_both_launchers_and_passes_on_the_marker() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut request = request("2Nx1P", Transport::Ssh);
    request.marker = "r@/a dir".into();
    request.export = vec!["SET".into(), "UNSET".into()];
    let script = dir.path().join(SSH_WRAPPER);
    std::fs::write(
        &script,
        render::render(Template::SSH_WRAPPER, &file_values(&request)).expect("renders"),
    )
    .expect("writes");
    for program in ["ssh", "dmtcp_nocheckpoint"] {
        let program = dir.path().join(program);
        std::fs::write(
            &program,
            "#!/bin/sh\necho ${0##*/}\nfor a; do echo \"<$a>\"; done\n",
        )
        .expect("writes");
        std::fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("executable");
    }
    let path = format!(
        "{}:{}",
        dir.path().display(),
        std::env::var("PATH").expect("PATH")
    );
    let call = |arguments: &[&str], shell: &str, dmtcp: Option<&str>| {
        let mut command = std::process::Command::new("bash");
        command.arg(&script).args(arguments).env_clear().envs([
            ("PATH", path.as_str()),
            ("SHELL", shell),
            ("SET", "a b"),
        ]);
        command.envs(dmtcp.map(|d| ("CVC_DMTCP", format!("{}/{d}", dir.path().display()))));
        let output = command.output().expect("bash");
        let message = String::from_utf8_lossy(&output.stdout)
            .replace(&dir.path().display().to_string(), "DIR");
        format!(
            "{message}{}",
            String::from_utf8_lossy(&output.stderr)
                .replace(&dir.path().display().to_string(), "DIR")
        )
    };
    let hydra = [
        "-x",
        "n2",
        "\"/opt/mpich/bin/hydra_pmi_proxy\"",
        "--control-port",
        "n1:4711",
    ];
    let orted = [
        "n2",
        "PATH=/opt/bin:$PATH ; export PATH ; /opt/bin/orted",
        "-mca",
        "orte_hnp_uri",
        "\"1.0;tcp://10.0.0.1:4711\"",
    ];
    insta::assert_snapshot!(format!(
        "Hydra:\n{}\nin csh:\n{}\nOpen MPI:\n{}\nunder DMTCP:\n{}\n{}\nby hand:\n{}",
        call(&hydra, "/bin/bash", None),
        call(&hydra, "/bin/tcsh", None),
        call(&orted, "/bin/bash", None),
        call(&hydra, "/bin/bash", Some("dmtcp_launch -j -h n1 -p 7779")),
        call(&orted, "/bin/bash", Some("dmtcp_launch -j -h n1 -p 7779")),
        call(&[], "/bin/bash", None),
    ));
}

/// A family that exists only in this test: a launcher, its host file, and its entry in the list of members. No other file mentions it.
struct Toy;

const TOY_HOSTS: Template =
    Template::new("toy", "{{#each nodes}}{{host}}*{{processes}}\n{{/each}}");

#[async_trait::async_trait]
impl Launcher for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn title(&self) -> &'static str {
        "Toy MPI"
    }

    fn programs(&self) -> &'static [&'static str] {
        &["toyrun-of-no-distribution"]
    }

    fn marks(&self) -> &'static [&'static str] {
        &["Toy MPI"]
    }

    fn packages(&self) -> (&'static str, &'static str) {
        ("toy-mpi", "libtoy-mpi-dev")
    }

    fn version(&self, answer: &str) -> Option<String> {
        answer.trim().strip_prefix("Toy MPI ").map(str::to_owned)
    }

    async fn ask_features(
        &self,
        ask: &Ask<'_>,
        _: &str,
        _: &MpiLibrary,
    ) -> Result<Features, Missing> {
        Ok(Features::romio(
            ask.run(&[ask.mpiexec.as_str(), "--device"])
                .await
                .map(|d| d.trim().to_owned()),
        ))
    }

    fn launch(&self, install: &MpiInstall, request: &LaunchRequest) -> Launch {
        let hosts = request.run_dir.join("hosts").into_string();
        let argv = vec![
            install.mpiexec.to_string(),
            "--hosts".into(),
            hosts,
            "--ranks".into(),
            request.mapping.processes().to_string(),
        ];
        let mut launch = Launch {
            argv,
            files: vec![("hosts", TOY_HOSTS)],
            launcher_processes: 1,
            ..Launch::default()
        };
        if request.transport == Transport::Ssh {
            launch
                .argv
                .extend(["--ssh".into(), request.ssh_wrapper().into_string()]);
            launch.add_ssh_wrapper();
        }
        launch
    }

    fn srun_plugin(&self) -> &'static str {
        "toy"
    }

    fn configure_srun(&self, _: &MpiInstall, request: &LaunchRequest, launch: &mut Launch) {
        launch.env("TOY_TMPDIR", request.tmp_dir.to_string());
    }

    fn rank_env(&self, name: &str, value: &str) -> Vec<String> {
        vec!["--env".into(), format!("{name}={value}")]
    }

    fn check_io(
        &self,
        _: &MpiInstall,
        _: &LaunchRequest,
        output: &LaunchOutput<'_>,
        seen: &mut IoEvidence,
    ) {
        seen.aggregators = output.writers;
    }

    fn hang_hint(&self) -> &'static str {
        "wind it up again"
    }
}

/// Returns every family of the registry, each with an answer to `--version`, and this test's family.
fn members() -> Vec<(&'static dyn Launcher, &'static str)> {
    const HYDRA: &str =
        "HYDRA build details:\n    Version:                                 4.2.1\n";
    vec![
        (launcher(MpiFamily::Mpich), HYDRA),
        (
            launcher(MpiFamily::OpenMpi),
            "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
        ),
        (&Toy, "Toy MPI 0.3\n"),
    ]
}

/// Checks the contract of every family, for all ways to start its ranks and to reach their nodes.
#[test]
fn every_launcher_keeps_the_contract() {
    for family in MpiFamily::ALL.iter().copied().map(launcher) {
        assert!(
            members().iter().any(|(member, _)| *member == family),
            "{} is in the registry, its answer is missing here",
            family.name()
        );
    }
    for (family, answer) in members() {
        let name = family.name();
        assert!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()),
            "{name}: names are words of campaign files"
        );
        assert_eq!(serde_json::to_value(family).expect("serializes"), name);
        assert!(
            !family.programs().is_empty() && !family.hang_hint().is_empty(),
            "{name}"
        );
        assert!(family.recognizes(answer), "{name}: its own answer");
        assert_ne!(family.version_or_unknown(answer), "unknown", "{name}");
        assert_eq!(family.version_or_unknown("no version"), "unknown", "{name}");
        for (other, _) in members().iter().filter(|(other, _)| *other != family) {
            assert!(
                !other.recognizes(answer),
                "{name}: {} takes its answer",
                other.name()
            );
        }
        assert!(
            family
                .rank_env("A", "b c")
                .iter()
                .any(|word| word.contains("b c")),
            "{name}: one word for a value"
        );
        for transport in [
            Transport::Local,
            Transport::Ssh,
            Transport::Slurm(SlurmLauncher::Library),
            Transport::Slurm(SlurmLauncher::Srun),
        ] {
            let mut request = request(
                if transport == Transport::Local {
                    "1Nx2P"
                } else {
                    "1Nx2P+2Nx1P"
                },
                transport,
            );
            request.collective_io = true;
            let mut install = install(MpiFamily::Mpich, "4.2.1");
            install.family = family;
            install.args = vec!["--of-the-user".into()];
            install.env.insert("OF_THE_USER".into(), "1".into());
            let launch = launch(&install, &request);
            let place = format!("{name}, {transport:?}");
            let starter = if transport == Transport::Slurm(SlurmLauncher::Srun) {
                "srun"
            } else {
                install.mpiexec.as_str()
            };
            assert_eq!(
                launch.argv.first().map(String::as_str),
                Some(starter),
                "{place}"
            );
            assert_eq!(
                launch.argv.last().map(String::as_str),
                Some("--of-the-user"),
                "{place}: the user has the last word"
            );
            assert_eq!(
                launch.env.get("OF_THE_USER").map(String::as_str),
                Some("1"),
                "{place}"
            );
            assert!(
                launch.launcher_processes >= 1,
                "{place}: the launcher itself"
            );
            let processes = request.mapping.processes().to_string();
            assert!(
                launch
                    .argv
                    .iter()
                    .any(|a| a.rsplit('=').next() == Some(processes.as_str())),
                "{place}: the number of ranks"
            );
            let hosts = launch
                .files
                .iter()
                .find(|(file, _)| *file == "hosts")
                .expect("a host file");
            let hosts = render::render(hosts.1, &file_values(&request)).expect("renders");
            let used = request.mapping.nodes() as usize;
            assert!(
                request.hosts[..used]
                    .iter()
                    .all(|host| hosts.contains(host.as_str())),
                "{place}: {hosts}"
            );
            assert!(
                !hosts.contains(request.hosts[used].as_str()),
                "{place}: a node too many in {hosts}"
            );
            let wrapped = launch
                .files
                .iter()
                .any(|(file, template)| *file == SSH_WRAPPER && template.is_executable());
            assert_eq!(
                wrapped,
                transport == Transport::Ssh,
                "{place}: ssh goes through the wrapper"
            );
            assert_eq!(
                launch.argv.contains(&request.ssh_wrapper().into_string()),
                wrapped,
                "{place}"
            );
        }
    }
}

/// Finds, queries, starts and describes a complete family that no other file mentions.
#[tokio::test]
async fn another_family_needs_one_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("toyrun");
    let script = "#!/bin/sh\ncase $1 in --version) echo Toy MPI 0.3 ;; --device) echo wood ;; --hosts) shift 4; exec \"$@\" ;; esac\n";
    std::fs::write(&program, script).expect("writes");
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .expect("executable");
    // as in a campaign file, by the name in the registry
    let source = MpiSource::Mpiexec(program.display().to_string());
    let library = MpiLibrary {
        family: MpiFamily::Mpich,
        source,
        env: Default::default(),
        args: vec![],
        io: None,
        environment: Default::default(),
    };
    let install = find_with(&Toy, "m", &library).await.expect("the toy");
    assert_eq!(install.describe(), "Toy MPI 0.3 (wood), ROMIO");
    assert_eq!(
        serde_json::to_value(&install).expect("serializes")["family"],
        "toy"
    );
    let mut argv = launch(&install, &request("1Nx2P", Transport::Local)).argv;
    argv.extend(["echo".to_owned(), "it runs".into()]);
    let output = std::process::Command::new(&argv[0])
        .args(&argv[1..])
        .output()
        .expect("starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "it runs\n");
    let other = find("m", &library)
        .await
        .expect_err("not MPICH")
        .to_string();
    assert!(
        other.contains("is not a launcher of MPICH (Hydra): it reports `Toy MPI 0.3`"),
        "{other}"
    );
    let path = MpiLibrary {
        source: MpiSource::Path,
        ..library
    };
    let absent = find_with(&Toy, "m", &path)
        .await
        .expect_err("not installed")
        .to_string();
    assert!(
        absent.contains("apt-get install toy-mpi; Spack: spack install toy"),
        "{absent}"
    );
}
