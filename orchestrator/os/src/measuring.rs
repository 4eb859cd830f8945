//! Shows which processes measure on this machine. Each cvc process with a running attempt holds a lock on a directory, which other processes can see.
//! The lock prevents nothing, and ends with its process.

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl, open},
    libc,
    sys::stat::Mode,
};
use parking_lot::Mutex;
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

/// A directory that exists on every machine and is readable for every user. No file has to be created, so no other user can have created it before.
const DIRECTORY: &str = "/run";
/// Environment variable that names another directory, for tests that measure concurrently on purpose.
const OTHER_DIRECTORY: &str = "CVC_MEASURING_DIR";

/// The lock of this process, while any part of the process measures.
static OWN: Mutex<Weak<Measuring>> = Mutex::new(Weak::new());

/// Shows, until it is dropped, that this process measures.
#[derive(Debug)]
pub struct Measuring {
    lock: OwnedFd,
}

impl Measuring {
    /// Takes the lock. All values of one process share the lock, because they belong to one campaign. Returns `None` if the system does not support
    /// the lock; this process then cannot detect others.
    pub fn begin() -> Option<Arc<Self>> {
        let mut own = OWN.lock();
        if let Some(measuring) = own.upgrade() {
            return Some(measuring);
        }
        let measuring = Arc::new(Self::begin_at(&directory()).ok()?);
        *own = Arc::downgrade(&measuring);
        Some(measuring)
    }

    fn begin_at(directory: &Path) -> io::Result<Self> {
        let lock = open_directory(directory)?;
        fcntl(&lock, FcntlArg::F_OFD_SETLK(&whole(libc::F_RDLCK)))?;
        Ok(Self { lock })
    }

    /// Returns whether another process, of any user, measures now.
    pub fn has_others(&self) -> bool {
        has_lock(&self.lock)
    }
}

/// Returns whether any other process measures on this machine now.
pub fn others_measure() -> bool {
    let own = OWN.lock().upgrade();
    own.map_or_else(
        || open_directory(&directory()).is_ok_and(|directory| has_lock(&directory)),
        |own| own.has_others(),
    )
}

fn directory() -> PathBuf {
    std::env::var_os(OTHER_DIRECTORY).map_or_else(|| DIRECTORY.into(), PathBuf::from)
}

fn open_directory(directory: &Path) -> io::Result<OwnedFd> {
    Ok(open(
        directory,
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?)
}

/// Returns whether another process holds a lock on the directory.
fn has_lock(directory: impl AsFd) -> bool {
    let mut found = whole(libc::F_WRLCK);
    fcntl(directory, FcntlArg::F_OFD_GETLK(&mut found)).is_ok()
        && libc::c_int::from(found.l_type) != libc::F_UNLCK
}

/// Returns a lock of this kind on the whole file.
fn whole(kind: libc::c_int) -> libc::flock {
    let (l_type, l_whence) = (kind as libc::c_short, libc::SEEK_SET as libc::c_short);
    libc::flock {
        l_type,
        l_whence,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sees_the_others_and_not_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let one = Measuring::begin_at(dir.path()).expect("a lock");
        assert!(!one.has_others());
        let other = Measuring::begin_at(dir.path()).expect("a second lock");
        assert!(one.has_others() && other.has_others());
        assert!(has_lock(open_directory(dir.path()).expect("opens")));
        drop(one);
        assert!(!other.has_others());
    }

    #[test]
    fn all_locks_of_one_process_count_as_one() {
        let (one, other) = (
            Measuring::begin().expect("a lock"),
            Measuring::begin().expect("the same"),
        );
        assert!(Arc::ptr_eq(&one, &other));
    }
}
