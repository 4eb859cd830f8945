//! Temporary files in a campaign's directory. A process that is killed while it writes such a file leaves it, and a later process removes it.

use super::{atomic_file::remove_all, error::StoreError};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::host_name;
use cvc_os::proc::ProcessId;
use std::{fs, io};

/// Returns a prefix for the names of temporary files that this process makes for `name`. The prefix differs between processes, so that several can
/// write at the same time.
///
/// # Errors
/// The system does not report this process's start time.
pub fn own_prefix(name: &str) -> io::Result<String> {
    let own = ProcessId::own()?;
    Ok(format!(
        "{}{}-{}-",
        host_prefix(name),
        own.pid,
        own.start_ticks
    ))
}

/// Returns the part of the prefix that is equal for all processes of this machine.
fn host_prefix(name: &str) -> String {
    // becomes part of a file name
    let host = host_name()
        .unwrap_or_default()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!(".{name}-{host}-")
}

/// Returns the temporary files for `name` that were made by processes of this machine which have ended.
pub fn abandoned(directory: &Utf8Path, name: &str) -> Vec<Utf8PathBuf> {
    let prefix = host_prefix(name);
    let is_abandoned = |name: &str| {
        let maker = name.strip_prefix(&prefix).and_then(|rest| {
            let mut parts = rest.split('-');
            Some(ProcessId {
                pid: parts.next()?.parse().ok()?,
                start_ticks: parts.next()?.parse().ok()?,
            })
        });
        maker.is_some_and(|maker| !maker.is_alive())
    };
    let entries = directory.read_dir_utf8().into_iter().flatten().flatten();
    entries
        .filter(|entry| is_abandoned(entry.file_name()))
        .map(|entry| entry.into_path())
        .collect()
}

/// Removes the files that [`abandoned`] returns. A file that cannot be removed stays, and does no harm.
pub fn remove_abandoned(directory: &Utf8Path, name: &str) {
    for path in abandoned(directory, name) {
        let _ = remove_all(&path);
    }
}

/// Removes the temporary files that interrupted atomic writes of `path` have left. The caller holds a lock, so that no other process is writing the
/// file.
///
/// # Errors
/// A file cannot be removed.
pub fn remove_half_written(path: &Utf8Path) -> Result<(), StoreError> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let prefix = format!(".{name}.");
    for entry in directory.read_dir_utf8().into_iter().flatten().flatten() {
        if entry.file_name().starts_with(&prefix) && entry.file_name().ends_with(".tmp") {
            fs::remove_file(entry.path()).map_err(StoreError::io("remove", entry.path()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_ended_processes_are_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = Utf8Path::from_path(dir.path()).expect("UTF-8");
        let own = own_prefix("index").expect("own times");
        let gone = own.replace(&format!("-{}-", std::process::id()), "-4194305-");
        assert_ne!(own, gone);
        let kept = [
            format!("{own}x.sqlite"),
            ".index-other-7-7-x".into(),
            "index.sqlite".into(),
            ".plan.json".into(),
            ".plan.json-1.tmp".into(),
        ];
        for name in kept
            .iter()
            .cloned()
            .chain([format!("{gone}x.sqlite"), ".plan.json.12-0.tmp".into()])
        {
            fs::write(dir.join(name), "x").expect("writes");
        }
        remove_abandoned(dir, "index");
        remove_half_written(&dir.join("plan.json")).expect("removes");
        let left: std::collections::BTreeSet<String> = dir
            .read_dir_utf8()
            .expect("lists")
            .flatten()
            .map(|e| e.file_name().to_owned())
            .collect();
        assert_eq!(left, kept.into());
    }
}
