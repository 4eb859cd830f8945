//! What sessions need of this machine: its sites, its programs.

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

/// Where a session takes place.
#[derive(Clone)]
pub struct Machine {
    /// Directory of all campaigns.
    pub campaigns: Utf8PathBuf,
    /// The clouds; `None` in a cvc that was built without any.
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
    /// Returns what the engine needs to know of this machine.
    ///
    /// # Errors
    /// When the path of this program is unknown, or its processes cannot be told from others'.
    pub fn options(&self) -> Result<Options, SessionError> {
        let myself = std::env::current_exe()
            .ok()
            .and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
        let myself = myself.ok_or(SessionError::UnknownPath)?;
        // else what is left of runs is looked for among others' processes
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

/// The program to copy to nodes: the one that `CVC_NODE_PROGRAM` names, else the one beside this program, else, for a program in cargo's
/// `target/quick`, the one that `cargo xtask node --release` builds.
fn node_program(myself: &Utf8Path) -> Utf8PathBuf {
    let beside = myself.with_file_name("cvc-node");
    match std::env::var("CVC_NODE_PROGRAM") {
        Ok(given) if !given.is_empty() => Utf8PathBuf::from(given),
        _ if beside.is_file() => beside,
        _ => {
            let quick = myself
                .parent()
                .filter(|dir| dir.file_name() == Some("quick"));
            quick.map_or(beside, |dir| dir.with_file_name("release").join("cvc-node"))
        }
    }
}

/// Finds out what this machine has, for every site of a campaign that is this machine. `readiness` says how far to prepare the site of a name.
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
