//! Installation: writes an inventory and variables from the campaign, runs ansible-playbook with cvc's roles, reads its events as they are written,
//! and locks the installed software.

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
mod storage_down;
mod trust;
pub mod wanted;

pub use difference::VersionDifference;
pub use error::InstallError;
pub use lock::{Component, Lock, SiteLock};
pub use report::{FailedTask, HostReport, InstallEvent, InstallReport, Installed, TaskResult};
pub use storage_down::remove_storage;
pub use trust::remove_trust;
pub use wanted::without_package;

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
pub struct InstallRequest<'a> {
    /// The campaign.
    pub spec: &'a Spec,
    /// The plan; only software that its points need is installed.
    pub plan: &'a Plan,
    /// Name of the site.
    pub site: &'a str,
    /// The campaign's directory, which contains the lock.
    pub dir: &'a CampaignDir,
    /// Whether to only check which changes are necessary.
    pub check: bool,
    /// Tags of the roles to run; empty for all roles.
    pub tags: &'a [String],
    /// Hosts to install on, in ansible-playbook's syntax; `None` for all hosts.
    pub only: Option<&'a str>,
    /// Whether to accept the installed software and update the lock.
    pub update_lock: bool,
    /// Time limit.
    pub limit: Duration,
}

/// Files for ansible-playbook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledFiles {
    /// The inventory.
    pub inventory: Utf8PathBuf,
    /// The variables.
    pub vars: Utf8PathBuf,
    /// The complete Spack environment, to read or to build by hand.
    pub spack: Utf8PathBuf,
    /// Directory of the roles and of site.yml.
    pub roles: Utf8PathBuf,
}

/// Writes inventory and variables of a site into a directory. `pins` are the required versions of packages.
///
/// # Errors
/// A file cannot be written, or a value cannot be passed to ssh.
pub fn write(
    request: &InstallRequest<'_>,
    site: &Site,
    lock: &Lock,
    to: &Utf8Path,
) -> Result<InstalledFiles, InstallError> {
    let base = base_of(request.spec);
    let pins = if request.update_lock {
        Default::default()
    } else {
        lock.pins(request.site)
    };
    let wanted = wanted::collect(request.spec, request.plan, request.site, site, &pins);
    std::fs::create_dir_all(to).map_err(StoreError::io("make", to))?;
    let inventory = inventory::text(request.site, site, &base)?;
    Ok(InstalledFiles {
        inventory: put(to, "inventory.yml", &inventory)?,
        vars: put(to, "wanted.json", &json(&wanted.vars))?,
        // JSON is valid YAML
        spack: put(to, "spack.yaml", &json(&wanted.spack))?,
        roles: roles()?,
    })
}

/// Returns the directory of the roles on this machine.
fn roles() -> Result<Utf8PathBuf, InstallError> {
    let roles = embedded::directory("ansible", &ROLES)?;
    Utf8PathBuf::from_path_buf(roles).map_err(|p| InstallError::Path {
        path: p.display().to_string().into(),
    })
}

/// Writes a file for ansible-playbook.
fn put(to: &Utf8Path, name: &str, text: &str) -> Result<Utf8PathBuf, StoreError> {
    let file = to.join(name);
    cvc_core::store::write_whole(&file, text.as_bytes())?;
    Ok(file)
}

fn json(value: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").unwrap_or_default()
}

/// Installs the software that the campaign needs on a site, and records it in the lock.
///
/// # Errors
/// Ansible is not available, another installation is in progress on a host, a host fails (the other hosts are finished nevertheless), hosts differ,
/// or the site's software differs from the lock.
pub async fn install(
    request: &InstallRequest<'_>,
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
        playbook: "site.yml",
        inventory: absolute(&files.inventory),
        vars: absolute(&files.vars),
        check: request.check,
        tags: request.tags,
        only: request.only,
        limit: request.limit,
    };
    // no host locks for instances, which are launched for one campaign, whose own lock is enough; and none for a check, which changes nothing
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
            "{host}: the connection that held the lock was lost; install again if another installation was running"
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

/// Returns the directory to which paths in the campaign file are relative.
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
