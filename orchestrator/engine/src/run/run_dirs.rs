//! Where a run works, and what marks it.

use super::site_context::SiteContext;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::{RunId, below, digest_prefix};
use cvc_core::point::Point;
use cvc_core::store::{CampaignDir, StoreError};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
};

/// Where random numbers come from.
const RANDOM: &str = "/dev/urandom";

/// Directory in the working directory where ranks say on which node they are.
pub(crate) const RANKS: &str = ".cvc-ranks";
/// Directory in the working directory that keeps the MPI library's session files for a restart.
pub(crate) const SESSION: &str = "session";
/// File in the directory of a run that says which process supervises it.
pub(crate) const SHEPHERD: &str = "shepherd.json";

/// What marks every process of a run in its environment.
pub(crate) fn marker(campaign: &CampaignDir, run: &RunId) -> String {
    format!("{run}@{}", campaign.root())
}

/// Number of hexadecimal digits that tell the places of campaigns apart in names.
const PLACE_DIGITS: usize = 8;

/// Where a run works: in its storage area, or below the campaign. The name never changes, so that checkpoints can be restarted.
pub(crate) fn work_dir(
    context: &SiteContext,
    campaign: &CampaignDir,
    point: &Point,
    run: &RunId,
) -> Utf8PathBuf {
    match context
        .site
        .storage
        .get(&point.storage)
        .and_then(|a| a.path.as_ref())
    {
        Some(path) => {
            let area =
                cvc_core::paths::make_absolute(cvc_core::paths::expand_below(&context.base, path));
            below(&below(&area, &area_name(context, campaign)), run.as_str())
        }
        None => campaign.work(run),
    }
}

/// The name of a campaign's directory in a storage area. Other campaigns there may have the same name, so that the lineage of this one is a part
/// of it.
pub fn area_name(context: &SiteContext, campaign: &CampaignDir) -> String {
    match &context.lineage {
        Some(lineage) => format!("{}-{lineage}", context.campaign),
        // no campaign's: what tries a site
        None => format!(
            "{}-{}",
            context.campaign,
            digest_prefix(campaign.root().as_str().as_bytes(), PLACE_DIGITS)
        ),
    }
}

/// Number of random bytes in the name of a private directory.
const RANDOM_BYTES: usize = 4;

/// What the names of this user's private directories begin with.
fn tmp_prefix() -> String {
    format!("/tmp/cvc-{}-", nix::unistd::geteuid())
}

/// A new short private directory for sockets and session files: their paths have a length limit. Its name is random, so that nobody can make it
/// before.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_tmp_dir() -> Result<Utf8PathBuf, StoreError> {
    let mut bytes = [0; RANDOM_BYTES];
    let mut read = || File::open(RANDOM)?.read_exact(&mut bytes);
    read().map_err(StoreError::io("read", RANDOM))?;
    Ok(Utf8PathBuf::from(format!(
        "{}{:08x}",
        tmp_prefix(),
        u32::from_ne_bytes(bytes)
    )))
}

/// The private directory of a run that was begun, as its description says.
pub(crate) fn written_tmp_dir(description: &Value) -> Option<Utf8PathBuf> {
    let path = description.get("tmp")?.as_str()?;
    // it is removed: no other file may be named there
    let name = path.strip_prefix(&tmp_prefix())?;
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_hexdigit())).then(|| path.into())
}

/// The private directory of a run that an earlier version of cvc began.
pub(crate) fn earlier_tmp_dir(campaign: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    Utf8PathBuf::from(format!(
        "{}{}",
        tmp_prefix(),
        digest_prefix(marker(campaign, run).as_bytes(), PLACE_DIGITS)
    ))
}

/// The description of a run in its directory.
pub(crate) const DESCRIPTION: &str = "run.json";

/// The private directory of the run that was begun last in this directory.
pub(crate) fn begun_tmp_dir(campaign: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    let text = fs::read(campaign.partial(run).join(DESCRIPTION)).unwrap_or_default();
    let written = serde_json::from_slice(&text)
        .ok()
        .and_then(|description| written_tmp_dir(&description));
    written.unwrap_or_else(|| earlier_tmp_dir(campaign, run))
}

/// Checks that nobody else can put something in the place of a campaign's directory in a storage area. `work` is the new directory of a run.
///
/// # Errors
/// What is wrong.
pub(crate) fn check_area(work: &Utf8Path) -> Result<(), String> {
    let (Some(of_campaign), Some(area)) = (work.parent(), work.parent().and_then(Utf8Path::parent))
    else {
        return Ok(());
    };
    let see = |path: &Utf8Path| {
        path.symlink_metadata()
            .map_err(|error| format!("cannot read {path}: {error}"))
    };
    let mode = fs::metadata(area)
        .map_err(|error| format!("cannot read {area}: {error}"))?
        .mode();
    if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
        return Err(format!(
            "every user may replace what is in {area}: take that right away (`chmod o-w`), or let all keep what is theirs (`chmod +t`)"
        ));
    }
    let (found, own) = (see(of_campaign)?, see(work)?);
    if !found.is_dir() {
        return Err(format!(
            "{of_campaign} is not a directory but a link: remove it"
        ));
    }
    if found.uid() != own.uid() {
        return Err(format!(
            "{of_campaign} belongs to another user: choose another storage area"
        ));
    }
    Ok(())
}

/// Right of everybody to write, and the bit that lets all keep what is theirs.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn an_area_in_which_others_may_replace_files_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let area = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let work = area.join("campaign/run");
        fs::create_dir_all(&work).expect("makes");
        for (mode, is_good) in [(0o755, true), (0o777, false), (0o1777, true), (0o775, true)] {
            fs::set_permissions(area, fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(
                check_area(&work).is_ok(),
                is_good,
                "{mode:o}: {:?}",
                check_area(&work)
            );
        }
        fs::create_dir_all(area.join("elsewhere/run")).expect("makes");
        symlink(area.join("elsewhere"), area.join("link")).expect("a link");
        assert!(
            check_area(&area.join("link/run"))
                .expect_err("a link")
                .contains("is not a directory but a link")
        );
    }

    #[test]
    fn a_private_directory_has_a_name_of_its_own_and_no_other_file_is_taken_for_one() {
        let (one, other) = (
            new_tmp_dir().expect("random"),
            new_tmp_dir().expect("random"),
        );
        assert_ne!(one, other);
        let read = |path: &str| written_tmp_dir(&serde_json::json!({ "tmp": path }));
        assert_eq!(read(one.as_str()), Some(one.clone()));
        for bad in [
            "/tmp/cvc-",
            "/home/ada",
            &format!("{one}/../../home"),
            &format!("{}..", tmp_prefix()),
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
