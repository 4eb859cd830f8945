//! Nothing that somebody may miss is overwritten: it is put aside.

use super::error::StoreError;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::disk;

/// Gives a directory that must not stay under its name another one beside it, and returns that; `None` if there is none.
///
/// # Errors
/// When it cannot be renamed.
pub fn put_aside(path: &Utf8Path) -> Result<Option<Utf8PathBuf>, StoreError> {
    if !path.exists() {
        return Ok(None);
    }
    let kept = free_name(path);
    disk::rename("run.put-aside", path.as_std_path(), kept.as_std_path())
        .map_err(StoreError::io("rename to", &kept))?;
    Ok(Some(kept))
}

/// A name beside a path that nothing has.
pub fn free_name(path: &Utf8Path) -> Utf8PathBuf {
    let name = |n: u32| Utf8PathBuf::from(format!("{path}.damaged-{n}"));
    (1..)
        .map(name)
        .find(|p| !p.exists())
        .unwrap_or_else(|| name(0))
}
