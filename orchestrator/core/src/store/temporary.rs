//! Temporary files in a campaign's directory. Who is killed or loses its power while it writes one leaves it there, for the next to remove.

use super::{atomic_file::remove_all, error::StoreError};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_os::host_name;
use cvc_os::proc::ProcessId;
use std::{fs, io};

/// What the names of those begin with that this process makes for `name`, where others may make one at the same time.
///
/// # Errors
/// When the system does not tell this process's own times.
pub fn own_prefix(name: &str) -> io::Result<String> {
    let own = ProcessId::own()?;
    Ok(format!(
        "{}{}-{}-",
        host_prefix(name),
        own.pid,
        own.start_ticks
    ))
}

/// What of it is the same for all processes of this machine.
fn host_prefix(name: &str) -> String {
    // it becomes part of a file's name
    let host = host_name()
        .unwrap_or_default()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!(".{name}-{host}-")
}

/// Those that processes of this machine made for `name` which are gone.
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

/// Removes these. What cannot be removed stays: it is in nobody's way.
pub fn remove_abandoned(directory: &Utf8Path, name: &str) {
    for path in abandoned(directory, name) {
        let _ = remove_all(&path);
    }
}

/// Removes what interrupted atomic writes of a file left. Nobody else may be writing it: the caller holds a lock.
///
/// # Errors
/// When one cannot be removed.
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
    fn what_is_left_of_processes_that_are_gone_is_removed() {
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
