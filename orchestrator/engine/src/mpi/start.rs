//! The launch of a program by a library, on any transport.

use super::{
    launch::{Launch, LaunchRequest},
    launcher::MpiInstall,
    srun,
};
use crate::transport::Transport;
use cvc_core::campaign::SlurmLauncher;

/// Builds the launch of a program by this library.
pub fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut launch = match request.transport {
        Transport::Slurm(SlurmLauncher::Srun) => srun::launch(install, request),
        Transport::Local | Transport::Ssh | Transport::Slurm(SlurmLauncher::Library) => {
            install.family.launch(install, request)
        }
    };
    launch.argv.extend(install.args.iter().cloned());
    launch.env.extend(install.env.clone());
    launch
}
