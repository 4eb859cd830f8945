//! A node that answers, its facts, and how a script runs there.

use cvc_engine::host::{Host, HostError};
use cvc_sites::ssh::SshHost;
use indexmap::IndexMap;
use std::{collections::BTreeMap, time::Duration};

/// Time limit of one question to a node.
pub(super) const SHORT: Duration = Duration::from_secs(60);

/// A node that answers.
pub(super) struct Node {
    pub(super) host: SshHost,
    /// Its name among the other nodes.
    pub(super) among: String,
    /// Its own name, where it is reached over another machine.
    pub(super) behind: Option<String>,
    pub(super) facts: Facts,
}

impl Node {
    pub(super) fn name(&self) -> &str {
        self.behind.as_deref().unwrap_or(self.host.name())
    }
}

/// Facts that a node reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The name that it gives itself.
    pub(super) node: String,
    /// Kernel, libc, processor, cores, memory, settings: what should be the same on all nodes.
    pub(super) same: IndexMap<String, String>,
    /// Directories by purpose, with their problems.
    pub(super) paths: IndexMap<String, PathFact>,
    /// Installed MPI libraries: the launcher and its version output.
    pub(super) mpi: IndexMap<String, (String, String)>,
    /// DMTCP's launcher and version.
    pub(super) dmtcp: Option<(String, String)>,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub(super) struct PathFact {
    pub(super) path: String,
    /// `ok`, `missing`, `read-only`.
    pub(super) state: String,
    pub(super) free_bytes: Option<u64>,
}

/// Runs a script of cvc's own with arguments.
pub(super) async fn script(
    host: &SshHost,
    script: &str,
    args: &[String],
    limit: Duration,
) -> Result<String, HostError> {
    script_by(host, &[], script, args, limit).await
}

/// Like [`script`], where a command starts the shell, as `srun` does on another machine.
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
