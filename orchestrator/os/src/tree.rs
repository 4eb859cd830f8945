//! Removing directories that programs made.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

/// Rights of its owner that a directory needs so that what is below it can be removed.
const OWNER_RWX: u32 = 0o700;
/// Number of times that a directory is removed in which something still appears.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Removes a directory with all below it, also where a program took the rights away from a directory below, and where one that is just ending
/// still writes into it.
///
/// # Errors
/// When it is not there, or cannot be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(PAUSE)
            }
            // what belongs to others stays closed, and is the error of the next attempt
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open_up(path),
            other => return other,
        }
    }
    fs::remove_dir_all(path)
}

/// Exchanges two directories in one step, so that whoever looks finds one or the other. NFS cannot.
///
/// # Errors
/// When one is not there, or the file system cannot do it.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    // `nix` has it for the GNU C library alone
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
    Ok(())
}

/// Gives the owner of a directory and of those below it all rights.
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
        let (tree, beside) = (dir.path().join("tree"), dir.path().join("beside"));
        fs::create_dir_all(tree.join("closed/below")).expect("directories");
        fs::create_dir(&beside).expect("a directory");
        fs::write(tree.join("closed/below/file"), "x").expect("a file");
        symlink(&beside, tree.join("link")).expect("a link");
        for (path, mode) in [
            (tree.join("closed/below/file"), 0o400),
            (tree.join("closed/below"), 0o000),
            (beside.clone(), 0o500),
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
                mode(&beside)
            ),
            (0o755, 0o700, 0o500)
        );
        fs::set_permissions(tree.join("closed"), Permissions::from_mode(0o000))
            .expect("permissions");
        remove_tree(&tree).expect("removes");
        assert!(!tree.exists() && beside.exists());
        assert_eq!(
            remove_tree(&tree).expect_err("nothing is there").kind(),
            io::ErrorKind::NotFound
        );
    }
}
