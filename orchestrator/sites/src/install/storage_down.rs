//! Removes the file systems that `cvc install` has deployed on a site, with the playbook `storage-down.yml`.

use super::{
    InstallError, LIMIT, absolute, ansible, inventory, json, play::Play, put, report::InstallEvent,
    roles, wanted,
};
use camino::Utf8Path;
use cvc_core::campaign::Site;
use cvc_core::stop::StopSignal;
use cvc_core::store::{CampaignDir, StoreError};

/// Removes all deployed file systems of a site, with the data stored in them. Returns the names of their storage areas.
///
/// # Errors
/// Ansible is not available, or a host fails. The other hosts are processed nevertheless.
pub async fn remove_storage(
    name: &str,
    site: &Site,
    base: &Utf8Path,
    dir: &CampaignDir,
    stop_signal: &mut StopSignal,
    on: &mut (dyn FnMut(InstallEvent) + Send),
) -> Result<Vec<String>, InstallError> {
    let deployed = site
        .storage
        .iter()
        .filter(|(_, area)| area.deploy.is_some());
    let areas: Vec<String> = deployed.map(|(name, _)| name.clone()).collect();
    if areas.is_empty() {
        return Ok(areas);
    }
    let to = dir.root().join("storage-down").join(name);
    std::fs::create_dir_all(&to).map_err(StoreError::io("make", &to))?;
    let base = absolute(base);
    let inventory = put(&to, "inventory.yml", &inventory::text(name, site, &base)?)?;
    let vars = serde_json::json!({
        "storage_file_systems": wanted::file_systems(site, |_| true),
        "storage_interface": wanted::interface(site),
    });
    let vars = put(&to, "wanted.json", &json(&vars))?;
    let ansible = ansible::ensure(&mut |what| on(InstallEvent::Preparing { what })).await?;
    let hosts = inventory::hosts(site);
    on(InstallEvent::Started {
        site: name.to_owned(),
        hosts: hosts.clone(),
        check: false,
    });
    let play = Play {
        site: name,
        hosts: &hosts,
        ansible: &ansible,
        roles: &roles()?,
        playbook: "storage-down.yml",
        inventory: absolute(&inventory),
        vars: absolute(&vars),
        check: false,
        tags: &[],
        only: None,
        limit: LIMIT,
    };
    play.run(stop_signal, on).await?;
    Ok(areas)
}
