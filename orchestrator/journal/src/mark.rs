//! The mark of a journal: a file next to the journal that records its last synced entry. If a journal is restored from an older copy or has lost its
//! end, its lines are intact, but entries are missing: runs would be repeated, and machines forgotten. The mark reveals that.

use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::store::{
    StoreError,
    line_file::{Sum, check_sum, sum_of, with_sum},
    regular,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
};

/// Length of the file, bytes. It is constant, because the file is overwritten in place.
const BYTES: usize = 96;

/// The last entry that was synced. The mark has its own checksum, because a power loss may leave a mixture of two marks in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Number of the entry.
    pub entry: u64,
    /// Checksum of the entry.
    #[serde(rename = "of")]
    pub sum: String,
}

/// Removes the mark of a journal, so that the journal is accepted as it is now.
///
/// # Errors
/// The mark cannot be removed.
pub(crate) fn forget_mark(journal: &Utf8Path) -> Result<(), StoreError> {
    let mark = mark_file(journal);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", &mark)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the path of a journal's mark.
pub(super) fn mark_file(journal: &Utf8Path) -> Utf8PathBuf {
    journal.with_extension("mark")
}

impl Mark {
    /// Returns the mark of a journal; `None` if it is missing or unreadable.
    pub fn read(journal: &Utf8Path) -> Option<Self> {
        let text = regular::read(mark_file(journal).as_std_path()).ok()?;
        let line = text.trim_ascii_end();
        if check_sum(line) == Sum::Right {
            serde_json::from_slice(line).ok()
        } else {
            None
        }
    }

    /// Describes how a journal with this number of entries contradicts the mark: entries are missing, or the marked one has changed. `None` if it
    /// does not. `sum` is the checksum of the entry to which the mark refers; `None` if the journal does not have it.
    pub fn missing(&self, entries: u64, sum: Option<&str>) -> Option<String> {
        if entries < self.entry {
            return Some(format!("it has {entries} entries, and had {}", self.entry));
        }
        let differs = sum.is_some_and(|sum| sum != self.sum);
        differs.then(|| format!("its entry {} has changed", self.entry))
    }
}

/// Writes the mark. It is written after the journal is synced, and never synced itself. After a power loss it may therefore be older than the
/// journal, but never newer.
#[derive(Debug)]
pub(super) struct MarkWriter {
    file: Option<File>,
}

impl MarkWriter {
    /// Opens or creates the mark. If that fails, the journal is written without a mark; it works, but lost entries are not noticed.
    pub fn open(journal: &Utf8Path) -> Self {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        Self {
            file: regular::open_with(&mut options, mark_file(journal).as_std_path()).ok(),
        }
    }

    /// Records that the entry with this number has been synced.
    pub fn note(&self, entry: u64, line: &[u8]) {
        let (Some(file), Some(sum)) = (&self.file, sum_of(line)) else {
            return;
        };
        let text = serde_json::to_vec(&Mark {
            entry,
            sum: sum.to_owned(),
        })
        .map_err(std::io::Error::from)
        .and_then(with_sum);
        let Ok(mut text) = text else { return };
        // the line feed is added at the end of the file
        text.pop();
        text.resize(BYTES - 1, b' ');
        text.push(b'\n');
        // if this fails, the journal is still valid
        let _ = file.write_all_at(&text, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_mark_is_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Utf8Path::from_path(dir.path())
            .expect("UTF-8")
            .join("journal.jsonl");
        let written = |entry: u64, name: &str| {
            let line = with_sum(format!("{{\"seq\":\"{name}\"}}").into_bytes()).expect("a line");
            MarkWriter::open(&journal).note(entry, &line);
            fs::read(mark_file(&journal)).expect("reads")
        };
        let (old, new) = (written(u64::MAX - 1, "old"), written(u64::MAX, "new"));
        assert_eq!(
            (old.len(), Mark::read(&journal).map(|mark| mark.entry)),
            (BYTES, Some(u64::MAX))
        );
        for cut in 0..BYTES {
            let torn = [&new[..cut], &old[cut..]].concat();
            fs::write(mark_file(&journal), &torn).expect("writes");
            let is_whole = torn == old || torn == new;
            assert_eq!(Mark::read(&journal).is_some(), is_whole, "torn at {cut}");
        }
    }
}
