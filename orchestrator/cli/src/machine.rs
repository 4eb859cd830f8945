//! What commands need of this machine: a runtime, its sites, its programs, its clouds.

use crate::{args::Where, exit_status::ExitStatus, failure::Failure};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::{remote::BySsh, runner::Options};
use cvc_core::campaign::{SiteKind, Spec};
use cvc_engine::attempt::{Readiness, ReadySite, SiteContext};
use cvc_os::proc::ProcessId;
use indexmap::IndexMap;
use std::{collections::HashMap, sync::Arc};

/// The runtime of a command: one thread.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| Failure::Other {
        status: ExitStatus::Internal,
        message: format!("cannot start: {e}"),
        hint: None,
    })
}

/// Finds out what this machine has, for every site of a campaign that is this machine. `readiness` says how far to prepare the site of a name.
pub async fn ask_sites(spec: &Spec, readiness: impl Fn(&str) -> Readiness, mut note: impl FnMut(String)) -> IndexMap<String, ReadySite> {
    let mut sites = IndexMap::new();
    for (name, site) in &spec.sites {
        if site.kind == SiteKind::Local
            && let Some(context) = SiteContext::of(spec, name)
        {
            sites.insert(name.clone(), ReadySite::ask(Arc::new(context), readiness(name), &mut note).await);
        }
    }
    sites
}

/// The clouds of a cvc that was built with them.
#[cfg(feature = "ec2")]
pub fn clouds() -> Option<Arc<dyn cvc_controller::provider::Clouds>> {
    Some(Arc::new(cvc_ec2::Ec2::default()))
}

/// The clouds of a cvc that was built without any.
#[cfg(not(feature = "ec2"))]
pub fn clouds() -> Option<Arc<dyn cvc_controller::provider::Clouds>> {
    None
}

/// What the engine needs to know of this machine.
pub fn options(place: &Where) -> Result<Options, Failure> {
    let myself = std::env::current_exe().ok().and_then(|p| Utf8PathBuf::from_path_buf(p).ok()).ok_or_else(|| Failure::Other {
        status: ExitStatus::Internal,
        message: "cannot find the path of cvc itself".into(),
        hint: None,
    })?;
    // else what is left of runs is looked for among others' processes
    ProcessId::own().map_err(|error| Failure::Other {
        status: ExitStatus::Host,
        message: error.to_string(),
        hint: Some("give the namespace a /proc of its own, as `unshare --mount-proc` does".into()),
    })?;
    Ok(Options {
        campaigns: place.campaigns.clone(),
        state: cvc_core::paths::state(),
        node_program: node_program(&myself),
        shepherd: vec![myself.into_string(), "shepherd".into()],
        retry_failed: false,
        only: None,
        last_block: None,
        until: None,
        update_lock: false,
        clouds: clouds(),
        reach: Arc::new(BySsh),
        disk_bytes: HashMap::new(),
        expected_s: HashMap::new(),
    })
}

/// The program to copy to nodes: the one that `CVC_NODE_PROGRAM` names, else the one beside this program, else, for a program in cargo's
/// `target/quick`, the one that `cargo xtask node --release` builds.
fn node_program(myself: &Utf8Path) -> Utf8PathBuf {
    let beside = myself.with_file_name("cvc-node");
    match std::env::var("CVC_NODE_PROGRAM") {
        Ok(given) if !given.is_empty() => Utf8PathBuf::from(given),
        _ if beside.is_file() => beside,
        _ => {
            let quick = myself.parent().filter(|dir| dir.file_name() == Some("quick"));
            quick.map_or(beside, |dir| dir.with_file_name("release").join("cvc-node"))
        }
    }
}
