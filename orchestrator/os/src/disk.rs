//! Writing, syncing and renaming, each at a named failpoint: tests let every one of them fail, fall short or kill the process.
//!
//! In programs that are built with the feature `failpoints` of the crate `fail` (tests are), `FAILPOINTS=NAME=ACTION` in the environment injects
//! faults; `return(enospc)`, `return(eio)`, `return(epipe)`, `return(short:N)` (N bytes, then no space) and `return(kill)` are understood here, with
//! counts as in `3*off->1*return(enospc)->off`. Elsewhere a failpoint is nothing.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

thread_local! {
    /// Bytes of each file, by device and inode, that this thread has synced; `None` while nobody asks.
    static SYNCED: RefCell<Option<HashMap<(u64, u64), u64>>> = const { RefCell::new(None) };
}

/// Records from now on what this thread syncs, and forgets what it recorded before: for simulations of a loss of power.
pub fn record_syncs() {
    SYNCED.set(Some(HashMap::new()));
}

/// Bytes of a file that would survive a loss of power now, as far as this thread recorded that: the others were appended without a sync.
///
/// # Errors
/// When the file cannot be looked at.
pub fn surviving_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    let key = (metadata.dev(), metadata.ino());
    let synced =
        SYNCED.with_borrow(|synced| synced.as_ref().and_then(|synced| synced.get(&key).copied()));
    Ok(synced.unwrap_or(0).min(metadata.len()))
}

/// Notes that a file was synced, if anybody asks.
fn note_synced(file: &File) {
    SYNCED.with_borrow_mut(|synced| {
        if let Some(synced) = synced
            && let Ok(metadata) = file.metadata()
        {
            synced.insert((metadata.dev(), metadata.ino()), metadata.len());
        }
    });
}

/// Reads `FAILPOINTS` once, at the beginning of a program; the guard lives as long as the program.
#[must_use]
pub fn failpoints() -> impl Sized {
    fail::FailScenario::setup()
}

/// The injected failure of this name.
fn injected(fault: Option<&str>) -> io::Error {
    match fault {
        Some("enospc") => io::Error::from_raw_os_error(nix::libc::ENOSPC),
        Some("epipe") => io::Error::from_raw_os_error(nix::libc::EPIPE),
        Some("kill") => {
            // as by `kill -9`: nothing happens after it
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
            io::Error::from_raw_os_error(nix::libc::EIO)
        }
        Some(_) | None => io::Error::from_raw_os_error(nix::libc::EIO),
    }
}

/// What the failpoint of this name is told to do now; `None` if nothing.
fn fault(point: &str) -> Option<Fault> {
    // it is not used without the feature
    let _ = point;
    fail::fail_point!(point, |argument| Some(Fault(argument)));
    None
}

/// What a failpoint does, in its words.
struct Fault(Option<String>);

/// Fails if the failpoint says so.
///
/// # Errors
/// The injected one.
pub fn check(point: &str) -> io::Result<()> {
    fault(point).map_or(Ok(()), |fault| Err(injected(fault.0.as_deref())))
}

/// Writes all bytes. After an error any number of them may have been written.
///
/// # Errors
/// When the system refuses, or the failpoint says so.
pub fn write_all(point: &str, file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let Some(fault) = fault(point) else {
        return file.write_all(bytes);
    };
    match fault
        .0
        .as_deref()
        .and_then(|f| f.strip_prefix("short:")?.parse::<usize>().ok())
    {
        Some(count) => {
            file.write_all(&bytes[..count.min(bytes.len())])?;
            Err(injected(Some("enospc")))
        }
        None => Err(injected(fault.0.as_deref())),
    }
}

/// Makes the content of a file survive a loss of power.
///
/// # Errors
/// When the system refuses, or the failpoint says so.
pub fn sync_data(point: &str, file: &File) -> io::Result<()> {
    check(point)?;
    file.sync_data()?;
    note_synced(file);
    Ok(())
}

/// Makes the content of a file and its length survive a loss of power.
///
/// # Errors
/// When the system refuses.
pub fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all()?;
    note_synced(file);
    Ok(())
}

/// Makes the names in a directory survive a loss of power.
///
/// # Errors
/// When the system refuses, or the failpoint says so.
pub fn sync_directory(point: &str, directory: &Path) -> io::Result<()> {
    check(point)?;
    File::open(directory)?.sync_all()
}

/// Makes everything on the file system of a directory survive a loss of power: one call for any number of files.
///
/// # Errors
/// When the system refuses, or the failpoint says so.
pub fn sync_file_system(point: &str, directory: &Path) -> io::Result<()> {
    check(point)?;
    let directory = File::open(directory)?;
    nix::unistd::syncfs(&directory).map_err(io::Error::from)
}

/// Renames a file or directory.
///
/// # Errors
/// When the system refuses, or the failpoint says so.
pub fn rename(point: &str, from: &Path, to: &Path) -> io::Result<()> {
    check(point)?;
    fs::rename(from, to)
}
