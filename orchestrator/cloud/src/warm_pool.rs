//! Fleets that are kept after their campaign. The record of each lies beside the campaigns; the next campaign that wants the same takes it
//! over by a rename, so that two can never have it.

use crate::key_dir::Place;
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

/// Name of the directory of kept fleets, beside the campaigns.
const POOL_DIR: &str = ".kept";

/// Directory of kept fleets.
fn warm_pool(campaign: &Utf8Path) -> Utf8PathBuf {
    campaign.parent().unwrap_or(campaign).join(POOL_DIR)
}

/// Path of a kept fleet.
pub(super) fn kept_file(campaign: &Utf8Path, fleet: &FleetId) -> Utf8PathBuf {
    below(&warm_pool(campaign), fleet.as_str())
}

/// Directory of a keeper in which those who take its fleets over say so. It is beside the keys, which go with the fleet.
const CLAIMS: &str = "given-away";

/// The claims to one fleet.
fn claims(keeper: &Utf8Path, fleet: &FleetId) -> Utf8PathBuf {
    below(&keeper.join(CLAIMS), fleet.as_str())
}

/// What became of a fleet that a campaign has leases of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// It is this campaign's: it never left, or it was taken back.
    Own,
    /// Another campaign has taken it over, and has left a claim to it.
    Transferred,
}

/// Puts a fleet into the warm pool: from now on any campaign may take it over.
pub(super) fn put(
    campaign: &Utf8Path,
    place: &Place,
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
    let kept = Kept {
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

/// The record of a kept fleet in a directory; `None` if there is none that this version can read.
fn read(dir: &Utf8Path) -> Option<Kept> {
    let text = fs::read(dir.join(FILE)).ok()?;
    serde_json::from_slice::<Kept>(&text)
        .ok()
        .filter(|k| k.schema == SCHEMA)
}

/// The kept fleets of a directory of campaigns, each with the campaign that `cvc down` takes to end it, and with its end.
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

/// The fleets that a campaign has taken from the warm pool, as the records in its directory say; its journal may not have them yet.
pub(super) fn taken_by(campaign: &Utf8Path) -> Vec<FleetId> {
    let Ok(sites) = Place::all(campaign).read_dir_utf8() else {
        return Vec::new();
    };
    let records = sites.flatten().filter_map(|site| read(site.path()));
    records
        .flat_map(|kept| kept.leases)
        .map(|(order, _)| order.tags.fleet)
        .collect()
}

/// Reads the record that was taken from the warm pool into a directory; `None` if there is none.
pub(super) fn taken(place: &Place) -> Option<Kept> {
    read(place.dir())
}

/// Finds a fleet that a campaign has leases of, and takes it back from the warm pool if it is there. Only a claim of who took it over says
/// that it is no longer the campaign's: that there is no record, or none that can be read, says nothing about its instances.
pub(super) fn take_back(
    campaign: &Utf8Path,
    place: &Place,
    fleet: &FleetId,
) -> Result<Ownership, CampaignError> {
    if place.dir().join(FILE).exists() {
        return Ok(Ownership::Own);
    }
    let pooled = kept_file(campaign, fleet);
    loop {
        // in this order: who takes it from the warm pool has left a claim before
        let (is_pooled, is_claimed) = (pooled.exists(), has_claim(&claims(campaign, fleet))?);
        // a record that is damaged, or of a newer version, does not say who has put it there
        let is_own = !is_claimed || read(&pooled).is_some_and(|kept| kept.keeper == campaign);
        if !is_own {
            return Ok(Ownership::Transferred);
        }
        if !is_pooled {
            return Ok(Ownership::Own);
        }
        // an earlier session may have died when it had only made a directory; what lies in the warm pool has the key
        if place.dir().exists() {
            fs::remove_dir_all(place.dir()).map_err(StoreError::io("remove", place.dir()))?;
        }
        // if it is still there: as long as it is, another campaign may take it over
        if move_to(&pooled, place)? {
            return Ok(Ownership::Own);
        }
    }
}

/// Whether there is a claim to a fleet.
fn has_claim(claims: &Utf8Path) -> Result<bool, StoreError> {
    match claims.read_dir_utf8() {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("list", claims)(error)),
    }
}

/// Moves a kept fleet to a campaign. Returns whether it was still there.
fn move_to(pooled: &Utf8Path, place: &Place) -> Result<bool, StoreError> {
    if let Some(parent) = place.dir().parent() {
        fs::create_dir_all(parent).map_err(StoreError::io("make", parent))?;
    }
    match fs::rename(pooled, place.dir()) {
        Ok(()) => Ok(true),
        // another campaign was quicker
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("rename to", place.dir())(error)),
    }
}

/// Takes any kept fleet over with the same configuration whose deadline is far enough. Returns whether there was one.
pub(super) fn take(
    campaign: &Utf8Path,
    place: &Place,
    request: &FleetRequest,
) -> Result<bool, CampaignError> {
    let warm_pool = warm_pool(campaign);
    let Ok(entries) = warm_pool.read_dir_utf8() else {
        return Ok(false);
    };
    // less than a minute is not worth a login
    let soon = jiff::Timestamp::now()
        .saturating_add(jiff::SignedDuration::from_mins(1))
        .unwrap_or(jiff::Timestamp::MAX);
    // it has one already, or what an earlier session has left of one
    if place.dir().exists() {
        return Ok(false);
    }
    for entry in entries.flatten() {
        let Some(kept) =
            read(entry.path()).filter(|k| k.digest == request.config_digest && k.until > soon)
        else {
            continue;
        };
        // whose journal still has its leases must be able to learn of it
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
        // it is not this campaign that has it; the directory stays, because another may be about to write its own claim there
        let _ = fs::remove_file(&claim);
    }
    Ok(false)
}

/// Name of the claim of a campaign that takes a fleet over.
fn taker(campaign: &Utf8Path) -> String {
    cvc_core::ids::digest_prefix(campaign.as_str().as_bytes(), 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of campaigns with two of them, and the fleet of the first one.
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
        let place = Place::new(campaign, "cloud");
        fs::create_dir_all(place.dir()).expect("makes");
        let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
        put(campaign, &place, fleet, &request(), until, &[]).unwrap_or_else(|e| panic!("{e}"));
    }

    fn back(campaign: &Utf8Path, fleet: &FleetId) -> Ownership {
        take_back(campaign, &Place::new(campaign, "cloud"), fleet).unwrap_or_else(|e| panic!("{e}"))
    }

    fn takes(campaign: &Utf8Path) -> bool {
        take(campaign, &Place::new(campaign, "cloud"), &request()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn only_a_claim_of_the_taker_says_that_a_fleet_is_given_away() {
        let (_temporary, first, second, fleet) = two();
        assert_eq!(back(&first, &fleet), Ownership::Own, "it was never kept");
        keep(&first, &fleet);
        assert!(takes(&second));
        assert_eq!(back(&first, &fleet), Ownership::Transferred);
        // also while the second one keeps it
        keep(&second, &fleet);
        assert_eq!(back(&first, &fleet), Ownership::Transferred);
        assert!(!Place::new(&first, "cloud").dir().exists());
        assert_eq!(back(&second, &fleet), Ownership::Own);
        assert!(Place::new(&second, "cloud").dir().exists());
        // killed when it had only made a directory for its next one
        fs::create_dir_all(Place::new(&first, "cloud").dir()).expect("makes");
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
            fs::remove_dir_all(Place::new(&first, "cloud").dir()).expect("removes");
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
    fn a_fleet_whose_keeper_cannot_be_told_is_not_taken_over() {
        let (temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        let moved = Utf8Path::from_path(temporary.path())
            .expect("UTF-8")
            .join("moved");
        fs::rename(&first, &moved).expect("renames");
        assert!(!takes(&second));
        assert_eq!(back(&moved, &fleet), Ownership::Own);
        assert!(Place::new(&moved, "cloud").dir().exists());
    }

    #[test]
    fn a_fleet_that_is_taken_back_is_no_longer_in_the_warm_pool() {
        let (_temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        // killed when it had only made a directory
        fs::create_dir_all(Place::new(&first, "cloud").dir()).expect("makes");
        assert_eq!(back(&first, &fleet), Ownership::Own);
        assert!(!takes(&second), "two campaigns would use it");
        assert!(
            Place::new(&first, "cloud").dir().join(FILE).exists(),
            "its key is where it is looked for"
        );
    }

    #[test]
    fn a_taker_that_was_too_late_leaves_no_trace_of_itself() {
        let (_temporary, first, second, fleet) = two();
        keep(&first, &fleet);
        // it has removed its claim again
        fs::create_dir_all(claims(&first, &fleet)).expect("makes");
        fs::write(kept_file(&first, &fleet).join(FILE), "").expect("damages");
        assert_eq!(back(&first, &fleet), Ownership::Own);
        assert!(!takes(&second));
    }
}
