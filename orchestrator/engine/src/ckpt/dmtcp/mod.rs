//! DMTCP as a checkpointer.

mod checkpoint;
mod coordinator;
mod dmtcp_run;
mod images;
mod install;
mod launch;
mod measure;
pub mod merged;
mod repairs;
mod request;
mod restart;
mod restart_watch;
mod session;
mod session_files;

pub use install::{
    EventLogError, Events, Status, failed_assertion, images_by_host, parse_events, parse_status,
    parse_version,
};

use super::contract::{
    CheckpointRun, Checkpointer, Course, Install, LaunchPart, Search, SessionContext, Software,
};
use crate::{mpi::Missing, render::RenderError, run::RunContext, transport::Transport};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::campaign::{CheckpointSettings, Site};
use cvc_core::point::Compression;
use session::DmtcpSession;

/// Takes coordinated checkpoints at user level.
pub(super) struct DmtcpCheckpointer;

#[async_trait]
impl Checkpointer for DmtcpCheckpointer {
    fn name(&self) -> &'static str {
        "dmtcp"
    }

    fn title(&self) -> &'static str {
        "DMTCP"
    }

    fn software(&self) -> Option<Software> {
        Some(Software {
            root: install::ROOT,
            prefix: |site| site.dmtcp.prefix.as_deref(),
            version: parse_version,
        })
    }

    async fn find(&self, site: &Site, search: Search) -> Result<Install, Missing> {
        // only a prefix is what the campaign file names
        let named = site.dmtcp.prefix.is_some();
        if search == Search::Files && named {
            install::find_files(&site.dmtcp)
        } else {
            install::find(&site.dmtcp).await
        }
    }

    fn node_programs(&self, install: &Install) -> Vec<Utf8PathBuf> {
        vec![install.program("dmtcp_launch").into()]
    }

    fn compressor(&self, compression: Compression) -> Result<Option<Utf8PathBuf>, Missing> {
        install::compressor(compression)
    }

    fn transport(&self, of_site: Transport) -> Transport {
        match of_site {
            // what srun starts is Slurm's, and cannot be restarted
            Transport::Slurm(_) => Transport::Ssh,
            Transport::Local | Transport::Ssh => of_site,
        }
    }

    fn dirs(&self) -> &'static [&'static str] {
        &[
            install::CKPT_DIR,
            install::COORDINATOR_DIR,
            launch::PROGRAMS,
        ]
    }

    fn course(&self, settings: &CheckpointSettings) -> Course {
        Course {
            on_request: true,
            killed: settings.moment.kills() || settings.restart_check,
            cut_short: settings.moment.kills(),
            restarted: settings.restart_check,
        }
    }

    fn launch(
        &self,
        install: &Install,
        run: &RunContext,
    ) -> Result<Option<LaunchPart>, RenderError> {
        launch::launch(install, run).map(Some)
    }

    fn session<'r>(
        &self,
        install: &Install,
        context: SessionContext<'r>,
    ) -> Box<dyn CheckpointRun + 'r> {
        Box::new(DmtcpSession::new(install, context))
    }

    fn cost_of_absence(&self) -> &'static str {
        "points with checkpointer = \"dmtcp\" are skipped"
    }

    fn remark_on_nodes(&self, install: &Install) -> Option<(String, &'static str)> {
        Some((
            repairs::remark(install)?,
            "use DMTCP 4.0 to 5.0 for points on several nodes; those on one node are not affected",
        ))
    }
}
