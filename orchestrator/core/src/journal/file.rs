//! Reading and appending `journal.jsonl`.

use super::event::{Entry, Event};
use crate::store::StoreError;
use camino::{Utf8Path, Utf8PathBuf};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
};

/// Version of the format that this program writes, and the newest that it reads. Version 2 distinguishes the job of a lease from its
/// instances.
pub const FORMAT: u32 = 2;

/// Reads a journal. A torn last line (the machine lost power while it was written) is left out; anything else that is damaged is an error.
pub fn read(path: &Utf8Path) -> Result<Vec<Entry>, StoreError> {
    let mut text = Vec::new();
    File::open(path).and_then(|mut f| f.read_to_end(&mut text)).map_err(StoreError::io("read", path))?;
    parse(path, &text).map(|(entries, _)| entries)
}

/// The entries, and the number of bytes that they take in the file.
fn parse(path: &Utf8Path, text: &[u8]) -> Result<(Vec<Entry>, u64), StoreError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut whole = 0usize;
    // only a line that ends in a line feed is complete
    while let Some(length) = text[whole..].iter().position(|b| *b == b'\n') {
        let line = &text[whole..whole + length];
        let number = entries.len() + 1;
        let entry: Entry = match serde_json::from_slice(line) {
            Ok(entry) => entry,
            // a power loss can leave the last block of a file as zeros, line feed of an older write included
            Err(_) if text[whole + length + 1..].is_empty() && line.iter().all(|b| *b == 0) => break,
            Err(error) => {
                if let Some(format) = newer_format(line) {
                    return Err(StoreError::newer(path, format, FORMAT));
                }
                return Err(StoreError::damaged(path, number, error.to_string()));
            }
        };
        if entry.seq != number as u64 {
            return Err(StoreError::damaged(path, number, format!("expected entry {number}, found entry {}", entry.seq)));
        }
        if let (1, Event::Opened { format, .. }) = (number, &entry.event)
            && *format > FORMAT
        {
            return Err(StoreError::newer(path, *format, FORMAT));
        }
        entries.push(entry);
        whole += length + 1;
    }
    Ok((entries, whole as u64))
}

/// The format number of a first line that this version cannot understand.
fn newer_format(line: &[u8]) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let format = value.get("format")?.as_u64()?;
    u32::try_from(format).ok().filter(|f| *f > FORMAT)
}

/// Writes the present format into the first line of an older journal that is about to be continued: earlier versions then call it newer
/// instead of damaged. One digit takes the place of another, so that no interruption can leave half of it.
fn raise_format(entries: &mut [Entry], text: &[u8], file: &mut File) -> std::io::Result<()> {
    const KEY: &[u8] = b"\"format\":";
    let Some(Event::Opened { format, .. }) = entries.first_mut().map(|entry| &mut entry.event) else { return Ok(()) };
    let Some(at) = text.windows(KEY.len()).position(|part| part == KEY).map(|at| at + KEY.len()) else { return Ok(()) };
    let digit = FORMAT.to_string();
    if *format < FORMAT && digit.len() == 1 && text.get(at + 1).is_some_and(|next| !next.is_ascii_digit()) {
        file.write_all_at(digit.as_bytes(), at as u64)?;
        file.sync_data()?;
        *format = FORMAT;
    }
    Ok(())
}

/// An open journal. One writer at a time: the caller holds the lock of the campaign.
#[derive(Debug)]
pub struct Journal {
    path: Utf8PathBuf,
    file: File,
    next: u64,
}

impl Journal {
    /// Opens or creates the journal and returns its entries. A torn last line is cut off.
    pub fn open(path: &Utf8Path, campaign: &str) -> Result<(Self, Vec<Entry>), StoreError> {
        let fail = |action| StoreError::io(action, path);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(fail("open"))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(fail("read"))?;
        let (mut entries, whole) = parse(path, &text)?;
        if whole < text.len() as u64 {
            file.set_len(whole).and_then(|()| file.sync_all()).map_err(fail("cut the torn last line of"))?;
        }
        file.seek(SeekFrom::Start(whole)).map_err(fail("seek in"))?;
        raise_format(&mut entries, &text, &mut file).map_err(fail("write the format of"))?;
        let mut journal = Self { path: path.to_owned(), file, next: entries.len() as u64 + 1 };
        if entries.is_empty() {
            entries.push(journal.append(Event::Opened {
                format: FORMAT,
                campaign: campaign.to_owned(),
                cvc: env!("CARGO_PKG_VERSION").to_owned(),
            })?);
            // the name of the new file must survive too
            if let Some(directory) = path.parent() {
                File::open(directory).and_then(|d| d.sync_all()).map_err(fail("sync the directory of"))?;
            }
        }
        Ok((journal, entries))
    }

    /// Appends one event and syncs it: when this returns, the event survives a loss of power.
    pub fn append(&mut self, event: Event) -> Result<Entry, StoreError> {
        let entry = Entry { seq: self.next, at: jiff::Timestamp::now(), event };
        let mut line = serde_json::to_vec(&entry).map_err(|e| StoreError::damaged(&self.path, self.next as usize, e.to_string()))?;
        line.push(b'\n');
        #[cfg(debug_assertions)]
        die_if_asked("before", self.next);
        self.file.write_all(&line).and_then(|()| self.file.sync_data()).map_err(StoreError::io("append to", &self.path))?;
        #[cfg(debug_assertions)]
        die_if_asked("after", self.next);
        self.next += 1;
        Ok(entry)
    }
}

/// Kills this process at a record: with `CVC_KILL_AT=before:N` or `after:N` it dies as by `kill -9` there. For tests; not in releases.
#[cfg(debug_assertions)]
fn die_if_asked(when: &str, seq: u64) {
    if std::env::var("CVC_KILL_AT").is_ok_and(|at| at == format!("{when}:{seq}")) {
        // nothing happens after it
        let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::RunId, outcome::Outcome};

    fn journal() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("journal.jsonl")).expect("UTF-8");
        (dir, path)
    }

    fn events() -> Vec<Event> {
        let run = RunId::of(b"run");
        vec![
            Event::Started { plan: "p".into(), runs: 1, pid: 1 },
            Event::RunIntended { run: run.clone(), attempt: 1, nodes: vec![] },
            Event::RunFinished { run, attempt: 1, outcome: Outcome::Succeeded, records: Some("d".into()) },
        ]
    }

    #[test]
    fn an_older_journal_that_is_continued_tells_older_programs_that_it_is_newer() {
        let (_dir, path) = journal();
        Journal::open(&path, "c").expect("opens");
        let text = std::fs::read_to_string(&path).expect("reads");
        let older = text.replace("\"format\":2", "\"format\":1");
        assert_ne!(older, text);
        std::fs::write(&path, &older).expect("writes");
        // reading leaves it as it is
        let format = |entries: &[Entry]| match &entries[0].event {
            Event::Opened { format, .. } => *format,
            other => panic!("{other:?}"),
        };
        assert_eq!(format(&read(&path).expect("reads")), 1);
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), older);
        let (mut journal, entries) = Journal::open(&path, "c").expect("opens");
        assert_eq!(format(&entries), FORMAT);
        journal.append(events().remove(0)).expect("appends");
        let continued = std::fs::read_to_string(&path).expect("reads");
        assert!(continued.starts_with(&text) && continued.lines().count() == 2, "{continued}");
    }

    #[test]
    fn cut_at_any_byte_it_opens_with_whole_entries_and_goes_on() {
        let (_dir, path) = journal();
        let (mut journal, _) = Journal::open(&path, "c").expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        let text = std::fs::read(&path).expect("reads");
        for cut in 0..=text.len() {
            std::fs::write(&path, &text[..cut]).expect("writes");
            let whole = text[..cut].iter().filter(|b| **b == b'\n').count();
            let (mut journal, entries) = Journal::open(&path, "c").unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
            assert_eq!(entries.len(), whole.max(1), "cut at {cut}");
            journal.append(Event::Interrupted { now: false }).expect("appends");
            let again = read(&path).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
            assert_eq!(again.len(), whole.max(1) + 1);
        }
    }

    #[test]
    fn damage_in_the_middle_and_newer_formats_are_errors_that_name_the_file() {
        let (_dir, path) = journal();
        let (mut journal, _) = Journal::open(&path, "c").expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        let text = std::fs::read_to_string(&path).expect("reads");
        std::fs::write(&path, text.replacen("run-intended", "run-imagined", 1)).expect("writes");
        let error = read(&path).expect_err("damaged").to_string();
        assert!(error.contains("journal.jsonl") && error.contains("line 3"), "{error}");
        std::fs::write(&path, text.replacen("\"format\":2", "\"format\":7", 1)).expect("writes");
        let error = read(&path).expect_err("newer").to_string();
        assert!(error.contains('7') && error.contains("newer"), "{error}");
    }
}
