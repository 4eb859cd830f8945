//! Programs on PATH.

use std::{env, ffi::OsString, path::PathBuf};

/// Finds a program on PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    which::which(name).ok()
}

/// Returns PATH, followed by the directories of administrators' programs.
pub(crate) fn admin_path() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin");
    path
}

/// Returns a message about the first of these programs that is not installed.
pub(crate) fn absent(programs: &[&str]) -> Option<String> {
    let path = admin_path();
    programs
        .iter()
        .find(|p| which::which_in(p, Some(&path), "/").is_err())
        .map(|p| format!("{p} is not installed"))
}
