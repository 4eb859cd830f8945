//! Facts about this machine that sessions need: its sites and programs.

use crate::error::SessionError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_cloud::provider::Clouds;
use cvc_controller::runner::Options;
use cvc_core::campaign::{SiteKind, Spec};
use cvc_engine::attempt::{Readiness, ReadySite, SiteContext};
use cvc_os::proc::ProcessId;
use cvc_sites::remote::BySsh;
use indexmap::IndexMap;
use std::{collections::HashMap, sync::Arc};

/// The machine of a session.
#[derive(Clone)]
pub struct Machine {
    /// Directory of all campaigns.
    pub campaigns: Utf8PathBuf,
    /// The clouds; `None` if this cvc was built without any.
    pub clouds: Option<Arc<dyn Clouds>>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine")
            .field("campaigns", &self.campaigns)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// Returns the options for running campaigns on this machine.
    ///
    /// # Errors
    /// The path of this program is unknown, or /proc does not show this process.
    pub fn options(&self) -> Result<Options, SessionError> {
        let myself = std::env::current_exe()
            .ok()
            .and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
        let myself = myself.ok_or(SessionError::UnknownPath)?;
        // with a /proc of another namespace, foreign processes could be mistaken for those of runs
        ProcessId::own().map_err(|error| SessionError::Machine {
            message: error.to_string(),
            hint: "give the namespace a /proc of its own, as `unshare --mount-proc` does",
        })?;
        Ok(Options {
            campaigns: self.campaigns.clone(),
            state: cvc_core::paths::state(),
            node_program: node_program(&myself),
            shepherd: vec![myself.into_string(), "shepherd".into()],
            retry_failed: false,
            keep_going: false,
            only: None,
            last_block: None,
            until: None,
            update_lock: false,
            clouds: self.clouds.clone(),
            reach: Arc::new(BySsh),
            disk_bytes: HashMap::new(),
            expected_s: HashMap::new(),
        })
    }
}

/// Returns the program to copy to nodes: the one that `CVC_NODE_PROGRAM` names, otherwise the one next to this program. If there is neither, and this
/// program is in cargo's `target/quick`, returns the one that `cargo xtask node --release` builds.
fn node_program(myself: &Utf8Path) -> Utf8PathBuf {
    let sibling = myself.with_file_name("cvc-node");
    match std::env::var("CVC_NODE_PROGRAM") {
        Ok(given) if !given.is_empty() => Utf8PathBuf::from(given),
        _ if sibling.is_file() => sibling,
        _ => {
            let quick = myself
                .parent()
                .filter(|dir| dir.file_name() == Some("quick"));
            quick.map_or(sibling, |dir| {
                dir.with_file_name("release").join("cvc-node")
            })
        }
    }
}

/// Queries this machine's software for each of a campaign's sites that are this machine. `readiness` returns how far a site is to be prepared.
pub async fn ask_sites(
    spec: &Spec,
    readiness: impl Fn(&str) -> Readiness,
    mut note: impl FnMut(String),
) -> IndexMap<String, ReadySite> {
    let mut sites = IndexMap::new();
    for (name, site) in &spec.sites {
        if site.kind == SiteKind::Local
            && let Some(context) = SiteContext::of(spec, name)
        {
            sites.insert(
                name.clone(),
                ReadySite::ask(Arc::new(context), readiness(name), &mut note).await,
            );
        }
    }
    sites
}
