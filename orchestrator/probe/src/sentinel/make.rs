//! Makes directories and files.

use super::{error::SentinelError, mounts::absolute, remove};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub content: String,
    /// Its permissions, such as `0o755`.
    pub mode: u32,
}

/// Removes, then makes. Checks all paths before touching anything.
pub(super) fn make(
    old: &[PathBuf],
    dirs: &[(PathBuf, u32)],
    files: &[NewFile],
) -> Result<(), SentinelError> {
    for path in dirs
        .iter()
        .map(|(path, _)| path)
        .chain(files.iter().map(|f| &f.path))
    {
        absolute(path)?;
    }
    remove::all_removable(old)?;
    for path in old {
        remove::remove_one(path)?;
    }
    for (path, mode) in dirs {
        let failed = |error| SentinelError::Change {
            what: "make the directory",
            path: path.clone(),
            error,
        };
        directory(path, *mode).map_err(failed)?;
    }
    for file in files {
        write(file).map_err(|error| SentinelError::Change {
            what: "write",
            path: file.path.clone(),
            error,
        })?;
    }
    Ok(())
}

fn directory(path: &Path, mode: u32) -> std::io::Result<()> {
    // private until it has the requested mode
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)?;
    // set explicitly, because the umask restricts a builder's mode
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
}

/// Written under another name first, so that no reader sees half of it.
fn write(file: &NewFile) -> std::io::Result<()> {
    let name = file
        .path
        .file_name()
        .ok_or_else(|| std::io::Error::other("it has no name"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.new", std::process::id()));
    let temporary = file.path.with_file_name(hidden);
    let written = (|| {
        let mut new = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        new.write_all(file.content.as_bytes())?;
        new.set_permissions(Permissions::from_mode(file.mode & 0o7777))?;
        fs::rename(&temporary, &file.path)
    })();
    if written.is_err() {
        // remove the partial file; if that fails too, the first error is more useful
        let _ = fs::remove_file(&temporary);
    }
    written
}
