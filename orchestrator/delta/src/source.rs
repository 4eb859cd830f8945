//! The files of a state.

use crate::error::{DeltaError, DeltaErrorKind};
use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Permissions that are stored and restored: a state from elsewhere sets no user or group ID.
pub(crate) const STORED_MODE: u32 = 0o777;
/// Maximum resolution of the times of files: a file that was changed this recently may be changed again without another time.
const TICK: Duration = Duration::from_millis(20);
/// Number of times that a listing waits for that.
const WAITS: u32 = 5;

/// A checkpoint that lies in a directory, or is one file.
#[derive(Debug)]
pub struct Source {
    /// The directory or file.
    pub path: PathBuf,
    /// All files, by name.
    pub files: Vec<SourceFile>,
    /// Symbolic links: name, and what they say.
    pub links: Vec<(String, String)>,
    /// When it was taken, seconds since 1970: the youngest time of its files.
    pub taken_s: f64,
}

/// A file of a state.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Its name, below the directory.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its length, bytes.
    pub bytes: u64,
    /// Its permissions.
    pub mode: u32,
    /// What it was when it was listed; `None`: it may change.
    pub version: Option<FileVersion>,
}

/// A file as it is at one moment: any change gives it another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// Of a file that was looked at.
    #[must_use]
    pub fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Whether its time is so young that another change may leave it as it is.
    fn is_fresh(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let changed = Duration::new(
            u64::try_from(self.changed.0).unwrap_or(0),
            u32::try_from(self.changed.1).unwrap_or(0),
        );
        now.is_ok_and(|now| now.abs_diff(changed) < TICK)
    }
}

impl SourceFile {
    /// Refuses a file that is no longer as it was listed.
    pub(crate) fn require_unchanged(&self, found: &Metadata) -> Result<(), DeltaError> {
        match self.version {
            Some(version) if version != FileVersion::of(found) => {
                Err(DeltaError::new(&self.path, DeltaErrorKind::Changed))
            }
            _ => Ok(()),
        }
    }
}

impl Source {
    /// Lists a state.
    ///
    /// # Errors
    /// Where something cannot be listed or stored: a temporary file of DMTCP, a pipe, nothing at all.
    pub fn list(path: &Path) -> Result<Self, DeltaError> {
        let mut source = Self::list_now(path)?;
        for _ in 0..WAITS {
            let mut versions = source.files.iter().filter_map(|file| file.version);
            if !versions.any(|version| version.is_fresh()) {
                break;
            }
            std::thread::sleep(TICK);
            source = Self::list_now(path)?;
        }
        Ok(source)
    }

    /// Refuses a state of which a file is no longer as it was listed: what was read of it may be of several moments.
    pub(crate) fn require_unchanged(&self) -> Result<(), DeltaError> {
        self.files.iter().try_for_each(|file| {
            let found = fs::metadata(&file.path)
                .map_err(|_| DeltaError::new(&file.path, DeltaErrorKind::Changed))?;
            file.require_unchanged(&found)
        })
    }

    fn list_now(path: &Path) -> Result<Self, DeltaError> {
        let mut source = Self {
            path: path.to_owned(),
            files: Vec::new(),
            links: Vec::new(),
            taken_s: 0.0,
        };
        let metadata = fs::metadata(path).map_err(DeltaError::io(path, "read"))?;
        if metadata.is_dir() {
            source.below(path, "")?;
        } else {
            let name = text(path, path.file_name().unwrap_or_default())?;
            source.file(path, name, &metadata)?;
        }
        if source.files.is_empty() {
            return Err(DeltaError::new(path, DeltaErrorKind::Empty));
        }
        source.files.sort_by(|a, b| a.name.cmp(&b.name));
        source.links.sort();
        Ok(source)
    }

    /// Sum of the files, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }

    fn below(&mut self, dir: &Path, prefix: &str) -> Result<(), DeltaError> {
        for entry in fs::read_dir(dir).map_err(DeltaError::io(dir, "list"))? {
            let path = entry.map_err(DeltaError::io(dir, "list"))?.path();
            let name = text(&path, path.file_name().unwrap_or_default())?;
            let name = format!("{prefix}{name}");
            let metadata = fs::symlink_metadata(&path).map_err(DeltaError::io(&path, "read"))?;
            if metadata.is_symlink() {
                let to = fs::read_link(&path).map_err(DeltaError::io(&path, "read"))?;
                self.links.push((name, text(&path, to.as_os_str())?));
            } else if metadata.is_dir() {
                self.below(&path, &format!("{name}/"))?;
            } else {
                self.file(&path, name, &metadata)?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        name: String,
        metadata: &fs::Metadata,
    ) -> Result<(), DeltaError> {
        let kind = metadata.file_type();
        let special = if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else if !kind.is_file() {
            "a device"
        } else if name.ends_with(".dmtcp.temp") {
            return Err(DeltaError::new(path, DeltaErrorKind::Temporary));
        } else {
            let changed = metadata
                .modified()
                .ok()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            self.taken_s = self.taken_s.max(changed.map_or(0.0, |d| d.as_secs_f64()));
            self.files.push(SourceFile {
                name,
                path: path.to_owned(),
                bytes: metadata.len(),
                mode: metadata.permissions().mode() & STORED_MODE,
                version: Some(FileVersion::of(metadata)),
            });
            return Ok(());
        };
        Err(DeltaError::new(path, DeltaErrorKind::Special(special)))
    }
}

/// A name as text. One that is none would come back as another.
fn text(path: &Path, name: &OsStr) -> Result<String, DeltaError> {
    let special = || DeltaError::new(path, DeltaErrorKind::Special("a name that is not UTF-8"));
    name.to_str().map(str::to_owned).ok_or_else(special)
}
