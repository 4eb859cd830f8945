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

/// Shortest pause between writes that is told from none, nanoseconds: two clock readings and a call lie closer together.
const PAUSE_NS: u64 = 10_000;
/// Most times of writing that are kept apart. Beyond that pauses that are short are taken for none.
const MOST_INTERVALS: usize = 16_384;
/// Most pairs of a file and a process that wrote it.
const MOST_WRITERS: usize = 1 << 20;
/// Most gaps that are kept with their words.
const MOST_GAPS: usize = 5;
/// Gaps that any trace of a tracer has, whatever happened: libraries are mapped, and the C library itself reads lines.
const USUAL_GAPS: [&str; 2] = ["mappings", "lengths"];

/// Reads or writes that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many.
    pub operations: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// How long they took, added up over all processes, nanoseconds.
    pub duration_ns: u64,
}

impl Moved {
    fn merge(&mut self, other: &Self) {
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

/// What the operations of a run on its own files come to ([`Places::has`] says which these are), by the lowest interface: what MPI-IO moves, POSIX moves
/// too.
///
/// Takes less than 100 MiB, however many operations, files and processes there are.
#[derive(Debug)]
pub struct Totals<'a> {
    places: Places<'a>,
    /// By number of a file, whether it is the run's.
    counted: Vec<bool>,
    events: u64,
    span_ns: Option<(u64, u64)>,
    reads: Moved,
    writes: Moved,
    /// Reads and writes as counters have them, which also have those without events.
    of_counters: Option<[Moved; 2]>,
    metadata_ns: u64,
    writing: Intervals,
    written: HashMap<(FileId, ProcessId), u64>,
    too_many_writers: bool,
    gaps: Vec<String>,
    more_gaps: u64,
}

impl<'a> Totals<'a> {
    /// Nothing yet of a run that works here.
    pub fn new(places: Places<'a>) -> Self {
        Self {
            places,
            counted: Vec::new(),
            events: 0,
            span_ns: None,
            reads: Moved::default(),
            writes: Moved::default(),
            of_counters: None,
            metadata_ns: 0,
            writing: Intervals::new(PAUSE_NS, MOST_INTERVALS),
            written: HashMap::new(),
            too_many_writers: false,
            gaps: Vec::new(),
            more_gaps: 0,
        }
    }

    /// Whether a file of this path counts.
    pub fn counts(&self, path: &[u8]) -> bool {
        self.places.has(path)
    }

    /// Adds time of operations that moved no bytes, seconds.
    pub fn add_metadata_s(&mut self, seconds: f64) {
        self.metadata_ns = self.metadata_ns.saturating_add((seconds * 1e9) as u64);
    }

    /// How many operations the trace has, on whichever files.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Adds reads and writes that were counted. Where any are, they are all there is: events are a part of them.
    pub fn add_counted(&mut self, reads: Moved, writes: Moved) {
        let [all_reads, all_writes] = self.of_counters.get_or_insert_default();
        all_reads.merge(&reads);
        all_writes.merge(&writes);
    }

    /// Whether there is anything to make records of.
    pub fn is_empty(&self) -> bool {
        self.events == 0 && self.of_counters.is_none()
    }

    /// The reads.
    pub fn reads(&self) -> Moved {
        self.of_counters.map_or(self.reads, |[reads, _]| reads)
    }

    /// The writes.
    pub fn writes(&self) -> Moved {
        self.of_counters.map_or(self.writes, |[_, writes]| writes)
    }

    /// The writes that are events, of which alone it is known when they were.
    pub fn writes_with_times(&self) -> Moved {
        self.writes
    }

    /// How long everything else took, added up over all processes, seconds.
    pub fn metadata_s(&self) -> f64 {
        self.metadata_ns as f64 / 1e9
    }

    /// How long at least one process was writing, seconds.
    pub fn writing_s(&self) -> f64 {
        self.writing.length() as f64 / 1e9
    }

    /// How often writing began after the pause that is usual for a trace of this length: as `cvc trace` tells bursts.
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
        } else if self.written.len() < MOST_WRITERS {
            self.written.insert(key, bytes);
        } else {
            self.too_many_writers = true;
        }
    }

    /// What each process wrote of the file that most was written of, bytes; nothing if no bytes were written, or too many files by too many processes.
    pub fn writers(&self) -> Vec<u64> {
        let mut files: BTreeMap<FileId, u64> = BTreeMap::new();
        for ((file, _), bytes) in self.written.iter().filter(|_| !self.too_many_writers) {
            let sum = files.entry(*file).or_default();
            *sum = sum.saturating_add(*bytes);
        }
        // of two that are as large, the first of the trace
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

    /// What the trace should have and has not, a line each.
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
            Op::Read => self.reads.add(event),
            Op::Write => {
                self.writes.add(event);
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
        if self.gaps.len() < MOST_GAPS {
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
        let tell = |totals: &mut Totals<'_>, part: &str| {
            let missing = Missing {
                part: part.to_owned(),
                problem: "gone".to_owned(),
            };
            totals.missing(&missing).expect("kept");
        };
        tell(&mut totals, "mappings");
        tell(&mut totals, "file /dev/shm/segment");
        tell(&mut totals, "file /scratch/run/out.dat");
        assert_eq!(totals.gaps(), ["file out.dat: gone"]);
        for line in 0..MOST_GAPS + 2 {
            tell(
                &mut totals,
                &format!("line {line} of /scratch/run/trace/strace.7"),
            );
        }
        let gaps = totals.gaps();
        assert_eq!(gaps.len(), MOST_GAPS + 1);
        assert_eq!(gaps[1], "line 0 of trace/strace.7: gone");
        assert_eq!(gaps[MOST_GAPS], "and 3 more");
    }
}
