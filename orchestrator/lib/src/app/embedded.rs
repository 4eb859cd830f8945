//! The descriptors that cvc carries, so that it works away from its repository. Files beside the campaign come first.

use crate::{paths, store::StoreError};
use include_dir::{Dir, include_dir};
use std::path::PathBuf;

static APPS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/apps");

/// Directory with the descriptors of this version, written there if need be.
pub fn directory() -> Result<PathBuf, StoreError> {
    let mut hasher = blake3::Hasher::new();
    for file in APPS.files() {
        hasher.update(file.path().to_string_lossy().as_bytes()).update(&[0]).update(file.contents()).update(&[0]);
    }
    let directory = paths::cache().join("apps").join(&hasher.finalize().to_hex()[..12]);
    if !directory.exists() {
        let staging = paths::cache().join("apps").join(format!("new-{}", std::process::id()));
        std::fs::create_dir_all(&staging).map_err(StoreError::io("make", &staging))?;
        APPS.extract(&staging).map_err(StoreError::io("write descriptors to", &staging))?;
        // another cvc may have been faster: its files are the same
        if std::fs::rename(&staging, &directory).is_err() {
            let _ = std::fs::remove_dir_all(&staging);
        }
    }
    Ok(directory.into_std_path_buf())
}
