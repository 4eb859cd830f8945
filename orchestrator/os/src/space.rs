//! Space of file systems.

use nix::sys::statvfs::statvfs;
use std::{io, path::Path};

/// Bytes that a user may still write to the file system of a path that exists.
///
/// # Errors
/// When the file system cannot be asked.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = statvfs(path)?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}
