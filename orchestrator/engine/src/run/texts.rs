//! Reads what runs leave on this machine as text.

use super::error::RunError;
use camino::Utf8Path;
use cvc_core::app::descriptor::Descriptor;
use regex::Regex;

/// Maximum number of bytes of a program's output that are searched.
const MAX_OUTPUT: u64 = 64 << 20;

/// A file of the run as text, at most its last 64 MiB.
pub(crate) fn text(path: &Utf8Path) -> String {
    text_until(path, u64::MAX)
}

/// The beginning of a file of the run as text, up to this offset in bytes; at most the last 64 MiB of it.
pub(crate) fn text_until(path: &Utf8Path, end: u64) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let begin = file.metadata()?.len().min(end).saturating_sub(MAX_OUTPUT);
        file.seek(SeekFrom::Start(begin))?;
        let mut bytes = Vec::new();
        file.take(end - begin).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read()
        .map(|b| String::from_utf8_lossy(&b).into_owned())
        .unwrap_or_default()
}

/// The last lines of an output, in one line, bounded.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let end = lines[lines.len().saturating_sub(3)..].join(" | ");
    match end.char_indices().rev().nth(399) {
        Some((at, _)) => format!("…{}", &end[at..]),
        None if end.is_empty() => "no output".into(),
        None => end,
    }
}

/// Compiles a pattern of a descriptor, in which `^` and `$` match at every line.
pub(crate) fn compile(app: &Descriptor, pattern: &str) -> Result<Regex, RunError> {
    Regex::new(&format!("(?m){pattern}")).map_err(|e| RunError::Descriptor {
        app: app.name.clone(),
        problem: e.to_string(),
    })
}
