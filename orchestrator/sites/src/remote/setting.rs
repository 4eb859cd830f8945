//! What all agents of a site have in common: where they work, and their spools.

use super::{
    head_node::{HeadNode, SHORT, get},
    job_monitor::JobMonitor,
    machines::Machines,
};
use crate::error::CampaignError;
use crate::progress::SiteReporter;
use crate::slurm::Client;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::{Orders, PROTOCOL};
use cvc_core::campaign::Cluster;
use std::{sync::Arc, time::Duration};

/// Makes a spool, whose path follows.
pub const MAKE_SPOOL: &str = "mkdir -p \"$1/in\" && chmod 700 \"$1\"";
/// Removes a spool, whose path follows; also the directories above it that are this campaign's and empty.
pub const REMOVE_SPOOL: &str = "rm -rf \"$1\" 2>/dev/null || { chmod -R u+rwX \"$1\"; rm -rf \"$1\"; }; up=$(dirname \"$1\"); while [ \"$(basename \"$up\")\" != spool ] && \
                                rmdir \"$up\" 2>/dev/null; do up=$(dirname \"$up\"); done; [ ! -e \"$1\" ]";

/// Time limit for removing a spool with its contents, on a slow file system.
const CLEAN_LIMIT: Duration = Duration::from_secs(1800);

/// Gives a spool, whose path follows, another name beside it, and says which.
const PUT_ASIDE: &str = "n=1; while [ -e \"$1.old-$n\" ]; do n=$((n+1)); done; mv \"$1\" \"$1.old-$n\" && echo \"$1.old-$n\"";

/// Where the files are that runs copy, beside the spools: agents come and go meanwhile.
pub(super) fn inputs_beside(root: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{root}.inputs"))
}

/// What was found where a spool is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing, or the same orders; they are there now.
    TheseOrders,
    /// The orders of another campaign file or program, which are left as they are.
    OtherOrders,
    /// Those of a version with which this one cannot speak.
    OtherProtocol,
}

fn is_of_this_protocol(orders: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Version {
        protocol: u32,
    }
    serde_json::from_slice::<Version>(orders).is_ok_and(|version| version.protocol == PROTOCOL)
}

/// What all agents of a site have in common.
pub(super) struct Setting {
    pub name: String,
    pub cluster: Cluster,
    pub head_node: Arc<dyn HeadNode>,
    /// `cvc-node`, there.
    pub program: Utf8PathBuf,
    /// Directory of spools.
    pub root: Utf8PathBuf,
    pub orders: Orders,
    pub reporter: SiteReporter,
    pub slurm: Option<Client>,
    /// Monitors the jobs of the site.
    pub job_monitor: Option<JobMonitor>,
    /// Who provides its machines.
    pub machines: Arc<dyn Machines>,
}

impl Setting {
    pub fn error(&self, problem: impl Into<String>) -> CampaignError {
        CampaignError::Site {
            site: self.name.clone(),
            problem: problem.into(),
        }
    }

    /// Makes a spool with its orders, unless others are there.
    pub async fn make(&self, root: &Utf8Path) -> Result<Found, CampaignError> {
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
                    Found::OtherOrders
                } else {
                    Found::OtherProtocol
                });
            }
            Some(_) => {}
        }
        Ok(Found::TheseOrders)
    }

    /// Puts a spool aside whose agent speaks another protocol: what it finished cannot be fetched by this version, and is not thrown away.
    ///
    /// # Errors
    /// When that agent is still alive, which may have a run under way.
    pub async fn put_aside(&self, root: &Utf8Path) -> Result<(), CampaignError> {
        let at = format!("{root} on {}", self.head_node.name());
        let alive = self
            .head_node
            .run(&[self.program.as_str(), "alive", root.as_str()], SHORT)
            .await?;
        if alive.code != Some(1) {
            return Err(self.error(format!(
                "the agent of another version of cvc works in {at}, and its runs are left alone: end the campaign with the version that \
                 began it, or `cvc down` ends them and what they have done"
            )));
        }
        let moved = self
            .head_node
            .run(&["sh", "-c", PUT_ASIDE, "sh", root.as_str()], SHORT)
            .await?;
        if moved.code != Some(0) {
            return Err(self.error(format!(
                "cannot put {at} aside, which is of another version of cvc: {}",
                moved.stderr.trim()
            )));
        }
        self.reporter.note(format!(
            "{}: {at} is of another version of cvc; it is put aside as {}",
            self.name,
            moved.stdout.trim()
        ));
        Ok(())
    }

    /// Maximum number of ranks on one node.
    pub fn most_on_a_node(&self) -> u32 {
        self.orders
            .points
            .iter()
            .flat_map(|p| p.point.mapping.node_loads())
            .max()
            .unwrap_or(1)
    }

    /// Removes everything of this campaign there: its spools, and the files that its runs copied.
    pub async fn clean_all(&self) -> Result<(), CampaignError> {
        let copies_files = self
            .orders
            .context
            .apps
            .values()
            .any(|app| !app.sources.is_empty());
        if copies_files {
            self.remove(&inputs_beside(&self.root)).await?;
        }
        self.clean(&self.root).await
    }

    /// Removes a spool, and what agents that were killed left there. In a job Slurm has ended that.
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

    /// Runs a command that removes something.
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
