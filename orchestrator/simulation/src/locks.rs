//! Locks that do not hold: of a file system that has none, or whose server forgot them as it was started again.

use camino::{Utf8Path, Utf8PathBuf};
use nix::fcntl::FlockArg;
use std::fs;

/// Lets all locks go that anybody has on files of a directory. Their owners are not told.
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
