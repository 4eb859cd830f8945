//! Fleets that are kept after their campaign. The record of each lies beside the campaigns; the next campaign that wants the same takes it
//! over by a rename, so that two can never have it.

use crate::cloud::key_dir::Place;
use crate::error::CampaignError;
use crate::provider::FleetRequest;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::lease::LaunchOrder;
use cvc_core::{
    ids::FleetId,
    journal::Lease,
    store::{StoreError, write_whole},
};
use serde::{Deserialize, Serialize};
use std::fs;

const SCHEMA: u32 = 1;
const FILE: &str = "kept.json";

/// The record of a kept fleet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    schema: u32,
    /// Directory of the campaign that kept it last, which may take it back.
    keeper: Utf8PathBuf,
    /// Digest of the configuration of its instances.
    pub digest: String,
    /// Time at which its instances end by themselves.
    pub until: jiff::Timestamp,
    /// Its leases, with orders and instances.
    pub leases: Vec<(LaunchOrder, String)>,
}

/// Directory of kept fleets.
fn warm_pool(campaign: &Utf8Path) -> Utf8PathBuf {
    campaign.parent().unwrap_or(campaign).join(".kept")
}

/// Path of a kept fleet.
pub(super) fn kept_file(campaign: &Utf8Path, fleet: &FleetId) -> Utf8PathBuf {
    warm_pool(campaign).join(fleet.as_str())
}

/// Puts a fleet into the warm pool: from now on it belongs to no campaign.
pub(super) fn put(
    campaign: &Utf8Path,
    place: &Place,
    fleet: &FleetId,
    request: &FleetRequest,
    until: jiff::Timestamp,
    leases: &[Lease],
) -> Result<(), CampaignError> {
    let leases =
        leases.iter().filter_map(|l| l.is_acquired().then_some(((**l.order.as_ref()?).clone(), l.instances().join(",")))).collect();
    let kept = Kept { schema: SCHEMA, keeper: campaign.to_owned(), digest: request.config_digest.clone(), until, leases };
    let text = serde_json::to_vec_pretty(&kept).map_err(|e| CampaignError::internal(e.to_string()))?;
    write_whole(&place.dir().join(FILE), &text)?;
    let to = kept_file(campaign, fleet);
    fs::create_dir_all(warm_pool(campaign)).map_err(StoreError::io("make", warm_pool(campaign)))?;
    if to.exists() {
        fs::remove_dir_all(&to).map_err(StoreError::io("remove", &to))?;
    }
    fs::rename(place.dir(), &to).map_err(StoreError::io("rename to", &to))?;
    Ok(())
}

/// Reads the record that was taken from the warm pool into a directory; `None` if there is none.
pub(super) fn taken(place: &Place) -> Option<Kept> {
    let text = fs::read(place.dir().join(FILE)).ok()?;
    serde_json::from_slice::<Kept>(&text).ok().filter(|k| k.schema == SCHEMA)
}

/// Takes a kept fleet over: the named one or, without a name, any with the same configuration whose deadline is far enough. Returns whether
/// there was one.
pub(super) fn take(campaign: &Utf8Path, place: &Place, fleet: Option<&FleetId>, request: &FleetRequest) -> Result<bool, CampaignError> {
    let warm_pool = warm_pool(campaign);
    let Ok(entries) = warm_pool.read_dir_utf8() else { return Ok(false) };
    // less than a minute is not worth a login
    let soon = jiff::Timestamp::now().saturating_add(jiff::SignedDuration::from_mins(1)).unwrap_or(jiff::Timestamp::MAX);
    for entry in entries.flatten() {
        let kept = fs::read(entry.path().join(FILE)).ok().and_then(|text| serde_json::from_slice::<Kept>(&text).ok());
        let Some(kept) = kept.filter(|k| k.schema == SCHEMA) else { continue };
        let suits = match fleet {
            Some(fleet) => entry.file_name() == fleet.as_str() && kept.keeper == campaign,
            None => kept.digest == request.config_digest && kept.until > soon,
        };
        if !suits {
            continue;
        }
        if let Some(parent) = place.dir().parent() {
            fs::create_dir_all(parent).map_err(StoreError::io("make", parent))?;
        }
        // another campaign may be quicker: then there is nothing left to rename
        if !place.dir().exists() && fs::rename(entry.path(), place.dir()).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
