//! Reads and appends `journal.jsonl`.

use super::{
    event::{Entry, Event},
    lineage::Lineage,
    mark::{Mark, MarkWriter},
    problem::IllegalEvent,
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

/// The version of the journal format that this program writes; it reads no newer version. Since version 2 a lease has either a job or instances;
/// since version 3 each line has a checksum, and the campaign has a lineage.
pub const FORMAT: u32 = 3;

/// Reads a journal. An incomplete last line, left by a power loss or a full disk, is skipped; any other damage is an error.
pub fn read(path: &Utf8Path) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    read_each(path, |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

/// Like [`read`], but passes each entry to `take`, which rejects an entry that does not follow from the previous ones.
///
/// # Errors
/// The file cannot be read, was written by a newer cvc, or is damaged.
pub fn read_each(
    path: &Utf8Path,
    mut take: impl FnMut(Entry) -> Result<(), IllegalEvent>,
) -> Result<(), StoreError> {
    let file = regular::open(path.as_std_path()).map_err(StoreError::io("read", path))?;
    let mut reader = EntryReader::default();
    let scan = line_file::scan(file, |_, json| {
        Ok::<_, EntryError>(take(reader.read(json)?)?)
    })
    .map_err(StoreError::io("read", path))?
    .with_synced_lines();
    reader.check(path, &scan)
}

/// Why a line is not the expected next entry.
#[derive(Debug, thiserror::Error)]
enum EntryError {
    #[error("written by a newer cvc")]
    Newer,
    #[error("{error}{}", if error.to_string().contains("unknown variant") { ": a newer cvc may have written it" } else { "" })]
    Unreadable {
        #[from]
        error: serde_json::Error,
    },
    #[error("expected entry {expected}, found entry {found}")]
    Order { expected: u64, found: u64 },
    #[error("{}", .0.problem)]
    Illegal(#[from] IllegalEvent),
}

/// Reads entries and checks their order.
#[derive(Debug, Default)]
struct EntryReader {
    /// Number of the last entry.
    last: u64,
    last_at: Option<jiff::Timestamp>,
    /// Format number of the journal if it is newer than [`FORMAT`]; otherwise `None`.
    newer: Option<u32>,
    /// Whether an entry has given the campaign a lineage.
    has_lineage: bool,
    /// The mark of the journal, which has the number and the checksum of the last synced entry.
    mark: Option<Mark>,
    /// Checksum of the entry whose number the mark has, as read from the journal.
    marked: Option<String>,
}

impl EntryReader {
    fn read(&mut self, json: &[u8]) -> Result<Entry, EntryError> {
        if self.newer.is_some() {
            return Err(EntryError::Newer);
        }
        let entry: Entry =
            serde_json::from_slice(json).inspect_err(|_| self.newer = newer_format(json))?;
        if self
            .mark
            .as_ref()
            .is_some_and(|mark| mark.entry == entry.seq)
        {
            self.marked = line_file::sum_of(json).map(str::to_owned);
        }
        // a damaged number may be the largest possible one
        let expected = self.last.saturating_add(1);
        self.last = entry.seq;
        if entry.seq != expected {
            return Err(EntryError::Order {
                expected,
                found: entry.seq,
            });
        }
        if let Event::Opened {
            format, lineage, ..
        } = &entry.event
        {
            self.newer = Some(*format).filter(|format| *format > FORMAT);
            // an error, so that the end of a newer journal is not cut off: this program cannot recognise whether it is incomplete
            if self.newer.is_some() {
                return Err(EntryError::Newer);
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

    /// Checks by the mark that the journal still has its last synced entry.
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

/// Returns the format number in the first line of a journal if this version cannot read it; otherwise `None`.
pub(crate) fn newer_format(line: &[u8]) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let format = value.get("format")?.as_u64()?;
    u32::try_from(format).ok().filter(|f| *f > FORMAT)
}

/// Writes the present format number into the first line of a journal that has format 1 or 2 and is about to be continued. Earlier versions of cvc
/// then report that the journal is newer, not that it is damaged. Only one digit changes, so that an interruption cannot leave half of the number.
fn raise_format(path: &Utf8Path) -> std::io::Result<()> {
    const KEY: &[u8] = b"\"format\":";
    // with O_APPEND the position of a write would be ignored
    let mut options = OpenOptions::new();
    let file = regular::open_with(options.read(true).write(true), path.as_std_path())?;
    // reads the whole line, because its checksum is at its end
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

/// Syncs the directory entry of a new journal, and those of the directories above it, which may be new, too.
fn sync_names(path: &Utf8Path) -> Result<(), StoreError> {
    let device = |directory: &Utf8Path| fs::metadata(directory).ok().map(|metadata| metadata.dev());
    let mut below = None;
    for directory in path.ancestors().skip(1) {
        let directory = if directory.as_str().is_empty() {
            Utf8Path::new(".")
        } else {
            directory
        };
        // directories beyond a mount point, or without permission, existed before
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

/// An open journal. It has a single writer, which holds the lock of the campaign.
#[derive(Debug)]
pub struct Journal {
    path: Utf8PathBuf,
    file: LineFile,
    next: u64,
    clock: Clock,
    /// Whether the last entry has been synced.
    is_synced: bool,
    mark: MarkWriter,
    /// The last entry as written; empty when it has been synced and the mark records it.
    unmarked: Vec<u8>,
}

impl Journal {
    /// Opens or creates the journal, and passes its entries to `take`. Removes an incomplete last line. A new journal gets a random lineage. The
    /// journal of an earlier version gets a lineage that is computed from its place, because that version named its resources on other machines in
    /// this way.
    ///
    /// # Errors
    /// The file cannot be read or written, was written by a newer cvc, is damaged, or has lost entries; another process is writing it; or `take`
    /// rejects an entry.
    pub fn open(
        path: &Utf8Path,
        campaign: &str,
        mut take: impl FnMut(&Entry) -> Result<(), IllegalEvent>,
    ) -> Result<Self, StoreError> {
        let mut reader = EntryReader {
            mark: Mark::read(path),
            ..EntryReader::default()
        };
        // an incomplete line is cut off only after the mark has shown that no entry is missing
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
        let (file, scan) = LineFile::open(path, true, |_, json| {
            Ok::<_, EntryError>(take(&reader.read(json)?)?)
        })?;
        reader.check(path, &scan)?;
        file.lock()?;
        let has_lineage = reader.has_lineage;
        if scan.good == 0 {
            // before the first entry is written, and before the mark records that it is synced
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
            take(&entry).map_err(|illegal| illegal.in_file(path))
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

    /// Returns the path of the journal.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Appends one event and syncs it: when this returns, the event survives a power loss. After a failure the journal is unchanged; if the write
    /// cannot be undone, no further event is accepted.
    ///
    /// # Errors
    /// The event cannot be written or synced.
    pub fn append(&mut self, event: Event) -> Result<Entry, StoreError> {
        self.write(event, true)
    }

    /// Appends one event without syncing it; the next [`sync`](Self::sync) or [`append`](Self::append) does that. Suitable for facts that can be
    /// found again after a power loss. The caller must call one of these functions before it waits for anything.
    ///
    /// # Errors
    /// The event cannot be written.
    pub fn append_unsynced(&mut self, event: Event) -> Result<Entry, StoreError> {
        self.write(event, false)
    }

    /// Syncs the appended events, if necessary.
    ///
    /// # Errors
    /// Syncing fails; no further event is accepted then.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_synced {
            return Ok(());
        }
        self.file.sync()?;
        self.is_synced = true;
        self.mark.note(self.next - 1, &self.unmarked);
        Ok(())
    }

    /// Checks that this process still owns the file, as each append does.
    ///
    /// # Errors
    /// The file was moved or replaced, or another process has written to it. No further event is accepted then.
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
        kill_if_requested("before", self.next);
        self.unmarked = self.file.append(json, synced)?;
        self.is_synced = synced;
        if synced {
            self.mark.note(self.next, &self.unmarked);
        }
        #[cfg(debug_assertions)]
        kill_if_requested("after", self.next);
        self.next += 1;
        Ok(entry)
    }
}

/// Kills this process at a given entry, as `kill -9` would: `CVC_KILL_AT=before:N` or `after:N`. For tests only; not in release builds.
#[cfg(debug_assertions)]
fn kill_if_requested(when: &str, seq: u64) {
    if std::env::var("CVC_KILL_AT").is_ok_and(|at| at == format!("{when}:{seq}")) {
        // no code of this process runs after the signal
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
    fn a_continued_older_journal_is_newer_for_older_programs() {
        let (_dir, path) = journal();
        let older = "{\"seq\":1,\"at\":\"2026-01-01T00:00:00Z\",\"event\":\"opened\",\"format\":1,\"campaign\":\"c\",\"cvc\":\"0.1.0\"}\n";
        std::fs::write(&path, older).expect("writes");
        // reading does not change the file
        let format = |entries: &[Entry]| match &entries[0].event {
            Event::Opened { format, .. } => *format,
            other => panic!("{other:?}"),
        };
        assert_eq!(format(&read(&path).expect("reads")), 1);
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), older);
        let (mut journal, entries) = open(&path).expect("opens");
        // the journal keeps the name that the earlier version used on other machines
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
    fn cut_at_any_byte_it_opens_with_whole_entries_and_continues() {
        let (_dir, path) = journal();
        let (mut journal, _) = open(&path).expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        drop(journal);
        let text = std::fs::read(&path).expect("reads");
        for cut in 0..=text.len() {
            // without the mark, a cut after a whole line is not noticed
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
    fn a_reset_journal_is_refused_and_left_unchanged() {
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
                error.contains("journal.jsonl was reset to an earlier state: it has")
                    && error.contains("entries, and had 4"),
                "{error}"
            );
            assert_eq!(
                std::fs::read(&path).expect("reads"),
                older,
                "nothing is changed"
            );
        }
        // another journal of the same length
        let (other_dir, other) = super::tests::journal();
        let (mut journal, _) = open(&other).expect("opens");
        for event in events() {
            journal.append(event).expect("appends");
        }
        std::fs::copy(&other, &path).expect("copies");
        let error = open(&path).expect_err("another journal").to_string();
        assert!(error.contains("its entry 4 has changed"), "{error}");
        drop(other_dir);
        // entries that were not synced are not in the mark, and an unreadable mark is ignored
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
        let load_error = |text: &str| {
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
        let error = load_error(&text.replacen("\"attempt\":1", "\"attempt\":2", 1));
        assert!(
            error.contains("line 3") && error.contains("checksum"),
            "{error}"
        );
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let error = load_error(&[lines[0], lines[1], lines[3]].concat());
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
        let error = load_error(&[lines[0], &last, lines[1]].concat());
        assert!(
            error.contains("line 2: expected entry 2") && error.contains("and 1 further"),
            "{error}"
        );
        let error = load_error(
            &lines[0]
                .replacen("\"format\":3", "\"format\":7", 1)
                .replace(",\"sum\"", ",\"old\""),
        );
        assert!(error.contains('7') && error.contains("newer"), "{error}");
        // a newer first line may look incomplete
        let error = load_error(
            &(lines[0]
                .replacen("\"format\":3", "\"format\":7", 1)
                .replace(",\"sum\"", ",\"old\"")
                + "a new kind of line"),
        );
        assert!(error.contains("newer"), "{error}");
        let unknown = br#"{"seq":1,"at":"2026-01-01T00:00:00Z","event":"teleported"}"#;
        let unknown = String::from_utf8(line_file::with_sum(unknown.to_vec()).expect("a line"))
            .expect("text");
        let error = load_error(&unknown);
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
