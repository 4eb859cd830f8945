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
use cvc_core::campaign::{CheckpointPlan, Site};
use cvc_core::point::Compression;
use cvc_core::strategy::Strategy;
use session::DmtcpSession;

/// The checkpointer DMTCP, which takes coordinated checkpoints at user level.
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
        // the campaign file names only a prefix
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

    fn check_strategy(&self, install: &Install, strategy: Strategy) -> Result<(), Missing> {
        if strategy == Strategy::Forked && !install.forks {
            return Err(Missing {
                what: format!(
                    "the DMTCP in {} was built without forked checkpointing, which strategy = \"{strategy}\" needs",
                    install.bin
                ),
                hint: "build DMTCP with `./configure --enable-forked-checkpointing`, and give the site its `dmtcp.prefix`"
                    .into(),
            });
        }
        Ok(())
    }

    fn transport(&self, of_site: Transport) -> Transport {
        match of_site {
            // processes that srun starts belong to Slurm, and cannot be restarted
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

    fn course(&self, plan: &CheckpointPlan) -> Course {
        Course {
            on_request: true,
            killed: plan.kills() || plan.is_restarted(),
            cut_short: plan.kills(),
            restarted: plan.is_restarted(),
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
