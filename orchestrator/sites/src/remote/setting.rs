//! The data that all agents of a site share, and their spools on the head node.

use super::{
    head_node::{HeadNode, SHORT, get},
    job_monitor::JobMonitor,
    machines::RemoteMachines,
};
use crate::error::CampaignError;
use crate::progress::SiteReporter;
use crate::slurm::Client;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::{Orders, PROTOCOL};
use cvc_core::campaign::Cluster;
use std::{sync::Arc, time::Duration};

/// Creates a spool. Argument: its path.
pub const MAKE_SPOOL: &str = "mkdir -p \"$1/in\" && chmod 700 \"$1\"";
/// Removes a spool, and the empty directories of this campaign above it. Argument: the spool's path.
pub const REMOVE_SPOOL: &str = "rm -rf \"$1\" 2>/dev/null || { chmod -R u+rwX \"$1\"; rm -rf \"$1\"; }; up=$(dirname \"$1\"); while [ \"$(basename \"$up\")\" != spool ] && \
                                rmdir \"$up\" 2>/dev/null; do up=$(dirname \"$up\"); done; [ ! -e \"$1\" ]";

/// Time limit for removing a spool with its contents, on a slow file system.
const CLEAN_LIMIT: Duration = Duration::from_secs(1800);

/// Renames a spool within its directory, and prints the new name. Argument: the spool's path.
const PUT_ASIDE: &str = "n=1; while [ -e \"$1.old-$n\" ]; do n=$((n+1)); done; mv \"$1\" \"$1.old-$n\" && echo \"$1.old-$n\"";

/// Returns the directory of the input files that runs copy. It is next to the spools and is kept when agents end.
pub(super) fn inputs_dir(root: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{root}.inputs"))
}

/// The state of a spool before an agent is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpoolState {
    /// The spool was missing, or had the same orders (`orders.json`, the agent's settings). Now it has these orders.
    TheseOrders,
    /// The spool has other orders, of another campaign file or program. They were not changed.
    OtherOrders,
    /// The spool has the orders of a version with an incompatible protocol.
    OtherProtocol,
}

fn is_of_this_protocol(orders: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Version {
        protocol: u32,
    }
    serde_json::from_slice::<Version>(orders).is_ok_and(|version| version.protocol == PROTOCOL)
}

/// The data that all agents of a site share.
pub(super) struct RemoteSetting {
    pub name: String,
    pub cluster: Cluster,
    pub head_node: Arc<dyn HeadNode>,
    /// Path of `cvc-node` on the head node.
    pub program: Utf8PathBuf,
    /// Directory of the spools.
    pub root: Utf8PathBuf,
    pub orders: Orders,
    pub reporter: SiteReporter,
    pub slurm: Option<Client>,
    /// Monitors the jobs of the site.
    pub job_monitor: Option<JobMonitor>,
    /// Provider of the site's machines.
    pub machines: Arc<dyn RemoteMachines>,
}

impl RemoteSetting {
    pub fn error(&self, problem: impl Into<String>) -> CampaignError {
        CampaignError::Site {
            site: self.name.clone(),
            problem: problem.into(),
        }
    }

    /// Creates a spool, and writes [`Self::orders`] into it. A spool that has other orders already is not changed.
    pub async fn make(&self, root: &Utf8Path) -> Result<SpoolState, CampaignError> {
        let text = serde_json::to_vec(&self.orders).map_err(|e| self.error(e.to_string()))?;
        let file = root.join("orders.json");
        let made = self
            .head_node
            .run(&["sh", "-c", MAKE_SPOOL, "sh", root.as_str()], SHORT)
            .await?;
        if made.code != Some(0) {
            let hint = "set `base` to a directory where you may write";
            return Err(self.error(format!(
                "cannot make {root} on {}: {}; {hint}",
                self.head_node.name(),
                made.stderr.trim()
            )));
        }
        let old = get(&*self.head_node, &file).await?;
        match old {
            None => self.head_node.host().put(&text, &file).await?,
            Some(old) if old != text => {
                return Ok(if is_of_this_protocol(&old) {
                    SpoolState::OtherOrders
                } else {
                    SpoolState::OtherProtocol
                });
            }
            Some(_) => {}
        }
        Ok(SpoolState::TheseOrders)
    }

    /// Renames a spool whose agent uses another version of the protocol. This version of cvc cannot fetch the results in the spool, and does not
    /// delete them.
    ///
    /// # Errors
    /// The agent is still alive, and may have an active run.
    pub async fn put_aside(&self, root: &Utf8Path) -> Result<(), CampaignError> {
        let at = format!("{root} on {}", self.head_node.name());
        let alive = self
            .head_node
            .run(&[self.program.as_str(), "alive", root.as_str()], SHORT)
            .await?;
        if alive.code != Some(1) {
            return Err(self.error(format!(
                "an agent of another version of cvc is running in {at}, and its runs are left alone: end the campaign with the version that began \
                 it, or run `cvc down` to end the runs and discard their results"
            )));
        }
        let moved = self
            .head_node
            .run(&["sh", "-c", PUT_ASIDE, "sh", root.as_str()], SHORT)
            .await?;
        if moved.code != Some(0) {
            return Err(self.error(format!(
                "cannot rename {at}, which is of another version of cvc: {}",
                moved.stderr.trim()
            )));
        }
        self.reporter.note(format!(
            "{}: {at} is of another version of cvc; renamed to {}",
            self.name,
            moved.stdout.trim()
        ));
        Ok(())
    }

    /// Returns the maximum number of ranks on one node.
    pub fn max_ranks_per_node(&self) -> u32 {
        self.orders
            .points
            .iter()
            .flat_map(|p| p.point.mapping.node_loads())
            .max()
            .unwrap_or(1)
    }

    /// Returns the number of cores to request for each rank, if points use threads; `None` if no point does.
    pub fn cores_of_a_rank(&self) -> Option<u32> {
        let mappings = || self.orders.points.iter().map(|p| &p.point.mapping);
        mappings().find(|mapping| mapping.threads().is_some())?;
        let cores = mappings().flat_map(|mapping| mapping.node_cores()).max()?;
        Some(cores.div_ceil(self.max_ranks_per_node()))
    }

    /// Removes all files of this campaign on the site: its spools, and the files that its runs copied.
    pub async fn clean_all(&self) -> Result<(), CampaignError> {
        let copies_files = self
            .orders
            .context
            .apps
            .values()
            .any(|app| !app.sources.is_empty());
        if copies_files {
            self.remove(&inputs_dir(&self.root)).await?;
        }
        self.clean(&self.root).await
    }

    /// Removes a spool, and processes that killed agents left there. If the agent ran in a job, Slurm has ended these processes already.
    pub async fn clean(&self, root: &Utf8Path) -> Result<(), CampaignError> {
        if self.slurm.is_none() {
            self.carry_out(&[self.program.as_str(), "end", root.as_str()], root)
                .await?;
        }
        self.remove(root).await
    }

    async fn remove(&self, directory: &Utf8Path) -> Result<(), CampaignError> {
        let argv = ["sh", "-c", REMOVE_SPOOL, "sh", directory.as_str()];
        self.carry_out(&argv, directory).await
    }

    /// Runs a command that removes files.
    async fn carry_out(&self, argv: &[&str], what: &Utf8Path) -> Result<(), CampaignError> {
        let done = self.head_node.run(argv, CLEAN_LIMIT).await?;
        if done.code == Some(0) {
            return Ok(());
        }
        Err(CampaignError::Leftover {
            site: self.name.clone(),
            what: format!(
                "{what} on {}: {}",
                self.head_node.name(),
                done.stderr.trim()
            ),
        })
    }
}
