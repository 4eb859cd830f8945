//! DMTCP as a checkpointer.

use super::checkpointer::{Checkpointer, Course, Restart, Tools};
use crate::{mpi::Missing, transport::Transport};
use camino::Utf8PathBuf;
use cvc_core::campaign::CheckpointSettings;

/// Takes coordinated checkpoints at user level.
pub(super) struct DmtcpCheckpointer;

impl Checkpointer for DmtcpCheckpointer {
    fn name(&self) -> &'static str {
        "dmtcp"
    }

    fn missing<'t>(&self, tools: &Tools<'t>) -> Option<&'t Missing> {
        tools.dmtcp.as_ref().err()
    }

    fn node_programs(&self, tools: &Tools<'_>) -> Vec<Utf8PathBuf> {
        tools.dmtcp.iter().map(|install| install.program("dmtcp_launch").into()).collect()
    }

    fn transport(&self, of_site: Transport) -> Transport {
        match of_site {
            // what srun starts is Slurm's, and cannot be restarted
            Transport::Slurm(_) => Transport::Ssh,
            Transport::Local | Transport::Ssh => of_site,
        }
    }

    fn course(&self, settings: &CheckpointSettings) -> Course {
        Course {
            on_request: true,
            killed: settings.moment.kills() || settings.restart_check,
            cut_short: settings.moment.kills(),
            restart: if settings.restart_check { Restart::Images } else { Restart::Nothing },
        }
    }
}
