//! Paths of a campaign file, resolved on the machine where they are used.

use std::path::{Path, PathBuf};

/// Resolves `~`, `$NAME` and `${NAME}` with the given environment; a relative path is relative to `base`, the directory of the campaign file.
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
