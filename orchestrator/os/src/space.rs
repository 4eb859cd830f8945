//! Free space of file systems.

use nix::sys::statvfs::statvfs;
use std::{io, path::Path};

/// Returns the number of bytes that a user may still write to the file system of an existing path.
///
/// # Errors
/// The file system cannot be queried.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}
