//! A directory that gets its final name when it is complete, and the removal of incomplete directories that a killed program left.
//!
//! A lock file next to the directory stays locked while the process that creates the directory runs. The lock ends with the process: if the file
//! can be locked, the process has ended.

use crate::file::wire::NEW;
use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Suffix of lock files.
const LOCK: &str = ".lock";
/// Maximum number of bytes of the final name that a temporary name contains; a longer part would leave no room for the rest.
const SHOWN: usize = 200;
/// Number of hexadecimal digits that distinguish temporary names with the same final name.
const DIGITS: usize = 8;
/// Number of temporary names that are tried.
const TRIES: u32 = 1000;

/// A directory that does not have its final name yet. Dropping this value removes the directory.
pub struct NewDir {
    to: PathBuf,
    parent: PathBuf,
    dir: PathBuf,
    lock: PathBuf,
    /// Locked until the directory is renamed or removed; `None` if the file system has no locks.
    _locked: Option<File>,
}

/// Returns the prefix of temporary names for a final path.
fn prefix(to: &Path) -> String {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let mut shown = name.len().min(SHOWN);
    while !name.is_char_boundary(shown) {
        shown -= 1;
    }
    format!("{NEW}{}-", &name[..shown])
}

impl NewDir {
    /// Creates a temporary directory next to its final place, after removing directories that ended processes left for the same place.
    pub fn next_to(to: &Path) -> io::Result<Self> {
        let parent = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let prefix = prefix(to);
        sweep(parent, &prefix);
        for n in 0..TRIES {
            let name = format!("{prefix}{:0DIGITS$x}", std::process::id().wrapping_add(n));
            let lock = parent.join(format!("{name}{LOCK}"));
            let file = match File::options().write(true).create_new(true).open(&lock) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            let locked = match file.try_lock() {
                // another process may have taken the file for a left-over before it was locked, and removed it
                Ok(()) if file.metadata()?.nlink() == 0 => continue,
                Ok(()) => Some(file),
                Err(TryLockError::WouldBlock) => continue,
                // this file system has no locks: left-overs are not removed here
                Err(TryLockError::Error(_)) => None,
            };
            let dir = parent.join(name);
            if let Err(error) = DirBuilder::new().mode(0o700).create(&dir) {
                // a directory with this name exists and belongs to another process
                let _ = fs::remove_file(&lock);
                return Err(error);
            }
            return Ok(Self {
                to: to.to_owned(),
                parent: parent.to_owned(),
                dir,
                lock,
                _locked: locked,
            });
        }
        Err(io::Error::other("too many temporary directories for it"))
    }

    /// Returns the current path.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Renames the directory to its final name; durable after a loss of power.
    pub fn rename(self) -> io::Result<()> {
        fs::rename(&self.dir, &self.to)?;
        File::open(&self.parent)?.sync_all()
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        // does not exist any more after a successful rename
        let _ = fs::remove_dir_all(&self.dir);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Removes directories that ended processes left. Directories that cannot be removed remain, which is harmless.
fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(own) = name.to_str().and_then(|name| name.strip_suffix(LOCK)) else {
            continue;
        };
        let is_for_it = own.strip_prefix(prefix).is_some_and(|digits| {
            digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit())
        });
        if !is_for_it || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // NFS locks only files open for writing
        let Ok(file) = File::options().write(true).open(entry.path()) else {
            continue;
        };
        // the owner may have ended and its lock file may have been replaced since it was opened
        let is_of_a_dead_one =
            file.try_lock().is_ok() && file.metadata().is_ok_and(|file| file.nlink() > 0);
        if is_of_a_dead_one {
            // remove the directory first: as long as the lock file exists, the next program finds the directory
            if fs::remove_dir_all(parent.join(own))
                .is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
            {
                continue;
            }
            let _ = fs::remove_file(entry.path());
        }
    }
}
