//! A directory that gets its name when it is whole, and what a program that was killed left of one.
//!
//! Beside the directory lies a file that is locked as long as its maker lives. A lock ends with the process, so a file that can be locked is of a dead
//! one.

use crate::file::wire::NEW;
use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// How the names of locked files end.
const LOCK: &str = ".lock";
/// Bytes of a name that its temporary ones show: more would not leave room for the rest.
const SHOWN: usize = 200;
/// Digits that tell temporary names of the same place apart.
const DIGITS: usize = 8;
/// Names that are tried before it is given up.
const TRIES: u32 = 1000;

/// A directory that does not have its name yet. Dropping it removes it.
pub struct NewDir {
    to: PathBuf,
    parent: PathBuf,
    dir: PathBuf,
    lock: PathBuf,
    /// Locked until the directory has its name or is gone; none where files cannot be locked.
    _locked: Option<File>,
}

/// How temporary names of a place begin.
fn prefix(to: &Path) -> String {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let mut shown = name.len().min(SHOWN);
    while !name.is_char_boundary(shown) {
        shown -= 1;
    }
    format!("{NEW}{}-", &name[..shown])
}

impl NewDir {
    /// Makes one beside the place that it is for, and removes those that dead programs left there for the same place.
    pub fn beside(to: &Path) -> io::Result<Self> {
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
                // one that sweeps may have found it before it was locked, and removed it
                Ok(()) if file.metadata()?.nlink() == 0 => continue,
                Ok(()) => Some(file),
                Err(TryLockError::WouldBlock) => continue,
                // such a file system has no locks: nobody sweeps there
                Err(TryLockError::Error(_)) => None,
            };
            let dir = parent.join(name);
            if let Err(error) = DirBuilder::new().mode(0o700).create(&dir) {
                // a directory that is there already is somebody else's
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

    /// Where it is now.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Gives it its name, also after a loss of power.
    pub fn rename(self) -> io::Result<()> {
        fs::rename(&self.dir, &self.to)?;
        File::open(&self.parent)?.sync_all()
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        // it is not there any more if it has its name
        let _ = fs::remove_dir_all(&self.dir);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Removes what dead programs left. What cannot be removed is left: it does no harm.
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
        // NFS locks only what is open for writing
        let Ok(file) = File::options().write(true).open(entry.path()) else {
            continue;
        };
        // its maker may have ended meanwhile, and made another of this name
        let is_of_a_dead_one =
            file.try_lock().is_ok() && file.metadata().is_ok_and(|file| file.nlink() > 0);
        if is_of_a_dead_one {
            // the directory first: the file tells the next one that it is there
            if fs::remove_dir_all(parent.join(own))
                .is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
            {
                continue;
            }
            let _ = fs::remove_file(entry.path());
        }
    }
}
