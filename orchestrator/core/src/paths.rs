//! Paths as people write them: `~` and `$VARIABLES`, resolved where they are used.

use camino::{Utf8Path, Utf8PathBuf};
use std::path::{Path, PathBuf};

/// Resolves `~` and variables; what is relative is relative to `base`. A variable that is not set is left as it is written, so that the
/// message about the missing file shows it.
pub fn expand_below(base: &Utf8Path, written: &str) -> Utf8PathBuf {
    let resolved = crate::paths::expand_path(written, base.as_std_path(), |name| std::env::var(name).ok());
    resolved.ok().and_then(|p| Utf8PathBuf::from_path_buf(p).ok()).unwrap_or_else(|| base.join(written))
}

/// A path as processes with other working directories understand it; the same path where this one has no working directory any more.
pub fn make_absolute(path: Utf8PathBuf) -> Utf8PathBuf {
    camino::absolute_utf8(&path).unwrap_or(path)
}

/// [`expand_below`] for a path that is not relative to a file.
pub fn expand(written: &str) -> Utf8PathBuf {
    expand_below(Utf8Path::new(""), written)
}

/// Directory of files that cvc can make again: `$XDG_CACHE_HOME/cvc` or `~/.cache/cvc`.
pub fn cache() -> Utf8PathBuf {
    base("XDG_CACHE_HOME", "~/.cache")
}

/// Directory of files that only people may change: `$XDG_CONFIG_HOME/cvc` or `~/.config/cvc`.
pub fn config() -> Utf8PathBuf {
    base("XDG_CONFIG_HOME", "~/.config")
}

/// Directory of what cvc remembers between calls: `$XDG_STATE_HOME/cvc` or `~/.local/state/cvc`.
pub fn state() -> Utf8PathBuf {
    base("XDG_STATE_HOME", "~/.local/state")
}

/// cvc's directory in a base directory of the XDG specification.
fn base(variable: &str, default: &str) -> Utf8PathBuf {
    match std::env::var(variable) {
        Ok(dir) if !dir.is_empty() => Utf8PathBuf::from(dir),
        _ => expand(default),
    }
    .join("cvc")
}

/// Name of this machine; `None` if it has none that is text.
pub fn host_name() -> Option<String> {
    cvc_probe::host_name()
}

/// Resolves `~`, `$NAME` and `${NAME}` with the given environment; a relative path is relative to `base`, the directory of the campaign
/// file.
///
/// # Errors
/// Names the variable that is not set, as a fragment for a message.
pub fn expand_path(written: &str, base: &Path, env: impl Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    let lookup = |name: &str| env(name).filter(|v| !v.is_empty()).ok_or_else(|| format!("`{written}` needs ${name}, which is not set"));
    let (mut out, mut rest) = match written.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (lookup("HOME")?, rest),
        Some(_) | None => (String::new(), written),
    };
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, end) = match after.strip_prefix('{') {
            Some(inner) => {
                let (name, end) = inner.split_once('}').ok_or_else(|| format!("`{written}` has a `${{` without its `}}`"))?;
                (name, end)
            }
            None => after.split_at(after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len())),
        };
        if name.is_empty() {
            return Err(format!("`{written}` has a `$` without a name"));
        }
        out.push_str(&lookup(name)?);
        rest = end;
    }
    out.push_str(rest);
    // Joining an absolute path replaces the base.
    Ok(base.join(out))
}

/// The first executable of these names on PATH.
pub fn on_path(names: &[&str], path: &str) -> Option<Utf8PathBuf> {
    names.iter().find_map(|name| path.split(':').filter(|d| !d.is_empty()).map(|d| Utf8Path::new(d).join(name)).find(|p| is_executable(p)))
}

/// Whether this is a file that can be executed.
pub fn is_executable(path: &Utf8Path) -> bool {
    path.is_file() && nix::unistd::access(path.as_std_path(), nix::unistd::AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::expand_path;
    use std::path::Path;

    #[test]
    fn home_variables_and_relative_paths_are_resolved() {
        let env = |name: &str| match name {
            "HOME" => Some("/home/ada".to_owned()),
            "SCRATCH" => Some("/scratch".to_owned()),
            _ => None,
        };
        let expand = |text: &str| expand_path(text, Path::new("/campaigns"), env);
        let path = |text: &str| Ok(Path::new(text).to_owned());
        assert_eq!(expand("~/x"), path("/home/ada/x"));
        assert_eq!(expand("$SCRATCH/a/${HOME}"), path("/scratch/a//home/ada"));
        assert_eq!(expand("bin"), path("/campaigns/bin"));
        assert_eq!(expand("~ada"), path("/campaigns/~ada"));
        assert_eq!(expand("$NOPE/x"), Err("`$NOPE/x` needs $NOPE, which is not set".to_owned()));
        assert!(expand("${HOME").is_err() && expand("a$").is_err());
    }
}
