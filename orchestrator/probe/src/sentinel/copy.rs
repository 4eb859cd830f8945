//! Copies directories, including sockets and links.

use super::{error::SentinelError, mounts::absolute, remove};
use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::Path,
    process::{Command, Stdio},
};

/// Replaces `to` by a copy of `from`.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), SentinelError> {
    absolute(from)?;
    absolute(to)?;
    remove::all_removable(&[to.to_owned()])?;
    remove::remove_one(to)?;
    copy_to_new(from, to)
}

/// Copies the content of a directory to a new one. The new directory must not exist, even as a link: another user who guessed its name could have
/// created it after the old one was removed.
fn copy_to_new(from: &Path, to: &Path) -> Result<(), SentinelError> {
    DirBuilder::new()
        .mode(0o700)
        .create(to)
        .map_err(|error| SentinelError::Change {
            what: "make",
            path: to.to_owned(),
            error,
        })?;
    // session directories contain sockets and named pipes, which cp preserves
    let copied = Command::new("cp")
        .arg("-a")
        .arg("--")
        .arg(from.join("."))
        .arg(to)
        .stdin(Stdio::null())
        .output();
    match copied {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(SentinelError::Copy {
                from: from.to_owned(),
                to: to.to_owned(),
                message,
            })
        }
        Err(error) => Err(SentinelError::CopyStart(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::{copy, copy_to_new};
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn a_copy_has_what_is_there_and_nothing_of_before_for_its_owner_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("below")).expect("a directory");
        fs::set_permissions(&from, fs::Permissions::from_mode(0o700)).expect("private");
        fs::write(from.join("below/.file"), "new").expect("writes");
        fs::create_dir(&to).expect("a directory");
        fs::write(to.join("old"), "old").expect("writes");
        copy(&from, &to).expect("copies");
        assert_eq!(
            fs::read_to_string(to.join("below/.file")).expect("reads"),
            "new"
        );
        assert!(!to.join("old").exists());
        assert_eq!(
            fs::metadata(&to).expect("a directory").permissions().mode() & 0o777,
            0o700
        );
    }

    #[test]
    fn nothing_is_copied_into_what_another_user_made_meanwhile() {
        let dir = tempfile::tempdir().expect("a directory");
        let (from, to, theirs) = (
            dir.path().join("from"),
            dir.path().join("to"),
            dir.path().join("theirs"),
        );
        for made in [&from, &theirs] {
            fs::create_dir(made).expect("a directory");
        }
        fs::write(from.join("file"), "").expect("writes");
        std::os::unix::fs::symlink(&theirs, &to).expect("a link");
        assert!(copy_to_new(&from, &to).is_err(), "a link");
        assert!(copy_to_new(&from, &theirs).is_err(), "a directory");
        assert_eq!(fs::read_dir(&theirs).expect("a directory").count(), 0);
    }
}
