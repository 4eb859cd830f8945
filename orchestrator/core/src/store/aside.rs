//! Renames files that may still be needed, instead of overwriting them.

use super::error::StoreError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::disk;

/// Renames a directory within its parent, and returns the new path; `None` if the directory does not exist.
///
/// # Errors
/// The directory cannot be renamed.
pub fn put_aside(path: &Utf8Path) -> Result<Option<Utf8PathBuf>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    let kept = free_name(path);
    disk::rename("run.put-aside", path.as_std_path(), kept.as_std_path())
        .map_err(StoreError::io("rename to", &kept))?;
    Ok(Some(kept))
}

/// Returns `path` with a suffix `.damaged-N`, where N is the first number that is not in use.
pub fn free_name(path: &Utf8Path) -> Utf8PathBuf {
    let name = |n: u32| Utf8PathBuf::from(format!("{path}.damaged-{n}"));
    (1..)
        .map(name)
        .find(|p| !p.exists())
        .unwrap_or_else(|| name(0))
}
