//! File locks that fail: on a file system without locks, or on one whose server lost all locks in a restart.

use camino::{Utf8Path, Utf8PathBuf};
use nix::fcntl::FlockArg;
use std::fs;

/// Releases all locks on files in a directory, without notifying their owners.
pub(crate) fn forget(dir: &Utf8Path) {
    for entry in fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let Ok(Ok(target)) = fs::read_link(entry.path()).map(Utf8PathBuf::try_from) else {
            continue;
        };
        if target.parent() != Some(dir) {
            continue;
        }
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        #[expect(
            deprecated,
            reason = "its successor wants to own the file, which is the real code's here"
        )]
        nix::fcntl::flock(number, FlockArg::Unlock).expect("an open file can be unlocked");
    }
}
