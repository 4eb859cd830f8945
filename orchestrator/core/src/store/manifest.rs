//! The digests of a run's files, so that it can be told whether a directory is what was sealed. The file has the form of `b3sum`, and
//! `b3sum --check manifest.b3` in a run's directory checks the same.

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

/// What a directory does not have as its manifest says.
#[derive(Debug, thiserror::Error)]
pub enum ManifestProblem {
    /// A file is missing or cannot be read.
    #[error("{file}: {source}")]
    Unreadable {
        /// The file, below the directory.
        file: Utf8PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file has other content than was sealed.
    #[error("{file} is not what was sealed: its digest differs from that in {MANIFEST}")]
    Changed {
        /// The file, below the directory.
        file: Utf8PathBuf,
    },
    /// The manifest is not the one that was sealed.
    #[error("{MANIFEST} is not what was sealed: its digest differs")]
    OtherManifest,
    /// A line of the manifest names what is not below the directory.
    #[error("{MANIFEST}, line {line}: {file} is not a file of the directory")]
    Outside {
        /// The line, from 1.
        line: usize,
        /// What it names.
        file: Utf8PathBuf,
    },
    /// A line of the manifest is none.
    #[error("{MANIFEST}, line {line}: expected a digest and the name of a file")]
    Malformed {
        /// The line, from 1.
        line: usize,
    },
}

/// Writes the manifest of a directory and returns its digest. Files that vanish meanwhile, or may not be read, are not in it. `left_out` are files that are written later.
///
/// # Errors
/// When a file cannot be read, or the manifest not written.
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
            // a program may remove what it wrote, or keep it to itself
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
        // text can always be written to
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

/// Checks that a directory has what its manifest lists, and that the manifest is the one of this digest.
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
        // whoever wrote the manifest must not choose what is read here
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

/// Regular files below a directory. Those whose names are no text, or have a line feed, cannot be listed and are left out.
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
        // the last one would be read for ever
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
    fn whatever_is_changed_removed_or_exchanged_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        fs::create_dir(dir.join("trace")).expect("makes");
        let put = |name: &str, text: &str| fs::write(dir.join(name), text).expect("writes");
        put("stdout", "one");
        put("trace/log", "two");
        let digest = write_manifest(dir, &["outcome.json"]).expect("writes");
        // written later, and no part of it
        put("outcome.json", "{}");
        check_manifest(dir, &digest).expect("whole");
        let problem = || {
            check_manifest(dir, &digest)
                .expect_err("changed")
                .to_string()
        };
        put("trace/log", "TWO");
        assert!(
            problem().starts_with("trace/log is not what was sealed"),
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
