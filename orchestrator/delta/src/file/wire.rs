//! Sections with checksums, and files that appear whole.

use crate::{
    error::{DeltaError, DeltaErrorKind},
    hash::Hash,
};
use std::{io::Write, path::Path};

/// How the names of files begin that are not whole yet.
pub const NEW: &str = ".cvc-new-";
/// Bytes before a section: its length and its checksum.
pub const BEFORE: usize = 8 + 16;
/// Longest table that is unpacked, bytes: what a damaged length must not exceed.
const MAX_TABLE: usize = 1 << 36;

/// Appends a section.
pub fn put_section(out: &mut Vec<u8>, section: &[u8]) {
    out.extend_from_slice(&(section.len() as u64).to_le_bytes());
    out.extend_from_slice(&Hash::of(section).0);
    out.extend_from_slice(section);
}

/// Takes a section off the front.
pub fn take_section<'a>(
    path: &Path,
    rest: &mut &'a [u8],
    what: &str,
) -> Result<&'a [u8], DeltaError> {
    let damaged = || DeltaError::damaged(path, what);
    let (before, after) = rest.split_at_checked(BEFORE).ok_or_else(damaged)?;
    let bytes = u64::from_le_bytes(before[..8].try_into().expect("eight bytes"));
    let bytes = usize::try_from(bytes).map_err(|_| damaged())?;
    let (section, left) = after.split_at_checked(bytes).ok_or_else(damaged)?;
    if Hash::of(section).0 != before[8..] {
        return Err(damaged());
    }
    *rest = left;
    Ok(section)
}

/// What follows the first bytes of a file, and the last one of these, the version.
pub fn after_magic<'a>(
    path: &Path,
    bytes: &'a [u8],
    magic: &[u8; 8],
) -> Result<(&'a [u8], u8), DeltaError> {
    let ours = |why| DeltaError::new(path, DeltaErrorKind::NotOurs(why));
    let (found, rest) = bytes.split_at_checked(8).ok_or_else(|| ours("too short"))?;
    if found[..7] != magic[..7] {
        return Err(ours("its first bytes are others"));
    }
    if found[7] > magic[7] {
        return Err(DeltaError::new(
            path,
            DeltaErrorKind::Newer {
                found: found[7].into(),
                known: magic[7].into(),
            },
        ));
    }
    Ok((rest, found[7]))
}

/// Compresses a table.
pub fn squeeze(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.extend(
        zstd::bulk::compress(bytes, 3).map_err(DeltaError::io(path, "compress a table for"))?,
    );
    Ok(out)
}

/// Undoes [`squeeze`] for a table of at most so many entries, each of a number of bytes.
pub fn expand(
    path: &Path,
    bytes: &[u8],
    most: u64,
    entry_bytes: u64,
) -> Result<Vec<u8>, DeltaError> {
    let damaged = || DeltaError::damaged(path, "a table");
    let (length, packed) = bytes.split_at_checked(8).ok_or_else(damaged)?;
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
    let length = usize::try_from(length)
        .ok()
        .filter(|l| *l <= MAX_TABLE && *l as u64 <= most.saturating_mul(entry_bytes))
        .ok_or_else(damaged)?;
    // the length is allocated as it is read, not beforehand
    let mut unpacked = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::new(packed).map_err(|_| damaged())?;
    std::io::Read::read_to_end(
        &mut std::io::Read::take(&mut decoder, length as u64 + 1),
        &mut unpacked,
    )
    .map_err(|_| damaged())?;
    if unpacked.len() == length {
        Ok(unpacked)
    } else {
        Err(damaged())
    }
}

/// Writes a file that appears whole or not at all, also after a loss of power.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DeltaError> {
    let mut file = beside(path)?;
    file.write_all(bytes)
        .map_err(DeltaError::io(path, "write"))?;
    put_in_place(path, file)
}

/// A temporary file in the directory of `path`.
pub fn beside(path: &Path) -> Result<tempfile::NamedTempFile, DeltaError> {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(NEW)
        .tempfile_in(dir.unwrap_or(Path::new(".")))
        .map_err(DeltaError::io(path, "write"))
}

/// Gives a temporary file its name.
pub fn put_in_place(path: &Path, file: tempfile::NamedTempFile) -> Result<(), DeltaError> {
    // it stays its owner's alone, as images are: it holds the memory of processes
    file.as_file()
        .sync_all()
        .map_err(DeltaError::io(path, "write"))?;
    file.persist(path)
        .map_err(|e| DeltaError::io(path, "write")(e.error))?;
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
    std::fs::File::open(dir.unwrap_or(Path::new(".")))
        .and_then(|d| d.sync_all())
        .map_err(DeltaError::io(path, "write"))
}
