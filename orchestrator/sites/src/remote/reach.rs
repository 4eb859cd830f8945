//! The ways to reach the head node of a site.

use super::head_node::{HeadNode, ThisMachine};
use crate::ssh::{HostNotice, SshHost, SshTarget};
use camino::Utf8Path;
use cvc_core::campaign::Cluster;
use cvc_core::hosts::HostEntry;
use std::{fmt::Debug, sync::Arc};

/// Function that shows a message to the user.
pub type Notes = Arc<dyn Fn(String) + Send + Sync>;

/// Finds the head node of a site, without connecting to it yet.
pub trait NodeReach: Debug + Send + Sync {
    /// Returns the machine that stores the spools of this site. `base` is the directory of the campaign file.
    fn head_node(
        &self,
        site: &str,
        cluster: &Cluster,
        base: &Utf8Path,
        notes: Notes,
    ) -> Arc<dyn HeadNode>;
}

/// Reaches the head node by ssh. If sbatch can be called on this machine, this machine is the head node.
#[derive(Debug)]
pub struct BySsh;

impl NodeReach for BySsh {
    fn head_node(
        &self,
        site: &str,
        cluster: &Cluster,
        base: &Utf8Path,
        notes: Notes,
    ) -> Arc<dyn HeadNode> {
        let entry: Option<&HostEntry> = match &cluster.slurm {
            Some(_) => cluster.head.as_ref(),
            None => cluster.head.as_ref().or(cluster.hosts.first()),
        };
        let Some(entry) = entry else {
            return Arc::new(ThisMachine);
        };
        let report = move |notice: HostNotice| notes(notice.to_string());
        Arc::new(SshHost::with_listener(
            SshTarget::new(site, &entry.below(base), &cluster.ssh.below(base)),
            Arc::new(report),
        ))
    }
}
