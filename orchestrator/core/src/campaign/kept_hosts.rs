//! Hosts of sites with an inventory, stored with a campaign's runs, so that a later session or `cvc down` finds the same machines without querying
//! the inventory again.

use super::{checker::KnownHosts, spec::Spec};
use crate::{
    hosts::HostEntry,
    store::{CampaignDir, StoreError, read_text, write_whole},
};
use std::collections::BTreeMap;

/// Writes the hosts of all sites with an inventory; writes nothing if there are none.
///
/// # Errors
/// The file cannot be written.
pub fn keep_hosts(dir: &CampaignDir, spec: &Spec) -> Result<(), StoreError> {
    let of_site = |site: &super::Site| {
        site.cluster
            .as_ref()
            .filter(|c| c.inventory.is_some())
            .map(|c| c.hosts.clone())
    };
    let hosts: BTreeMap<&str, Vec<HostEntry>> = spec
        .sites
        .iter()
        .filter_map(|(name, site)| Some((name.as_str(), of_site(site)?)))
        .filter(|(_, hosts)| !hosts.is_empty())
        .collect();
    if hosts.is_empty() {
        return Ok(());
    }
    let json = serde_json::to_vec_pretty(&hosts)
        .map_err(|e| StoreError::damaged(dir.hosts(), 0, e.to_string()))?;
    write_whole(&dir.hosts(), &json)
}

/// Returns the stored hosts; none if there is no file.
///
/// # Errors
/// The file cannot be read.
pub fn kept_hosts(dir: &CampaignDir) -> Result<KnownHosts, StoreError> {
    let path = dir.hosts();
    if !path.exists() {
        return Ok(KnownHosts::new());
    }
    let kept: BTreeMap<String, Vec<HostEntry>> = serde_json::from_str(&read_text(&path)?)
        .map_err(|e| StoreError::damaged(&path, e.line(), e.to_string()))?;
    Ok(kept
        .into_iter()
        .map(|(site, hosts)| (site, Ok(hosts)))
        .collect())
}
