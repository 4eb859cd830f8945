//! Reads what runs leave on this machine as text.

use super::nodes::AllocatedNodes;
use camino::Utf8Path;
use cvc_core::campaign::StorageKind;
use cvc_probe::image::DirImage;
use std::collections::BTreeMap;

/// Maximum number of bytes of a program's output that are searched.
const MAX_OUTPUT: u64 = 64 << 20;

/// A file of the run as text, at most its last 64 MiB.
pub(super) fn text(path: &Utf8Path) -> String {
    text_until(path, u64::MAX)
}

/// The beginning of a file of the run as text, up to this offset in bytes; at most the last 64 MiB of it.
pub(super) fn text_until(path: &Utf8Path, end: u64) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let begin = file.metadata()?.len().min(end).saturating_sub(MAX_OUTPUT);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(end - begin).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
}

/// The last lines of an output, in one line, bounded.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let end = lines[lines.len().saturating_sub(3)..].join(" | ");
    match end.char_indices().rev().nth(399) {
        Some((at, _)) => format!("…{}", &end[at..]),
        None if end.is_empty() => "no output".into(),
        None => end,
    }
}

/// Whether two names of a host mean the same: one may have its domain.
pub(super) fn same_host(a: &str, b: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    a == b || (!a.is_empty() && (!a.contains('.') || !b.contains('.')) && short(a) == short(b))
}

/// The node on which an image was written. In a shared directory the restart script tells it.
pub(super) fn node_of<'n>(
    used: &'n AllocatedNodes,
    image: &DirImage,
    seen_by: &[&'n str],
    hosts: &BTreeMap<String, String>,
) -> Option<&'n str> {
    if let ([place], StorageKind::NodeLocal) = (seen_by, used.storage) {
        return Some(place);
    }
    let host = hosts.get(&image.file)?;
    used.ranks.iter().chain([&used.head]).find(|n| same_host(host, &n.hostname)).map(|n| n.name.as_str())
}
