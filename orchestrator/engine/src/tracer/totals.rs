//! Adds up the operations of a trace.

use super::places::Places;
use cvc_trace::{
    Api, Event, FileId, Missing, Op, Process, ProcessId, Sink,
    profile::{Intervals, usual_gap_ns},
};
use std::{
    collections::{BTreeMap, HashMap},
    io,
};

/// Shortest detectable pause between writes, nanoseconds. Two clock readings and a call take less than that.
const PAUSE_NS: u64 = 10_000;
/// Maximum number of separate time intervals of writing. If there are more, intervals with short pauses between them are joined.
const MAX_INTERVALS: usize = 16_384;
/// Maximum number of pairs of a file and a process that wrote to it.
const MAX_WRITERS: usize = 1 << 20;
/// Maximum number of files with separate totals.
const MAX_FILES: usize = 1 << 17;
/// Maximum number of gaps whose messages are kept.
const MAX_GAPS: usize = 5;
/// Kinds of gaps that are not reported, because every trace has them: libraries are mapped into memory, and the C library itself reads lines.
const USUAL_GAPS: [&str; 2] = ["mappings", "lengths"];

/// Totals of successful reads or writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Number of operations.
    pub operations: u64,
    /// Bytes that the operations moved.
    pub bytes: u64,
    /// Duration of the operations, summed over all processes, nanoseconds.
    pub duration_ns: u64,
}

impl Moved {
    /// Adds other totals.
    pub fn merge(&mut self, other: &Self) {
        self.operations = self.operations.saturating_add(other.operations);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.duration_ns = self.duration_ns.saturating_add(other.duration_ns);
    }

    fn add(&mut self, event: &Event) {
        self.operations = self.operations.saturating_add(1);
        self.bytes = self.bytes.saturating_add(event.bytes);
        self.duration_ns = self.duration_ns.saturating_add(event.duration_ns);
    }
}

/// Suffixes of the temporary names that programs give a checkpoint while they write it.
const UNFINISHED: [&str; 4] = [".temp", ".tmp", ".new", ".part"];

/// Operations on one file of the run.
#[derive(Clone, Copy, Debug, Default)]
struct FileIo {
    reads: Moved,
    writes: Moved,
    /// End of the written data, as an offset in the file, bytes.
    end: u64,
}

/// Operations on the files of a checkpoint: the writes of the run, and the reads of the restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointIo {
    /// Number of files that the run wrote and the restart read.
    pub files: f64,
    /// Number of writes for one checkpoint. For files that were written several times, the mean.
    pub write_operations: f64,
    /// Bytes of these writes.
    pub written_bytes: f64,
    /// Number of reads by the restart.
    pub read_operations: f64,
    /// Bytes of these reads.
    pub read_bytes: f64,
}

impl CheckpointIo {
    /// Compares the traces of a run and of its restart. Returns `None` if, according to the traces, the restart read nothing that the run wrote.
    pub fn of(started: &Totals<'_>, restarted: &Totals<'_>) -> Option<Self> {
        let (written, read) = (started.by_file(), restarted.by_file());
        let mut io = Self {
            files: 0.0,
            write_operations: 0.0,
            written_bytes: 0.0,
            read_operations: 0.0,
            read_bytes: 0.0,
        };
        for (file, of_restart) in read.iter().filter(|(_, of)| of.reads.bytes > 0) {
            let Some(of_run) = written.get(file).filter(|of| of.writes.bytes > 0) else {
                continue;
            };
            // how many times the whole file was written
            let times = (of_run.writes.bytes as f64 / of_run.end.max(1) as f64)
                .round()
                .max(1.0);
            io.files += 1.0;
            io.write_operations += of_run.writes.operations as f64 / times;
            io.written_bytes += of_run.writes.bytes as f64 / times;
            io.read_operations += of_restart.reads.operations as f64;
            io.read_bytes += of_restart.reads.bytes as f64;
        }
        (io.files > 0.0).then_some(io)
    }
}

/// Sums of a run's operations on its own files, which [`Places::has`] defines. Operations are counted at the lowest interface, because bytes moved by
/// MPI-IO are also moved by POSIX calls.
///
/// Uses less than 100 MiB for any number of operations, files and processes.
#[derive(Debug)]
pub struct Totals<'a> {
    places: Places<'a>,
    /// For each file number, whether the file is one of the run's.
    counted: Vec<bool>,
    /// The run's files by number, each with its path and operations.
    files: HashMap<FileId, (String, FileIo)>,
    events: u64,
    span_ns: Option<(u64, u64)>,
    reads: Moved,
    writes: Moved,
    /// Reads and writes according to counters, which also include operations without an event.
    of_counters: Option<[Moved; 2]>,
    metadata_ns: u64,
    writing: Intervals,
    written: HashMap<(FileId, ProcessId), u64>,
    too_many_writers: bool,
    gaps: Vec<String>,
    more_gaps: u64,
}

impl<'a> Totals<'a> {
    /// Creates empty totals for a run that works in these places.
    pub fn new(places: Places<'a>) -> Self {
        Self {
            places,
            counted: Vec::new(),
            files: HashMap::new(),
            events: 0,
            span_ns: None,
            reads: Moved::default(),
            writes: Moved::default(),
            of_counters: None,
            metadata_ns: 0,
            writing: Intervals::new(PAUSE_NS, MAX_INTERVALS),
            written: HashMap::new(),
            too_many_writers: false,
            gaps: Vec::new(),
            more_gaps: 0,
        }
    }

    /// Returns the places of the run.
    pub fn places(&self) -> Places<'a> {
        self.places
    }

    /// Returns the operations on each file, by the file's final name.
    fn by_file(&self) -> BTreeMap<&str, FileIo> {
        let mut files: BTreeMap<&str, FileIo> = BTreeMap::new();
        for (path, io) in self.files.values() {
            let whole = UNFINISHED.iter().find_map(|end| path.strip_suffix(end));
            let sum = files.entry(whole.unwrap_or(path)).or_default();
            sum.reads.merge(&io.reads);
            sum.writes.merge(&io.writes);
            sum.end = sum.end.max(io.end);
        }
        files
    }

    /// Returns whether operations on the file of this path are counted.
    pub fn counts(&self, path: &[u8]) -> bool {
        self.places.has(path)
    }

    /// Adds time of operations that move no bytes, seconds.
    pub fn add_metadata_s(&mut self, seconds: f64) {
        self.metadata_ns = self.metadata_ns.saturating_add((seconds * 1e9) as u64);
    }

    /// Returns the number of operations in the trace, on any file.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds reads and writes from a tracer's counters. Counters include all operations, also the operations with events, and therefore replace the
    /// sums of events.
    pub fn add_counted(&mut self, reads: Moved, writes: Moved) {
        let [all_reads, all_writes] = self.of_counters.get_or_insert_default();
        all_reads.merge(&reads);
        all_writes.merge(&writes);
    }

    /// Returns whether there is nothing to record.
    pub fn is_empty(&self) -> bool {
        self.events == 0 && self.of_counters.is_none()
    }

    /// Returns the totals of reads.
    pub fn reads(&self) -> Moved {
        self.of_counters.map_or(self.reads, |[reads, _]| reads)
    }

    /// Returns the totals of writes.
    pub fn writes(&self) -> Moved {
        self.of_counters.map_or(self.writes, |[_, writes]| writes)
    }

    /// Returns the totals of writes with an event: only these have a known time.
    pub fn writes_with_times(&self) -> Moved {
        self.writes
    }

    /// Returns the total time of operations that move no bytes, summed over all processes, seconds.
    pub fn metadata_s(&self) -> f64 {
        self.metadata_ns as f64 / 1e9
    }

    /// Returns the time during which at least one process was writing, seconds.
    pub fn writing_s(&self) -> f64 {
        self.writing.length() as f64 / 1e9
    }

    /// Returns the number of write bursts, defined as in `cvc trace`: writes between two pauses that are long for a trace of this length.
    pub fn write_bursts(&self) -> usize {
        let span = self
            .span_ns
            .map_or(0, |(start, end)| end.saturating_sub(start));
        let mut bursts = self.writing.clone();
        bursts.close(usual_gap_ns(span));
        bursts.len()
    }

    /// Adds bytes that a process wrote to a file.
    pub fn add_written(&mut self, file: FileId, process: ProcessId, bytes: u64) {
        let key = (file, process);
        if let Some(known) = self.written.get_mut(&key) {
            *known = known.saturating_add(bytes);
        } else if self.written.len() < MAX_WRITERS {
            self.written.insert(key, bytes);
        } else {
            self.too_many_writers = true;
        }
    }

    /// Returns the bytes that each process wrote to the file with the most written bytes. Empty if nothing was written, or if there are too many
    /// pairs of files and processes.
    pub fn writers(&self) -> Vec<u64> {
        let mut files: BTreeMap<FileId, u64> = BTreeMap::new();
        for ((file, _), bytes) in self.written.iter().filter(|_| !self.too_many_writers) {
            let sum = files.entry(*file).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        // among files with equally many bytes, choose the first in the trace
        let most = files
            .iter()
            .max_by_key(|(file, bytes)| (**bytes, std::cmp::Reverse(**file)));
        let of = most.map(|(file, _)| *file);
        let mut bytes: Vec<u64> = self
            .written
            .iter()
            .filter(|((file, _), bytes)| Some(*file) == of && **bytes > 0)
            .map(|(_, bytes)| *bytes)
            .collect();
        bytes.sort_unstable();
        bytes
    }

    /// Returns descriptions of missing parts of the trace, one line each.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = self.gaps.clone();
        if self.more_gaps > 0 {
            gaps.push(format!("and {} more", self.more_gaps));
        }
        gaps
    }
}

impl Sink for Totals<'_> {
    fn process(&mut self, _: ProcessId, _: &Process) -> io::Result<()> {
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let place = id.0 as usize;
        if self.counted.len() <= place {
            self.counted.resize(place + 1, false);
        }
        self.counted[place] = self.counts(path);
        if self.counted[place] && self.files.len() < MAX_FILES {
            let name = String::from_utf8_lossy(path).into_owned();
            self.files.insert(id, (name, FileIo::default()));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.events += 1;
        let (start, end) = self.span_ns.unwrap_or((event.start_ns, event.end_ns()));
        self.span_ns = Some((start.min(event.start_ns), end.max(event.end_ns())));
        let counted = self
            .counted
            .get(event.file.0 as usize)
            .copied()
            .unwrap_or(false);
        if !counted || !matches!(event.api, Api::Posix | Api::Stdio) {
            return Ok(());
        }
        match event.op {
            Op::Read | Op::Write if event.failed => {}
            Op::Read => {
                self.reads.add(event);
                if let Some((_, io)) = self.files.get_mut(&event.file) {
                    io.reads.add(event);
                }
            }
            Op::Write => {
                self.writes.add(event);
                if let Some((_, io)) = self.files.get_mut(&event.file) {
                    io.writes.add(event);
                    io.end = io
                        .end
                        .max(event.offset.unwrap_or(0).saturating_add(event.bytes));
                }
                self.writing
                    .add(event.start_ns, event.end_ns(), event.bytes);
                self.add_written(event.file, event.process, event.bytes);
            }
            Op::Open
            | Op::Close
            | Op::Seek
            | Op::Sync
            | Op::Resize
            | Op::Map
            | Op::Rename
            | Op::Remove
            | Op::Stat
            | Op::Other => {
                self.metadata_ns = self.metadata_ns.saturating_add(event.duration_ns);
            }
        }
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        let of_another = missing
            .part
            .strip_prefix("file ")
            .is_some_and(|path| !self.counts(path.as_bytes()));
        if of_another || USUAL_GAPS.contains(&missing.part.as_str()) {
            return Ok(());
        }
        if self.gaps.len() < MAX_GAPS {
            let part = missing.part.replace(&format!("{}/", self.places.work), "");
            self.gaps.push(format!("{part}: {}", missing.problem));
        } else {
            self.more_gaps += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use camino::Utf8Path;

    const S: u64 = 1_000_000_000;

    fn totals() -> Totals<'static> {
        let mut totals = Totals::new(Places {
            work: Utf8Path::new("/scratch/run"),
            dir: Utf8Path::new("/home/user/runs/7"),
            tmp: Utf8Path::new("/tmp/cvc-1"),
        });
        for (id, path) in ["/scratch/run/out.dat", "/etc/hosts", "/scratch/run/small"]
            .iter()
            .enumerate()
        {
            totals
                .file(FileId(id as u32), path.as_bytes())
                .expect("kept");
        }
        totals
    }

    fn event(process: u32, file: u32, op: Op, start_ns: u64, bytes: u64) -> Event {
        Event {
            process: ProcessId(process),
            thread: 0,
            file: FileId(file),
            op,
            api: Api::Posix,
            offset: None,
            bytes,
            start_ns,
            duration_ns: S / 10,
            failed: false,
        }
    }

    fn add(totals: &mut Totals<'_>, events: &[Event]) {
        for event in events {
            totals.event(event).expect("kept");
        }
    }

    #[test]
    fn a_restart_is_compared_with_one_checkpoint_file_by_file() {
        let mut started = totals();
        started
            .file(FileId(3), b"/scratch/run/image.dmtcp.temp")
            .expect("kept");
        let at = |offset, event| Event {
            offset: Some(offset),
            ..event
        };
        // two checkpoints of three writes each, and an output file that no restart reads
        for _ in 0..2 {
            let writes = [0, 100, 200].map(|offset| at(offset, event(0, 3, Op::Write, S, 100)));
            add(&mut started, &writes);
        }
        add(&mut started, &[at(0, event(0, 0, Op::Write, S, 5000))]);
        let mut restarted = totals();
        assert_eq!(CheckpointIo::of(&started, &restarted), None);
        restarted
            .file(FileId(9), b"/scratch/run/image.dmtcp")
            .expect("kept");
        add(
            &mut restarted,
            &[event(1, 9, Op::Read, S, 120), event(1, 9, Op::Read, S, 180)],
        );
        assert_eq!(
            CheckpointIo::of(&started, &restarted),
            Some(CheckpointIo {
                files: 1.0,
                write_operations: 3.0,
                written_bytes: 300.0,
                read_operations: 2.0,
                read_bytes: 300.0,
            })
        );
    }

    #[test]
    fn operations_on_files_of_the_run_are_added_up_by_kind() {
        let mut totals = totals();
        add(
            &mut totals,
            &[
                event(0, 0, Op::Open, 0, 0),
                event(0, 0, Op::Write, S, 100),
                event(0, 0, Op::Write, 2 * S, 50),
                event(0, 0, Op::Read, 3 * S, 7),
                event(0, 1, Op::Read, 4 * S, 1000),
                Event {
                    failed: true,
                    ..event(0, 0, Op::Write, 5 * S, 0)
                },
                Event {
                    api: Api::MpiIo,
                    ..event(0, 0, Op::Write, S, 150)
                },
            ],
        );
        let moved = |operations, bytes| Moved {
            operations,
            bytes,
            duration_ns: operations * S / 10,
        };
        assert_eq!(totals.writes(), moved(2, 150));
        assert_eq!(totals.reads(), moved(1, 7));
        assert_eq!(totals.metadata_s(), 0.1);
        assert_eq!(totals.events(), 7);
    }

    #[test]
    fn writers_are_those_of_the_file_with_most_bytes() {
        let mut totals = totals();
        add(
            &mut totals,
            &[
                event(0, 2, Op::Write, 0, 120),
                event(1, 0, Op::Write, 0, 100),
                event(3, 0, Op::Write, 0, 50),
                event(4, 0, Op::Write, 0, 0),
                event(2, 0, Op::Read, 0, 500),
            ],
        );
        assert_eq!(totals.writers(), [50, 100]);
    }

    #[test]
    fn writes_at_one_time_take_that_time_once_and_pauses_end_bursts() {
        let mut totals = totals();
        for start in [0, 10 * S, 20 * S] {
            add(
                &mut totals,
                &[
                    event(0, 0, Op::Write, start, 1),
                    event(1, 0, Op::Write, start, 1),
                ],
            );
        }
        assert_eq!(totals.write_bursts(), 3);
        assert!(
            (totals.writing_s() - 0.3).abs() < 1e-9,
            "{}",
            totals.writing_s()
        );
        assert_eq!(totals.writes().duration_ns, 6 * S / 10);
    }

    #[test]
    fn gaps_are_kept_if_they_are_of_the_run_and_not_usual() {
        let mut totals = totals();
        let take = |totals: &mut Totals<'_>, part: &str| {
            let missing = Missing {
                part: part.to_owned(),
                problem: "gone".to_owned(),
            };
            totals.missing(&missing).expect("kept");
        };
        take(&mut totals, "mappings");
        take(&mut totals, "file /dev/shm/segment");
        take(&mut totals, "file /scratch/run/out.dat");
        assert_eq!(totals.gaps(), ["file out.dat: gone"]);
        for line in 0..MAX_GAPS + 2 {
            take(
                &mut totals,
                &format!("line {line} of /scratch/run/trace/strace.7"),
            );
        }
        let gaps = totals.gaps();
        assert_eq!(gaps.len(), MAX_GAPS + 1);
        assert_eq!(gaps[1], "line 0 of trace/strace.7: gone");
        assert_eq!(gaps[MAX_GAPS], "and 3 more");
    }
}
