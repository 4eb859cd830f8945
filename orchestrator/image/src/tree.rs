//! Reads all images below a directory, such as a campaign or a file system. Links are not followed, so that nothing is counted twice. Depth and
//! number are limited, and only the sums of each image are kept.

use super::{
    baseline::MpiFlavour,
    dir::{Role, program_of_file, read_each},
    error::ImageError,
    filename::{COMPRESSED_SUFFIX, FILES_SUFFIX, ImageName, PREFIX, SUFFIX, TEMPORARY_SUFFIX},
    files::read_files_dir,
    header::{Header, UniquePid, V2Release},
    model::Image,
    owner::flavour,
    zones::Zones,
};
use std::{
    ffi::OsStr,
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

/// Maximum depth of the search. In a campaign, images are in `work/RUN/ckpt`, or one level lower with the "unique-ckpt" plugin.
const DEPTH: u32 = 8;
/// Maximum number of directories that are listed.
const MAX_DIRECTORIES: usize = 200_000;
/// Maximum number of images that are read.
const MAX_IMAGES: usize = 100_000;

/// An image of a tree, without its regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeImage {
    /// Path of the file.
    pub path: PathBuf,
    /// The role of the process.
    pub role: Role,
    /// Name of the program: from the header (v4) or the file name (v2, v3).
    pub program: String,
    /// Virtual pid: from the header (v4) or the file name; `None` if neither has it.
    pub vpid: Option<i32>,
    /// Digest of the host: from the header (v4) or the file name; `None` if neither has it.
    pub hostid: Option<u64>,
    /// The root process of its computation, and the number of processes in the computation, including launchers. From the header (v4); otherwise
    /// `None`.
    pub computation: Option<(UniquePid, u32)>,
    /// Version of DMTCP that the format indicates: `4`, `3.2`, `3.0`, `2.6`, `2.4`.
    pub dmtcp: &'static str,
    /// The MPI library, detected from the mapped files.
    pub library: MpiFlavour,
    /// Whether there is a baseline for the libraries' private anonymous memory in this image.
    pub has_baseline: bool,
    /// Whether the file is gzip-compressed.
    pub gzip: bool,
    /// Number of area headers.
    pub area_headers: u64,
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// Length of the uncompressed image, bytes.
    pub uncompressed_bytes: u64,
    /// Length of the data, without headers, bytes.
    pub data_bytes: u64,
    /// Sums by zone.
    pub zones: Zones,
}

/// A directory of files that DMTCP saved next to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFiles {
    /// The `_files` directory.
    pub path: PathBuf,
    /// Number of files in it.
    pub files: u64,
    /// Total length of the files, bytes.
    pub bytes: u64,
}

/// A file that is named like an image but cannot be read. It is not in the sums of zones.
#[derive(Debug)]
pub struct UnreadImage {
    /// Path of the file.
    pub path: PathBuf,
    /// Role of the process, inferred from the file name.
    pub role: Role,
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// Why it cannot be read.
    pub error: ImageError,
}

/// The images below a directory.
#[derive(Debug, Default)]
pub struct ImageTree {
    /// The directory.
    pub path: PathBuf,
    /// Images that were read, by path.
    pub images: Vec<TreeImage>,
    /// Images that cannot be read, by path.
    pub broken: Vec<UnreadImage>,
    /// Images that are still being written, by path, with their lengths in bytes. They are not in the sums.
    pub temporary: Vec<(PathBuf, u64)>,
    /// Directories of saved files, by path.
    pub saved: Vec<SavedFiles>,
    /// Directories that are named like images, by path. They are searched, too.
    pub named_like_images: Vec<PathBuf>,
    /// Directories that cannot be listed.
    pub unlisted: Vec<ImageError>,
    /// The limit at which the search ended; `None` if it was complete.
    pub ended_at: Option<TreeLimit>,
}

/// A limit of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLimit {
    /// Maximum number of levels below the directory.
    Depth(u32),
    /// Maximum number of directories.
    Directories(usize),
    /// Maximum number of images.
    Images(usize),
}

impl std::fmt::Display for TreeLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Depth(levels) => write!(
                f,
                "directories more than {levels} levels below were not looked into"
            ),
            Self::Directories(most) => write!(f, "the search ended after {most} directories"),
            Self::Images(most) => write!(f, "the search ended after {most} images"),
        }
    }
}

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
struct Limits {
    depth: u32,
    directories: usize,
    images: usize,
}

/// Results of the search, before images are read.
#[derive(Default)]
struct FoundEntries {
    tree: ImageTree,
    candidates: Vec<(PathBuf, u64)>,
}

/// Reads all images below a directory, one per core at a time. `progress` receives the number of images read and their total, from several threads.
///
/// # Errors
/// The directory itself cannot be listed.
pub fn read_tree(
    path: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<ImageTree, ImageError> {
    read_within(
        path,
        Limits {
            depth: DEPTH,
            directories: MAX_DIRECTORIES,
            images: MAX_IMAGES,
        },
        progress,
    )
}

fn read_within(
    path: &Path,
    limits: Limits,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<ImageTree, ImageError> {
    let FoundEntries {
        mut tree,
        mut candidates,
    } = search(path, limits)?;
    // largest images first, so that no thread starts a long one when the others have finished
    candidates.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let paths: Vec<PathBuf> = candidates.iter().map(|(path, _)| path.clone()).collect();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let results = read_each(&paths, threads, sums, progress);
    for ((path, file_bytes), result) in candidates.into_iter().zip(results) {
        match result {
            Ok(image) => tree.images.push(image),
            Err(error) => {
                let role = Role::of_program(&program_of_file(&file_name(&path)));
                tree.broken.push(UnreadImage {
                    path,
                    role,
                    file_bytes,
                    error,
                });
            }
        }
    }
    tree.temporary.sort();
    tree.saved.sort_by(|a, b| a.path.cmp(&b.path));
    tree.named_like_images.sort();
    tree.images.sort_by(|a, b| a.path.cmp(&b.path));
    tree.broken.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(tree)
}

/// The images found below a directory, not read yet.
#[derive(Debug)]
pub struct FoundImages {
    /// Paths of the images, sorted.
    pub files: Vec<PathBuf>,
    /// Directories that are named like images.
    pub named_like_images: Vec<PathBuf>,
    /// Directories that cannot be listed.
    pub unlisted: Vec<ImageError>,
}

/// Finds images in a directory and below it.
///
/// # Errors
/// The directory itself cannot be listed.
pub fn find_images(path: &Path) -> Result<FoundImages, ImageError> {
    let FoundEntries { tree, candidates } = search(
        path,
        Limits {
            depth: DEPTH,
            directories: MAX_DIRECTORIES,
            images: MAX_IMAGES,
        },
    )?;
    let mut files: Vec<PathBuf> = candidates.into_iter().map(|(path, _)| path).collect();
    files.sort();
    Ok(FoundImages {
        files,
        named_like_images: tree.named_like_images,
        unlisted: tree.unlisted,
    })
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(OsStr::to_string_lossy)
        .unwrap_or_default()
        .into_owned()
}

/// Reduces an image to its sums.
fn sums(image: Image) -> TreeImage {
    let by_name = || ImageName::parse(file_name(&image.path).trim_end_matches(".gz"));
    let (program, vpid, hostid, computation, dmtcp) = match &image.header {
        Header::V4(header) => (
            header.procname.to_string(),
            Some(header.upid.pid),
            Some(header.upid.hostid),
            Some((header.comp_group, header.num_peers)),
            "4",
        ),
        Header::V2(header) => {
            let name = by_name();
            (
                program_of_file(&file_name(&image.path)),
                name.as_ref().map(|name| name.vpid),
                name.map(|name| name.hostid),
                None,
                match header.release {
                    V2Release::V2_4 => "2.4",
                    V2Release::V2_6 => "2.6",
                    V2Release::V3_0 => "3.0",
                    V2Release::V3_2 => "3.2",
                },
            )
        }
    };
    TreeImage {
        role: Role::of_program(&program),
        library: flavour(&image.regions),
        has_baseline: image.baseline.is_some(),
        gzip: image.gzip,
        area_headers: image.area_headers,
        path: image.path,
        program,
        vpid,
        hostid,
        computation,
        dmtcp,
        file_bytes: image.file_bytes,
        uncompressed_bytes: image.uncompressed_bytes,
        data_bytes: image.data_bytes,
        zones: image.zones,
    }
}

/// Searches the tree, level by level.
fn search(path: &Path, limits: Limits) -> Result<FoundEntries, ImageError> {
    let mut found = FoundEntries {
        tree: ImageTree {
            path: path.to_owned(),
            ..ImageTree::default()
        },
        candidates: Vec::new(),
    };
    let mut level = vec![path.to_owned()];
    let mut listed = 0;
    for depth in 0.. {
        let mut below = Vec::new();
        level.sort();
        for directory in level {
            if listed == limits.directories {
                found.tree.ended_at = Some(TreeLimit::Directories(limits.directories));
                return Ok(found);
            }
            listed += 1;
            match list(&directory, &mut found, &mut below) {
                Ok(()) => {}
                Err(error) if depth == 0 => return Err(error),
                Err(error) => found.tree.unlisted.push(error),
            }
            if found.candidates.len() > limits.images {
                found.candidates.truncate(limits.images);
                found.tree.ended_at = Some(TreeLimit::Images(limits.images));
                return Ok(found);
            }
        }
        if below.is_empty() {
            break;
        }
        if depth == limits.depth {
            found.tree.ended_at = Some(TreeLimit::Depth(limits.depth));
            break;
        }
        level = below;
    }
    Ok(found)
}

/// Lists one directory, and adds its subdirectories to `below`.
fn list(
    directory: &Path,
    found: &mut FoundEntries,
    below: &mut Vec<PathBuf>,
) -> Result<(), ImageError> {
    for entry in fs::read_dir(directory).map_err(|error| ImageError::io(directory, error))? {
        let entry = entry.map_err(|error| ImageError::io(directory, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // the kind of the entry itself; a link is neither a file nor a directory
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let is_image = name.ends_with(SUFFIX) || name.ends_with(COMPRESSED_SUFFIX);
        let is_named = is_image || name.starts_with(PREFIX) && name.ends_with(TEMPORARY_SUFFIX);
        if kind.is_dir() {
            match name
                .strip_suffix(FILES_SUFFIX)
                .filter(|stem| stem.starts_with(PREFIX))
            {
                Some(stem) => match read_files_dir(&path, format!("{stem}{SUFFIX}"), true) {
                    Ok(saved) => found.tree.saved.push(SavedFiles {
                        path,
                        files: saved.files,
                        bytes: saved.bytes,
                    }),
                    Err(error) => found.tree.unlisted.push(error),
                },
                None => {
                    if is_named {
                        found.tree.named_like_images.push(path.clone());
                    }
                    below.push(path);
                }
            }
        } else if kind.is_file() && is_named {
            // removed or replaced since it was listed
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if is_image {
                found.candidates.push((path, metadata.len()));
            } else {
                found.tree.temporary.push((path, metadata.len()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn tree_of(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }

    #[test]
    fn the_search_ends_at_its_limits_and_says_so() {
        let dir = tree_of(&[
            "a/ckpt_1.dmtcp",
            "b/ckpt_2.dmtcp",
            "b/c/ckpt_3.dmtcp",
            "b/c/d/ckpt_4.dmtcp",
        ]);
        let broken = |limits| {
            let tree = read_within(dir.path(), limits, &|_, _| ()).unwrap();
            (tree.broken.len(), tree.ended_at)
        };
        let all = Limits {
            depth: 3,
            directories: 100,
            images: 100,
        };
        assert_eq!(broken(all), (4, None));
        assert_eq!(
            broken(Limits { depth: 2, ..all }),
            (3, Some(TreeLimit::Depth(2)))
        );
        assert_eq!(
            broken(Limits {
                directories: 3,
                ..all
            }),
            (2, Some(TreeLimit::Directories(3)))
        );
        assert_eq!(
            broken(Limits { images: 2, ..all }),
            (2, Some(TreeLimit::Images(2)))
        );
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tree_of(&["a/ckpt_1.dmtcp"]);
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("again")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/up")).unwrap();
        std::os::unix::fs::symlink(
            dir.path().join("a/ckpt_1.dmtcp"),
            dir.path().join("ckpt_link.dmtcp"),
        )
        .unwrap();
        let tree = read_tree(dir.path(), &|_, _| ()).unwrap();
        assert_eq!(
            tree.broken
                .iter()
                .map(|b| b.path.clone())
                .collect::<Vec<_>>(),
            [dir.path().join("a/ckpt_1.dmtcp")]
        );
        assert_eq!(tree.ended_at, None);
    }
}
