//! How far a journal had come. A journal that was restored from an older copy, or whose end is lost, is whole and says too little: runs would be
//! measured again, and machines forgotten. The mark beside it tells.

use crate::store::{StoreError, line_file::sum_of};
use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
};

/// Bytes of the file: it is written in place, and always as long.
const BYTES: usize = 80;

/// The last entry that was put on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Its number.
    pub entry: u64,
    /// Its checksum.
    pub sum: String,
}

/// Forgets how far a journal had come, because it goes on from where it is.
///
/// # Errors
/// When the mark cannot be removed.
pub(crate) fn forget_mark(journal: &Utf8Path) -> Result<(), StoreError> {
    let mark = mark_file(journal);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io("remove", &mark)(error)),
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
        serde_json::from_slice(fs::read(mark_file(journal)).ok()?.trim_ascii_end()).ok()
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
        options.write(true).create(true).truncate(false).custom_flags(nix::libc::O_NOFOLLOW);
        Self { file: options.open(mark_file(journal)).ok() }
    }

    /// Notes that this line, which has this number, is on disk.
    pub fn note(&self, entry: u64, line: &[u8]) {
        let (Some(file), Some(sum)) = (&self.file, sum_of(line)) else { return };
        let Ok(mut text) = serde_json::to_vec(&Mark { entry, sum: sum.to_owned() }) else { return };
        text.resize(BYTES - 1, b' ');
        text.push(b'\n');
        // without it the journal is whole nevertheless
        let _ = file.write_all_at(&text, 0);
    }
}
