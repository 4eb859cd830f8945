//! srun: Slurm starts the ranks itself, through the plugin that the library speaks to.

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
    // srun has no option for this file. Uneven mappings, and those whose nodes are not in Slurm's own order, can only be asked for so; even
    // ones are asked for in the same way
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
    // other steps (cvc's own on each node) hold resources of the job
    launch.argv.push("--overlap".into());
    if request.oversubscribe && request.oversubscribed() {
        launch.argv.push("--overcommit".into());
    }
    launch
        .argv
        .extend(["--export=ALL", "--kill-on-bad-exit=1", "--cpu-bind=none"].map(String::from));
    install.family.configure_srun(install, request, &mut launch);
    launch
}
