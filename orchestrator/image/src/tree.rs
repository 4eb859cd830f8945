//! All images below a directory: of a campaign, of a file system. Links are not followed, so that nothing is counted twice; depth and number
//! are limited, and of each image only its sums are kept.

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

/// How far below the directory images are looked for: in a campaign they lie in `work/RUN/ckpt`, with the "unique-ckpt" plugin one level lower.
const DEPTH: u32 = 8;
/// Most directories that are listed.
const MOST_DIRECTORIES: usize = 200_000;
/// Most images that are read.
const MOST_IMAGES: usize = 100_000;

/// An image of a tree, without its regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeImage {
    /// The file.
    pub path: PathBuf,
    /// What the process is.
    pub role: Role,
    /// Name of the program: from the header (v4) or the file name (v2, v3).
    pub program: String,
    /// Virtual pid: from the header (v4) or the file name; `None` if neither says it.
    pub vpid: Option<i32>,
    /// Digest of the host, likewise.
    pub hostid: Option<u64>,
    /// The root process of its computation, and how many processes that has, launchers included: from the header (v4).
    pub computation: Option<(UniquePid, u32)>,
    /// Version of DMTCP, as far as the format tells: `4`, `3.2`, `3.0`, `2.6`, `2.4`.
    pub dmtcp: &'static str,
    /// The MPI library, by the files that are mapped.
    pub library: MpiFlavour,
    /// Whether the owner rules know what the libraries own of private anonymous memory.
    pub has_baseline: bool,
    /// Whether the file is compressed.
    pub gzip: bool,
    /// Area headers.
    pub area_headers: u64,
    /// Length of the file, bytes.
    pub file_bytes: u64,
    /// Length when inflated, bytes.
    pub uncompressed_bytes: u64,
    /// Data, bytes.
    pub data_bytes: u64,
    /// Sums by zone.
    pub zones: Zones,
}

/// Saved files beside the images of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFiles {
    /// The `_files` directory.
    pub path: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Their length, bytes.
    pub bytes: u64,
}

/// A file that has the name of an image, and is not in the sums of zones.
#[derive(Debug)]
pub struct UnreadImage {
    /// The file.
    pub path: PathBuf,
    /// By the file name.
    pub role: Role,
    /// Its length, bytes.
    pub file_bytes: u64,
    /// Why it cannot be read.
    pub error: ImageError,
}

/// The images below a directory.
#[derive(Debug, Default)]
pub struct ImageTree {
    /// The directory.
    pub path: PathBuf,
    /// Images, by path.
    pub images: Vec<TreeImage>,
    /// Images that cannot be read, by path.
    pub broken: Vec<UnreadImage>,
    /// Images that are still being written, by path, with their length in bytes: not in the sums.
    pub temporary: Vec<(PathBuf, u64)>,
    /// Directories of saved files, by path.
    pub saved: Vec<SavedFiles>,
    /// Directories whose names are those of images, by path: looked into, but no images themselves.
    pub named_like_images: Vec<PathBuf>,
    /// Directories that cannot be listed.
    pub unlisted: Vec<ImageError>,
    /// The limit at which the search ended, if it did.
    pub ended_at: Option<TreeLimit>,
}

/// A limit of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLimit {
    /// Levels below the directory.
    Depth(u32),
    /// Directories.
    Directories(usize),
    /// Images.
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

/// What the search found, before an image is read.
#[derive(Default)]
struct Found {
    tree: ImageTree,
    candidates: Vec<(PathBuf, u64)>,
}

/// Reads all images below a directory, one for each core at a time. `progress` is told how many of how many are read; several threads do so.
///
/// # Errors
/// When the directory itself cannot be listed.
pub fn read_tree(
    path: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<ImageTree, ImageError> {
    read_within(
        path,
        Limits {
            depth: DEPTH,
            directories: MOST_DIRECTORIES,
            images: MOST_IMAGES,
        },
        progress,
    )
}

fn read_within(
    path: &Path,
    limits: Limits,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<ImageTree, ImageError> {
    let Found {
        mut tree,
        mut candidates,
    } = search(path, limits)?;
    // the largest first, so that no thread starts a long one when the others are done
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

/// The images below a directory, by path, before they are read.
#[derive(Debug)]
pub struct FoundImages {
    /// Their paths.
    pub files: Vec<PathBuf>,
    /// Directories named like images.
    pub named_like_images: Vec<PathBuf>,
    /// Directories that cannot be listed.
    pub unlisted: Vec<ImageError>,
}

/// Looks for images in a directory and below.
///
/// # Errors
/// When the directory itself cannot be listed.
pub fn find_images(path: &Path) -> Result<FoundImages, ImageError> {
    let Found { tree, candidates } = search(
        path,
        Limits {
            depth: DEPTH,
            directories: MOST_DIRECTORIES,
            images: MOST_IMAGES,
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

/// What is kept of an image.
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

/// Lists the tree, level by level.
fn search(path: &Path, limits: Limits) -> Result<Found, ImageError> {
    let mut found = Found {
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

/// Lists one directory; its directories are added to `below`.
fn list(directory: &Path, found: &mut Found, below: &mut Vec<PathBuf>) -> Result<(), ImageError> {
    for entry in fs::read_dir(directory).map_err(|error| ImageError::io(directory, error))? {
        let entry = entry.map_err(|error| ImageError::io(directory, error))?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // of the entry itself: a link is neither a file nor a directory
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
            // gone since it was listed: it is being replaced, or removed
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
