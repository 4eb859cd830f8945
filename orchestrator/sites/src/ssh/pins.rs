//! The pinned host keys of a site, in a known-hosts file that only cvc uses. Keys are added at first contacts only.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_engine::host::{HostError, output_within, tool};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
};

/// Returns the path of the pinned host keys of a site: `~/.config/cvc/known_hosts/SITE`, or below `$XDG_CONFIG_HOME`.
pub fn file_of(site: &str) -> Utf8PathBuf {
    cvc_core::paths::config().join("known_hosts").join(site)
}

/// A host key, as in a line of a known-hosts file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PinnedKey {
    /// `@cert-authority `, or empty.
    pub(super) marker: String,
    /// Key type and key.
    pub(super) key: String,
}

/// Returns whether the file contains a key for this host name.
pub(super) fn has(file: &Utf8Path, name: &str) -> Result<bool, HostError> {
    Ok(!lines_of(file, name)?.is_empty())
}

/// Returns the numbers of the lines, from 1, that contain this host name.
pub(super) fn lines_of(file: &Utf8Path, name: &str) -> Result<Vec<usize>, HostError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed("read", file, source)),
    };
    let has_name = |line: &str| {
        let mut words = line.split_whitespace().skip_while(|w| w.starts_with('@'));
        words
            .next()
            .is_some_and(|names| names.split(',').any(|n| n == name))
    };
    Ok(text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.starts_with('#') && has_name(l))
        .map(|(i, _)| i + 1)
        .collect())
}

/// Returns the key on a line of a file, counted from 1.
pub(super) fn key_at(file: &Utf8Path, line: usize) -> Option<PinnedKey> {
    let text = fs::read_to_string(file).ok()?;
    let words: Vec<&str> = text
        .lines()
        .nth(line.checked_sub(1)?)?
        .split_whitespace()
        .collect();
    let (marker, words) = match words.split_first() {
        Some((first, rest)) if first.starts_with('@') => (format!("{first} "), rest),
        _ => (String::new(), words.as_slice()),
    };
    Some(PinnedKey {
        marker,
        key: format!("{} {}", words.get(1)?, words.get(2)?),
    })
}

/// Whether [`pin`] added a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pinned {
    Now,
    /// The name had a key already.
    Before,
}

/// Adds a key for a host name, unless the file contains one for it.
pub(super) fn pin(file: &Utf8Path, name: &str, key: &PinnedKey) -> Result<Pinned, HostError> {
    let dir = file.parent().unwrap_or(Utf8Path::new("."));
    fs::create_dir_all(dir).map_err(|e| failed("create", dir, e))?;
    let open = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file);
    let mut pins: File = open.map_err(|e| failed("open", file, e))?;
    pins.lock().map_err(|e| failed("lock", file, e))?;
    // another host of the site, or another process of cvc, may have added the key meanwhile
    if has(file, name)? {
        return Ok(Pinned::Before);
    }
    let mut text = String::new();
    pins.read_to_string(&mut text)
        .map_err(|e| failed("read", file, e))?;
    let begin = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let line = format!("{begin}{}{name} {}\n", key.marker, key.key);
    pins.write_all(line.as_bytes())
        .and_then(|()| pins.sync_all())
        .map_err(|e| failed("write", file, e))?;
    Ok(Pinned::Now)
}

fn failed(action: &'static str, path: &Utf8Path, source: io::Error) -> HostError {
    HostError::File {
        host: "localhost".into(),
        action,
        path: path.to_string(),
        source,
    }
}

/// Returns the fingerprint of a key in ssh's format, computed by ssh-keygen.
pub(super) async fn fingerprint(key: &PinnedKey) -> Option<String> {
    let dir = tempfile::tempdir().ok()?;
    let path = dir.path().join("key");
    fs::write(&path, format!("{}\n", key.key)).ok()?;
    let mut command = tool("ssh-keygen");
    command
        .arg("-lf")
        .arg(&path)
        .stdin(std::process::Stdio::null());
    let output = output_within(&mut command, std::time::Duration::from_secs(10))
        .await
        .ok()?
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_pinned_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = Utf8PathBuf::from_path_buf(dir.path().join("deep/site")).expect("text");
        let key = |n: u8| PinnedKey {
            marker: String::new(),
            key: format!("ssh-ed25519 AAAA{n}"),
        };
        assert!(!has(&file, "n1").expect("reads"));
        let pinned = [("n1", 1), ("[n1]:2222", 2), ("n1", 3)]
            .map(|(name, n)| pin(&file, name, &key(n)).expect("pins"));
        assert_eq!(pinned, [Pinned::Now, Pinned::Now, Pinned::Before]);
        assert_eq!(
            fs::read_to_string(&file).expect("a file"),
            "n1 ssh-ed25519 AAAA1\n[n1]:2222 ssh-ed25519 AAAA2\n"
        );
        assert_eq!(lines_of(&file, "[n1]:2222").expect("reads"), [2]);
        assert_eq!(key_at(&file, 2), Some(key(2)));
        assert_eq!(key_at(&file, 3), None);
    }

    #[test]
    fn a_torn_last_line_stays_separate() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = Utf8PathBuf::from_path_buf(dir.path().join("site")).expect("text");
        fs::write(&file, "@cert-authority *.x ssh-rsa AAAA").expect("writes");
        let ca = key_at(&file, 1).expect("a key");
        assert_eq!(
            ca,
            PinnedKey {
                marker: "@cert-authority ".into(),
                key: "ssh-rsa AAAA".into()
            }
        );
        assert_eq!(pin(&file, "n1", &ca).expect("pins"), Pinned::Now);
        assert_eq!(
            fs::read_to_string(&file).expect("a file").lines().nth(1),
            Some("@cert-authority n1 ssh-rsa AAAA")
        );
    }
}
