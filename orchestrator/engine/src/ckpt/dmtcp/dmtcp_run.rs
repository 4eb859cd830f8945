//! A run under DMTCP.

use super::install::DmtcpLayout;
use crate::{
    ckpt::contract::{Install, SessionContext},
    run::{AllocatedNodes, RunContext, same_host},
};
use camino::Utf8PathBuf;
use cvc_core::campaign::StorageKind;
use cvc_image::DirImage;
use std::collections::BTreeMap;

/// A run under DMTCP.
pub(super) struct DmtcpRun<'r> {
    pub run: &'r RunContext,
    pub install: Install,
    pub layout: DmtcpLayout,
    /// Processes that must take part before a checkpoint makes sense.
    pub peers: u32,
    /// What starts a command on another node.
    pub ssh_wrapper: Utf8PathBuf,
}

impl<'r> DmtcpRun<'r> {
    /// The run of this context.
    pub fn new(install: &Install, context: SessionContext<'r>) -> Self {
        let SessionContext {
            run,
            peers,
            ssh_wrapper,
        } = context;
        Self {
            run,
            install: install.clone(),
            layout: DmtcpLayout::of(run),
            peers,
            ssh_wrapper,
        }
    }

    /// The script that DMTCP writes with each checkpoint.
    pub fn restart_script(&self) -> Utf8PathBuf {
        self.layout.ckptdir.join("dmtcp_restart_script.sh")
    }
}

/// The node on which an image was written. In a shared directory the restart script tells it.
pub(crate) fn node_of<'n>(
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
