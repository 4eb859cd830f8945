//! Fleets that are kept after their campaign: what cvc knows of one lies beside the campaigns, where the next one that wants the same takes it
//! over, by a rename, so that two can never have it.

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

/// What is known of a fleet that is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    schema: u32,
    /// Directory of the campaign that has kept it last: it may have it back.
    keeper: Utf8PathBuf,
    /// Digest of what its instances are like.
    pub digest: String,
    /// When its instances end by themselves.
    pub until: jiff::Timestamp,
    /// Its leases: what was ordered, and the instances that came of it.
    pub leases: Vec<(LaunchOrder, String)>,
}

/// Where fleets that are kept lie.
fn warm_pool(campaign: &Utf8Path) -> Utf8PathBuf {
    campaign.parent().unwrap_or(campaign).join(".kept")
}

/// Where one lies.
pub(super) fn on_shelf(campaign: &Utf8Path, fleet: &FleetId) -> Utf8PathBuf {
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
    let to = on_shelf(campaign, fleet);
    fs::create_dir_all(warm_pool(campaign)).map_err(StoreError::io("make", warm_pool(campaign)))?;
    if to.exists() {
        fs::remove_dir_all(&to).map_err(StoreError::io("remove", &to))?;
    }
    fs::rename(place.dir(), &to).map_err(StoreError::io("rename to", &to))?;
    Ok(())
}

/// What was taken from the warm pool and lies in a place now; `None` if nothing was.
pub(super) fn taken(place: &Place) -> Option<Kept> {
    let text = fs::read(place.dir().join(FILE)).ok()?;
    serde_json::from_slice::<Kept>(&text).ok().filter(|k| k.schema == SCHEMA)
}

/// Takes this fleet of the campaign's own back from the warm pool, or, without a name, any that is as wanted and is there for a while. Whether there was one.
pub(super) fn take(campaign: &Utf8Path, place: &Place, fleet: Option<&FleetId>, request: &FleetRequest) -> Result<bool, CampaignError> {
    let warm_pool = warm_pool(campaign);
    let Ok(entries) = warm_pool.read_dir_utf8() else { return Ok(false) };
    // a minute is the least that is worth a login
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
        // somebody else may be quicker: then there is nothing to rename any more
        if !place.dir().exists() && fs::rename(entry.path(), place.dir()).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
