//! Paths as people write them, with `~` and `$VARIABLES`; they are resolved where they are used.

use camino::{Utf8Path, Utf8PathBuf};
use nix::unistd::{User, getuid};
use std::path::{Path, PathBuf};

/// A path below which no file can be created. It replaces `~` if there is no home directory, so that no directory named `~` is created.
const NOWHERE: &str = "/dev/null";

/// Resolves `~` and variables; relative paths are relative to `base`. A variable that is not set stays as written, so that messages about the missing
/// file show it.
pub fn expand_below(base: &Utf8Path, written: &str) -> Utf8PathBuf {
    expand_with(base, written, variable)
}

fn expand_with(
    base: &Utf8Path,
    written: &str,
    env: impl Fn(&str) -> Option<String>,
) -> Utf8PathBuf {
    let resolved = expand_path(written, base.as_std_path(), env);
    let as_written = || {
        if written == "~" || written.starts_with("~/") {
            Utf8Path::new(NOWHERE).join(written)
        } else {
            base.join(written)
        }
    };
    resolved
        .ok()
        .and_then(|p| Utf8PathBuf::from_path_buf(p).ok())
        .unwrap_or_else(as_written)
}

/// Returns the value of a variable in paths. `HOME` is known even if it is not set, as in services and with `env -i`.
pub fn variable(name: &str) -> Option<String> {
    if name == "HOME" {
        home()
    } else {
        std::env::var(name).ok()
    }
}

/// Returns the user's home directory: `$HOME`, or else the entry in the system's list of users; `None` without either.
pub fn home() -> Option<String> {
    home_of(std::env::var("HOME").ok(), || {
        User::from_uid(getuid())
            .ok()??
            .dir
            .into_os_string()
            .into_string()
            .ok()
    })
}

fn home_of(variable: Option<String>, listed: impl FnOnce() -> Option<String>) -> Option<String> {
    let is_some = |home: &String| !home.is_empty();
    variable
        .filter(is_some)
        .or_else(|| listed().filter(is_some))
}

/// Returns an absolute path, for processes with other working directories. Returns the path unchanged if this process's working directory no longer
/// exists.
pub fn make_absolute(path: Utf8PathBuf) -> Utf8PathBuf {
    camino::absolute_utf8(&path).unwrap_or(path)
}

/// Like [`expand_below`], for a path that is not relative to a file.
pub fn expand(written: &str) -> Utf8PathBuf {
    expand_below(Utf8Path::new(""), written)
}

/// Returns the directory of files that cvc can generate again: `$XDG_CACHE_HOME/cvc` or `~/.cache/cvc`.
pub fn cache() -> Utf8PathBuf {
    base("XDG_CACHE_HOME", "~/.cache")
}

/// Returns the directory of files that only users change: `$XDG_CONFIG_HOME/cvc` or `~/.config/cvc`.
pub fn config() -> Utf8PathBuf {
    base("XDG_CONFIG_HOME", "~/.config")
}

/// Returns the directory of state that is kept between calls: `$XDG_STATE_HOME/cvc` or `~/.local/state/cvc`.
pub fn state() -> Utf8PathBuf {
    base("XDG_STATE_HOME", "~/.local/state")
}

/// Returns cvc's directory in a base directory of the XDG specification.
fn base(variable: &str, default: &str) -> Utf8PathBuf {
    match std::env::var(variable) {
        Ok(dir) if !dir.is_empty() => Utf8PathBuf::from(dir),
        _ => expand(default),
    }
    .join("cvc")
}

/// Returns the name of this machine; `None` if the name is not text.
pub fn host_name() -> Option<String> {
    cvc_os::host_name()
}

/// Why a path cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A variable is empty or not set.
    #[error("`{written}` needs ${variable}, which is not set")]
    NotSet {
        /// The path as written.
        written: String,
        /// The variable.
        variable: String,
    },
    /// `${NAME` without the closing brace.
    #[error("`{0}` has a `${{` without its `}}`")]
    Unclosed(String),
    /// `$` without a name.
    #[error("`{0}` has a `$` without a name")]
    NoName(String),
}

/// Resolves `~`, `$NAME` and `${NAME}` with the variables that `env` returns; a relative path is relative to `base`, the directory of the campaign
/// file.
///
/// # Errors
/// A variable is not set or written incorrectly.
pub fn expand_path(
    written: &str,
    base: &Path,
    env: impl Fn(&str) -> Option<String>,
) -> Result<PathBuf, PathError> {
    let not_set = |name: &str| PathError::NotSet {
        written: written.to_owned(),
        variable: name.to_owned(),
    };
    let lookup = |name: &str| {
        env(name)
            .filter(|v| !v.is_empty())
            .ok_or_else(|| not_set(name))
    };
    let (mut out, mut rest) = match written.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (lookup("HOME")?, rest),
        Some(_) | None => (String::new(), written),
    };
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, end) = match after.strip_prefix('{') {
            Some(inner) => {
                let (name, end) = inner
                    .split_once('}')
                    .ok_or_else(|| PathError::Unclosed(written.to_owned()))?;
                (name, end)
            }
            None => after.split_at(
                after
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .unwrap_or(after.len()),
            ),
        };
        if name.is_empty() {
            return Err(PathError::NoName(written.to_owned()));
        }
        out.push_str(&lookup(name)?);
        rest = end;
    }
    out.push_str(rest);
    // joining an absolute path replaces the base
    Ok(base.join(out))
}

/// Returns the first of these names that is an executable file in the directories of PATH.
pub fn on_path(names: &[&str], path: &str) -> Option<Utf8PathBuf> {
    names.iter().find_map(|name| {
        path.split(':')
            .filter(|d| !d.is_empty())
            .map(|d| Utf8Path::new(d).join(name))
            .find(|p| is_executable(p))
    })
}

/// Returns whether a path is an executable file.
pub fn is_executable(path: &Utf8Path) -> bool {
    path.is_file()
        && nix::unistd::access(path.as_std_path(), nix::unistd::AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{expand_path, expand_with, home_of};
    use camino::Utf8Path;
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
        assert_eq!(
            expand("$NOPE/x").expect_err("no variable").to_string(),
            "`$NOPE/x` needs $NOPE, which is not set"
        );
        assert!(expand("${HOME").is_err() && expand("a$").is_err());
    }

    #[test]
    fn without_the_variable_home_comes_from_the_list_of_users() {
        let some = |home: &str| Some(home.to_owned());
        assert_eq!(home_of(some("/a"), || some("/b")), some("/a"));
        for variable in [None, some("")] {
            assert_eq!(home_of(variable.clone(), || some("/b")), some("/b"));
            assert_eq!(home_of(variable.clone(), || some("")), None);
            assert_eq!(home_of(variable, || None), None);
        }
    }

    #[test]
    fn without_a_home_nothing_can_be_made_that_is_called_so() {
        let expand = |written| expand_with(Utf8Path::new("/campaigns"), written, |_| None);
        for written in ["~", "~/.cache"] {
            assert!(
                std::fs::create_dir_all(expand(written)).is_err(),
                "{}",
                expand(written)
            );
        }
        // `~ada` is treated as an ordinary name
        assert_eq!(expand("~ada"), "/campaigns/~ada");
        assert_eq!(expand("$NOPE"), "/campaigns/$NOPE");
    }
}
