//! Removes and exchanges directories.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

/// Permissions that the owner of a directory needs to remove its files.
const OWNER_RWX: u32 = 0o700;
/// Maximum number of attempts to remove a directory in which a program still creates files.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Removes a directory with everything in it, even if a program removed permissions of a subdirectory, or an ending program still creates files in
/// it.
///
/// # Errors
/// The directory does not exist, or cannot be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(PAUSE)
            }
            // directories of other users stay unreadable, which is the error of the next attempt
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open_up(path),
            other => return other,
        }
    }
    fs::remove_dir_all(path)
}

/// Exchanges two directories atomically, so that readers find either the one or the other at a path. Not possible on NFS.
///
/// # Errors
/// One of the directories does not exist, or the file system cannot exchange them.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    // `nix` provides this call only for the GNU C library
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
    Ok(())
}

/// Gives the owner of a directory and of its subdirectories all permissions.
fn open_up(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    if !metadata.is_dir() {
        return;
    }
    let mode = metadata.permissions().mode();
    if mode & OWNER_RWX != OWNER_RWX {
        let _ = fs::set_permissions(path, Permissions::from_mode(mode | OWNER_RWX));
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::{open_up, remove_tree};
    use std::{
        fs::{self, Permissions},
        io,
        os::unix::fs::{PermissionsExt, symlink},
        path::Path,
    };

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("metadata").permissions().mode() & 0o777
    }

    #[test]
    fn directories_without_rights_are_opened_and_removed_and_nothing_else_is_touched() {
        let dir = tempfile::tempdir().expect("a directory");
        let (tree, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        fs::create_dir_all(tree.join("closed/below")).expect("directories");
        fs::create_dir(&outside).expect("a directory");
        fs::write(tree.join("closed/below/file"), "x").expect("a file");
        symlink(&outside, tree.join("link")).expect("a link");
        for (path, mode) in [
            (tree.join("closed/below/file"), 0o400),
            (tree.join("closed/below"), 0o000),
            (outside.clone(), 0o500),
        ] {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
        }
        fs::set_permissions(tree.join("closed"), Permissions::from_mode(0o555))
            .expect("permissions");
        open_up(&tree);
        assert_eq!(
            (
                mode(&tree.join("closed")),
                mode(&tree.join("closed/below")),
                mode(&outside)
            ),
            (0o755, 0o700, 0o500)
        );
        fs::set_permissions(tree.join("closed"), Permissions::from_mode(0o000))
            .expect("permissions");
        remove_tree(&tree).expect("removes");
        assert!(!tree.exists() && outside.exists());
        assert_eq!(
            remove_tree(&tree).expect_err("nothing is there").kind(),
            io::ErrorKind::NotFound
        );
    }
}
