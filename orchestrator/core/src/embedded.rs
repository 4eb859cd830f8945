//! Files that cvc carries, written to its cache for programs that need them as files.

use crate::{ids::hex_prefix, paths, store::StoreError};
use camino::{Utf8Path, Utf8PathBuf};
use include_dir::Dir;
use std::path::PathBuf;

/// Number of hexadecimal digits of the digest in a directory's name.
const DIGITS: usize = 12;

/// Directory with these files, written there if need be. Its name holds a digest of them: each version has its own.
pub fn directory(name: &str, files: &Dir<'_>) -> Result<PathBuf, StoreError> {
    directory_below(&paths::cache().join(name), files).map(Utf8PathBuf::into_std_path_buf)
}

fn directory_below(parent: &Utf8Path, files: &Dir<'_>) -> Result<Utf8PathBuf, StoreError> {
    let mut hasher = blake3::Hasher::new();
    digest(files, &mut hasher);
    let directory = parent.join(hex_prefix(&hasher.finalize(), DIGITS));
    if !is_whole(files, &directory) {
        let staging = parent.join(format!("new-{}", std::process::id()));
        std::fs::create_dir_all(&staging).map_err(StoreError::io("make", &staging))?;
        files.extract(&staging).map_err(StoreError::io("write files to", &staging))?;
        replace_directory(&staging, &directory);
    }
    Ok(directory)
}

/// Whether a directory has all these files as they should be: after a loss of power they may be empty, or only a part of them there.
fn is_whole(files: &Dir<'_>, directory: &Utf8Path) -> bool {
    let is_same = |file: &include_dir::File<'_>| {
        std::fs::read(directory.as_std_path().join(file.path())).is_ok_and(|content| content == file.contents())
    };
    files.files().all(is_same) && files.dirs().all(|below| is_whole(below, directory))
}

/// Puts a new directory in the place of a damaged one, or of none.
pub fn replace_directory(new: &Utf8Path, place: &Utf8Path) {
    let damaged = Utf8PathBuf::from(format!("{place}.damaged-{}", std::process::id()));
    let was_there = std::fs::rename(place, &damaged).is_ok();
    // another cvc may have been faster: its files are the same
    if std::fs::rename(new, place).is_err() {
        let _ = std::fs::remove_dir_all(new);
    }
    if was_there {
        let _ = std::fs::remove_dir_all(&damaged);
    }
}

fn digest(files: &Dir<'_>, hasher: &mut blake3::Hasher) {
    for file in files.files() {
        hasher.update(file.path().to_string_lossy().as_bytes()).update(&[0]).update(file.contents()).update(&[0]);
    }
    for below in files.dirs() {
        digest(below, hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::directory_below;
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
        assert_eq!(parent.read_dir_utf8().expect("a directory").count(), 1, "nothing else is left");
    }
}
