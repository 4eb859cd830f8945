//! Reading and appending `journal.jsonl`.

use super::{
    event::{Entry, Event},
    lineage::Lineage,
    mark::{Mark, MarkWriter},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::clock::{self, Clock};
use cvc_core::store::{
    LineFile, StoreError,
    line_file::{self, Scan, Sum},
};
use cvc_os::{disk, regular};
use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, ErrorKind},
    os::unix::fs::{FileExt, MetadataExt},
};

/// Version of the format that this program writes, and the newest that it reads. Version 2 distinguishes the job of a lease from its
/// instances; version 3 has a checksum in each line, and a lineage.
pub const FORMAT: u32 = 3;

/// Reads a journal. A torn end (the machine lost power, or the disk was full) is left out; anything else that is damaged is an error.
pub fn read(path: &Utf8Path) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    read_each(path, |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

/// The same, entry by entry. `take` says what is wrong with an entry, if anything is.
///
/// # Errors
/// When the file cannot be read, was written by a newer cvc, or is damaged.
pub fn read_each(
    path: &Utf8Path,
    mut take: impl FnMut(Entry) -> Result<(), String>,
) -> Result<(), StoreError> {
    let file = regular::open(path.as_std_path()).map_err(StoreError::io("read", path))?;
    let mut reader = EntryReader::default();
    let scan = line_file::scan(file, |_, json| reader.read(json).and_then(&mut take))
        .map_err(StoreError::io("read", path))?
        .with_synced_lines();
    reader.check(path, &scan)
}

/// Reads entries and checks their order.
#[derive(Debug, Default)]
struct EntryReader {
    /// Number of the last entry.
    last: u64,
    last_at: Option<jiff::Timestamp>,
    /// Format of a journal that is too new.
    newer: Option<u32>,
    /// Whether the campaign has a lineage already.
    has_lineage: bool,
    /// How far the journal had come.
    mark: Option<Mark>,
    /// Checksum of the entry that the mark is about.
    marked: Option<String>,
}

impl EntryReader {
    fn read(&mut self, json: &[u8]) -> Result<Entry, String> {
        const NEWER: &str = "written by a newer cvc";
        if self.newer.is_some() {
            return Err(NEWER.to_owned());
        }
        let entry: Entry = serde_json::from_slice(json).map_err(|error| {
            self.newer = newer_format(json);
            let known = if error.to_string().contains("unknown variant") {
                ": a newer cvc may have written it"
            } else {
                ""
            };
            format!("{error}{known}")
        })?;
        if self
            .mark
            .as_ref()
            .is_some_and(|mark| mark.entry == entry.seq)
        {
            self.marked = line_file::sum_of(json).map(str::to_owned);
        }
        // a damaged number may be the largest
        let expected = self.last.saturating_add(1);
        self.last = entry.seq;
        if entry.seq != expected {
            return Err(format!(
                "expected entry {expected}, found entry {}",
                entry.seq
            ));
        }
        if let Event::Opened {
            format, lineage, ..
        } = &entry.event
        {
            self.newer = Some(*format).filter(|format| *format > FORMAT);
            // an error, so that nothing is cut off at its end: this program does not know what is torn there
            if self.newer.is_some() {
                return Err(NEWER.to_owned());
            }
            self.has_lineage = lineage.is_some();
        }
        self.has_lineage |= matches!(entry.event, Event::LineageGiven { .. });
        self.last_at = self.last_at.max(Some(entry.at));
        Ok(entry)
    }

    fn check(&self, path: &Utf8Path, scan: &Scan) -> Result<(), StoreError> {
        match self.newer {
            Some(format) => Err(StoreError::newer(path, format, FORMAT)),
            None => scan.undamaged(path),
        }
    }

    /// Checks that nothing is missing that was there.
    fn check_mark(&self, path: &Utf8Path, scan: &Scan) -> Result<(), StoreError> {
        let missing = self
            .mark
            .as_ref()
            .and_then(|mark| mark.missing(scan.good as u64, self.marked.as_deref()));
        missing.map_or(Ok(()), |what| {
            Err(StoreError::WentBack {
                path: path.into(),
                what,
            })
        })
    }
}

/// The format number of a first line that this version cannot understand.
pub(crate) fn newer_format(line: &[u8]) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let format = value.get("format")?.as_u64()?;
    u32::try_from(format).ok().filter(|f| *f > FORMAT)
}

/// Writes the present format into the first line of a journal of format 1 or 2 that is about to be continued: earlier versions then call it
/// newer instead of damaged. One digit takes the place of another, so that no interruption can leave half of it.
fn raise_format(path: &Utf8Path) -> std::io::Result<()> {
    const KEY: &[u8] = b"\"format\":";
    // a handle that appends ignores positions
    let mut options = OpenOptions::new();
    let file = regular::open_with(options.read(true).write(true), path.as_std_path())?;
    // all of it: its checksum stands at its end
    let mut line = Vec::new();
    BufReader::new(&file).read_until(b'\n', &mut line)?;
    let line = line.trim_ascii_end();
    if line_file::check_sum(line) != Sum::Missing {
        return Ok(());
    }
    let Some(at) = line
        .windows(KEY.len())
        .position(|part| part == KEY)
        .map(|at| at + KEY.len())
    else {
        return Ok(());
    };
    if let [old @ (b'1' | b'2'), b',' | b'}', ..] = line[at..]
        && u32::from(old - b'0') < FORMAT
    {
        file.write_all_at(FORMAT.to_string().as_bytes(), at as u64)?;
        file.sync_data()?;
    }
    Ok(())
}

/// Puts the name of a new journal on disk, and those of the directories above it, which may be as new.
fn sync_names(path: &Utf8Path) -> Result<(), StoreError> {
    let device = |directory: &Utf8Path| fs::metadata(directory).ok().map(|metadata| metadata.dev());
    let mut below = None;
    for directory in path.ancestors().skip(1) {
        let directory = if directory.as_str().is_empty() {
            Utf8Path::new(".")
        } else {
            directory
        };
        // what lies beyond was there before: it is mounted, or is others' to read
        if below.is_some_and(|below| device(directory) != device(below)) {
            break;
        }
        match disk::sync_directory("journal.jsonl.sync-directory", directory.as_std_path()) {
            Err(error) if below.is_some() && error.kind() == ErrorKind::PermissionDenied => break,
            synced => synced.map_err(StoreError::io("sync", directory))?,
        }
        below = Some(directory);
    }
    Ok(())
}

/// An open journal. One writer at a time: the caller holds the lock of the campaign.
#[derive(Debug)]
pub struct Journal {
    path: Utf8PathBuf,
    file: LineFile,
    next: u64,
    clock: Clock,
    /// Whether the last entry is on disk.
    is_synced: bool,
    mark: MarkWriter,
    /// The last entry as it was written, until it is on disk.
    unmarked: Vec<u8>,
}

impl Journal {
    /// Opens or creates the journal and hands over its entries. A torn end is cut off. A new journal gets a new lineage; one of an earlier version
    /// that of its place, by which that version called what it made elsewhere.
    ///
    /// # Errors
    /// When the file cannot be read or written, was written by a newer cvc, is damaged, has less than it had, or another process writes it;
    /// `take` says what is wrong with an entry.
    pub fn open(
        path: &Utf8Path,
        campaign: &str,
        mut take: impl FnMut(&Entry) -> Result<(), String>,
    ) -> Result<Self, StoreError> {
        let mut reader = EntryReader {
            mark: Mark::read(path),
            ..EntryReader::default()
        };
        // what was there is not cut before it is known that nothing is missing
        if reader.mark.is_some() {
            let scan = match regular::open(path.as_std_path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Scan::default()),
                file => file.and_then(|file| {
                    line_file::scan(file, |_, json| reader.read(json).map(|_| ()))
                }),
            };
            let scan = scan.map_err(StoreError::io("read", path))?;
            if scan.damaged.is_empty() {
                reader.check_mark(path, &scan)?;
            }
            reader = EntryReader::default();
        }
        let (file, scan) = LineFile::open(path, true, |_, json| take(&reader.read(json)?))?;
        reader.check(path, &scan)?;
        file.lock()?;
        let has_lineage = reader.has_lineage;
        if scan.good == 0 {
            // before the first entry, and before the mark says that it is on disk
            sync_names(path)?;
        }
        if let Some(last) = reader.last_at {
            clock::go_on_from(last);
        }
        let mut journal = Self {
            path: path.to_owned(),
            file,
            next: scan.good as u64 + 1,
            clock: Clock::after(reader.last_at),
            is_synced: true,
            mark: MarkWriter::open(path),
            unmarked: Vec::new(),
        };
        let mut begin = |event| -> Result<(), StoreError> {
            let entry = journal.append(event)?;
            take(&entry).map_err(|problem| {
                StoreError::damaged(
                    path,
                    usize::try_from(entry.seq).unwrap_or(usize::MAX),
                    problem,
                )
            })
        };
        if scan.good == 0 {
            let lineage =
                Some(Lineage::random().map_err(StoreError::io("make a lineage for", path))?);
            begin(Event::Opened {
                format: FORMAT,
                campaign: campaign.to_owned(),
                cvc: env!("CARGO_PKG_VERSION").to_owned(),
                lineage,
            })?;
        } else if !has_lineage {
            raise_format(path).map_err(StoreError::io("write the format of", path))?;
            begin(Event::LineageGiven {
                lineage: Lineage::of_place(path.parent().unwrap_or(path)),
            })?;
        }
        Ok(journal)
    }

    /// Its file.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Appends one event and syncs it: when this returns, the event survives a loss of power. After a failure the journal is as it was, and
    /// whatever could not be undone is not written behind.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, event: Event) -> Result<Entry, StoreError> {
        self.write(event, true)
    }

    /// Appends one event that the next [`sync`](Self::sync) or [`append`](Self::append) puts on disk: for what can be found again after a loss of
    /// power. One of them must follow before anything is waited for.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append_unsynced(&mut self, event: Event) -> Result<Entry, StoreError> {
        self.write(event, false)
    }

    /// Puts on disk what was appended, if it is not there.
    ///
    /// # Errors
    /// When the system refuses: then nothing more is written.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_synced {
            return Ok(());
        }
        self.file.sync()?;
        self.is_synced = true;
        self.mark.note(self.next - 1, &self.unmarked);
        Ok(())
    }

    /// Checks that the file is still this process's, as each append does.
    ///
    /// # Errors
    /// When it was moved or replaced, or somebody else has written to it; then nothing more is written.
    pub fn check_owner(&mut self) -> Result<(), StoreError> {
        self.file.check_owner()
    }

    fn write(&mut self, event: Event, synced: bool) -> Result<Entry, StoreError> {
        let entry = Entry {
            seq: self.next,
            at: self.clock.now(),
            event,
        };
        let json = serde_json::to_vec(&entry)
            .map_err(|e| StoreError::damaged(&self.path, self.next as usize, e.to_string()))?;
        #[cfg(debug_assertions)]
        die_if_asked("before", self.next);
        self.unmarked = self.file.append(json, synced)?;
        self.is_synced = synced;
        if synced {
            self.mark.note(self.next, &self.unmarked);
        }
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
    use crate::mark::mark_file;
    use cvc_core::ids::RunId;
    use cvc_core::outcome::Outcome;

    fn journal() -> (tempfile::TempDir, Utf8PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("journal.jsonl")).expect("UTF-8");
        (dir, path)
    }

    fn events() -> Vec<Event> {
        let run = RunId::of(b"run");
        vec![
            Event::Started {
                plan: "p".into(),
                runs: 1,
                pid: 1,
                cvc: String::new(),
            },
            Event::RunIntended {
                run: run.clone(),
                attempt: 1,
                nodes: Default::default(),
            },
            Event::RunFinished {
                run,
                attempt: 1,
                outcome: Outcome::Succeeded,
                records: Some("d".into()),
                manifest: None,
                not_again: None,
            },
        ]
    }

    /// Opens a journal, and returns it with its entries.
    fn open(path: &Utf8Path) -> Result<(Journal, Vec<Entry>), StoreError> {
        let mut entries = Vec::new();
        let journal = Journal::open(path, "c", |entry| {
            entries.push(entry.clone());
            Ok(())
        })?;
        Ok((journal, entries))
    }

    #[test]
    fn an_older_journal_that_is_continued_tells_older_programs_that_it_is_newer() {
        let (_dir, path) = journal();
        let older = "{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"opened\",\"format\":1,\"campaign\":\"c\",\"cvc\":\"0.1.0\"}\n";
        std::fs::write(&path, older).expect("writes");
        // reading leaves it as it is
        let format = |entries: &[Entry]| match &entries[0].event {
            Event::Opened { format, .. } => *format,
            other => panic!("{other:?}"),
        };
        assert_eq!(format(&read(&path).expect("reads")), 1);
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), older);
        let (mut journal, entries) = open(&path).expect("opens");
        // and it keeps the name by which the earlier version called it elsewhere
        let place = Lineage::of_place(path.parent().expect("a directory"));
        assert!(
            matches!(&entries[1].event, Event::LineageGiven { lineage } if *lineage == place),
            "{entries:?}"
        );
        journal.append(events().remove(0)).expect("appends");
        drop(journal);
        let continued = read(&path).expect("reads");
        assert_eq!((format(&continued), continued.len()), (FORMAT, 3));
        assert_eq!(open(&path).expect("opens").1.len(), 3);
    }

    #[test]
    fn a_long_first_line_with_a_checksum_is_not_changed() {
        let (_dir, path) = journal();
        let line = format!(
            "{{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"opened\",\"format\":1,\"campaign\":\"{}\",\"cvc\":\"0.1.0\"}}",
            "c".repeat(600)
        );
        std::fs::write(
            &path,
            line_file::with_sum(line.into_bytes()).expect("a line"),
        )
        .expect("writes");
        open(&path).expect("opens");
        assert_eq!(read(&path).expect("reads again").len(), 2);
    }

    #[test]
    fn cut_at_any_byte_it_opens_with_whole_entries_and_goes_on() {
        let (_dir, path) = journal();
        let (mut journal, _) = open(&path).expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        drop(journal);
        let text = std::fs::read(&path).expect("reads");
        for cut in 0..=text.len() {
            // no more than what was written may be gone: a mark would tell
            std::fs::remove_file(mark_file(&path)).expect("removes");
            std::fs::write(&path, &text[..cut]).expect("writes");
            let whole = text[..cut].iter().filter(|b| **b == b'\n').count();
            let (mut journal, entries) =
                open(&path).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
            assert_eq!(entries.len(), whole.max(1), "cut at {cut}");
            journal
                .append(Event::Interrupted { now: false })
                .expect("appends");
            drop(journal);
            let again = read(&path).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
            assert_eq!(again.len(), whole.max(1) + 1);
        }
    }

    #[test]
    fn a_journal_that_went_back_is_refused_and_left_as_it_is() {
        let (_dir, path) = journal();
        let (mut journal, _) = open(&path).expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        drop(journal);
        let text = std::fs::read(&path).expect("reads");
        let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
        let mut zeroed = text.clone();
        zeroed[lines[0].len()..].fill(0);
        for older in [
            lines[..2].concat(),
            [lines[..2].concat(), b"{\"seq\":3".to_vec()].concat(),
            zeroed,
        ] {
            std::fs::write(&path, &older).expect("writes");
            let error = open(&path).expect_err("less than it had").to_string();
            assert!(
                error.contains("journal.jsonl went back: it has")
                    && error.contains("entries, and had 4"),
                "{error}"
            );
            assert_eq!(
                std::fs::read(&path).expect("reads"),
                older,
                "nothing is changed"
            );
        }
        // as long, and another one
        let (other_dir, other) = super::tests::journal();
        let (mut journal, _) = open(&other).expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        std::fs::copy(&other, &path).expect("copies");
        let error = open(&path).expect_err("another journal").to_string();
        assert!(error.contains("its entry 4 is another one"), "{error}");
        drop(other_dir);
        // the mark is behind what was not synced, and one that cannot be read says nothing
        std::fs::write(&path, &text).expect("writes");
        let (mut journal, _) = open(&path).expect("opens");
        journal
            .append_unsynced(Event::Interrupted { now: false })
            .expect("appends");
        drop(journal);
        std::fs::write(&path, &text).expect("writes");
        open(&path).expect("an entry that was never synced");
        std::fs::write(mark_file(&path), "{\"entr").expect("writes");
        std::fs::write(&path, lines[..2].concat()).expect("writes");
        open(&path).expect("without a mark");
    }

    #[test]
    fn two_processes_do_not_write_one_journal() {
        let (_dir, path) = journal();
        let (mut first, _) = open(&path).expect("opens");
        assert!(matches!(open(&path), Err(StoreError::Locked { .. })));
        std::fs::rename(&path, path.with_extension("moved")).expect("renames");
        let error = first
            .append(events().remove(0))
            .expect_err("moved")
            .to_string();
        assert!(error.contains("no longer this cvc's"), "{error}");
    }

    #[test]
    fn damage_in_the_middle_missing_lines_and_newer_formats_are_errors_that_name_the_file() {
        let (_dir, path) = journal();
        let (mut journal, _) = open(&path).expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        let text = std::fs::read_to_string(&path).expect("reads");
        let told = |text: &str| {
            std::fs::write(&path, text).expect("writes");
            let error = open(&path).expect_err("damaged").to_string();
            assert_eq!(read(&path).expect_err("damaged").to_string(), error);
            assert_eq!(
                std::fs::read_to_string(&path).expect("reads"),
                text,
                "nothing is changed"
            );
            assert!(error.contains("journal.jsonl"), "{error}");
            error
        };
        let error = told(&text.replacen("\"attempt\":1", "\"attempt\":2", 1));
        assert!(
            error.contains("line 3") && error.contains("checksum"),
            "{error}"
        );
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let error = told(&[lines[0], lines[1], lines[3]].concat());
        assert!(
            error.contains("line 3: expected entry 3, found entry 4"),
            "{error}"
        );
        let last = format!(
            "{{\"seq\":{},\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"interrupted\",\"now\":false}}",
            u64::MAX
        );
        let last = String::from_utf8(line_file::with_sum(last.into_bytes()).expect("a line"))
            .expect("text");
        let error = told(&[lines[0], &last, lines[1]].concat());
        assert!(
            error.contains("line 2: expected entry 2") && error.contains("and 1 further"),
            "{error}"
        );
        let error = told(
            &lines[0]
                .replacen("\"format\":3", "\"format\":7", 1)
                .replace(",\"sum\"", ",\"old\""),
        );
        assert!(error.contains('7') && error.contains("newer"), "{error}");
        // its end may only look torn
        let error = told(
            &(lines[0]
                .replacen("\"format\":3", "\"format\":7", 1)
                .replace(",\"sum\"", ",\"old\"")
                + "a new kind of line"),
        );
        assert!(error.contains("newer"), "{error}");
        let unknown = br#"{"seq":1,"at":"2026-01-01T00:00:00Z","event":"teleported"}"#;
        let unknown = String::from_utf8(line_file::with_sum(unknown.to_vec()).expect("a line"))
            .expect("text");
        let error = told(&unknown);
        assert!(
            error.contains("teleported") && error.contains("a newer cvc may have written it"),
            "{error}"
        );
    }

    #[test]
    fn an_append_that_failed_leaves_a_journal_that_can_be_continued() {
        let dir = tempfile::tempdir().expect("a directory");
        let path =
            Utf8PathBuf::from_path_buf(dir.path().join("failing-journal.jsonl")).expect("UTF-8");
        let (mut journal, _) = open(&path).expect("opens");
        for fault in ["1*return(short:30)", "1*return(enospc)"] {
            fail::cfg("failing-journal.jsonl.append", fault).expect("a fault");
            journal.append(events().remove(0)).expect_err(fault);
            assert_eq!(read(&path).expect("reads").len(), 1, "{fault}");
        }
        journal.append(events().remove(0)).expect("appends");
        drop(journal);
        assert_eq!(open(&path).expect("opens").1.len(), 2);
    }
}
