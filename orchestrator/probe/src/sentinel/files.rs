//! Reads files: directory listings, matches of patterns, digests, parts and ends of files.

use super::{error::SentinelError, mounts::absolute};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// Maximum length of a [`FilePart`], bytes.
const PART: u64 = 4 << 20;
/// Maximum number of bytes that [`tail`] reads; it is meant for logs.
const MAX_TAIL: u64 = 64 << 20;
/// Maximum number of files that patterns may match.
const MAX_FILES: usize = 100_000;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedEntry {
    /// File name; bytes that are not UTF-8 are shown as U+FFFD.
    pub name: String,
    /// Length, bytes.
    pub bytes: u64,
    /// Time of its last change, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Whether the entry is a directory.
    pub is_dir: bool,
    /// Inode number.
    pub inode: u64,
}

/// The listing of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListingFound {
    /// Whether the directory exists.
    pub exists: bool,
    /// Entries, sorted by name.
    pub entries: Vec<ListedEntry>,
}

/// A file that matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFound {
    /// Path of the file.
    pub path: PathBuf,
    /// Length, bytes.
    pub bytes: u64,
    /// Time of its last change, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Inode number.
    pub inode: u64,
    /// Device number of the file system, valid on this node only.
    pub device: u64,
}

/// Length and digest of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digested {
    /// Path of the file.
    pub path: PathBuf,
    /// Length and digest; `None` if the file does not exist.
    pub found: Option<FileContent>,
}

/// Length and digest of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// Number of bytes read.
    pub bytes: u64,
    /// BLAKE3 digest, in hexadecimal digits.
    pub blake3: String,
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// Bytes of the part, in base 64; empty at the end of the file.
    pub base64: String,
}

impl FilePart {
    /// Creates a part from these bytes, truncated to the maximum length of a part.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            base64: BASE64_STANDARD.encode(bytes),
        }
    }

    /// Decodes the bytes of the part.
    ///
    /// # Errors
    /// The text is not base 64.
    pub fn bytes(&self) -> Result<Vec<u8>, base64::DecodeError> {
        BASE64_STANDARD.decode(&self.base64)
    }
}

/// The end of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    /// Last bytes of the file as text; bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Length of the whole file, bytes.
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

/// Opens a regular file. Refuses a pipe, on which a reader would wait forever.
fn regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("expected a file"));
    }
    File::open(path)
}

/// Lists names, sizes and times of the entries of a directory whose names have one of the suffixes.
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
            // the entry was renamed or removed since it was listed
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fail(&entry.path())(error)),
        };
        entries.push(ListedEntry {
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

/// Finds the files that match a pattern. Directories are omitted.
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

/// Reads a file to its end, and returns its length and digest.
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
        found: Some(FileContent {
            bytes,
            blake3: hasher.finalize().to_hex().to_string(),
        }),
    })
}

/// Reads at most [`PART`] bytes of a file, starting at an offset.
pub(super) fn part(path: &Path, offset: u64) -> Result<FilePart, SentinelError> {
    absolute(path)?;
    let mut file = regular(path).map_err(fail(path))?;
    file.seek(SeekFrom::Start(offset)).map_err(fail(path))?;
    let mut bytes = Vec::new();
    file.take(PART)
        .read_to_end(&mut bytes)
        .map_err(fail(path))?;
    Ok(FilePart {
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
    // bytes that are appended meanwhile are not read
    file.take(most).read_to_end(&mut end).map_err(fail(path))?;
    Ok(Tail {
        text: String::from_utf8_lossy(&end).into_owned(),
        file_bytes,
    })
}
