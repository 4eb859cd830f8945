//! The `_files` directory next to an image: files that DMTCP saved with the checkpoint, mostly shared memory.

use super::error::ImageError;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Name of the table of contents that DMTCP writes into the directory.
const FD_INFO: &str = "fd-info.txt";
/// Maximum number of bytes of the table that are read.
const MAX_FD_INFO: u64 = 16 << 20;
/// Maximum depth of subdirectories in a `_files` directory; DMTCP creates one or two levels.
const MAX_DEPTH: usize = 16;

/// A file that DMTCP saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// Name in the `_files` directory.
    pub saved_name: String,
    /// Its original path.
    pub original: String,
    /// Length, bytes; `None` if `fd-info.txt` names a file that does not exist.
    pub bytes: Option<u64>,
}

/// A directory of saved files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesDir {
    /// The directory.
    pub path: PathBuf,
    /// Name of the image that it belongs to.
    pub image: String,
    /// Whether that image exists. If not, the directory may be left from an earlier checkpoint.
    pub has_image: bool,
    /// Number of files, including `fd-info.txt`.
    pub files: u64,
    /// Total length of the files, bytes.
    pub bytes: u64,
    /// The files listed in `fd-info.txt`.
    pub saved: Vec<SavedFile>,
}

/// Sums over all `_files` directories of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesTotals {
    /// Number of directories.
    pub dirs: u64,
    /// Number of files in them.
    pub files: u64,
    /// Total length of the files, bytes.
    pub bytes: u64,
}

pub(super) fn read_files_dir(
    path: &Path,
    image: String,
    has_image: bool,
) -> Result<FilesDir, ImageError> {
    let (mut files, mut bytes) = (0, 0);
    count(path, MAX_DEPTH, &mut files, &mut bytes)?;
    let info = path.join(FD_INFO);
    // without O_NONBLOCK, opening a FIFO of this name would block forever
    let saved = match fs::OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(&info)
    {
        Ok(file) if !file.metadata().is_ok_and(|m| m.is_file()) => Vec::new(),
        Ok(file) => {
            let mut text = Vec::new();
            file.take(MAX_FD_INFO)
                .read_to_end(&mut text)
                .map_err(|error| ImageError::io(&info, error))?;
            parse_fd_info(&text, path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(ImageError::io(&info, error)),
    };
    Ok(FilesDir {
        path: path.to_owned(),
        image,
        has_image,
        files,
        bytes,
        saved,
    })
}

/// Parses lines of the form `<saved name>:<original path>`, one for each file. Skips lines without a colon.
fn parse_fd_info(text: &[u8], dir: &Path) -> Vec<SavedFile> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(saved_name, original)| {
            // Only names without directories: names in the file must not lead out of the directory.
            let inside = !saved_name.contains('/') && saved_name != ".." && !saved_name.is_empty();
            let bytes = if inside {
                fs::symlink_metadata(dir.join(saved_name))
                    .ok()
                    .map(|m| m.len())
            } else {
                None
            };
            SavedFile {
                saved_name: saved_name.to_owned(),
                original: original.to_owned(),
                bytes,
            }
        })
        .collect()
}

fn count(dir: &Path, depth: usize, files: &mut u64, bytes: &mut u64) -> Result<(), ImageError> {
    for entry in fs::read_dir(dir).map_err(|error| ImageError::io(dir, error))? {
        let entry = entry.map_err(|error| ImageError::io(dir, error))?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // A new checkpoint may replace files while they are counted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ImageError::io(&entry.path(), error)),
        };
        if metadata.is_dir() {
            if depth > 0 {
                count(&entry.path(), depth - 1, files, bytes)?;
            }
        } else {
            *files += 1;
            *bytes += metadata.len();
        }
    }
    Ok(())
}
