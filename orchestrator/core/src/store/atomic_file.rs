//! Atomic writing of files.

use super::error::StoreError;
use camino::Utf8Path;
use cvc_os::{
    atomic_file::{self, Durability},
    output_file, regular,
    tree::remove_tree,
};
use std::io::{self, BufWriter, Write};

/// Writes a file so that after a crash or a loss of power it has the old content or the new one.
pub fn write_whole(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    atomic_file::write(path.as_std_path(), bytes, Durability::Synced)
        .map_err(StoreError::io("write", path))
}

/// Writes what an option of the command line names, with [`output_file`]: whole where it is a regular file, and into what is there otherwise.
///
/// # Errors
/// When it cannot be written.
pub fn write_output(path: &Utf8Path, bytes: &[u8]) -> Result<(), StoreError> {
    output_file::write(path.as_std_path(), bytes, Durability::Synced)
        .map_err(StoreError::io("write", path))
}

/// The same with a content that is too long to be held in memory: `write` writes it piece by piece.
///
/// # Errors
/// When it cannot be written, and those of `write`; a regular file is then untouched.
pub fn write_output_by<E: From<StoreError>>(
    path: &Utf8Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut failure = None;
    let written = output_file::write_by(path.as_std_path(), Durability::Synced, |file| {
        let mut out = BufWriter::new(file);
        if let Err(error) = write(&mut out) {
            failure = Some(error);
            return Err(io::Error::other("its content cannot be made"));
        }
        out.flush()
    });
    written.map_err(|error| failure.unwrap_or_else(|| StoreError::io("write", path)(error).into()))
}

/// Removes a file, or a directory with all below it. A path that does not exist is not an error.
///
/// # Errors
/// When something is there and cannot be removed.
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

/// Copies a file, or a directory with all below it. What is neither (sockets, pipes) is left out.
pub fn copy_tree(from: &Utf8Path, to: &Utf8Path) -> Result<(), StoreError> {
    let fail = |e| StoreError::io("copy to", to)(e);
    let kind = std::fs::symlink_metadata(from)
        .map_err(StoreError::io("read", from))?
        .file_type();
    if kind.is_dir() {
        std::fs::create_dir_all(to).map_err(fail)?;
        for entry in from.read_dir_utf8().map_err(fail)?.flatten() {
            match copy_tree(entry.path(), &to.join(entry.file_name())) {
                // session files come and go while their owners run
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
/// When it is not a regular file, or cannot be read.
pub fn read_text(path: &Utf8Path) -> Result<String, StoreError> {
    regular::read_text(path.as_std_path()).map_err(StoreError::io("read", path))
}
