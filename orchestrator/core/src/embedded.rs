//! Files that are built into cvc, written to its cache for programs that need them as files.

use crate::{ids::hex_prefix, paths, store::StoreError};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::tree::exchange;
use include_dir::Dir;
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

/// Number of temporary directories that this process has begun to write; makes their names unique between threads.
static STAGED: AtomicU32 = AtomicU32::new(0);

/// Number of hexadecimal digits of the digest in a directory's name.
const DIGITS: usize = 12;

/// Returns the directory with these files in cvc's cache; writes it if necessary. Its name contains a digest of the files, so that each version has
/// its own directory.
pub fn directory(name: &str, files: &Dir<'_>) -> Result<PathBuf, StoreError> {
    directory_below(&paths::cache().join(name), files).map(Utf8PathBuf::into_std_path_buf)
}

fn directory_below(parent: &Utf8Path, files: &Dir<'_>) -> Result<Utf8PathBuf, StoreError> {
    let mut hasher = blake3::Hasher::new();
    digest(files, &mut hasher);
    let directory = parent.join(hex_prefix(&hasher.finalize(), DIGITS));
    if !is_whole(files, &directory) {
        let mine = STAGED.fetch_add(1, Ordering::Relaxed);
        let staging = parent.join(format!("new-{}-{mine}", std::process::id()));
        std::fs::create_dir_all(&staging).map_err(StoreError::io("make", &staging))?;
        files
            .extract(&staging)
            .map_err(StoreError::io("write files to", &staging))?;
        if is_whole(files, &directory) {
            // another process was faster
            let _ = std::fs::remove_dir_all(&staging);
        } else {
            replace_directory(&staging, &directory);
        }
    }
    Ok(directory)
}

/// Returns whether a directory has all these files with the right contents. After a power loss files may be missing or empty.
fn is_whole(files: &Dir<'_>, directory: &Utf8Path) -> bool {
    let is_same = |file: &include_dir::File<'_>| {
        std::fs::read(directory.as_std_path().join(file.path()))
            .is_ok_and(|content| content == file.contents())
    };
    files.files().all(is_same) && files.dirs().all(|below| is_whole(below, directory))
}

/// Replaces a damaged or missing directory with a new one. Concurrent readers, for example processes of several sites with a common cache, find
/// either the old or the new one.
pub fn replace_directory(new: &Utf8Path, place: &Utf8Path) {
    let exchanged = || exchange(new.as_std_path(), place.as_std_path()).is_ok();
    if std::fs::rename(new, place).is_err() && !exchanged() {
        // NFS cannot exchange two directories
        let damaged = Utf8PathBuf::from(format!("{place}.damaged-{}", std::process::id()));
        let was_there = std::fs::rename(place, &damaged).is_ok();
        let _ = std::fs::rename(new, place);
        if was_there {
            let _ = std::fs::remove_dir_all(&damaged);
        }
    }
    let _ = std::fs::remove_dir_all(new);
}

fn digest(files: &Dir<'_>, hasher: &mut blake3::Hasher) {
    for file in files.files() {
        hasher
            .update(file.path().to_string_lossy().as_bytes())
            .update(&[0])
            .update(file.contents())
            .update(&[0]);
    }
    for below in files.dirs() {
        digest(below, hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::{directory_below, replace_directory};
    use camino::Utf8Path;
    use include_dir::{Dir, include_dir};

    static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/tests/apps");

    #[test]
    fn files_that_a_loss_of_power_emptied_or_took_are_written_again() {
        let parent = tempfile::tempdir().expect("a directory");
        let parent = Utf8Path::from_path(parent.path()).expect("UTF-8");
        let directory = directory_below(parent, &FILES).expect("writes");
        let (demo, cube) = (directory.join("demo.toml"), directory.join("cube.toml"));
        let content = std::fs::read(&demo).expect("reads");
        std::fs::write(&demo, "").expect("writes");
        std::fs::remove_file(&cube).expect("removes");
        assert_eq!(directory_below(parent, &FILES).expect("writes"), directory);
        assert_eq!(std::fs::read(&demo).expect("reads"), content);
        assert!(cube.is_file());
        assert_eq!(
            parent.read_dir_utf8().expect("a directory").count(),
            1,
            "nothing else is left"
        );
    }

    #[test]
    fn a_directory_is_there_all_the_time_while_it_is_replaced() {
        let parent = tempfile::tempdir().expect("a directory");
        let parent = Utf8Path::from_path(parent.path()).expect("UTF-8");
        let (new, place) = (parent.join("new"), parent.join("place"));
        let make = || {
            std::fs::create_dir(&new).expect("makes");
            std::fs::write(new.join("file"), "content").expect("writes");
        };
        make();
        replace_directory(&new, &place);
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            let looker = threads.spawn(|| {
                let mut missed = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    missed += u32::from(!place.join("file").exists());
                }
                missed
            });
            for _ in 0..300 {
                make();
                replace_directory(&new, &place);
                assert!(!new.exists());
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(
                looker.join().expect("ends"),
                0,
                "times that it was not there"
            );
        });
    }
}
