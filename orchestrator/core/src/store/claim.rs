//! Records which directory of this machine belongs to a campaign, so that a copy is not run together with its original: both would treat the same
//! runs, jobs and instances as their own. A directory that was moved or renamed, or is reached by another path, counts as the same.

use super::{atomic_file::write_whole, error::StoreError};
use crate::{ids::below, paths};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::{fs, os::unix::fs::MetadataExt};

/// The directory in which a lineage was last seen on this machine.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    root: Utf8PathBuf,
    device: u64,
    inode: u64,
}

impl Claim {
    /// Returns the claim of a lineage for a directory; `None` if the directory does not exist.
    fn of(root: &Utf8Path) -> Option<Self> {
        let metadata = fs::metadata(root).ok()?;
        Some(Self {
            root: root.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }

    fn is_same_directory(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Returns the directory of claims: `lineages` in `$XDG_STATE_HOME/cvc` or `~/.local/state/cvc`.
fn claims(state: &Utf8Path) -> Utf8PathBuf {
    state.join("lineages")
}

/// Claims a lineage for the directory `root`. The claim is stored below `state`, cvc's directory for the state of this machine. Returns a note if the
/// claim cannot be stored: a copy of `root` would then not be noticed.
///
/// # Errors
/// Another directory of this machine has the lineage, so that `root` is a copy of it.
pub fn claim(
    state: &Utf8Path,
    lineage: &str,
    root: &Utf8Path,
    lineage_of: impl Fn(&Utf8Path) -> Option<String>,
) -> Result<Option<String>, StoreError> {
    claim_in(&claims(state), lineage, root, lineage_of)
}

/// Returns the lineage that was last seen in a directory; `None` if this machine has recorded none.
pub fn claimed_lineage(root: &Utf8Path) -> Option<String> {
    let root = root.canonicalize_utf8().ok()?;
    claims(&paths::state())
        .read_dir_utf8()
        .ok()?
        .flatten()
        .find_map(|entry| {
            let claim: Claim = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            (claim.root == root).then(|| entry.file_name().to_owned())
        })
}

fn claim_in(
    claims: &Utf8Path,
    lineage: &str,
    root: &Utf8Path,
    lineage_of: impl Fn(&Utf8Path) -> Option<String>,
) -> Result<Option<String>, StoreError> {
    let Some(mine) = Claim::of(root) else {
        return Ok(None);
    };
    let file = below(claims, lineage);
    let before = fs::read(&file)
        .ok()
        .and_then(|text| serde_json::from_slice::<Claim>(&text).ok());
    if before.as_ref() == Some(&mine) {
        return Ok(None);
    }
    let other = before
        .filter(|before| before.root != mine.root)
        .and_then(|before| Claim::of(&before.root));
    if let Some(other) = other
        && !other.is_same_directory(&mine)
        && lineage_of(&other.root).as_deref() == Some(lineage)
    {
        return Err(StoreError::Copied {
            path: root.into(),
            original: other.root.into(),
        });
    }
    let text = serde_json::to_vec(&mine).unwrap_or_default();
    let kept = fs::create_dir_all(claims)
        .map_err(StoreError::io("make", claims))
        .and_then(|()| write_whole(&file, &text));
    Ok(kept
        .err()
        .map(|error| format!("a copy of this campaign would go undetected: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_campaign_is_the_same_and_a_copy_is_refused_while_the_original_exists() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let (claims, one, two) = (dir.join("claims"), dir.join("one"), dir.join("two"));
        let made = |root: &Utf8Path| {
            fs::create_dir_all(root).expect("makes");
            fs::write(root.join("lineage"), "l").expect("writes");
        };
        let lineage_of = |root: &Utf8Path| fs::read_to_string(root.join("lineage")).ok();
        let claim = |root: &Utf8Path| claim_in(&claims, "l", root, lineage_of);
        made(&one);
        assert_eq!(claim(&one).expect("the first"), None);
        assert_eq!(claim(&one).expect("again"), None);
        fs::rename(&one, &two).expect("renames");
        assert_eq!(claim(&two).expect("moved"), None);
        made(&one);
        let error = claim(&one).expect_err("a copy").to_string();
        assert!(
            error.contains("one is a copy of") && error.contains("two"),
            "{error}"
        );
        // the same directory by another path
        std::os::unix::fs::symlink(&two, dir.join("link")).expect("links");
        assert_eq!(claim(&dir.join("link")).expect("the same"), None);
        // now another campaign is in the original's place
        fs::write(two.join("lineage"), "other").expect("writes");
        assert_eq!(claim(&one).expect("the original is gone"), None);
    }
}
