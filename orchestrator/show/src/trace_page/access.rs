//! Counters of a Darshan log by file system and module.

use super::{
    tables::table,
    text::{count, size},
};
use cvc_trace::{DarshanSummary, FileSums};
use serde_json::Value;
use std::collections::BTreeMap;

/// Counters of one module for the files on one file system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessChart {
    /// Mount point of the file system, and its type.
    pub place: String,
    /// Name of the module.
    pub module: &'static str,
    /// Numbers of files: all, only read, only written, both read and written.
    pub files: [u64; 4],
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum over all files, and maximum, of the offset after the last byte read or written; `None` if the log does not record it.
    pub ends: Option<(u64, u64)>,
}

/// Sums the counters of these logs by file system and module.
#[must_use]
pub fn accesses(logs: &[DarshanSummary]) -> Vec<AccessChart> {
    let mut found: BTreeMap<(String, &'static str), AccessChart> = BTreeMap::new();
    for log in logs {
        for file in log.files.iter().filter(|file| file.file.is_none()) {
            let (Some(read), Some(written)) = (file.sums.read_bytes(), file.sums.written_bytes())
            else {
                continue;
            };
            let key = (place_of(log, file), file.sums.module.name());
            let of = found.entry(key.clone()).or_insert_with(|| AccessChart {
                place: key.0,
                module: key.1,
                ..AccessChart::default()
            });
            of.files[0] += 1;
            match (read > 0, written > 0) {
                (true, false) => of.files[1] += 1,
                (false, true) => of.files[2] += 1,
                (true, true) => of.files[3] += 1,
                (false, false) => {}
            }
            of.read_bytes = of.read_bytes.saturating_add(read);
            of.written_bytes = of.written_bytes.saturating_add(written);
            // an end of 0 counts only if bytes were moved
            let end = |moved: u64, name: &str| match moved {
                0 => Some(0),
                _ => Some(file.sums.int(name)?.saturating_add(1)),
            };
            if let (Some(read), Some(written)) =
                (end(read, "MAX_BYTE_READ"), end(written, "MAX_BYTE_WRITTEN"))
            {
                let (all, largest) = of.ends.unwrap_or_default();
                let end = read.max(written);
                of.ends = Some((all.saturating_add(end), largest.max(end)));
            }
        }
    }
    let mut found: Vec<AccessChart> = found.into_values().collect();
    found.sort_by_key(|of| std::cmp::Reverse(of.read_bytes.saturating_add(of.written_bytes)));
    found
}

fn place_of(log: &DarshanSummary, file: &FileSums) -> String {
    let name = log.name(file.id).unwrap_or_default();
    if name.starts_with(b"<") {
        return "streams".to_owned();
    }
    match log.job.as_ref().and_then(|job| job.mount_of(name)) {
        Some(mount) => {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            format!("{} ({})", text(&mount.path), text(&mount.fs_type))
        }
        None => "unknown".to_owned(),
    }
}

/// Returns the data of the table for the template.
pub(super) fn to_table(accesses: &[AccessChart]) -> Option<Value> {
    let columns = [
        ("path", "File system"),
        ("txt", "Module"),
        ("num", "Files"),
        ("num", "Only read"),
        ("num", "Only written"),
        ("num", "Both"),
        ("num", "Read"),
        ("num", "Written"),
        ("num", "Mean end of a file"),
        ("num", "Highest end"),
    ];
    let rows = accesses.iter().map(|of| {
        let [all, ..] = of.files;
        let mut cells = vec![("path", of.place.clone()), ("txt", of.module.to_owned())];
        cells.extend(of.files.map(|n| ("num", count(n))));
        cells.extend([of.read_bytes, of.written_bytes].map(|bytes| ("num", size(bytes as f64))));
        let of_ends = |end: Option<f64>| ("num", end.map_or_else(|| "–".to_owned(), size));
        cells.push(of_ends(
            of.ends.map(|ends| ends.0 as f64 / all.max(1) as f64),
        ));
        cells.push(of_ends(of.ends.map(|ends| ends.1 as f64)));
        cells
    });
    (!accesses.is_empty()).then(|| table("table-access", &columns, rows, accesses.len()))
}
