//! Atomic writing of files.

use super::error::StoreError;
use camino::Utf8Path;
use cvc_os::{
    atomic_file::{self, Durability},
    output_file, regular,
    tree::remove_tree,
};
use std::io::{self, BufWriter, Write};

/// Writes a file atomically: after a crash or a power loss it has either the old or the new content.
pub fn write_whole(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    atomic_file::write(path.as_std_path(), bytes, Durability::Synced)
        .map_err(StoreError::io("write", path))
}

/// Writes the output file that an option of cvc names, as [`output_file`] does. A regular file is written atomically; for anything else, such as a
/// pipe, the content is written into the existing object.
///
/// # Errors
/// The file cannot be written.
pub fn write_output(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    output_file::write(path.as_std_path(), bytes, Durability::Synced)
        .map_err(StoreError::io("write", path))
}

/// Like [`write_output`], for content that is too long to be held in memory: `write` writes it in parts.
///
/// # Errors
/// The file cannot be written, or `write` returns an error; a regular file is then unchanged.
pub fn write_output_by<E: From<StoreError>>(
    path: &Utf8Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut failure = None;
    let written = output_file::write_by(path.as_std_path(), Durability::Synced, |file| {
        let mut out = BufWriter::new(file);
        if let Err(error) = write(&mut out) {
            failure = Some(error);
            return Err(io::Error::other("its content cannot be created"));
        }
        out.flush()
    });
    written.map_err(|error| failure.unwrap_or_else(|| StoreError::io("write", path)(error).into()))
}

/// Removes a file, or a directory with its contents. A path that does not exist is not an error.
///
/// # Errors
/// The path exists and cannot be removed.
pub fn remove_all(path: &Utf8Path) -> Result<(), StoreError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    let removed = if metadata.is_dir() {
        remove_tree(path.as_std_path())
    } else {
        std::fs::remove_file(path)
    };
    removed.map_err(StoreError::io("remove", path))
}

/// Copies a file, or a directory with its contents. Sockets and pipes are skipped.
pub fn copy_tree(from: &Utf8Path, to: &Utf8Path) -> Result<(), StoreError> {
    let fail = |e| StoreError::io("copy to", to)(e);
    let kind = std::fs::symlink_metadata(from)
        .map_err(StoreError::io("read", from))?
        .file_type();
    if kind.is_dir() {
        std::fs::create_dir_all(to).map_err(fail)?;
        for entry in from.read_dir_utf8().map_err(fail)?.flatten() {
            match copy_tree(entry.path(), &to.join(entry.file_name())) {
                // the owners of session files remove them at any time
                Err(StoreError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    } else if kind.is_file() {
        std::fs::copy(from, to).map(|_| ()).map_err(fail)
    } else {
        Ok(())
    }
}

/// Reads a text file of a campaign.
///
/// # Errors
/// The path is not a regular file, or cannot be read.
pub fn read_text(path: &Utf8Path) -> Result<String, StoreError> {
    regular::read_text(path.as_std_path()).map_err(StoreError::io("read", path))
}
