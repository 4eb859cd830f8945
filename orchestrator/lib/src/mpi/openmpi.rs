//! Open MPI 4 and 5: mpirun, and OMPIO's or ROMIO's settings.

use super::{Launch, LaunchRequest, MpiInstall, mpich};
use crate::{render::Template, spec::MpiIo};

pub(super) fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut argv = vec![
        install.mpiexec.to_string(),
        "--hostfile".into(),
        request.run_dir.join("hosts").into_string(),
        "--bind-to".into(),
        "none".into(),
    ];
    let mut mca = |name: &str, value: String| argv.extend(["--mca".into(), name.to_owned(), value]);
    if request.oversubscribed() {
        // ranks that share a core must give it up while they wait: microseconds instead of 20 ms for each message
        mca("mpi_yield_when_idle", "1".into());
    }
    // several jobs on one node collide in the shared default: under DMTCP all of them have the same process ids
    mca("orte_tmpdir_base", request.tmp_dir.to_string());
    mca("btl_vader_backing_directory", request.tmp_dir.to_string());
    let mut launch = Launch { files: vec![("hosts", Template::HostsOpenMpi)], launcher_processes: 1, ..Launch::default() };
    if request.collective_io {
        match install.io {
            MpiIo::Romio => {
                if let Some(component) = &install.romio_component {
                    mca("io", component.clone());
                }
                mpich::romio(request, &mut launch);
            }
            MpiIo::Ompio => {
                mca("io", "ompio".into());
                // what each opened file really selected goes to standard error: the evidence
                mca("io_base_verbose", "10".into());
                mca("fcoll_base_verbose", "10".into());
                if request.aggregators.is_some() || request.cb_buffer.is_some() {
                    // the component that keeps to the number of aggregators; others write from one rank whatever is asked
                    mca("fcoll", "vulcan".into());
                }
                if let Some(aggregators) = request.aggregators {
                    mca("io_ompio_num_aggregators", aggregators.to_string());
                }
                if let Some(buffer) = request.cb_buffer {
                    mca("io_ompio_bytes_per_agg", buffer.0.to_string());
                }
            }
        }
    }
    argv.extend(["--oversubscribe".into(), "-np".into(), request.mapping.processes().to_string()]);
    launch.argv = argv;
    if nix::unistd::geteuid().is_root() {
        launch.env.insert("OMPI_ALLOW_RUN_AS_ROOT".into(), "1".into());
        launch.env.insert("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM".into(), "1".into());
    }
    launch
}
