//! Paths as people write them: `~` and `$VARIABLES`, resolved where they are used.

use camino::{Utf8Path, Utf8PathBuf};

/// Resolves `~` and variables; what is relative is relative to `base`. A variable that is not set is left as it is written, so that the
/// message about the missing file shows it.
pub fn expand_below(base: &Utf8Path, written: &str) -> Utf8PathBuf {
    let resolved = crate::spec::expand_path(written, base.as_std_path(), |name| std::env::var(name).ok());
    resolved.ok().and_then(|p| Utf8PathBuf::from_path_buf(p).ok()).unwrap_or_else(|| base.join(written))
}

/// [`expand_below`] for what is no path relative to a file.
pub fn expand(written: &str) -> Utf8PathBuf {
    expand_below(Utf8Path::new(""), written)
}

/// Where cvc keeps what it can make again: `$XDG_CACHE_HOME/cvc` or `~/.cache/cvc`.
pub fn cache() -> Utf8PathBuf {
    match std::env::var("XDG_CACHE_HOME") {
        Ok(dir) if !dir.is_empty() => Utf8PathBuf::from(dir).join("cvc"),
        _ => expand("~/.cache/cvc"),
    }
}

/// Where cvc keeps what only people may change: `$XDG_CONFIG_HOME/cvc` or `~/.config/cvc`.
pub fn config() -> Utf8PathBuf {
    match std::env::var("XDG_CONFIG_HOME") {
        Ok(dir) if !dir.is_empty() => Utf8PathBuf::from(dir).join("cvc"),
        _ => expand("~/.config/cvc"),
    }
}
