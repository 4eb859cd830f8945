//! How the head node of a site is reached.

use super::head_node::{HeadNode, ThisMachine};
use crate::ssh::{Notice, SshHost, Target};
use camino::Utf8Path;
use cvc_core::campaign::Cluster;
use cvc_core::hosts::HostEntry;
use std::{fmt::Debug, sync::Arc};

/// Reports to the user.
pub type Notes = Arc<dyn Fn(String) + Send + Sync>;

/// Finds the head node of a site; nothing is asked of it yet.
pub trait Reach: Debug + Send + Sync {
    /// Returns the machine with the spools of this site. `base` is the directory of the campaign file.
    fn head_node(
        &self,
        site: &str,
        cluster: &Cluster,
        base: &Utf8Path,
        notes: Notes,
    ) -> Arc<dyn HeadNode>;
}

/// By ssh, or this machine where sbatch can be called here.
#[derive(Debug)]
pub struct BySsh;

impl Reach for BySsh {
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
        let tell = move |notice: Notice| notes(notice.to_string());
        Arc::new(SshHost::with_listener(
            Target::new(site, &entry.below(base), &cluster.ssh.below(base)),
            Arc::new(tell),
        ))
    }
}
