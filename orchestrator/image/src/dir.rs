//! A checkpoint directory: the images of a computation and of its launchers, and the files that DMTCP saved next to them.

use super::{
    error::{ImageError, ImageErrorKind},
    filename::{FILES_SUFFIX, ImageName, PREFIX, SUFFIX, TEMPORARY_SUFFIX},
    files::{FilesDir, FilesTotals, read_files_dir},
    header::Header,
    model::Image,
    reader::read_image,
    zones::Zones,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs, io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Role of a process in the computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A process of the application.
    Rank,
    /// A process that starts others: mpiexec, proxies and daemons of the MPI library, or DMTCP's ssh.
    Launcher,
}

/// Prefixes of the names of launchers: `mpiexec` is `mpiexec.hydra` in MPICH, `mpirun.openmpi` in Debian.
const LAUNCHERS: [&str; 9] = [
    "mpiexec",
    "mpirun",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "hydra_nameserver",
    "orterun",
    "orted",
    "prte",
    "dmtcp_ssh",
];

impl Role {
    /// Returns the role of a program, by its name.
    #[must_use]
    pub fn of_program(program: &str) -> Self {
        let base = program.rsplit('/').next().unwrap_or(program);
        let starts = |name: &str| {
            base.strip_prefix(name).is_some_and(|rest| {
                !rest.starts_with(|c: char| c.is_ascii_alphanumeric() && c != 'd')
            })
        };
        let launcher = LAUNCHERS.iter().any(|name| starts(name))
            || matches!(base, "prterun" | "prun" | "srun");
        if launcher { Self::Launcher } else { Self::Rank }
    }

    /// Returns the name for tables and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rank => "rank",
            Self::Launcher => "launcher",
        }
    }
}

/// An image of a checkpoint directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirImage {
    /// File name.
    pub file: String,
    /// Name of the program: from the header (v4) or the file name (v2, v3).
    pub program: String,
    /// Virtual pid: from the header (v4) or the file name; `None` if neither has it.
    pub vpid: Option<i32>,
    /// Host id, which distinguishes nodes: from the header (v4) or the file name; `None` if neither has it.
    pub hostid: Option<u64>,
    /// The role of the process.
    pub role: Role,
    /// The image.
    #[serde(flatten)]
    pub image: Image,
}

/// An image that could not be read.
#[derive(Debug, Serialize, Deserialize)]
pub struct BrokenImage {
    /// File name.
    pub file: String,
    /// Role of the process, inferred from the file name.
    pub role: Role,
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// Why it could not be read.
    #[serde(serialize_with = "error_text", deserialize_with = "remote_error")]
    pub error: ImageError,
}

fn error_text<S: serde::Serializer>(error: &ImageError, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}

fn remote_error<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<ImageError, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(ImageError {
        path: PathBuf::new(),
        offset: None,
        gzip: false,
        kind: ImageErrorKind::Remote(text),
    })
}

/// An image that is still being written (`.dmtcp.temp`), or whose writer ended early. It is not read and not in the totals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemporaryImage {
    /// File name.
    pub file: String,
    /// Current length, bytes.
    pub file_bytes: u64,
}

/// Sums over the images of a role. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleTotals {
    /// Number of images.
    pub images: u64,
    /// Length of the files, compressed or not.
    pub file_bytes: u64,
    /// Length of the uncompressed images.
    pub uncompressed_bytes: u64,
    /// Length of the data, without headers.
    pub data_bytes: u64,
    /// Sums by zone.
    pub zones: Zones,
}

/// Sums over a checkpoint directory. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Sums over processes of the application.
    pub rank: RoleTotals,
    /// Sums over launchers.
    pub launcher: RoleTotals,
    /// Number of images that could not be read.
    pub broken_images: u64,
    /// Length of the image files that could not be read. Included in `stored_bytes`, because they occupy disk space.
    pub broken_file_bytes: u64,
    /// Sums over `_files` directories.
    pub files_dirs: FilesTotals,
    /// Size of the checkpoint on disk: all images, and all `_files` directories.
    pub stored_bytes: u64,
}

/// A checkpoint directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckpointDir {
    /// The directory.
    pub path: PathBuf,
    /// Images that were read: ranks, then launchers, each by virtual pid.
    pub images: Vec<DirImage>,
    /// Images that cannot be read.
    pub broken: Vec<BrokenImage>,
    /// Images that are still being written.
    pub temporary: Vec<TemporaryImage>,
    /// Directories of files that DMTCP saved.
    pub files_dirs: Vec<FilesDir>,
    /// Names of directories that are named like images, sorted. They are not read and not in the sums.
    #[serde(default)]
    pub named_like_images: Vec<String>,
    /// Sums over the directory.
    pub totals: Totals,
}

/// Options for reading a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadDirOptions {
    /// Number of images read at the same time; `None`: one per core.
    pub threads: Option<NonZeroUsize>,
}

/// Reads all images of a checkpoint directory, one per core at a time. An image that cannot be read is reported in [`CheckpointDir::broken`]; the
/// others are still read.
///
/// # Errors
/// The directory itself, or one of its `_files` directories, cannot be listed.
pub fn read_dir(path: &Path) -> Result<CheckpointDir, ImageError> {
    read_dir_with(path, ReadDirOptions::default())
}

/// Reads a checkpoint directory with options.
///
/// # Errors
/// The directory itself, or one of its `_files` directories, cannot be listed.
pub fn read_dir_with(path: &Path, options: ReadDirOptions) -> Result<CheckpointDir, ImageError> {
    let FoundEntries {
        candidates,
        mut temporary,
        files,
        mut named_like_images,
    } = find(path)?;
    let threads = options
        .threads
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let mut images = Vec::with_capacity(candidates.len());
    let mut broken = Vec::new();
    let paths: Vec<PathBuf> = candidates
        .iter()
        .map(|candidate| path.join(&candidate.name))
        .collect();
    let results = read_each(&paths, threads, |image| image, &|_, _| ());
    for (candidate, result) in candidates.into_iter().zip(results) {
        let file = candidate.name.to_string_lossy().into_owned();
        match result {
            Ok(image) => images.push(describe(file, image)),
            Err(error) => {
                broken.push(BrokenImage {
                    role: Role::of_program(&program_of_file(&file)),
                    file,
                    file_bytes: candidate.bytes,
                    error,
                });
            }
        }
    }
    images.sort_by(|a, b| {
        (a.role, a.vpid, a.hostid, &a.file).cmp(&(b.role, b.vpid, b.hostid, &b.file))
    });
    broken.sort_by(|a, b| a.file.cmp(&b.file));
    temporary.sort_by(|a, b| a.file.cmp(&b.file));
    named_like_images.sort();
    let mut files_dirs = Vec::with_capacity(files.len());
    for (dir, image) in files {
        let has_image = images
            .iter()
            .map(|i| &i.file)
            .chain(broken.iter().map(|b| &b.file))
            .any(|file| *file == image);
        files_dirs.push(read_files_dir(&dir, image, has_image)?);
    }
    files_dirs.sort_by(|a, b| a.path.cmp(&b.path));
    let totals = total(&images, &broken, &files_dirs);
    Ok(CheckpointDir {
        path: path.to_owned(),
        images,
        broken,
        temporary,
        files_dirs,
        named_like_images,
        totals,
    })
}

struct Candidate {
    name: OsString,
    bytes: u64,
}

struct FoundEntries {
    candidates: Vec<Candidate>,
    temporary: Vec<TemporaryImage>,
    /// `_files` directories, each with the name of its image.
    files: Vec<(PathBuf, String)>,
    /// Directories that are named like an image.
    named_like_images: Vec<String>,
}

/// Lists the directory.
fn find(path: &Path) -> Result<FoundEntries, ImageError> {
    let mut found = FoundEntries {
        candidates: Vec::new(),
        temporary: Vec::new(),
        files: Vec::new(),
        named_like_images: Vec::new(),
    };
    for entry in fs::read_dir(path).map_err(|error| ImageError::io(path, error))? {
        let entry = entry.map_err(|error| ImageError::io(path, error))?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if !text.starts_with(PREFIX) {
            continue;
        }
        // Follows links: a checkpoint may be stored elsewhere.
        let metadata = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            // The writer has renamed or replaced the file since it was listed, or it is a dangling link. The error is reported when it is read.
            Err(error) if error.kind() == io::ErrorKind::NotFound && text.ends_with(SUFFIX) => {
                found.candidates.push(Candidate { name, bytes: 0 });
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ImageError::io(&entry.path(), error)),
        };
        if metadata.is_dir() {
            if let Some(stem) = text.strip_suffix(FILES_SUFFIX) {
                found.files.push((entry.path(), format!("{stem}{SUFFIX}")));
            } else if text.ends_with(SUFFIX) || text.ends_with(TEMPORARY_SUFFIX) {
                found.named_like_images.push(text.into_owned());
            }
        } else if text.ends_with(TEMPORARY_SUFFIX) {
            found.temporary.push(TemporaryImage {
                file: text.into_owned(),
                file_bytes: metadata.len(),
            });
        } else if text.ends_with(SUFFIX) {
            drop(text);
            found.candidates.push(Candidate {
                name,
                bytes: metadata.len(),
            });
        }
    }
    // Largest images first, so that no thread starts a long one when the others have finished.
    found
        .candidates
        .sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    Ok(found)
}

/// Reads images, `threads` at a time. Returns the results of `keep` in the order of the paths. `progress` receives the number of images read and
/// their total, and is called from several threads.
pub(super) fn read_each<T: Send>(
    paths: &[PathBuf],
    threads: usize,
    keep: impl Fn(Image) -> T + Sync,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Result<T, ImageError>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<T, ImageError>>>> =
        paths.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((i, path)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, paths.get(i)?)))
        {
            let result = read_image(path).map(&keep);
            *results[i].lock() = Some(result);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, paths.len());
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(paths.len()) {
            // If no further thread can be started, this thread reads all images.
            if std::thread::Builder::new()
                .spawn_scoped(scope, work)
                .is_err()
            {
                break;
            }
        }
        work();
    });
    results
        .into_iter()
        .map(|slot| slot.into_inner().expect("every image was read"))
        .collect()
}

/// Returns the name of the program, from the name of its image file.
pub(super) fn program_of_file(file: &str) -> String {
    ImageName::parse(file.strip_suffix(".gz").unwrap_or(file))
        .map_or_else(|| stem(file).to_owned(), |name| name.program)
}

/// Returns the file name without the prefix and suffix that all images have.
fn stem(file: &str) -> &str {
    let stem = file.strip_suffix(".gz").unwrap_or(file);
    let stem = stem.strip_suffix(SUFFIX).unwrap_or(stem);
    stem.strip_prefix(PREFIX).unwrap_or(stem)
}

fn describe(file: String, image: Image) -> DirImage {
    let by_name = ImageName::parse(&file);
    let (program, vpid, hostid) = match (&image.header, by_name) {
        (Header::V4(header), _) => (
            header.procname.to_string(),
            Some(header.upid.pid),
            Some(header.upid.hostid),
        ),
        (Header::V2(_), Some(name)) => (name.program, Some(name.vpid), Some(name.hostid)),
        (Header::V2(_), None) => (stem(&file).to_owned(), None, None),
    };
    DirImage {
        role: Role::of_program(&program),
        file,
        program,
        vpid,
        hostid,
        image,
    }
}

fn total(images: &[DirImage], broken: &[BrokenImage], files_dirs: &[FilesDir]) -> Totals {
    let mut totals = Totals::default();
    for image in images {
        let sums = match image.role {
            Role::Rank => &mut totals.rank,
            Role::Launcher => &mut totals.launcher,
        };
        sums.images += 1;
        sums.file_bytes += image.image.file_bytes;
        sums.uncompressed_bytes += image.image.uncompressed_bytes;
        sums.data_bytes += image.image.data_bytes;
        sums.zones.add_all(&image.image.zones);
    }
    for image in broken {
        totals.broken_images += 1;
        totals.broken_file_bytes += image.file_bytes;
    }
    for dir in files_dirs {
        totals.files_dirs.dirs += 1;
        totals.files_dirs.files += dir.files;
        totals.files_dirs.bytes += dir.bytes;
    }
    totals.stored_bytes = totals.rank.file_bytes
        + totals.launcher.file_bytes
        + totals.broken_file_bytes
        + totals.files_dirs.bytes;
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_recognised_by_their_names() {
        for launcher in [
            "mpiexec",
            "mpiexec.hydra",
            "mpirun",
            "mpirun.openmpi",
            "hydra_pmi_proxy",
            "orted",
            "orterun",
            "prte",
            "prted",
            "prterun",
            "dmtcp_ssh",
            "dmtcp_sshd",
            "/usr/bin/mpiexec",
        ] {
            assert_eq!(Role::of_program(launcher), Role::Launcher, "{launcher}");
        }
        for rank in ["bt.A.4", "mpiexecutor", "lu.B.8", "orter", "python3.11", ""] {
            assert_eq!(Role::of_program(rank), Role::Rank, "{rank}");
        }
    }
}
