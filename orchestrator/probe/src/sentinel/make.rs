//! Creates directories and files.

use super::{error::SentinelError, files::FilePart, mounts::absolute, remove};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub content: String,
    /// Permissions, such as `0o755`.
    pub mode: u32,
}

/// Removes paths, then creates directories and files. Checks all paths before changing anything.
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

/// Writes a part of a file. The first part creates the file and its directories.
pub(super) fn write_part(path: &Path, offset: u64, part: &FilePart) -> Result<(), SentinelError> {
    let failed = |error| SentinelError::Change {
        what: "write",
        path: path.to_owned(),
        error,
    };
    let bytes = part
        .bytes()
        .map_err(|error| failed(std::io::Error::other(error)))?;
    let write = || {
        if let Some(parent) = path.parent().filter(|_| offset == 0) {
            fs::create_dir_all(parent)?;
        }
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(offset == 0)
            .open(path)?;
        file.write_all_at(&bytes, offset)
    };
    write().map_err(failed)
}

fn directory(path: &Path, mode: u32) -> std::io::Result<()> {
    // readable by its owner only, until it has the requested mode
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)?;
    // set explicitly, because the umask restricts a builder's mode
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
}

/// Writes a file under a temporary name and renames it, so that no reader sees an incomplete file.
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
