//! Copies kept files to shared storage, and restores kept files to their original places.

use super::{
    dirs::{make_new_dir, remove},
    error::LevelError,
    flow::KeptPart,
    hold::{copy, pass},
    table::{FileTable, KeptKind, KeptPath, content_path},
};
use nix::{
    sys::stat::{Mode, SFlag, mknod},
    unistd::mkfifo,
};
use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

/// Copies the node's own files of a checkpoint to a new directory, and returns their size in bytes.
pub(super) fn flush(checkpoint: &Path, to: &Path) -> Result<u64, LevelError> {
    let own = KeptPart::Own.dir(checkpoint);
    let table = FileTable::read(&own)?;
    make_new_dir(to)?;
    for file in table.files() {
        let from = content_path(&own, file.number);
        let kind = copy(&from, &content_path(to, file.number))?;
        require(&from, &kind, file.bytes, file.blake3)?;
    }
    table.write(to)?;
    Ok(table.bytes())
}

/// Restores files, verifies them, and returns their size in bytes. Existing files of the same names are replaced.
pub(super) fn place(
    from: &Path,
    table: &FileTable,
    clear: &[std::path::PathBuf],
    as_copies: bool,
) -> Result<u64, LevelError> {
    // check before anything is removed
    require_whole(from, table)?;
    clear.iter().try_for_each(|dir| empty(dir))?;
    for (number, kept) in table.0.iter().enumerate() {
        put_back(&content_path(from, number), kept, as_copies)?;
    }
    Ok(table.bytes())
}

/// Verifies the files of another directory, and keeps them as the node's own files of this checkpoint.
pub(super) fn adopt(checkpoint: &Path, from: &Path, table: &FileTable) -> Result<(), LevelError> {
    require_whole(from, table)?;
    let own = KeptPart::Own.dir(checkpoint);
    make_new_dir(&own)?;
    for file in table.files() {
        let path = content_path(from, file.number);
        let to = content_path(&own, file.number);
        // a hard link is safe: kept files are never written to
        if fs::hard_link(&path, &to).is_err() {
            let kind = copy(&path, &to)?;
            require(&path, &kind, file.bytes, file.blake3)?;
        }
    }
    table.write(&own)
}

/// Reads all files of a table in this directory, and fails if a digest differs.
fn require_whole(from: &Path, table: &FileTable) -> Result<(), LevelError> {
    for file in table.files() {
        let path = content_path(from, file.number);
        let (bytes, blake3) = pass(&path, |_| Ok(()))?;
        let found = KeptKind::File { bytes, blake3 };
        require(&path, &found, file.bytes, file.blake3)?;
    }
    Ok(())
}

fn require(path: &Path, found: &KeptKind, bytes: u64, blake3: &str) -> Result<(), LevelError> {
    match found {
        KeptKind::File {
            bytes: found_bytes,
            blake3: found,
        } if (*found_bytes, found.as_str()) == (bytes, blake3) => Ok(()),
        _ => Err(LevelError::Damaged(path.to_owned())),
    }
}

/// Removes the contents of a directory, except restart scripts.
fn empty(dir: &Path) -> Result<(), LevelError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(LevelError::io(dir, "list"))?,
    };
    for entry in entries {
        let path = entry.map_err(LevelError::io(dir, "list"))?.path();
        if path.extension().is_none_or(|end| end != "sh") {
            remove_path(&path)?;
        }
    }
    Ok(())
}

fn remove_path(path: &Path) -> Result<(), LevelError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove(path),
        Ok(_) => fs::remove_file(path).map_err(LevelError::io(path, "remove")),
        Err(_) => Ok(()),
    }
}

fn put_back(content: &Path, kept: &KeptPath, as_copy: bool) -> Result<(), LevelError> {
    let path = &kept.path;
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(LevelError::io(above, "make"))?;
    }
    let mode = || Mode::from_bits_truncate(kept.mode);
    let made = LevelError::io(path, "make");
    if kept.kind != KeptKind::Dir {
        remove_path(path)?;
    }
    match &kept.kind {
        KeptKind::File { .. } => {
            // a hard link, if possible: the writer replaces such files and does not change them
            if as_copy || fs::hard_link(content, path).is_err() {
                copy(content, path)?;
            }
        }
        KeptKind::Dir => fs::create_dir_all(path).map_err(made)?,
        KeptKind::Link(target) => return symlink(target, path).map_err(made),
        KeptKind::Pipe => mkfifo(path, mode()).map_err(|error| made(error.into()))?,
        KeptKind::Socket => {
            mknod(path, SFlag::S_IFSOCK, mode(), 0).map_err(|error| made(error.into()))?;
        }
    }
    fs::set_permissions(path, fs::Permissions::from_mode(kept.mode))
        .map_err(LevelError::io(path, "set the mode of"))
}
