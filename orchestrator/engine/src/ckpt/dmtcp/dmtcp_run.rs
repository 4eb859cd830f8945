//! A run under DMTCP.

use super::install::DmtcpLayout;
use crate::{
    ckpt::contract::{Install, SessionContext},
    run::{AllocatedNodes, OutputSizes, RestartNumber, RunContext, same_host},
};
use camino::Utf8PathBuf;
use cvc_core::{campaign::StorageKind, strategy::Strategy};
use cvc_image::DirImage;
use std::collections::BTreeMap;

/// A run under DMTCP, or one of its restarts.
pub(super) struct DmtcpRun<'r> {
    pub run: &'r RunContext,
    pub install: Install,
    pub layout: DmtcpLayout,
    /// Number of processes that must be connected before a checkpoint is useful.
    pub peers: u32,
    /// Program that starts a command on another node.
    pub ssh_wrapper: Utf8PathBuf,
    /// The restart that this value describes; `None` for the original run.
    pub restart: Option<RestartNumber>,
    /// For a run that continues from images of an earlier attempt: host names of the nodes that wrote them, each with the node that replaces it.
    pub moved: Vec<(String, String)>,
}

impl<'r> DmtcpRun<'r> {
    /// Creates the description of the run in this context.
    pub fn new(install: &Install, context: SessionContext<'r>) -> Self {
        let SessionContext {
            run,
            peers,
            ssh_wrapper,
            keeps: _,
        } = context;
        Self {
            run,
            install: install.clone(),
            layout: DmtcpLayout::of(run),
            peers,
            ssh_wrapper,
            restart: None,
            moved: Vec::new(),
        }
    }

    /// Returns the description of a restart of this run.
    pub fn of_restart(&self, which: RestartNumber) -> Self {
        Self {
            run: self.run,
            install: self.install.clone(),
            layout: DmtcpLayout::of(self.run).of_restart(which),
            peers: self.peers,
            ssh_wrapper: self.ssh_wrapper.clone(),
            restart: Some(which),
            moved: self.moved.clone(),
        }
    }

    /// Returns the node to which an image belongs, if known: the node on which the image was written, or the node that has replaced that node.
    pub fn node_of<'n>(
        &'n self,
        image: &DirImage,
        seen_by: &[&'n str],
        hosts: &BTreeMap<String, String>,
    ) -> Option<&'n str> {
        let moved = hosts
            .get(&image.file)
            .and_then(|host| self.moved.iter().find(|(old, _)| same_host(host, old)));
        match moved {
            Some((_, node)) => Some(node),
            None => node_of(&self.run.used, image, seen_by, hosts),
        }
    }

    /// Returns the path of the script that DMTCP writes with each checkpoint.
    pub fn restart_script(&self) -> Utf8PathBuf {
        self.layout.scripts.join("dmtcp_restart_script.sh")
    }

    /// Returns whether forked copies of the processes write the images.
    pub fn is_forked(&self) -> bool {
        self.run.point.strategy == Strategy::Forked
    }

    /// Returns the current length of the program's output.
    pub fn printed(&self) -> OutputSizes {
        let name = |stream: &str| {
            self.restart
                .map_or_else(|| stream.to_owned(), |which| which.file(stream))
        };
        OutputSizes::of(&self.run.dir, &name("stdout"), &name("stderr"))
    }
}

/// Returns the node on which an image was written, if known. In a shared directory, only the restart script shows that.
fn node_of<'n>(
    used: &'n AllocatedNodes,
    image: &DirImage,
    seen_by: &[&'n str],
    hosts: &BTreeMap<String, String>,
) -> Option<&'n str> {
    if let ([place], StorageKind::NodeLocal) = (seen_by, used.storage) {
        return Some(place);
    }
    let host = hosts.get(&image.file)?;
    used.ranks
        .iter()
        .chain([&used.head])
        .find(|n| same_host(host, &n.hostname))
        .map(|n| n.name.as_str())
}
