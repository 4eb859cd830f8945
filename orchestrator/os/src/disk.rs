//! Writes, syncs and renames files, each at a named failpoint. At a failpoint, tests can make the operation fail or write only a part, or kill the
//! process.
//!
//! In programs that are built with the feature `failpoints` of the crate `fail`, as tests are, the environment variable `FAILPOINTS=NAME=ACTION`
//! injects faults. This module accepts `return(enospc)`, `return(eio)`, `return(epipe)`, `return(short:N)` (N bytes, then no space) and
//! `return(kill)`, with counts as in `3*off->1*return(enospc)->off`. In other programs a failpoint has no effect.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

thread_local! {
    /// Synced length of each file in bytes, by device and inode, for this thread; `None` unless recording.
    static SYNCED: RefCell<Option<HashMap<(u64, u64), u64>>> = const { RefCell::new(None) };
}

/// Starts to record this thread's syncs, and clears earlier records. Used to simulate a loss of power.
pub fn record_syncs() {
    SYNCED.set(Some(HashMap::new()));
}

/// Returns how many bytes of a file would survive a loss of power now, according to the recorded syncs; bytes after these were appended without a
/// sync.
///
/// # Errors
/// The file cannot be examined.
pub fn surviving_bytes(path: &Path) -> io::Result<u64> {
    let metadata = fs::metadata(path)?;
    let key = (metadata.dev(), metadata.ino());
    let synced =
        SYNCED.with_borrow(|synced| synced.as_ref().and_then(|synced| synced.get(&key).copied()));
    Ok(synced.unwrap_or(0).min(metadata.len()))
}

/// Records that a file was synced, if recording is on.
fn note_synced(file: &File) {
    SYNCED.with_borrow_mut(|synced| {
        if let Some(synced) = synced
            && let Ok(metadata) = file.metadata()
        {
            synced.insert((metadata.dev(), metadata.ino()), metadata.len());
        }
    });
}

/// Reads `FAILPOINTS` once, at the start of a program. The program must keep the returned guard until its end.
#[must_use]
pub fn failpoints() -> impl Sized {
    fail::FailScenario::setup()
}

/// Returns the I/O error of an injected fault; for `kill`, kills this process.
fn injected(fault: Option<&str>) -> io::Error {
    match fault {
        Some("enospc") => io::Error::from_raw_os_error(nix::libc::ENOSPC),
        Some("epipe") => io::Error::from_raw_os_error(nix::libc::EPIPE),
        Some("kill") => {
            // as `kill -9` does: no code runs after it
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
            io::Error::from_raw_os_error(nix::libc::EIO)
        }
        Some(_) | None => io::Error::from_raw_os_error(nix::libc::EIO),
    }
}

/// Returns the current fault of the failpoint of this name; `None` if there is none.
fn fault(point: &str) -> Option<Fault> {
    // unused without the feature `failpoints`
    let _ = point;
    fail::fail_point!(point, |argument| Some(Fault(argument)));
    None
}

/// A fault of a failpoint: the text in `return(...)`.
struct Fault(Option<String>);

/// Fails if a fault is set for the failpoint.
///
/// # Errors
/// The injected error.
pub fn check(point: &str) -> io::Result<()> {
    fault(point).map_or(Ok(()), |fault| Err(injected(fault.0.as_deref())))
}

/// Writes all bytes. After an error any number of them may have been written.
///
/// # Errors
/// The system refuses, or the failpoint fails.
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

/// Syncs a file's content to disk, so that it survives a loss of power.
///
/// # Errors
/// The system refuses, or the failpoint fails.
pub fn sync_data(point: &str, file: &File) -> io::Result<()> {
    check(point)?;
    file.sync_data()?;
    note_synced(file);
    Ok(())
}

/// Syncs a file's content and metadata to disk, so that they survive a loss of power.
///
/// # Errors
/// The system refuses.
pub fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all()?;
    note_synced(file);
    Ok(())
}

/// Syncs a directory to disk, so that the names in it survive a loss of power.
///
/// # Errors
/// The system refuses, or the failpoint fails.
pub fn sync_directory(point: &str, directory: &Path) -> io::Result<()> {
    check(point)?;
    File::open(directory)?.sync_all()
}

/// Syncs the whole file system of a directory to disk: one call for any number of files.
///
/// # Errors
/// The system refuses, or the failpoint fails.
pub fn sync_file_system(point: &str, directory: &Path) -> io::Result<()> {
    check(point)?;
    let directory = File::open(directory)?;
    nix::unistd::syncfs(&directory).map_err(io::Error::from)
}

/// Renames a file or directory.
///
/// # Errors
/// The system refuses, or the failpoint fails.
pub fn rename(point: &str, from: &Path, to: &Path) -> io::Result<()> {
    check(point)?;
    fs::rename(from, to)
}
