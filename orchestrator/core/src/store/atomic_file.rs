//! Files that are written whole or not at all.

use super::error::StoreError;
use camino::Utf8Path;
use std::{fs::File, io::Write};

/// Writes a file so that after a crash there is the old content or the new one: temporary file, sync, rename.
pub fn write_whole(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    let fail = |e| StoreError::io("write", path)(e);
    let directory = path.parent().filter(|p| !p.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
    file.write_all(bytes).map_err(fail)?;
    // temporary files are private; what is kept is as readable as any other file of the user's
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(fail)?;
    }
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|e| fail(e.error))?;
    File::open(directory).and_then(|d| d.sync_all()).map_err(fail)
}

/// Removes a file, or a directory with all below it. That nothing is there is no error.
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
