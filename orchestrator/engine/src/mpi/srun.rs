//! srun: Slurm starts the ranks itself, through the PMI plugin that the library supports.

use super::{
    launch::{Launch, LaunchRequest},
    launcher::MpiInstall,
};
use crate::render::Template;

pub(super) fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut launch = Launch {
        files: vec![("hosts", Template::HOSTS_BY_RANK)],
        launcher_processes: 1,
        ..Launch::default()
    };
    // srun has no option for this file. Uneven mappings, and mappings whose nodes are not in Slurm's own order, can be requested only in this way;
    // for uniformity, all mappings are
    launch.env("SLURM_HOSTFILE", request.run_dir.join("hosts"));
    launch.argv = [
        "srun".to_owned(),
        format!("--mpi={}", install.family.srun_plugin()),
        "--distribution=arbitrary".into(),
    ]
    .into();
    launch.argv.extend([
        format!("--nodes={}", request.mapping.nodes()),
        format!("--ntasks={}", request.mapping.processes()),
    ]);
    // other steps (cvc's own, one on each node) hold resources of the job
    launch.argv.push("--overlap".into());
    if request.oversubscribe && request.oversubscribed() {
        launch.argv.push("--overcommit".into());
    }
    launch
        .argv
        .extend(["--export=ALL", "--kill-on-bad-exit=1"].map(String::from));
    let bind = match (request.bound_threads(), request.hardware_threads) {
        (None, _) => "none",
        (Some(_), true) => "threads",
        (Some(_), false) => "cores",
    };
    launch.argv.push(format!("--cpu-bind={bind}"));
    if let Some(threads) = request.mapping.threads() {
        launch.argv.push(format!("--cpus-per-task={threads}"));
    }
    install.family.configure_srun(install, request, &mut launch);
    launch
}
