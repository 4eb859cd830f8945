//! srun: Slurm starts the ranks itself, and speaks PMI-2 with MPICH and PMIx with Open MPI.

use super::{Launch, LaunchRequest, MpiInstall, mpich, openmpi};
use crate::render::Template;
use cvc_core::campaign::MpiFamily;

pub(super) fn launch(family: MpiFamily, install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mpi = match family {
        MpiFamily::Mpich => "pmi2",
        MpiFamily::OpenMpi => "pmix",
    };
    let mut launch = Launch { files: vec![("hosts", Template::HostsByRank)], launcher_processes: 1, ..Launch::default() };
    // srun has no option for this file. Uneven mappings, and those whose nodes are not in Slurm's own order, can only be asked for so; even
    // ones are asked for in the same way
    launch.env("SLURM_HOSTFILE", request.run_dir.join("hosts"));
    launch.argv = ["srun".to_owned(), format!("--mpi={mpi}"), "--distribution=arbitrary".into()].into();
    launch.argv.extend([format!("--nodes={}", request.mapping.nodes()), format!("--ntasks={}", request.mapping.processes())]);
    // other steps (cvc's own on each node) hold resources of the job
    launch.argv.push("--overlap".into());
    if request.oversubscribe && request.oversubscribed() {
        launch.argv.push("--overcommit".into());
    }
    launch.argv.extend(["--export=ALL", "--kill-on-bad-exit=1", "--cpu-bind=none"].map(String::from));
    match family {
        MpiFamily::Mpich => mpich::library(install, request, &mut launch),
        MpiFamily::OpenMpi => {
            // with the tree fence of Slurm's PMIx plugin 10 of 180 starts of Open MPI 4.1.4 over two nodes died in MPI_Init by a message from a
            // rank that was ahead (a null call-back in btl_tcp), and 4 of 250 without a choice; with the ring 0 of 360
            launch.env("SLURM_PMIX_FENCE", "ring");
            // srun takes no --mca: the same parameters by their variables
            let parameters = openmpi::library(install, request, &mut launch);
            for (name, value) in parameters {
                launch.env(&format!("OMPI_MCA_{name}"), value);
            }
        }
    }
    launch
}
