//! Installs the software that a campaign needs on its sites.

use crate::error::SessionError;
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::plan::Plan;
use cvc_core::stop::StopSignal;
use cvc_core::store::{CampaignDir, CampaignLock, StoreError};
use cvc_sites::install::{self, InstallEvent, InstallReport, InstallRequest};

/// Installs the software that a campaign needs on one site, or only checks whether it is installed.
///
/// # Errors
/// Something cannot be installed, or the user stopped the installation.
pub async fn install_one(
    request: &InstallRequest<'_>,
    stop_signal: &mut StopSignal,
    observer: &mut dyn Observer,
) -> Result<InstallReport, SessionError> {
    let mut on = |event: InstallEvent| observer.on(&SessionProgress::Install(event));
    // two installations at once would conflict on the hosts and in cvc.lock
    let _lock = if request.check {
        None
    } else {
        std::fs::create_dir_all(request.dir.root())
            .map_err(StoreError::io("make", request.dir.root()))?;
        Some(CampaignLock::take_waiting(
            &request.dir.lock(),
            "cvc install",
        )?)
    };
    Ok(install::install(request, stop_signal, &mut on).await?)
}

/// Installs the software of every site that the plan uses.
///
/// # Errors
/// See [`install_one`].
pub async fn install_all(
    spec: &Spec,
    plan: &Plan,
    dir: &CampaignDir,
    update_lock: bool,
    stop_signal: &mut StopSignal,
    observer: &mut dyn Observer,
) -> Result<(), SessionError> {
    // cloud instances are set up when they are launched
    let there = spec
        .sites
        .iter()
        .filter(|(_, s)| s.kind != SiteKind::Ec2)
        .map(|(name, _)| name);
    for site in there.filter(|s| plan.points.iter().any(|p| p.point.site == **s)) {
        let request = InstallRequest {
            spec,
            plan,
            site,
            dir,
            check: false,
            tags: &[],
            only: None,
            update_lock,
            limit: install::LIMIT,
        };
        install_one(&request, stop_signal, observer).await?;
    }
    Ok(())
}
