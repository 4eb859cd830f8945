//! Lists the files of a checkpoint.

use crate::error::{DeltaError, DeltaErrorKind};
use std::{
    ffi::OsStr,
    fs::{self, Metadata},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Permission bits that are stored and restored. The setuid and setgid bits are not: a state may come from another system.
pub(crate) const STORED_MODE: u32 = 0o777;
/// Coarsest resolution of file times. If a file changed more recently than this, another change may leave its time unchanged.
const TICK: Duration = Duration::from_millis(20);
/// Number of times that a listing waits for [`TICK`] to pass.
const WAITS: u32 = 5;

/// A checkpoint: a directory or one file.
#[derive(Debug)]
pub struct Source {
    /// The directory or file.
    pub path: PathBuf,
    /// All files, sorted by name.
    pub files: Vec<SourceFile>,
    /// Symbolic links: name and target.
    pub links: Vec<(String, String)>,
    /// Time of the checkpoint, seconds since 1970: the latest modification time of its files.
    pub taken_s: f64,
}

/// A file of a state.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Name relative to the directory.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Length, bytes.
    pub bytes: u64,
    /// Permissions.
    pub mode: u32,
    /// Version of the file when it was listed; `None` if the file may still change.
    pub version: Option<FileVersion>,
}

/// Identifies the version of a file: each change of the file results in a different value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    /// Returns the version of a file from its metadata.
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

    /// Returns whether the last change is so recent that another change may leave the time as it is.
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
    /// Returns an error if the file has changed since it was listed.
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
    /// A file cannot be listed or stored (a temporary file of DMTCP, a pipe), or there are no files.
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

    /// Returns an error if any file has changed since it was listed: the data could be of different moments.
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

    /// Returns the total length of the files, bytes.
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

/// Returns a name as UTF-8. Refuses other names, because they could not be restored exactly.
fn text(path: &Path, name: &OsStr) -> Result<String, DeltaError> {
    let special = || DeltaError::new(path, DeltaErrorKind::Special("a name that is not UTF-8"));
    name.to_str().map(str::to_owned).ok_or_else(special)
}
