//! One controller for each campaign.

use super::error::StoreError;
use camino::Utf8Path;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
};

/// Held as long as this value lives; the kernel releases it when the process ends, however that happens.
#[derive(Debug)]
pub struct CampaignLock {
    _file: File,
}

/// What a sweep adds to its process id.
const SWEEP: &str = "cvc sweep";

impl CampaignLock {
    /// Takes the lock; the error names the holder.
    pub fn take(path: &Utf8Path) -> Result<Self, StoreError> {
        Self::take_as(path, "")
    }

    /// Takes the lock for a sweep, which others may wait for.
    pub fn take_for_sweep(path: &Utf8Path) -> Result<Self, StoreError> {
        Self::take_as(path, SWEEP)
    }

    /// The process id of a sweep that holds the lock, as far as its file says. Another process may hold it by now.
    pub fn sweeping(path: &Utf8Path) -> Option<String> {
        let text = std::fs::read_to_string(path).ok()?;
        let (pid, what) = text.trim().split_once(' ')?;
        (what == SWEEP).then(|| pid.to_owned())
    }

    fn take_as(path: &Utf8Path, what: &str) -> Result<Self, StoreError> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(StoreError::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // naming the holder is a courtesy: the lock works without it
                let _ = file.read_to_string(&mut pid);
                let holder = if pid.trim().is_empty() { String::new() } else { format!(" (process {})", pid.trim()) };
                return Err(StoreError::Locked { path: path.into(), holder });
            }
            Err(TryLockError::Error(source)) if has_no_locks(&source) => return Err(StoreError::NoLocks { path: path.into(), source }),
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", path)(e)),
        }
        let line = format!("{} {what}", std::process::id());
        file.set_len(0).and_then(|()| writeln!(file, "{}", line.trim_end())).map_err(StoreError::io("write", path))?;
        Ok(Self { _file: file })
    }
}

/// Whether an error says that a file system cannot lock: Lustre that is mounted without `flock`, NFS without its lock daemon.
fn has_no_locks(error: &std::io::Error) -> bool {
    use nix::libc::{ENOLCK, ENOSYS, EOPNOTSUPP};
    error.raw_os_error().is_some_and(|code| [ENOSYS, EOPNOTSUPP, ENOLCK].contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_told_from_other_failures() {
        let of = |code| has_no_locks(&std::io::Error::from_raw_os_error(code));
        assert!(of(nix::libc::ENOSYS) && of(nix::libc::EOPNOTSUPP) && of(nix::libc::ENOLCK));
        assert!(!of(nix::libc::EIO) && !of(nix::libc::EACCES));
    }
}
