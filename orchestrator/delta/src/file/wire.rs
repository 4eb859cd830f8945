//! Sections with checksums, and files that are written atomically.

use crate::{
    error::{DeltaError, DeltaErrorKind},
    hash::Hash,
};
use std::{
    io::{BufReader, Read, Write},
    path::Path,
};

/// Prefix of the names of files that are not complete yet.
pub const NEW: &str = ".cvc-new-";
/// Bytes in front of a section: its length (8) and its checksum (16).
pub const BEFORE: usize = 8 + 16;

/// Appends a section with its length and checksum.
pub fn put_section(out: &mut Vec<u8>, section: &[u8]) {
    out.extend_from_slice(&(section.len() as u64).to_le_bytes());
    out.extend_from_slice(&Hash::of(section).0);
    out.extend_from_slice(section);
}

/// Removes the first section from `rest`, checks it, and returns it.
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

/// Checks the magic bytes at the beginning of a file. Returns the bytes after them, and the format version, which is the last magic byte.
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

/// Compresses a table with zstd.
pub fn squeeze(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, DeltaError> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    out.extend(
        zstd::bulk::compress(bytes, 3).map_err(DeltaError::io(path, "compress a table for"))?,
    );
    Ok(out)
}

/// Decompresses a table of at most `most` entries of N bytes, entry by entry, and stops at the first entry that `take` refuses. No memory is
/// allocated for the length that the table claims.
pub fn expand<const N: usize>(
    path: &Path,
    bytes: &[u8],
    most: u64,
    mut take: impl FnMut(&[u8; N]) -> Option<()>,
) -> Result<(), DeltaError> {
    let mut all = || {
        let (length, packed) = bytes.split_at_checked(8)?;
        let length = u64::from_le_bytes(length.try_into().ok()?);
        let entry = N as u64;
        if length % entry != 0 || length / entry > most {
            return None;
        }
        let decoder = zstd::stream::read::Decoder::new(packed).ok()?;
        let mut from = BufReader::new(decoder);
        for _ in 0..length / entry {
            let mut entry = [0; N];
            from.read_exact(&mut entry).ok()?;
            take(&entry)?;
        }
        // no bytes may follow the last entry
        (from.read(&mut [0]).ok()? == 0).then_some(())
    };
    all().ok_or_else(|| DeltaError::damaged(path, "a table"))
}

/// Returns the number at index `n` of a table's entry, which consists of 8-byte numbers.
pub fn number(entry: &[u8], n: usize) -> u64 {
    u64::from_le_bytes(entry[n * 8..n * 8 + 8].try_into().expect("eight bytes"))
}

/// Writes a file atomically: after a loss of power, too, it is complete or does not exist.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), DeltaError> {
    let mut file = temporary_next_to(path)?;
    file.write_all(bytes)
        .map_err(DeltaError::io(path, "write"))?;
    put_in_place(path, file)
}

/// Creates a temporary file in the directory of `path`.
pub fn temporary_next_to(path: &Path) -> Result<tempfile::NamedTempFile, DeltaError> {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
    tempfile::Builder::new()
        .prefix(NEW)
        .tempfile_in(dir.unwrap_or(Path::new(".")))
        .map_err(DeltaError::io(path, "write"))
}

/// Renames a temporary file to `path`.
pub fn put_in_place(path: &Path, file: tempfile::NamedTempFile) -> Result<(), DeltaError> {
    // only the owner can read the file, as with images: it contains the memory of processes
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
