//! Installation: writes an inventory and variables from the campaign, runs ansible-playbook with cvc's roles, reads its events as they
//! come, and locks what is installed at the end.

pub mod ansible;
mod difference;
mod error;
mod host_lock;
pub mod inventory;
pub mod lock;
mod play;
pub mod playbook;
mod report;
mod spack;
mod trust;
pub mod wanted;

pub use difference::Difference;
pub use error::InstallError;
pub use lock::{Component, Lock, SiteLock};
pub use report::{FailedTask, HostReport, InstallEvent, InstallReport, Installed, TaskResult};
pub use trust::remove_trust;

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::campaign::{Site, Spec};
use cvc_core::embedded;
use cvc_core::plan::Plan;
use cvc_core::stop::StopSignal;
use cvc_core::store::{CampaignDir, StoreError};
use host_lock::HostLocks;
use include_dir::{Dir, include_dir};
use play::Play;
use std::time::Duration;

static ROLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../ansible");

/// Time limit of an installation: builds by Spack take hours.
pub const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// A request to install software on a site.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The campaign.
    pub spec: &'a Spec,
    /// Its plan: only what its points need is installed.
    pub plan: &'a Plan,
    /// Name of the site.
    pub site: &'a str,
    /// The campaign's directory, where the lock is.
    pub dir: &'a CampaignDir,
    /// Whether to check what would be done, without doing it.
    pub check: bool,
    /// Only the roles with these tags; empty is all.
    pub tags: &'a [String],
    /// Only these hosts, in ansible-playbook's syntax.
    pub only: Option<&'a str>,
    /// Whether to accept what is installed instead of what is locked.
    pub update_lock: bool,
    /// Time limit.
    pub limit: Duration,
}

/// Files for ansible-playbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The inventory.
    pub inventory: Utf8PathBuf,
    /// The variables.
    pub vars: Utf8PathBuf,
    /// The whole Spack environment, to read or to build by hand.
    pub spack: Utf8PathBuf,
    /// The roles, with site.yml.
    pub roles: Utf8PathBuf,
}

/// Writes inventory and variables of a site into a directory. `pins` are required versions of packages.
///
/// # Errors
/// When a file cannot be written, or a value cannot be given to ssh.
pub fn write(
    request: &Request<'_>,
    site: &Site,
    lock: &Lock,
    to: &Utf8Path,
) -> Result<Written, InstallError> {
    let base = base_of(request.spec);
    let pins = if request.update_lock {
        Default::default()
    } else {
        lock.pins(request.site)
    };
    let wanted = wanted::of(request.spec, request.plan, request.site, site, &pins);
    let roles = embedded::directory("ansible", &ROLES)?;
    let roles = Utf8PathBuf::from_path_buf(roles).map_err(|p| InstallError::Path {
        path: p.display().to_string().into(),
    })?;
    std::fs::create_dir_all(to).map_err(StoreError::io("make", to))?;
    let put = |name: &str, text: String| {
        let file = to.join(name);
        cvc_core::store::write_whole(&file, text.as_bytes())?;
        Ok::<_, StoreError>(file)
    };
    let json = |value: &serde_json::Value| {
        serde_json::to_string_pretty(value)
            .map(|t| t + "\n")
            .unwrap_or_default()
    };
    Ok(Written {
        inventory: put("inventory.yml", inventory::text(request.site, site, &base)?)?,
        vars: put("wanted.json", json(&wanted.vars))?,
        // JSON is YAML
        spack: put("spack.yaml", json(&wanted.spack))?,
        roles,
    })
}

/// Installs what the campaign needs on a site, and locks it.
///
/// # Errors
/// When Ansible is not available, another installation is at work on a host, a host fails (the others are finished nevertheless), hosts differ, or the site differs from the lock.
pub async fn install(
    request: &Request<'_>,
    stop_signal: &mut StopSignal,
    on: &mut (dyn FnMut(InstallEvent) + Send),
) -> Result<InstallReport, InstallError> {
    let Some(site) = request.spec.sites.get(request.site) else {
        return Ok(InstallReport {
            site: request.site.to_owned(),
            check: request.check,
            ..InstallReport::default()
        });
    };
    let lock = Lock::read(request.dir)?;
    let files = write(
        request,
        site,
        &lock,
        &request.dir.root().join("install").join(request.site),
    )?;
    let ansible = ansible::ensure(&mut |what| on(InstallEvent::Preparing { what })).await?;
    let hosts = inventory::hosts(site);
    on(InstallEvent::Started {
        site: request.site.to_owned(),
        hosts: hosts.clone(),
        check: request.check,
    });
    let play = Play {
        site: request.site,
        hosts: &hosts,
        ansible: &ansible,
        roles: &files.roles,
        inventory: absolute(&files.inventory),
        vars: absolute(&files.vars),
        check: request.check,
        tags: request.tags,
        only: request.only,
        limit: request.limit,
    };
    // instances are launched for one campaign, and its lock is enough; a check changes nothing
    let locks = if request.check || site.ec2.is_some() {
        HostLocks::default()
    } else {
        let base = base_of(request.spec);
        let mut note = |what| on(InstallEvent::Preparing { what });
        tokio::select! {
            locks = HostLocks::take(request.site, site, &base, &mut note) => locks?,
            () = play::stopped(stop_signal) => return Err(InstallError::Interrupted { site: request.site.into() }),
        }
    };
    let report = play.run(stop_signal, on).await;
    for host in locks.release().await {
        let what = format!(
            "{host}: the connection that kept other installations away was lost; run it again if another one was at work"
        );
        on(InstallEvent::Preparing { what });
    }
    let report = report?;
    if !request.check {
        let now = lock::of(request.site, site, &report)?;
        Lock::record(request.dir, request.site, now, request.update_lock)?;
    }
    Ok(report)
}

/// The directory that paths of the campaign file are relative to.
fn base_of(spec: &Spec) -> Utf8PathBuf {
    let base = spec.directory();
    absolute(if base.as_str().is_empty() {
        Utf8Path::new(".")
    } else {
        base
    })
}

fn absolute(path: &Utf8Path) -> Utf8PathBuf {
    camino::absolute_utf8(path).unwrap_or_else(|_| path.to_owned())
}
