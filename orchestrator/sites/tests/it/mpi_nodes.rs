//! Tests of MPI launchers on the nodes of a lab: for each library, way of launching and mapping, the node of each rank.

use cvc_core::campaign::{MpiFamily, MpiLibrary, MpiSource, SlurmLauncher};
use cvc_engine::{
    mpi::{self, LaunchRequest, MpiInstall},
    render,
    transport::Transport,
};
use cvc_testkit::{Lab, Tool, lab::output_within, require};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const WHERE: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank, size, sum;
    char host[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    const char *mark = getenv("CVC_RUN");
    printf("rank %d on %s sum %d mark %s\n", rank, host, sum, mark ? mark : "-");
    MPI_Finalize();
    return 0;
}
"#;

const MARK: &str = "r1@/shared/some campaign";

/// Returns the libraries that work between nodes of the lab, with their launchers.
fn libraries() -> Vec<(MpiFamily, PathBuf)> {
    let mpich = Tool::Mpich5
        .find()
        .or_else(|| Tool::MpichForRestart.find())
        .map(|p| (MpiFamily::Mpich, p));
    mpich
        .into_iter()
        .chain(Tool::OpenMpi.find().map(|p| (MpiFamily::OpenMpi, p)))
        .collect()
}

async fn find(family: MpiFamily, launcher: &Path) -> MpiInstall {
    let source = MpiSource::Mpiexec(launcher.to_str().expect("a path").to_owned());
    let library = MpiLibrary {
        family,
        source,
        io: None,
        environment: Default::default(),
        env: Default::default(),
        args: vec![],
    };
    mpi::find("m", &library).await.expect("the library")
}

/// Compiles the test program into the shared directory.
fn compile(lab: &Lab, family: MpiFamily, launcher: &Path) -> String {
    let name = format!("where-{family:?}");
    let source = lab.shared().join("where.c");
    fs::write(&source, WHERE).expect("writes");
    let compiler = match family {
        MpiFamily::Mpich => launcher.parent().expect("a directory").join("mpicc"),
        MpiFamily::OpenMpi => "mpicc.openmpi".into(),
    };
    let built = lab.directory().join(&name);
    let done = Command::new(&compiler)
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .output()
        .expect("a compiler");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    fs::copy(&built, lab.shared().join(&name)).expect("the shared folder");
    format!("/shared/{name}")
}

/// Starts the program and checks the node of every rank.
#[expect(
    clippy::too_many_arguments,
    reason = "each is a dimension of the table of cases"
)]
fn run(
    lab: &Lab,
    install: &MpiInstall,
    name: &str,
    mapping: &str,
    hosts: &[&str],
    transport: Transport,
    head: &str,
    program: &str,
) {
    let dir = format!("/shared/run-{name}");
    let at = lab.shared().join(format!("run-{name}"));
    fs::create_dir_all(&at).expect("its directory");
    let request = LaunchRequest {
        mapping: mapping.parse().expect("a mapping"),
        hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
        cores_per_node: 4,
        hardware_threads: false,
        aggregators: None,
        cb_buffer: None,
        io: vec![],
        collective_io: false,
        run_dir: dir.clone().into(),
        tmp_dir: "/tmp".into(),
        transport,
        interface: Some("eth0".into()),
        oversubscribe: false,
        export: vec!["CVC_RUN".into()],
        marker: MARK.into(),
    };
    let launch = mpi::launch(install, &request);
    for (file, template) in &launch.files {
        let path = at.join(file);
        fs::write(
            &path,
            render::render(*template, &mpi::file_values(&request)).expect("renders"),
        )
        .expect("writes");
        if template.is_executable() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        }
    }
    let mut script = format!("cd {dir}\nexport CVC_RUN={}\n", render::shell_quote(MARK));
    launch.env.iter().for_each(|(name, value)| {
        script += &format!("export {name}={}\n", render::shell_quote(value))
    });
    let words: Vec<String> = launch.argv.iter().map(|w| render::shell_quote(w)).collect();
    script += &format!("exec timeout -s KILL 60 {} {program}\n", words.join(" "));
    fs::write(at.join("go.sh"), script).expect("writes");
    let mut command = lab.node(head).command("bash");
    match transport {
        Transport::Slurm(_) => command.args([
            "-c",
            &format!("cd /shared; salloc -Q -N4 --exclusive -t 2 bash {dir}/go.sh"),
        ]),
        Transport::Ssh | Transport::Local => command.arg(format!("{dir}/go.sh")),
    };
    let begin = Instant::now();
    let output = output_within(command, Duration::from_secs(90));
    let (finished, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    eprintln!("{name}: {} in {:.2?}", output.status, begin.elapsed());
    assert!(output.status.success(), "{name}: {finished}{errors}");
    let places = request
        .placement()
        .flat_map(|(host, count)| std::iter::repeat_n(host, count as usize));
    let size = request.mapping.processes();
    for (rank, host) in places.enumerate() {
        let line = format!(
            "rank {rank} on {host} sum {} mark {MARK}\n",
            size * (size - 1) / 2
        );
        assert!(
            finished.contains(&line),
            "{name}: no `{line}` in\n{finished}{errors}"
        );
    }
}

/// Mappings with the expected node of each rank: even, one rank for each node, uneven, and in an order other than that of the names.
const MAPPINGS: [(&str, &[&str]); 5] = [
    ("1Nx4P", &["n1"]),
    ("2Nx2P", &["n1", "n2"]),
    ("4Nx1P", &["n1", "n2", "n3", "n4"]),
    ("3Nx1P+1Nx1P", &["n4", "n2", "n3", "n1"]),
    ("1Nx2P+2Nx1P", &["n3", "n1", "n2"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn ranks_are_where_the_mapping_says_by_ssh() {
    require!(Tool::Lab);
    let lab = Lab::builder().nodes(4).build();
    for (family, launcher) in libraries() {
        let install = find(family, &launcher).await;
        let program = compile(&lab, family, &launcher);
        for (mapping, hosts) in MAPPINGS {
            let name = format!("ssh-{family:?}-{mapping}");
            run(
                &lab,
                &install,
                &name,
                mapping,
                hosts,
                Transport::Ssh,
                "n1",
                &program,
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranks_are_where_the_mapping_says_inside_a_slurm_job() {
    require!(Tool::Slurm);
    let lab = Lab::builder().nodes(4).login(true).build();
    lab.slurm();
    for (family, launcher) in libraries() {
        let install = find(family, &launcher).await;
        let program = compile(&lab, family, &launcher);
        for way in [SlurmLauncher::Library, SlurmLauncher::Srun] {
            for (mapping, hosts) in MAPPINGS {
                let name = format!("slurm-{family:?}-{way:?}-{mapping}");
                let mut hosts = hosts.to_vec();
                if (way, family) != (SlurmLauncher::Srun, MpiFamily::Mpich) {
                    // Slurm numbers daemons in its own order, and its PMIx plugin supports no other
                    hosts.sort_unstable();
                }
                let hosts = &hosts;
                run(
                    &lab,
                    &install,
                    &name,
                    mapping,
                    hosts,
                    Transport::Slurm(way),
                    "login",
                    &program,
                );
            }
        }
    }
}
