//! What each launcher is told, for each way to the other nodes.

use super::*;
use crate::render;
use cvc_core::campaign::MpiIo;

fn install(family: MpiFamily, version: &str) -> MpiInstall {
    MpiInstall {
        name: "m".into(),
        family,
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

fn request(mapping: &str, reach: Reach) -> LaunchRequest {
    LaunchRequest {
        mapping: mapping.parse().expect("a mapping"),
        hosts: ["n3", "n1", "n2", "n4"].map(String::from).into(),
        cores_per_node: 2,
        aggregators: None,
        cb_buffer: None,
        collective_io: false,
        dmtcp: false,
        run_dir: "/r".into(),
        tmp_dir: "/t".into(),
        reach,
        interface: Some("eth0".into()),
        oversubscribe: false,
        export: vec!["CVC_RUN".into(), "TMPDIR".into()],
        marker: "r@/c".into(),
    }
}

fn ssh() -> Reach {
    Reach::Ssh { wrapper: "/r/ssh-to-node.sh".into() }
}

/// Whoever runs the tests, what is only for root is left out.
fn show(install: &MpiInstall, request: &LaunchRequest) -> String {
    let launch = launch(install, request);
    let env = launch.env.iter().filter(|(name, _)| !name.contains("ALLOW_RUN_AS_ROOT"));
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
    text + &format!("  {} processes beside the ranks\n", launch.launcher_processes)
}

#[test]
fn what_the_launchers_are_told() {
    let ways = [
        ("one node", Reach::Local),
        ("ssh", ssh()),
        ("the library's own launcher in a Slurm job", Reach::Slurm { launcher: SlurmLauncher::Library }),
        ("srun", Reach::Slurm { launcher: SlurmLauncher::Srun }),
    ];
    let mut text = String::new();
    for (family, version) in [(MpiFamily::Mpich, "4.2.1"), (MpiFamily::OpenMpi, "4.1.4"), (MpiFamily::OpenMpi, "5.0.3")] {
        for (name, reach) in &ways {
            let mapping = if *reach == Reach::Local { "1Nx2P" } else { "1Nx2P+2Nx1P" };
            text += &format!("== {family:?} {version}, {name}\n{}", show(&install(family, version), &request(mapping, reach.clone())));
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn nodes_get_more_ranks_than_cores_only_where_that_is_allowed() {
    for (reach, family, word) in
        [(ssh(), MpiFamily::OpenMpi, "--oversubscribe"), (Reach::Slurm { launcher: SlurmLauncher::Srun }, MpiFamily::Mpich, "--overcommit")]
    {
        let mut request = request("2Nx3P", reach);
        let has = |request: &LaunchRequest| launch(&install(family, "4.1.4"), request).argv.iter().any(|a| a == word);
        assert!(!has(&request), "{word}");
        request.oversubscribe = true;
        assert!(has(&request), "{word}");
    }
}

/// The script that stands for ssh, with one beside it that says how it was called.
#[test]
fn the_wrapper_of_ssh_understands_both_launchers_and_hands_on_the_mark() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut request = request("2Nx1P", ssh());
    request.marker = "r@/a dir".into();
    request.export = vec!["SET".into(), "UNSET".into()];
    let script = dir.path().join(SSH_WRAPPER);
    std::fs::write(&script, render::render(crate::render::Template::SshWrapper, &file_values(&request)).expect("renders")).expect("writes");
    for program in ["ssh", "dmtcp_nocheckpoint"] {
        let program = dir.path().join(program);
        std::fs::write(&program, "#!/bin/sh\necho ${0##*/}\nfor a; do echo \"<$a>\"; done\n").expect("writes");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
    }
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").expect("PATH"));
    let call = |arguments: &[&str], shell: &str, dmtcp: Option<&str>| {
        let mut command = std::process::Command::new("bash");
        command.arg(&script).args(arguments).env_clear().envs([("PATH", path.as_str()), ("SHELL", shell), ("SET", "a b")]);
        command.envs(dmtcp.map(|d| ("CVC_DMTCP", format!("{}/{d}", dir.path().display()))));
        let output = command.output().expect("bash");
        let said = String::from_utf8_lossy(&output.stdout).replace(&dir.path().display().to_string(), "DIR");
        format!("{said}{}", String::from_utf8_lossy(&output.stderr).replace(&dir.path().display().to_string(), "DIR"))
    };
    let hydra = ["-x", "n2", "\"/opt/mpich/bin/hydra_pmi_proxy\"", "--control-port", "n1:4711"];
    let orted = ["n2", "PATH=/opt/bin:$PATH ; export PATH ; /opt/bin/orted", "-mca", "orte_hnp_uri", "\"1.0;tcp://10.0.0.1:4711\""];
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
