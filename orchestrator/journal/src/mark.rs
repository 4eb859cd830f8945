//! How far a journal had come. A journal that was restored from an older copy, or whose end is lost, is whole and says too little: runs would be
//! measured again, and machines forgotten. The mark beside it tells.

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

/// Bytes of the file: it is written in place, and always as long.
const BYTES: usize = 96;

/// The last entry that was put on disk. It has a checksum of its own, because a loss of power may leave half of it in front of an older one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Its number.
    pub entry: u64,
    /// Its checksum.
    #[serde(rename = "of")]
    pub sum: String,
}

/// Forgets how far a journal had come, because it goes on from where it is.
///
/// # Errors
/// When the mark cannot be removed.
pub(crate) fn forget_mark(journal: &Utf8Path) -> Result<(), StoreError> {
    let mark = mark_file(journal);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", &mark)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Path of the mark of a journal.
pub(super) fn mark_file(journal: &Utf8Path) -> Utf8PathBuf {
    journal.with_extension("mark")
}

impl Mark {
    /// The mark of a journal; `None` if it has none that can be read.
    pub fn read(journal: &Utf8Path) -> Option<Self> {
        let text = regular::read(mark_file(journal).as_std_path()).ok()?;
        let line = text.trim_ascii_end();
        if check_sum(line) == Sum::Right {
            serde_json::from_slice(line).ok()
        } else {
            None
        }
    }

    /// What is missing in a journal of so many entries; `sum` is the checksum of the one that the mark is about, if the journal has it.
    pub fn missing(&self, entries: u64, sum: Option<&str>) -> Option<String> {
        if entries < self.entry {
            return Some(format!("it has {entries} entries, and had {}", self.entry));
        }
        let differs = sum.is_some_and(|sum| sum != self.sum);
        differs.then(|| format!("its entry {} is another one than it was", self.entry))
    }
}

/// Writes the mark. It is never synced, and written only after the journal was: it may be behind the journal, never before it.
#[derive(Debug)]
pub(super) struct MarkWriter {
    file: Option<File>,
}

impl MarkWriter {
    /// Opens or creates the mark. Without one, which is not essential, the journal is written all the same.
    pub fn open(journal: &Utf8Path) -> Self {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        Self {
            file: regular::open_with(&mut options, mark_file(journal).as_std_path()).ok(),
        }
    }

    /// Notes that this line, which has this number, is on disk.
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
        // its line feed comes last
        text.pop();
        text.resize(BYTES - 1, b' ');
        text.push(b'\n');
        // without it the journal is whole nevertheless
        let _ = file.write_all_at(&text, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_was_torn_in_the_middle_says_nothing() {
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
