//! MPICH and its descendants: Hydra, and ROMIO's hint file.

use super::{Launch, LaunchRequest, MpiInstall};
use crate::render::Template;

pub(super) fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut launch = Launch {
        argv: vec![
            install.mpiexec.to_string(),
            "-f".into(),
            request.run_dir.join("hosts").into_string(),
            "-n".into(),
            request.mapping.processes().to_string(),
        ],
        files: vec![("hosts", Template::HostsMpich)],
        // mpiexec and one proxy
        launcher_processes: 2,
        ..Launch::default()
    };
    if request.collective_io {
        romio(request, &mut launch);
    }
    launch
}

/// ROMIO reads its hints from a file and prints what it made of them: also the ROMIO inside Open MPI.
pub(super) fn romio(request: &LaunchRequest, launch: &mut Launch) {
    launch.files.push(("romio_hints", Template::RomioHints));
    launch.env.insert("ROMIO_HINTS".into(), request.run_dir.join("romio_hints").into_string());
    launch.env.insert("ROMIO_PRINT_HINTS".into(), "1".into());
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
