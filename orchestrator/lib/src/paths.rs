//! Paths as people write them: `~` and `$VARIABLES`.

use camino::{Utf8Path, Utf8PathBuf};

/// Replaces a leading `~` and every `$NAME` or `${NAME}`. A variable that is not set is left as it is, so that the message about the
/// missing file shows it.
pub fn expand(written: &str) -> Utf8PathBuf {
    let home = std::env::var("HOME").unwrap_or_default();
    let mut rest = written;
    let mut out = String::new();
    if let Some(tail) = written.strip_prefix('~')
        && (tail.is_empty() || tail.starts_with('/'))
        && !home.is_empty()
    {
        out.push_str(&home);
        rest = tail;
    }
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        let braced = tail.starts_with('{');
        let name: &str = if braced {
            tail[1..].split('}').next().unwrap_or_default()
        } else {
            let end = tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(tail.len());
            &tail[..end]
        };
        let length = 1 + name.len() + if braced { 2 } else { 0 };
        match std::env::var(name) {
            Ok(value) if !name.is_empty() => out.push_str(&value),
            _ => out.push_str(rest.get(at..at + length).unwrap_or(&rest[at..])),
        }
        rest = rest.get(at + length..).unwrap_or_default();
    }
    out.push_str(rest);
    Utf8PathBuf::from(out)
}

/// [`expand`], and what is relative is relative to `base`.
pub fn expand_below(base: &Utf8Path, written: &str) -> Utf8PathBuf {
    base.join(expand(written))
}

/// Where cvc keeps what it can make again: `$XDG_CACHE_HOME/cvc` or `~/.cache/cvc`.
pub fn cache() -> Utf8PathBuf {
    match std::env::var("XDG_CACHE_HOME") {
        Ok(dir) if !dir.is_empty() => Utf8PathBuf::from(dir).join("cvc"),
        _ => expand("~/.cache/cvc"),
    }
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn home_and_variables_are_replaced_and_unset_ones_stay() {
        let home = std::env::var("HOME").expect("HOME");
        assert_eq!(expand("~/x"), format!("{home}/x"));
        assert_eq!(expand("$HOME/a/${HOME}b"), format!("{home}/a/{home}b"));
        assert_eq!(expand("/a/$CVC_NOT_SET/b/${CVC_NOT_SET}"), "/a/$CVC_NOT_SET/b/${CVC_NOT_SET}");
        assert_eq!(expand("a~b$"), "a~b$");
        assert_eq!(expand("${"), "${");
    }
}
