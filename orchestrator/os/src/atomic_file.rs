//! Writes files atomically.

use crate::disk;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// Which events a written file survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Readers see the old or the new content. A loss of power may undo the change.
    Visible,
    /// The new content also survives a loss of power: the file and its directory are synced.
    Synced,
}

/// Writes a file through a temporary file next to it, so that readers see either the old or the new content, never a part.
///
/// # Errors
/// The file cannot be written. The old content is then unchanged.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    write_by(path, durability, |file| {
        disk::write_all(&point(path, "write"), file, bytes)
    })
}

/// Writes a file atomically, with content that is written piece by piece; see [`write()`].
///
/// # Errors
/// The file cannot be written, or `write` fails. The old content is then unchanged.
pub fn write_by(
    path: &Path,
    durability: Durability,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, mut file) = create_temporary(path)?;
    let written = (|| {
        write(&mut file)?;
        if durability == Durability::Synced {
            disk::sync_data(&point(path, "sync"), &file)?;
        }
        disk::rename(&point(path, "rename"), &temporary, path)
    })();
    if written.is_err() {
        // the first error is the relevant one
        let _ = fs::remove_file(&temporary);
    }
    written?;
    match durability {
        Durability::Visible => Ok(()),
        // sync the directory as well
        Durability::Synced => disk::sync_directory(&point(path, "sync-directory"), directory(path)),
    }
}

/// Returns the name of a failpoint: the file's name and the step.
fn point(path: &Path, step: &str) -> String {
    format!(
        "{}.{step}",
        path.file_name().unwrap_or_default().to_string_lossy()
    )
}

/// Returns the directory of a file.
pub(crate) fn directory(path: &Path) -> &Path {
    path.parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Creates a temporary file next to the file to be written.
fn create_temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(
            ".{}-{}.tmp",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        let temporary = directory(path).join(hidden);
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
        {
            Ok(file) => return Ok((temporary, file)),
            // left by a killed process with the same id, or in use by a process on another machine that shares the directory
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Durability, write};

    #[test]
    fn new_content_replaces_the_old_and_leaves_no_other_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        for (durability, content) in [(Durability::Visible, "one"), (Durability::Synced, "two")] {
            write(&path, content.as_bytes(), durability).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("text"), content);
        }
        assert_eq!(dir.path().read_dir().expect("entries").count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_other_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::create_dir(&path).expect("expected a file, found a directory");
        std::fs::write(path.join("inside"), "old").expect("written");
        write(&path, b"new", Durability::Synced).expect_err("a directory cannot be replaced");
        assert_eq!(
            std::fs::read_to_string(path.join("inside")).expect("text"),
            "old"
        );
        assert_eq!(dir.path().read_dir().expect("entries").count(), 1);
    }
}
