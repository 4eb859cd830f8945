//! The manifest of a run: digests of its files, which show whether the directory has changed since it was sealed. The file has the format of `b3sum`;
//! `b3sum --check manifest.b3` in a run's directory performs the same check.

use super::error::StoreError;
use crate::ids::short_digest;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::{beneath::is_plain, disk, regular};
use std::{
    fmt::Write,
    fs::{self, File},
    io,
};

/// Name of the manifest in a run's directory.
pub const MANIFEST: &str = "manifest.b3";

/// A difference between a directory and its manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestProblem {
    /// A file is missing or cannot be read.
    #[error("{file}: {source}")]
    Unreadable {
        /// Path of the file, relative to the run's directory.
        file: Utf8PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The content of a file has changed since sealing.
    #[error("{file} was changed after sealing: its digest differs from that in {MANIFEST}")]
    Changed {
        /// Path of the file, relative to the run's directory.
        file: Utf8PathBuf,
    },
    /// The manifest itself has changed since sealing.
    #[error("{MANIFEST} was changed after sealing: its digest differs")]
    OtherManifest,
    /// A line of the manifest names a path outside the directory.
    #[error("{MANIFEST}, line {line}: {file} is not a file of the directory")]
    Outside {
        /// Number of the line, from 1.
        line: usize,
        /// The path.
        file: Utf8PathBuf,
    },
    /// A line of the manifest does not have the right form.
    #[error("{MANIFEST}, line {line}: expected a digest and the name of a file")]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
    },
}

/// Writes the manifest of a directory, and returns its digest. Omits the files in `left_out`, which are written later, and files that disappear
/// meanwhile or cannot be read.
///
/// # Errors
/// A file cannot be read, or the manifest cannot be written.
pub fn write_manifest(directory: &Utf8Path, left_out: &[&str]) -> Result<String, StoreError> {
    let mut files = Vec::new();
    list(directory, Utf8Path::new(""), &mut files).map_err(StoreError::io("list", directory))?;
    files.retain(|file| file != MANIFEST && !left_out.contains(&file.as_str()));
    files.sort();
    let mut text = String::new();
    for file in files {
        let path = directory.join(&file);
        let digest = match digest_of(&path) {
            Ok(digest) => digest,
            // the program may have removed its files, or made them private
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                continue;
            }
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        };
        // writing to a text cannot fail
        let _ = writeln!(text, "{digest}  {file}");
    }
    let path = directory.join(MANIFEST);
    let write = |text: &str| {
        disk::write_all(
            "manifest.b3.write",
            &mut File::create(&path)?,
            text.as_bytes(),
        )
    };
    write(&text).map_err(StoreError::io("write", &path))?;
    Ok(short_digest(text.as_bytes()))
}

/// Checks that the files of a directory match its manifest, and that the manifest itself has this digest.
///
/// # Errors
/// The first difference.
pub fn check_manifest(directory: &Utf8Path, digest: &str) -> Result<(), ManifestProblem> {
    let unreadable = |file: &Utf8Path| {
        let file = file.to_owned();
        move |source| ManifestProblem::Unreadable { file, source }
    };
    let text = regular::read(directory.join(MANIFEST).as_std_path())
        .map_err(unreadable(Utf8Path::new(MANIFEST)))?;
    if short_digest(&text) != digest {
        return Err(ManifestProblem::OtherManifest);
    }
    let text = String::from_utf8(text).map_err(|_| ManifestProblem::Malformed { line: 1 })?;
    for (at, line) in text.lines().enumerate() {
        let (sealed, file) = line
            .split_once("  ")
            .ok_or(ManifestProblem::Malformed { line: at + 1 })?;
        let file = Utf8Path::new(file);
        // a manifest from elsewhere must not select files outside of the directory
        if !is_plain(file.as_std_path()) {
            return Err(ManifestProblem::Outside {
                line: at + 1,
                file: file.to_owned(),
            });
        }
        if digest_of(&directory.join(file)).map_err(unreadable(file))? != sealed {
            return Err(ManifestProblem::Changed {
                file: file.to_owned(),
            });
        }
    }
    Ok(())
}

fn digest_of(path: &Utf8Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut regular::open(path.as_std_path())?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Lists the regular files below a directory. Files whose names are not text, or contain a line feed, are omitted.
fn list(directory: &Utf8Path, below: &Utf8Path, files: &mut Vec<Utf8PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let (path, kind) = (below.join(&name), entry.file_type()?);
        if kind.is_dir() {
            list(directory, &path, files)?;
        } else if kind.is_file() && !name.contains('\n') {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_only_files_of_its_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let run = dir.join("run");
        fs::create_dir(&run).expect("makes");
        fs::write(dir.join("secret"), "s").expect("writes");
        let secret = blake3::hash(b"s").to_hex().to_string();
        // the last path is a device that can be read without end
        for file in [
            "../secret",
            dir.join("secret").as_str(),
            "a/../../secret",
            "/dev/zero",
        ] {
            let text = format!("{secret}  {file}\n");
            fs::write(run.join(MANIFEST), &text).expect("writes");
            let problem = check_manifest(&run, &short_digest(text.as_bytes())).expect_err(file);
            assert!(
                matches!(problem, ManifestProblem::Outside { line: 1, .. }),
                "{problem}"
            );
        }
    }

    #[test]
    fn changed_removed_and_exchanged_files_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        fs::create_dir(dir.join("trace")).expect("makes");
        let put = |name: &str, text: &str| fs::write(dir.join(name), text).expect("writes");
        put("stdout", "one");
        put("trace/log", "two");
        let digest = write_manifest(dir, &["outcome.json"]).expect("writes");
        // written later, and not part of the manifest
        put("outcome.json", "{}");
        check_manifest(dir, &digest).expect("whole");
        let problem = || {
            check_manifest(dir, &digest)
                .expect_err("changed")
                .to_string()
        };
        put("trace/log", "TWO");
        assert!(
            problem().starts_with("trace/log was changed after sealing"),
            "{}",
            problem()
        );
        fs::remove_file(dir.join("trace/log")).expect("removes");
        assert!(problem().starts_with("trace/log: "), "{}", problem());
        put("trace/log", "two");
        let manifest = fs::read_to_string(dir.join(MANIFEST)).expect("reads");
        put(MANIFEST, manifest.lines().next().expect("a line"));
        assert!(problem().starts_with(MANIFEST), "{}", problem());
    }
}
