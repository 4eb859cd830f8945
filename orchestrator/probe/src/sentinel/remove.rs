//! Removes files, within limits: requests come from another machine, and a wrong request must not destroy other files of the node.

use super::{
    error::SentinelError,
    mounts::{absolute, mounts},
};
use cvc_os::tree::remove_tree;
use nix::unistd::{Uid, User};
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Minimum number of components of a path that may be removed, the root included: `/tmp/run` has three.
const MIN_PARTS: usize = 3;

/// Checks whether a path may be removed with its contents.
///
/// # Errors
/// The reason why the path must not be removed: it is relative, contains `..`, has too few components, or is or contains a home directory or a mount
/// point.
pub fn removable(path: &Path) -> Result<(), SentinelError> {
    absolute(path)?;
    let refuse = |why| {
        Err(SentinelError::NotRemovable {
            path: path.to_owned(),
            why,
        })
    };
    if path.components().any(|c| matches!(c, Component::ParentDir)) {
        return refuse("its path has `..`");
    }
    // also check the resolved path, because a parent may be a link; the last component is removed as a link, not followed
    let real = match (
        path.parent().and_then(|p| p.canonicalize().ok()),
        path.file_name(),
    ) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    };
    let homes = homes();
    for path in [path, &real] {
        if path.components().count() < MIN_PARTS {
            return refuse("it is too close to the root");
        }
        if homes.iter().any(|home| home.starts_with(path)) {
            return refuse("it is or holds a home directory");
        }
    }
    if mounts().iter().any(|m| m.point.starts_with(&real)) {
        return refuse("it is or holds a mount point");
    }
    Ok(())
}

/// Returns the home directories of this user, from the environment and the user database.
fn homes() -> Vec<PathBuf> {
    let from_environment = std::env::var_os("HOME").map(PathBuf::from);
    let listed = User::from_uid(Uid::effective())
        .ok()
        .flatten()
        .map(|u| u.dir);
    let mut homes: Vec<PathBuf> = from_environment
        .into_iter()
        .chain(listed)
        .filter(|p| p.is_absolute())
        .collect();
    let real: Vec<PathBuf> = homes.iter().filter_map(|h| h.canonicalize().ok()).collect();
    homes.extend(real);
    homes
}

/// Checks all paths, so that nothing is removed if one of them must not be.
pub(super) fn all_removable(paths: &[PathBuf]) -> Result<(), SentinelError> {
    paths.iter().try_for_each(|p| removable(p))
}

/// Removes a file or directory. A missing one is not an error.
pub(super) fn remove_one(path: &Path) -> Result<(), SentinelError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SentinelError::Change {
            what: "remove",
            path: path.to_owned(),
            error,
        }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes directories and files.
pub(super) fn remove(dirs: &[PathBuf], files: &[PathBuf]) -> Result<(), SentinelError> {
    all_removable(dirs)?;
    all_removable(files)?;
    for file in files {
        if fs::symlink_metadata(file).is_ok_and(|m| m.is_dir()) {
            return Err(SentinelError::Unexpected {
                path: file.clone(),
                expected: "a file, found a directory",
            });
        }
    }
    dirs.iter().chain(files).try_for_each(|p| remove_one(p))
}
