//! The directory of the user's cached files.

use std::{env, path::PathBuf};

/// Returns `$XDG_CACHE_HOME`, or `~/.cache`; `None` without a home.
pub(crate) fn user_cache() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute());
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
}
