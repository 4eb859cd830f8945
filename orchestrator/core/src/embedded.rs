//! Files that cvc carries, written to its cache for programs that need them as files.

use crate::{ids::hex_prefix, paths, store::StoreError};
use include_dir::Dir;
use std::path::PathBuf;

/// Number of hexadecimal digits of the digest in a directory's name.
const DIGITS: usize = 12;

/// Directory with these files, written there if need be. Its name holds a digest of them: each version has its own.
pub fn directory(name: &str, files: &Dir<'_>) -> Result<PathBuf, StoreError> {
    let mut hasher = blake3::Hasher::new();
    digest(files, &mut hasher);
    let directory = paths::cache().join(name).join(hex_prefix(&hasher.finalize(), DIGITS));
    if !directory.exists() {
        let staging = paths::cache().join(name).join(format!("new-{}", std::process::id()));
        std::fs::create_dir_all(&staging).map_err(StoreError::io("make", &staging))?;
        files.extract(&staging).map_err(StoreError::io("write files to", &staging))?;
        // another cvc may have been faster: its files are the same
        if std::fs::rename(&staging, &directory).is_err() {
            let _ = std::fs::remove_dir_all(&staging);
        }
    }
    Ok(directory.into_std_path_buf())
}

fn digest(files: &Dir<'_>, hasher: &mut blake3::Hasher) {
    for file in files.files() {
        hasher.update(file.path().to_string_lossy().as_bytes()).update(&[0]).update(file.contents()).update(&[0]);
    }
    for below in files.dirs() {
        digest(below, hasher);
    }
}
