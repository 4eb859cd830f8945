//! Atomic writing of files.

use super::error::StoreError;
use camino::Utf8Path;
use cvc_probe::atomic_file::{self, Durability};

/// Writes a file so that after a crash or a loss of power it has the old content or the new one.
pub fn write_whole(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    atomic_file::write(path.as_std_path(), bytes, Durability::Synced).map_err(StoreError::io("write", path))
}

/// Removes a file, or a directory with all below it. A path that does not exist is not an error.
///
/// # Errors
/// When something is there and cannot be removed.
pub fn remove_all(path: &Utf8Path) -> Result<(), StoreError> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let removed = if metadata.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.map_err(StoreError::io("remove", path))
}

/// Copies a file, or a directory with all below it. What is neither (sockets, pipes) is left out.
pub fn copy_tree(from: &Utf8Path, to: &Utf8Path) -> Result<(), StoreError> {
    let fail = |e| StoreError::io("copy to", to)(e);
    let kind = std::fs::symlink_metadata(from).map_err(fail)?.file_type();
    if kind.is_dir() {
        std::fs::create_dir_all(to).map_err(fail)?;
        for entry in from.read_dir_utf8().map_err(fail)?.flatten() {
            match copy_tree(entry.path(), &to.join(entry.file_name())) {
                // session files come and go while their owners run
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
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

/// Reads a text file.
pub fn read_text(path: &Utf8Path) -> Result<String, StoreError> {
    std::fs::read_to_string(path).map_err(StoreError::io("read", path))
}
