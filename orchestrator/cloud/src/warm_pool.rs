//! Fleets that are kept after their campaign: the warm pool. Each has a record in a directory next to the campaigns. The next campaign that requests
//! the same instances takes the fleet over by renaming the record, so that two campaigns can never have the same fleet.

use crate::key_dir::KeyPlace;
use crate::provider::FleetRequest;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::{FleetId, below};
use cvc_core::store::{StoreError, write_whole};
use cvc_journal::Lease;
use cvc_journal::lease::LaunchOrder;
use cvc_sites::error::CampaignError;
use serde::{Deserialize, Serialize};
use std::{fs, io::ErrorKind};

const SCHEMA: u32 = 1;
const FILE: &str = "kept.json";

/// The record of a kept fleet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptFleet {
    schema: u32,
    /// Directory of the campaign that kept the fleet last. That campaign may take it back.
    keeper: Utf8PathBuf,
    /// Digest of the instances' configuration; only a campaign with the same digest can take the fleet over.
    pub digest: String,
    /// Time at which the instances end by themselves.
    pub until: jiff::Timestamp,
    /// Leases of the fleet: the order of each, and its instances as text.
    pub leases: Vec<(LaunchOrder, String)>,
}

/// Name of the warm pool's directory, which is next to the directories of campaigns.
const POOL_DIR: &str = ".kept";

/// Returns the directory of the warm pool, given the directory of a campaign.
fn warm_pool(campaign: &Utf8Path) -> Utf8PathBuf {
    campaign.parent().unwrap_or(campaign).join(POOL_DIR)
}

/// Returns the path of a kept fleet's record in the warm pool.
pub(super) fn kept_file(campaign: &Utf8Path, fleet: &FleetId) -> Utf8PathBuf {
    below(&warm_pool(campaign), fleet.as_str())
}

/// Name of the directory in which other campaigns leave claims to fleets. It is in the directory of the keeper, the campaign that kept the fleets,
/// but not with the keys, because these move with a fleet.
const CLAIMS: &str = "given-away";

/// Returns the directory of the claims to one fleet.
fn claims(keeper: &Utf8Path, fleet: &FleetId) -> Utf8PathBuf {
    below(&keeper.join(CLAIMS), fleet.as_str())
}

/// Who owns the fleet of which a campaign has leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This campaign: the fleet was never taken over, or was taken back.
    Own,
    /// Another campaign, which has left a claim to the fleet.
    Transferred,
}

/// Moves a fleet to the warm pool. From then on any campaign may take it over.
pub(super) fn put(
    campaign: &Utf8Path,
    place: &KeyPlace,
    fleet: &FleetId,
    request: &FleetRequest,
    until: jiff::Timestamp,
    leases: &[Lease],
) -> Result<(), CampaignError> {
    let leases = leases
        .iter()
        .filter_map(|l| {
            l.is_acquired()
                .then_some(((**l.order.as_ref()?).clone(), l.instances().join(",")))
        })
        .collect();
    let kept = KeptFleet {
        schema: SCHEMA,
        keeper: campaign.to_owned(),
        digest: request.config_digest.clone(),
        until,
        leases,
    };
    let text =
        serde_json::to_vec_pretty(&kept).map_err(|e| CampaignError::internal(e.to_string()))?;
    write_whole(&place.dir().join(FILE), &text)?;
    let to = kept_file(campaign, fleet);
    fs::create_dir_all(warm_pool(campaign)).map_err(StoreError::io("make", warm_pool(campaign)))?;
    if to.exists() {
        fs::remove_dir_all(&to).map_err(StoreError::io("remove", &to))?;
    }
    fs::rename(place.dir(), &to).map_err(StoreError::io("rename to", &to))?;
    Ok(())
}

/// Returns the record of a kept fleet in a directory; `None` if there is none that this version can read.
fn read(dir: &Utf8Path) -> Option<KeptFleet> {
    let text = fs::read(dir.join(FILE)).ok()?;
    serde_json::from_slice::<KeptFleet>(&text)
        .ok()
        .filter(|k| k.schema == SCHEMA)
}

/// Returns the kept fleets of a directory of campaigns. Each has the name of the campaign with which `cvc down` ends the fleet, and the time at which
/// the instances end by themselves.
pub(super) fn pooled(campaigns: &Utf8Path) -> Vec<(FleetId, String, jiff::Timestamp)> {
    let Ok(entries) = campaigns.join(POOL_DIR).read_dir_utf8() else {
        return Vec::new();
    };
    let of = |entry: camino::Utf8DirEntry| {
        let kept = read(entry.path())?;
        let campaign = kept.keeper.file_name().unwrap_or_default().to_owned();
        Some((entry.file_name().into(), campaign, kept.until))
    };
    entries.flatten().filter_map(of).collect()
}

/// Returns the fleets that a campaign has taken from the warm pool, according to the records in the campaign's directory. The campaign's journal may
/// not have them.
pub(super) fn taken_by(campaign: &Utf8Path) -> Vec<FleetId> {
    let Ok(sites) = KeyPlace::all(campaign).read_dir_utf8() else {
        return Vec::new();
    };
    let records = sites.flatten().filter_map(|site| read(site.path()));
    records
        .flat_map(|kept| kept.leases)
        .map(|(order, _)| order.tags.fleet)
        .collect()
}

/// Reads the record of the fleet that was moved from the warm pool into the directory of a site; `None` if there is none.
pub(super) fn taken(place: &KeyPlace) -> Option<KeptFleet> {
    read(place.dir())
}

/// Returns who owns a fleet of which this campaign has leases. If the fleet is still in the warm pool, takes it back. The fleet counts as taken over
/// only if another campaign has left a claim; a missing or unreadable record is not enough.
pub(super) fn take_back(
    campaign: &Utf8Path,
    place: &KeyPlace,
    fleet: &FleetId,
) -> Result<Ownership, CampaignError> {
    if place.dir().join(FILE).exists() {
        return Ok(Ownership::Own);
    }
    let pooled = kept_file(campaign, fleet);
    loop {
        // in this order: a campaign leaves its claim before it takes the fleet from the warm pool
        let (is_pooled, is_claimed) = (pooled.exists(), has_claim(&claims(campaign, fleet))?);
        // a record that is damaged or of a newer version does not show its keeper
        let is_own = !is_claimed || read(&pooled).is_some_and(|kept| kept.keeper == campaign);
        if !is_own {
            return Ok(Ownership::Transferred);
        }
        if !is_pooled {
            return Ok(Ownership::Own);
        }
        // an earlier session may have been killed when it had only created the directory; the key is then still in the warm pool
        if place.dir().exists() {
            fs::remove_dir_all(place.dir()).map_err(StoreError::io("remove", place.dir()))?;
        }
        // fails if another campaign takes the fleet over at this moment; then check again
        if move_to(&pooled, place)? {
            return Ok(Ownership::Own);
        }
    }
}

/// Returns whether a campaign has left a claim to a fleet.
fn has_claim(claims: &Utf8Path) -> Result<bool, StoreError> {
    match claims.read_dir_utf8() {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("list", claims)(error)),
    }
}

/// Moves the record of a kept fleet from the warm pool to a campaign. Returns `false` if it was no longer in the warm pool.
fn move_to(pooled: &Utf8Path, place: &KeyPlace) -> Result<bool, StoreError> {
    if let Some(parent) = place.dir().parent() {
        fs::create_dir_all(parent).map_err(StoreError::io("make", parent))?;
    }
    match fs::rename(pooled, place.dir()) {
        Ok(()) => Ok(true),
        // another campaign was faster
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("rename to", place.dir())(error)),
    }
}

/// Takes over a kept fleet that has the requested configuration, and whose instances do not end within a minute. Returns whether there was such a
/// fleet.
pub(super) fn take(
    campaign: &Utf8Path,
    place: &KeyPlace,
    request: &FleetRequest,
) -> Result<bool, CampaignError> {
    let warm_pool = warm_pool(campaign);
    let Ok(entries) = warm_pool.read_dir_utf8() else {
        return Ok(false);
    };
    // a fleet with less than a minute left is not worth a login
    let soon = jiff::Timestamp::now()
        .saturating_add(jiff::SignedDuration::from_mins(1))
        .unwrap_or(jiff::Timestamp::MAX);
    // the campaign already has a fleet, or leftovers of one from an earlier session
    if place.dir().exists() {
        return Ok(false);
    }
    for entry in entries.flatten() {
        let Some(kept) =
            read(entry.path()).filter(|k| k.digest == request.config_digest && k.until > soon)
        else {
            continue;
        };
        // the keeper's journal still has the leases, so a keeper must exist to find the claim
        if kept.keeper != campaign && !kept.keeper.is_dir() {
            continue;
        }
        let claim = claims(&kept.keeper, &entry.file_name().into()).join(taker(campaign));
        if kept.keeper != campaign {
            if let Some(dir) = claim.parent() {
                fs::create_dir_all(dir).map_err(StoreError::io("make", dir))?;
            }
            write_whole(&claim, format!("{campaign}\n").as_bytes())?;
        }
        if move_to(entry.path(), place)? {
            return Ok(true);
        }
        // another campaign was faster; the directory stays, because others may be about to leave their claims there
        let _ = fs::remove_file(&claim);
    }
    Ok(false)
}

/// Returns the name of the claim that a campaign leaves when it takes a fleet over.
fn taker(campaign: &Utf8Path) -> String {
    cvc_core::ids::digest_prefix(campaign.as_str().as_bytes(), 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a directory of campaigns with two campaigns, and the fleet of the first one.
    fn two() -> (tempfile::TempDir, Utf8PathBuf, Utf8PathBuf, FleetId) {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = Utf8Path::from_path(temporary.path()).expect("UTF-8");
        let (first, second) = (root.join("first"), root.join("second"));
        fs::create_dir_all(&first).expect("makes");
        fs::create_dir_all(&second).expect("makes");
        (temporary, first, second, "cvc-first".into())
    }

    fn request() -> FleetRequest {
        let text = "schema = 1\nname = \"t\"\n[sites.cloud]\nkind = \"ec2\"\n[sites.cloud.ec2]\nregion = \"us-east-1\"\n\
             instance_types = [\"c5.large\"]\nnodes = 2\nimage = \"debian-12\"\n\
             [matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 2\nmpi = \"openmpi\"\n";
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/apps");
        let spec = cvc_core::campaign::load_text(std::path::Path::new("t.toml"), text, &[apps])
            .unwrap_or_else(|e| panic!("{e}"));
        FleetRequest::of(spec.sites["cloud"].ec2.as_ref().expect("of a cloud"))
    }

    fn keep(campaign: &Utf8Path, fleet: &FleetId) {
        let place = KeyPlace::new(campaign, "cloud");
        fs::create_dir_all(place.dir()).expect("makes");
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        put(campaign, &place, fleet, &request(), until, &[]).unwrap_or_else(|e| panic!("{e}"));
    }

    fn back(campaign: &Utf8Path, fleet: &FleetId) -> Ownership {
        take_back(campaign, &KeyPlace::new(campaign, "cloud"), fleet)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn takes(campaign: &Utf8Path) -> bool {
        take(campaign, &KeyPlace::new(campaign, "cloud"), &request())
            .unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn only_a_claim_of_the_taker_says_that_a_fleet_is_given_away() {
        let (_temporary, first, second, fleet) = two();
        assert_eq!(back(&first, &fleet), Ownership::Own, "it was never kept");
        keep(&first, &fleet);
        assert!(takes(&second));
        assert_eq!(back(&first, &fleet), Ownership::Transferred);
        // also while the second campaign keeps the fleet
        keep(&second, &fleet);
        assert_eq!(back(&first, &fleet), Ownership::Transferred);
        assert!(!KeyPlace::new(&first, "cloud").dir().exists());
        assert_eq!(back(&second, &fleet), Ownership::Own);
        assert!(KeyPlace::new(&second, "cloud").dir().exists());
        // killed when it had only created a directory for its next fleet
        fs::create_dir_all(KeyPlace::new(&first, "cloud").dir()).expect("makes");
        assert_eq!(back(&first, &fleet), Ownership::Transferred);
    }

    #[test]
    fn a_record_that_cannot_be_read_leaves_the_fleet_with_its_keeper() {
        let (_temporary, first, second, fleet) = two();
        for text in ["", "{\"schema\":1,", "{\"schema\":2}"] {
            keep(&first, &fleet);
            fs::write(kept_file(&first, &fleet).join(FILE), text).expect("writes");
            assert!(!takes(&second), "{text}");
            assert_eq!(back(&first, &fleet), Ownership::Own, "{text}");
            assert!(
                !kept_file(&first, &fleet).exists(),
                "{text}: its key is where it is looked for"
            );
            fs::remove_dir_all(KeyPlace::new(&first, "cloud").dir()).expect("removes");
        }
    }

    #[test]
    fn a_taker_that_died_before_it_had_the_fleet_does_not_keep_it_from_its_keeper() {
        let (_temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        fs::create_dir_all(claims(&first, &fleet)).expect("makes");
        fs::write(claims(&first, &fleet).join(taker(&second)), "").expect("writes");
        assert_eq!(back(&first, &fleet), Ownership::Own);
    }

    #[test]
    fn a_fleet_whose_keeper_is_unknown_is_not_taken_over() {
        let (temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        let moved = Utf8Path::from_path(temporary.path())
            .expect("UTF-8")
            .join("moved");
        fs::rename(&first, &moved).expect("renames");
        assert!(!takes(&second));
        assert_eq!(back(&moved, &fleet), Ownership::Own);
        assert!(KeyPlace::new(&moved, "cloud").dir().exists());
    }

    #[test]
    fn a_fleet_that_is_taken_back_is_no_longer_in_the_warm_pool() {
        let (_temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        // killed when it had only created a directory
        fs::create_dir_all(KeyPlace::new(&first, "cloud").dir()).expect("makes");
        assert_eq!(back(&first, &fleet), Ownership::Own);
        assert!(!takes(&second), "two campaigns would use it");
        assert!(
            KeyPlace::new(&first, "cloud").dir().join(FILE).exists(),
            "its key is where it is looked for"
        );
    }

    #[test]
    fn a_taker_that_was_too_late_leaves_no_trace_of_itself() {
        let (_temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        // the other campaign has removed its claim again
        fs::create_dir_all(claims(&first, &fleet)).expect("makes");
        fs::write(kept_file(&first, &fleet).join(FILE), "").expect("damages");
        assert_eq!(back(&first, &fleet), Ownership::Own);
        assert!(!takes(&second));
    }
}
