//! MPICH and its descendants: Hydra, and ROMIO's hint file.

use super::{Launch, LaunchRequest, MpiInstall, Reach};
use crate::render::Template;

pub(super) fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut argv = vec![install.mpiexec.to_string()];
    let mut launch = Launch {
        files: vec![("hosts", Template::HostsMpich)],
        // mpiexec, and a proxy on each node
        launcher_processes: 1 + request.mapping.nodes(),
        ..Launch::default()
    };
    match &request.reach {
        Reach::Local => {}
        Reach::Ssh { wrapper } => {
            // named, because inside somebody's batch job Hydra would choose another
            argv.extend(["-launcher".into(), "ssh".into(), "-launcher-exec".into(), wrapper.to_string(), "-rmk".into(), "user".into()]);
            launch.files.push((super::SSH_WRAPPER, Template::SshWrapper));
        }
        Reach::Slurm { .. } => {
            argv.extend(["-launcher", "slurm", "-rmk", "user"].map(String::from));
            super::srun_settings(&mut launch);
            // the srun that starts the proxies
            launch.launcher_processes += 1;
        }
    }
    if let (Some(interface), false) = (&request.interface, request.reach == Reach::Local) {
        argv.extend(["-iface".into(), interface.clone()]);
    }
    argv.extend(["-f".into(), request.run_dir.join("hosts").into_string(), "-n".into(), request.mapping.processes().to_string()]);
    launch.argv = argv;
    library(install, request, &mut launch);
    launch
}

/// What the library itself is told, whoever starts it.
pub(super) fn library(install: &MpiInstall, request: &LaunchRequest, launch: &mut Launch) {
    if let (Some(interface), false) = (&request.interface, request.reach == Reach::Local) {
        let device = install.device.as_deref().unwrap_or_default();
        if device.contains("ofi") {
            launch.env("FI_TCP_IFACE", interface);
            launch.env("FI_SOCKETS_IFACE", interface);
        }
        if device.contains("ucx") {
            launch.env("UCX_NET_DEVICES", interface);
        }
    }
    if request.collective_io {
        romio(request, launch);
    }
}

/// ROMIO reads its hints from a file and prints what it made of them: also the ROMIO inside Open MPI.
pub(super) fn romio(request: &LaunchRequest, launch: &mut Launch) {
    launch.files.push(("romio_hints", Template::RomioHints));
    launch.env("ROMIO_HINTS", request.run_dir.join("romio_hints"));
    launch.env("ROMIO_PRINT_HINTS", "1");
}

/// The values of the hint file's template.
pub fn hints(request: &LaunchRequest) -> Vec<(&'static str, String)> {
    let mut hints = Vec::new();
    if let Some(aggregators) = request.aggregators {
        hints.push(("cb_nodes", aggregators.to_string()));
    }
    if let Some(per_node) = request.aggregators_per_node() {
        // without this ROMIO puts one aggregator on a node, however many cb_nodes asks for
        hints.push(("cb_config_list", format!("*:{per_node}")));
    }
    if let Some(buffer) = request.cb_buffer {
        hints.push(("cb_buffer_size", buffer.0.to_string()));
    }
    if !hints.is_empty() {
        hints.push(("romio_cb_write", "enable".into()));
        hints.push(("romio_cb_read", "enable".into()));
    }
    hints
}
