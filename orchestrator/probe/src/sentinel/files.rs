//! Reads files: listings, patterns, digests, ends.

use super::{error::SentinelError, mounts::absolute};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// Bytes of a part at most.
const PART: u64 = 4 << 20;
/// Maximum number of bytes that [`tail`] reads: it is for logs.
const MAX_TAIL: u64 = 64 << 20;
/// Maximum number of files that patterns may match.
const MAX_FILES: usize = 100_000;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name; what is not UTF-8 is shown as U+FFFD.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of its last change, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Is it a directory?
    pub is_dir: bool,
    /// Its inode number.
    pub inode: u64,
}

/// The listing of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingFound {
    /// Is the directory there?
    pub exists: bool,
    /// By name.
    pub entries: Vec<Entry>,
}

/// A file that matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFound {
    /// The file.
    pub path: PathBuf,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of its last change, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Its inode number.
    pub inode: u64,
    /// Number of the file system's device, on that node.
    pub device: u64,
}

/// Length and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digested {
    /// The file.
    pub path: PathBuf,
    /// `None` if it is not there.
    pub found: Option<Content>,
}

/// Length and digest of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Bytes that were read.
    pub bytes: u64,
    /// BLAKE3, in hexadecimal digits.
    pub blake3: String,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its bytes, in base 64; none at the end of the file.
    pub base64: String,
}

impl Part {
    /// Its bytes.
    ///
    /// # Errors
    /// When it is not in base 64.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        BASE64_STANDARD
            .decode(&self.base64)
            .map_err(|e| e.to_string())
    }
}

/// The end of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// Its last bytes as text; what is not UTF-8 is shown as U+FFFD.
    pub text: String,
    /// Length of the whole file in bytes.
    pub file_bytes: u64,
}

fn modified_ns(metadata: &fs::Metadata) -> i64 {
    metadata
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(metadata.mtime_nsec())
}

fn fail(path: &Path) -> impl Fn(io::Error) -> SentinelError + '_ {
    move |error| SentinelError::Read {
        path: path.to_owned(),
        error,
    }
}

/// Opens a file, but not a pipe, whose reader would wait forever.
fn regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("expected a file"));
    }
    File::open(path)
}

/// Lists names, sizes and times of a directory's entries.
pub(super) fn listing(dir: &Path, suffixes: &[String]) -> Result<ListingFound, SentinelError> {
    absolute(dir)?;
    let listed = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ListingFound::default()),
        listed => listed.map_err(fail(dir))?,
    };
    let mut entries = Vec::new();
    for entry in listed {
        let entry = entry.map_err(fail(dir))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !suffixes.is_empty() && !suffixes.iter().any(|s| name.ends_with(s.as_str())) {
            continue;
        }
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // renamed or removed since it was listed
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fail(&entry.path())(error)),
        };
        entries.push(Entry {
            name,
            bytes: metadata.len(),
            modified_ns: modified_ns(&metadata),
            is_dir: metadata.is_dir(),
            inode: metadata.ino(),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(ListingFound {
        exists: true,
        entries,
    })
}

/// Finds the files that match; directories do not count.
pub(super) fn globs(dir: &Path, patterns: &[String]) -> Result<Vec<FileFound>, SentinelError> {
    absolute(dir)?;
    let base = dir
        .to_str()
        .ok_or_else(|| SentinelError::NotUtf8(dir.to_owned()))?;
    let mut found = Vec::new();
    for pattern in patterns {
        if pattern.is_empty()
            || Path::new(pattern)
                .components()
                .any(|c| matches!(c, Component::ParentDir))
        {
            return Err(SentinelError::PatternElsewhere {
                pattern: pattern.clone(),
                base: base.to_owned(),
            });
        }
        let whole = match pattern.strip_prefix('/') {
            Some(_) => pattern.clone(),
            None => format!(
                "{}/{pattern}",
                glob::Pattern::escape(base.trim_end_matches('/'))
            ),
        };
        for path in glob::glob(&whole).map_err(|error| SentinelError::Pattern {
            pattern: pattern.clone(),
            error,
        })? {
            let path = match path {
                Ok(path) => path,
                Err(error) if error.error().kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(SentinelError::Glob(error)),
            };
            let metadata = match fs::metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(fail(&path)(error)),
            };
            if !metadata.is_file() {
                continue;
            }
            if found.len() == MAX_FILES {
                return Err(SentinelError::TooManyFiles {
                    pattern: pattern.clone(),
                    most: MAX_FILES,
                    base: base.to_owned(),
                });
            }
            found.push(FileFound {
                path,
                bytes: metadata.len(),
                modified_ns: modified_ns(&metadata),
                inode: metadata.ino(),
                device: metadata.dev(),
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// Reads a file to its end.
pub(super) fn digest(path: &Path) -> Result<Digested, SentinelError> {
    absolute(path)?;
    let mut file = match regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Digested {
                path: path.to_owned(),
                found: None,
            });
        }
        file => file.map_err(fail(path))?,
    };
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0u8; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(fail(path)(error)),
        }
    }
    Ok(Digested {
        path: path.to_owned(),
        found: Some(Content {
            bytes,
            blake3: hasher.finalize().to_hex().to_string(),
        }),
    })
}

/// Reads at most [`PART`] bytes of a file from an offset on.
pub(super) fn part(path: &Path, offset: u64) -> Result<Part, SentinelError> {
    absolute(path)?;
    let mut file = regular(path).map_err(fail(path))?;
    file.seek(SeekFrom::Start(offset)).map_err(fail(path))?;
    let mut bytes = Vec::new();
    file.take(PART)
        .read_to_end(&mut bytes)
        .map_err(fail(path))?;
    Ok(Part {
        base64: BASE64_STANDARD.encode(bytes),
    })
}

/// Reads the last bytes of a file.
pub(super) fn tail(path: &Path, most_bytes: u64) -> Result<Tail, SentinelError> {
    absolute(path)?;
    let mut file = regular(path).map_err(fail(path))?;
    let file_bytes = file.metadata().map_err(fail(path))?.len();
    let most = most_bytes.min(MAX_TAIL);
    file.seek(SeekFrom::Start(file_bytes.saturating_sub(most)))
        .map_err(fail(path))?;
    let mut end = Vec::new();
    // a file that grows meanwhile is not followed
    file.take(most).read_to_end(&mut end).map_err(fail(path))?;
    Ok(Tail {
        text: String::from_utf8_lossy(&end).into_owned(),
        file_bytes,
    })
}
