//! Builds the command by which a library starts a program, for any transport.

use super::{
    launch::{Launch, LaunchRequest},
    launcher::MpiInstall,
    srun,
};
use crate::transport::Transport;
use cvc_core::campaign::SlurmLauncher;

/// Returns the command by which this library starts a program.
pub fn launch(install: &MpiInstall, request: &LaunchRequest) -> Launch {
    let mut launch = match request.transport {
        Transport::Slurm(SlurmLauncher::Srun) => srun::launch(install, request),
        Transport::Local | Transport::Ssh | Transport::Slurm(SlurmLauncher::Library) => {
            install.family.launch(install, request)
        }
    };
    launch.configure_threads(request);
    launch.argv.extend(install.args.iter().cloned());
    launch.env.extend(install.env.clone());
    launch
}
