//! Nodes that answer, their facts, and functions that run scripts on them.

use cvc_engine::host::{Host, HostError};
use cvc_sites::ssh::SshHost;
use indexmap::IndexMap;
use std::{collections::BTreeMap, time::Duration};

/// Time limit of one query of a node.
pub(super) const SHORT: Duration = Duration::from_secs(60);

/// A node that was reached.
pub(super) struct DoctorNode {
    pub(super) host: SshHost,
    /// Name by which the other nodes of the site reach the node.
    pub(super) among: String,
    /// Host name of the node; `None` if cvc connects to the node directly.
    pub(super) behind: Option<String>,
    pub(super) facts: DoctorFacts,
}

impl DoctorNode {
    pub(super) fn name(&self) -> &str {
        self.behind.as_deref().unwrap_or(self.host.name())
    }
}

/// Facts that a node reports about itself.
#[derive(Clone, Debug, Default)]
pub(super) struct DoctorFacts {
    /// The node's own host name.
    pub(super) node: String,
    /// Kernel, libc, processor, cores, memory, settings: facts that should be the same on all nodes.
    pub(super) same: IndexMap<String, String>,
    /// Directories by purpose, each with its state.
    pub(super) paths: IndexMap<String, PathFact>,
    /// Installed MPI libraries: the launcher and its version output.
    pub(super) mpi: IndexMap<String, (String, String)>,
    /// Launcher and version of installed checkpointers, by the checkpointer's name in campaign files.
    pub(super) checkpointers: IndexMap<String, (String, String)>,
}

/// A directory on a node.
#[derive(Clone, Debug, Default)]
pub(super) struct PathFact {
    pub(super) path: String,
    /// `ok`, `missing`, `read-only`.
    pub(super) state: String,
    pub(super) free_bytes: Option<u64>,
}

/// Runs one of cvc's scripts on a host, with arguments, and returns its output.
pub(super) async fn script(
    host: &SshHost,
    script: &str,
    args: &[String],
    limit: Duration,
) -> Result<String, HostError> {
    script_by(host, &[], script, args, limit).await
}

/// Like [`script`], but a command starts the shell, for example `srun` on another machine.
pub(super) async fn script_by(
    host: &SshHost,
    starter: &[String],
    script: &str,
    args: &[String],
    limit: Duration,
) -> Result<String, HostError> {
    let mut argv = starter.to_vec();
    argv.extend(["sh", "-c", script, "cvc-doctor"].map(str::to_owned));
    argv.extend_from_slice(args);
    let out = host.ask(&argv, &BTreeMap::new(), limit).await?;
    if out.code == Some(0) {
        return Ok(out.stdout);
    }
    let last: Vec<&str> = out.stderr.lines().rev().take(3).collect();
    Err(HostError::Ssh {
        host: host.name().to_owned(),
        message: last.into_iter().rev().collect::<Vec<_>>().join("; "),
    })
}
