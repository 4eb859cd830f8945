//! Mounted file systems and their free space.

use super::error::SentinelError;
use nix::sys::statvfs::statvfs;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// The file system of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountPlace {
    /// The requested path.
    pub path: PathBuf,
    /// The requested path if it exists, otherwise its nearest existing ancestor.
    pub existing: PathBuf,
    /// Type of the file system, such as `ext4`, `nfs4`, `tmpfs`, `fuse.glusterfs`.
    pub file_system: String,
    /// The mounted source: a device, `server:/export`, or a keyword such as `tmpfs`.
    pub source: String,
    /// Mount point.
    pub mount_point: PathBuf,
    /// Device number, which identifies a file system on this node only.
    pub device: u64,
    /// Inode number of `existing`.
    pub inode: u64,
}

impl MountPlace {
    /// Returns whether the file system stores its files in memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        ["tmpfs", "ramfs"].contains(&self.file_system.as_str())
    }
}

/// Returns the memory that programs can still allocate, bytes.
fn available_memory() -> Option<u64> {
    let all = fs::read_to_string("/proc/meminfo").ok()?;
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

/// The free space of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSpace {
    /// The path and its file system.
    #[serde(flatten)]
    pub place: MountPlace,
    /// Bytes that a user without privileges may still write.
    pub free_bytes: u64,
    /// Size of the file system, bytes.
    pub total_bytes: u64,
    /// Number of files that can still be created; `None` if the file system does not count files.
    pub free_files: Option<u64>,
}

/// A mount, from a line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub point: PathBuf,
    /// Type of the file system.
    pub file_system: String,
    /// The mounted source.
    pub source: String,
}

/// Returns the mounts in the kernel's order: a later mount hides an earlier one at the same mount point.
pub(super) fn mounts() -> Vec<Mount> {
    read_mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// Parses a table in the format of `/proc/self/mountinfo`. Lines of another form are skipped.
#[must_use]
pub fn read_mounts(table: &[u8]) -> Vec<Mount> {
    table.split(|b| *b == b'\n').filter_map(parse).collect()
}

/// Parses a line: `36 35 98:0 root /mount-point options [optional]... - type source options`.
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().position(|f| *f == b"-")?;
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    Some(Mount {
        point: PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.get(4)?))),
        file_system: text(fields.get(dash + 1)?),
        source: text(fields.get(dash + 2)?),
    })
}

/// Decodes octal escapes: a blank is written as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = field
            .get(at..at + 4)
            .filter(|f| f[0] == b'\\')
            .and_then(|f| std::str::from_utf8(&f[1..]).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(field[at]);
                at += 1;
            }
        }
    }
    plain
}

/// Fails if a path is relative.
pub(super) fn absolute(path: &Path) -> Result<(), SentinelError> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err(SentinelError::Unexpected {
            path: path.to_owned(),
            expected: "an absolute path",
        })
    }
}

/// Returns the file system of a path.
pub(super) fn place(path: &Path) -> Result<MountPlace, SentinelError> {
    absolute(path)?;
    let existing = path
        .ancestors()
        .find(|p| p.exists())
        .unwrap_or(Path::new("/"));
    let fail = |error: std::io::Error| SentinelError::Read {
        path: existing.to_owned(),
        error,
    };
    let real = existing.canonicalize().map_err(fail)?;
    let metadata = fs::metadata(&real).map_err(fail)?;
    let mount = mounts()
        .into_iter()
        .rev()
        .filter(|m| real.starts_with(&m.point))
        .max_by_key(|m| m.point.components().count());
    let (file_system, source, mount_point) = mount.map_or_else(
        || ("unknown".to_owned(), String::new(), PathBuf::from("/")),
        |m| (m.file_system, m.source, m.point),
    );
    Ok(MountPlace {
        path: path.to_owned(),
        existing: existing.to_owned(),
        file_system,
        source,
        mount_point,
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

/// Returns the type of the file system of an absolute path, such as `ext4`.
///
/// # Errors
/// The path cannot be examined.
pub fn file_system_type(path: &Path) -> Result<String, SentinelError> {
    place(path).map(|place| place.file_system)
}

/// Returns the free space at a path.
pub(super) fn space(path: &Path) -> Result<MountSpace, SentinelError> {
    let place = place(path)?;
    let stat = statvfs(&place.existing).map_err(|error| SentinelError::Read {
        path: place.existing.clone(),
        error: error.into(),
    })?;
    let unit = stat.fragment_size();
    let mut free_bytes = stat.blocks_available().saturating_mul(unit);
    if place.is_in_memory() {
        // files of a file system in memory cannot use memory that programs use, even if the file system reports more free space
        free_bytes = free_bytes.min(available_memory().unwrap_or(u64::MAX));
    }
    Ok(MountSpace {
        place,
        free_bytes,
        total_bytes: stat.blocks().saturating_mul(unit),
        free_files: (stat.files() > 0).then(|| stat.files_available()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let mount = parse(b"36 35 98:0 /mnt1 /mnt/with\\040blank rw,noatime master:1 shared:2 - nfs4 server:/x\\134y rw").expect("a mount");
        let point = PathBuf::from("/mnt/with blank");
        assert_eq!(
            mount,
            Mount {
                point,
                file_system: "nfs4".into(),
                source: "server:/x\\y".into()
            }
        );
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"36 35 98:0 / / rw -"), None);
    }

    #[test]
    fn files_in_memory_have_no_more_room_than_memory_has() {
        let space = space(Path::new("/dev/shm")).expect("space");
        if space.place.is_in_memory() {
            let memory = available_memory().expect("meminfo");
            // other programs allocate and free memory meanwhile
            assert!(space.free_bytes < memory + (1 << 30), "{space:?} {memory}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_lies_where_its_ancestor_does() {
        let dir = tempfile::tempdir().expect("a directory");
        let asked = dir.path().join("not/yet");
        let space = space(&asked).expect("space");
        assert_eq!(
            (space.place.path, space.place.existing),
            (asked, dir.path().to_owned())
        );
        assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
        let own = fs::metadata(dir.path()).expect("metadata");
        assert_eq!(
            (space.place.device, space.place.inode),
            (own.dev(), own.ino())
        );
        assert_eq!(
            place(Path::new("/proc/self")).expect("a place").file_system,
            "proc"
        );
        assert!(
            place(Path::new("relative"))
                .expect_err("relative")
                .to_string()
                .contains("absolute")
        );
    }
}
