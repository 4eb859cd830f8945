//! A node that answers, what it says of itself, and a script that runs there.

use crate::ssh::SshHost;
use cvc_engine::host::{Host, HostError};
use indexmap::IndexMap;
use std::{collections::BTreeMap, time::Duration};

/// Time limit of one question to a node.
pub(super) const SHORT: Duration = Duration::from_secs(60);

/// A node that answers.
pub(super) struct Node {
    pub(super) host: SshHost,
    /// What the other nodes call it.
    pub(super) among: String,
    pub(super) facts: Facts,
}

impl Node {
    pub(super) fn name(&self) -> &str {
        self.host.name()
    }
}

/// What a node says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Kernel, libc, processor, cores, memory: whatever should be the same everywhere.
    pub(super) same: IndexMap<String, String>,
    /// Paths as they are there, with what is wrong with each; by what they are for.
    pub(super) paths: IndexMap<String, PathFact>,
    /// MPI libraries that are there: the launcher and what it says.
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
pub(super) async fn script(host: &SshHost, script: &str, args: &[String], limit: Duration) -> Result<String, HostError> {
    let mut argv = vec!["sh".to_owned(), "-c".into(), script.to_owned(), "cvc-doctor".into()];
    argv.extend_from_slice(args);
    let out = host.ask(&argv, &BTreeMap::new(), limit).await?;
    if out.code == Some(0) {
        return Ok(out.stdout);
    }
    let last: Vec<&str> = out.stderr.lines().rev().take(3).collect();
    Err(HostError::Ssh { host: host.name().to_owned(), said: last.into_iter().rev().collect::<Vec<_>>().join("; ") })
}
