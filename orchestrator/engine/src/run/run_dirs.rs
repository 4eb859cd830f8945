//! The working directory of a run, its other directories, and the marker of its processes.

use super::site_context::SiteContext;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::ids::{RunId, below, digest_prefix};
use cvc_core::point::Point;
use cvc_core::store::{CampaignDir, StoreError};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
};

/// The system's source of random numbers.
const RANDOM: &str = "/dev/urandom";

/// Subdirectory of the working directory where each rank reports its node.
pub(crate) const RANKS: &str = ".cvc-ranks";
/// Subdirectory of the working directory where the MPI library's session files are kept for a restart.
pub(crate) const SESSION: &str = "session";
/// File in a run's directory that names its shepherd's process.
pub(crate) const SHEPHERD: &str = "shepherd.json";

/// Returns the value of `CVC_RUN`, which marks every process of a run in its environment.
pub(crate) fn marker(campaign: &CampaignDir, run: &RunId) -> String {
    format!("{run}@{}", campaign.root())
}

/// Number of hexadecimal digits in names that distinguish campaigns by their path.
const PLACE_DIGITS: usize = 8;

/// Returns the working directory of a run, in its storage area or below the campaign. The path never changes, so that checkpoints can be restarted.
pub(crate) fn work_dir(
    context: &SiteContext,
    campaign: &CampaignDir,
    point: &Point,
    run: &RunId,
) -> Utf8PathBuf {
    dir_in_area(context, campaign, &point.storage, run)
}

/// Returns the directory of a run in the storage area to which its checkpoints are flushed; `None` if they are not flushed.
pub(crate) fn flush_dir(
    context: &SiteContext,
    campaign: &CampaignDir,
    point: &Point,
    run: &RunId,
) -> Option<Utf8PathBuf> {
    let levels = context.checkpoint.levels_of(point)?;
    let area = levels.flush?.to;
    // if both are in the same area, this directory is next to the run's working directory
    let dir = dir_in_area(context, campaign, &area, run);
    Some(Utf8PathBuf::from(format!("{dir}{FLUSHED}")))
}

/// Suffix of a run's directory to which checkpoints are flushed.
pub(crate) const FLUSHED: &str = ".flushed";

/// Returns the directory of a run in a storage area.
fn dir_in_area(
    context: &SiteContext,
    campaign: &CampaignDir,
    area: &str,
    run: &RunId,
) -> Utf8PathBuf {
    match context.site.storage.get(area).and_then(|a| a.path.as_ref()) {
        Some(path) => {
            let area =
                cvc_core::paths::make_absolute(cvc_core::paths::expand_below(&context.base, path));
            below(&below(&area, &area_name(context, campaign)), run.as_str())
        }
        None => campaign.work(run),
    }
}

/// Returns the name of a campaign's directory in a storage area. Other campaigns there may have the same name, so the name includes this campaign's
/// lineage.
pub fn area_name(context: &SiteContext, campaign: &CampaignDir) -> String {
    match &context.lineage {
        Some(lineage) => format!("{}-{lineage}", context.campaign),
        // trials of a site have no campaign
        None => format!(
            "{}-{}",
            context.campaign,
            digest_prefix(campaign.root().as_str().as_bytes(), PLACE_DIGITS)
        ),
    }
}

/// Number of random bytes in the name of a private directory.
const RANDOM_BYTES: usize = 4;

/// Returns the path prefix of this user's private directories.
fn tmp_prefix() -> String {
    format!("/tmp/cvc-{}-", nix::unistd::geteuid())
}

/// Returns the path of a new private directory for sockets and session files. The path is short because the paths of sockets have a length limit. It
/// is random so that no other user can create the directory first.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn new_tmp_dir() -> Result<Utf8PathBuf, StoreError> {
    let bytes: [u8; RANDOM_BYTES] = random_bytes()?;
    Ok(Utf8PathBuf::from(format!(
        "{}{:08x}",
        tmp_prefix(),
        u32::from_ne_bytes(bytes)
    )))
}

/// Reads random bytes from the system.
///
/// # Errors
/// The system's source cannot be read.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let mut read = || File::open(RANDOM)?.read_exact(&mut bytes);
    read().map_err(StoreError::io("read", RANDOM))?;
    Ok(bytes)
}

/// Returns the private directory in the description (`run.json`) of a run that has begun; `None` if the path there is not a path that cvc creates.
pub(crate) fn written_tmp_dir(description: &Value) -> Option<Utf8PathBuf> {
    let path = description.get("tmp")?.as_str()?;
    // the caller removes this directory, so accept no other path
    let name = path.strip_prefix(&tmp_prefix())?;
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_hexdigit())).then(|| path.into())
}

/// Returns the path of the private directory that an earlier version of cvc used for this run.
pub(crate) fn earlier_tmp_dir(campaign: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    Utf8PathBuf::from(format!(
        "{}{}",
        tmp_prefix(),
        digest_prefix(marker(campaign, run).as_bytes(), PLACE_DIGITS)
    ))
}

/// File in a run's directory that describes the run.
pub(crate) const DESCRIPTION: &str = "run.json";

/// Returns the private directory of the last attempt at this run that was begun.
pub(crate) fn begun_tmp_dir(campaign: &CampaignDir, run: &RunId) -> Utf8PathBuf {
    let text = fs::read(campaign.partial(run).join(DESCRIPTION)).unwrap_or_default();
    let written = serde_json::from_slice(&text)
        .ok()
        .and_then(|description| written_tmp_dir(&description));
    written.unwrap_or_else(|| earlier_tmp_dir(campaign, run))
}

/// Why a storage area cannot be used: another user could replace a run's directory, or it is unknown whether that is possible.
#[derive(Debug, thiserror::Error)]
pub enum AreaError {
    /// A path in the area cannot be examined.
    #[error("cannot read {path}: {error}")]
    Read {
        /// The path.
        path: Utf8PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Every user may rename the files in the area.
    #[error(
        "every user can replace files in {0}: remove that right (`chmod o-w`), or set the sticky bit (`chmod +t`)"
    )]
    Replaceable(Utf8PathBuf),
    /// A symbolic link has the path of the campaign's directory.
    #[error("{0} is not a directory but a link: remove it")]
    Link(Utf8PathBuf),
    /// The campaign's directory belongs to another user.
    #[error("{0} belongs to another user: choose another storage area")]
    Foreign(Utf8PathBuf),
}

/// Checks that no other user can replace a campaign's directory in a storage area. `work` is the path of a run's new working directory.
///
/// # Errors
/// The area is unsafe, or cannot be examined.
pub(crate) fn check_area(work: &Utf8Path) -> Result<(), AreaError> {
    let (Some(of_campaign), Some(area)) = (work.parent(), work.parent().and_then(Utf8Path::parent))
    else {
        return Ok(());
    };
    let unread = |path: &Utf8Path| {
        let path = path.to_owned();
        |error| AreaError::Read { path, error }
    };
    let see = |path: &Utf8Path| path.symlink_metadata().map_err(unread(path));
    let mode = fs::metadata(area).map_err(unread(area))?.mode();
    if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
        return Err(AreaError::Replaceable(area.to_owned()));
    }
    let (found, own) = (see(of_campaign)?, see(work)?);
    if !found.is_dir() {
        return Err(AreaError::Link(of_campaign.to_owned()));
    }
    if found.uid() != own.uid() {
        return Err(AreaError::Foreign(of_campaign.to_owned()));
    }
    Ok(())
}

/// Mode bits: write permission for everybody, and the sticky bit, which protects files from other users.
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
                .to_string()
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
