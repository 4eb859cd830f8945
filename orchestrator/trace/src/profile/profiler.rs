//! Receives the events of a trace and builds its profile.

use super::{file_use::FileUse, intervals::Intervals, rates::Rates};
use crate::{
    event::{Api, Event, FileId, Op, ProcessId},
    sink::{Missing, Process, Sink, name_of},
};
use std::{collections::HashMap, io};

/// Initial minimum gap between two bursts, nanoseconds.
const FIRST_GAP_NS: u64 = 10_000;

/// Maximum number of separate intervals of activity.
const MAX_INTERVALS: usize = 16_384;

/// Maximum number of missing parts that are kept with their messages.
const MAX_MISSING: usize = 100;

/// Maximum number of separate files; each takes about 1.5 KiB. Operations on further files are attributed to one common file.
const MAX_FILES: usize = 250_000;

/// A burst: a period in which bytes were moved without a longer pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Start, nanoseconds since the start of the trace.
    pub start_ns: u64,
    /// End, nanoseconds since the start of the trace.
    pub end_ns: u64,
    /// Number of operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// The profile of a trace.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The processes.
    pub processes: HashMap<ProcessId, Process>,
    /// The files, in the order in which the trace mentions them.
    pub files: Vec<FileUse>,
    /// Number of events.
    pub events: u64,
    /// End of the last event, nanoseconds since the start of the trace.
    pub end_ns: u64,
    /// Start of the first event, nanoseconds since the start of the trace.
    pub start_ns: u64,
    /// Bytes read from files of the run over time, through POSIX and streams.
    pub read_rates: Rates,
    /// Bytes written to files of the run over time, through POSIX and streams.
    pub write_rates: Rates,
    /// Missing parts as reported by the reader: at most a hundred.
    pub missing: Vec<Missing>,
    /// Number of missing parts that `missing` does not list.
    pub more_missing: u64,
    reading: Option<Intervals>,
    writing: Option<Intervals>,
    touching: Option<Intervals>,
    place: HashMap<FileId, usize>,
    further: Option<usize>,
}

impl Profile {
    /// Returns the default for the shortest pause that ends a burst of this trace, nanoseconds ([`usual_gap_ns`]).
    pub fn usual_gap_ns(&self) -> u64 {
        usual_gap_ns(self.end_ns.saturating_sub(self.start_ns))
    }

    /// Returns the periods in which files were written, separated by pauses longer than the gap.
    pub fn write_bursts(&self, gap_ns: u64) -> Vec<Burst> {
        bursts(self.writing.as_ref(), gap_ns)
    }

    /// Returns the periods in which files were read, separated by pauses longer than the gap.
    pub fn read_bursts(&self, gap_ns: u64) -> Vec<Burst> {
        bursts(self.reading.as_ref(), gap_ns)
    }

    /// Returns the periods of operations that move no bytes, separated by pauses longer than the gap.
    pub fn metadata_bursts(&self, gap_ns: u64) -> Vec<Burst> {
        bursts(self.touching.as_ref(), gap_ns)
    }

    /// Returns the process with this ID; without any facts if it is unknown.
    pub fn process(&self, id: ProcessId) -> Process {
        self.processes.get(&id).cloned().unwrap_or_default()
    }

    /// Returns the name of a process: its rank, else its PID.
    pub fn process_name(&self, id: ProcessId) -> String {
        name_of(self.processes.get(&id), id)
    }
}

/// Returns the default for the shortest pause that ends a burst in a trace of this length: a hundredth of the length, at least a millisecond.
pub fn usual_gap_ns(span_ns: u64) -> u64 {
    (span_ns / 100).max(1_000_000)
}

fn bursts(of: Option<&Intervals>, gap_ns: u64) -> Vec<Burst> {
    let Some(of) = of else {
        return Vec::new();
    };
    let mut of = of.clone();
    of.close(gap_ns);
    of.iter()
        .map(|(start_ns, end_ns, sum)| Burst {
            start_ns,
            end_ns,
            operations: sum.operations,
            bytes: sum.bytes,
        })
        .collect()
}

/// A sink that builds the profile of a trace.
#[derive(Clone, Debug)]
pub struct Profiler {
    profile: Profile,
}

impl Default for Profiler {
    fn default() -> Self {
        Self {
            profile: Profile {
                start_ns: u64::MAX,
                ..Profile::default()
            },
        }
    }
}

impl Profiler {
    /// Returns the profile of all events so far.
    pub fn finish(mut self) -> Profile {
        if self.profile.events == 0 {
            self.profile.start_ns = 0;
        }
        self.profile
    }

    /// Returns the index of a file; files beyond the maximum share an index.
    fn place_of(&mut self, id: FileId) -> usize {
        let profile = &mut self.profile;
        if let Some(&at) = profile.place.get(&id) {
            return at;
        }
        if let Some(at) = profile.further {
            return at;
        }
        // in a damaged trace the name may be missing
        let mut name = format!("<file {}>", id.0);
        let at = profile.files.len();
        if at < MAX_FILES {
            profile.place.insert(id, at);
        } else {
            profile.further = Some(at);
            name = "<further files>".to_owned();
            profile.missing.push(Missing {
                part: "files".to_owned(),
                problem: format!(
                    "there are more than {MAX_FILES}; operations on further ones are added up as one file, {name}"
                ),
            });
        }
        let mut file = FileUse::new(id, name.as_bytes());
        file.is_of_run = true;
        profile.files.push(file);
        at
    }
}

impl Sink for Profiler {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.profile.processes.insert(id, process.clone());
        Ok(())
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let at = self.place_of(id);
        if self.profile.further != Some(at) {
            self.profile.files[at].name_it(path);
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let at = self.place_of(event.file);
        let file = &mut self.profile.files[at];
        file.add(event);
        let is_of_run = file.is_of_run;
        let profile = &mut self.profile;
        let end_ns = event.end_ns();
        profile.events += 1;
        profile.start_ns = profile.start_ns.min(event.start_ns);
        profile.end_ns = profile.end_ns.max(end_ns);
        // bytes moved through MPI-IO are also moved through POSIX, unless POSIX was not traced
        if !is_of_run || event.failed || event.api != Api::Posix && event.api != Api::Stdio {
            return Ok(());
        }
        let (intervals, rates) = match event.op {
            Op::Read => (&mut profile.reading, Some(&mut profile.read_rates)),
            Op::Write => (&mut profile.writing, Some(&mut profile.write_rates)),
            _ => (&mut profile.touching, None),
        };
        intervals
            .get_or_insert_with(|| Intervals::new(FIRST_GAP_NS, MAX_INTERVALS))
            .add(
                event.start_ns,
                end_ns,
                if event.op.is_data() { event.bytes } else { 0 },
            );
        if let Some(rates) = rates {
            rates.add(event.start_ns, end_ns, event.bytes);
        }
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        if self.profile.missing.len() < MAX_MISSING {
            self.profile.missing.push(missing.clone());
        } else {
            self.profile.more_missing += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(
        process: u32,
        op: Op,
        start_ns: u64,
        duration_ns: u64,
        offset: u64,
        bytes: u64,
    ) -> Event {
        Event {
            process: ProcessId(process),
            thread: 0,
            file: FileId(7),
            op,
            api: Api::Posix,
            offset: Some(offset),
            bytes,
            start_ns,
            duration_ns,
            failed: false,
        }
    }

    #[test]
    fn bursts_are_ended_by_pauses() {
        let mut profiler = Profiler::default();
        const S: u64 = 1_000_000_000;
        for burst in 0..5u64 {
            for i in 0..100u64 {
                for process in 0..4 {
                    let start = burst * 10 * S + i * 5_000_000;
                    let place = (burst * 400 + i * 4 + u64::from(process)) * 1000;
                    profiler
                        .event(&event(process, Op::Write, start, 4_000_000, place, 1000))
                        .expect("keeps");
                }
            }
        }
        let profile = profiler.finish();
        let bursts = profile.write_bursts(profile.usual_gap_ns());
        assert_eq!(bursts.len(), 5);
        assert!(
            bursts
                .iter()
                .all(|b| b.operations == 400 && b.bytes == 400_000)
        );
        assert_eq!(bursts[1].start_ns, 10 * S);
        assert_eq!(
            profile.write_bursts(1_000).len(),
            500,
            "a shorter pause ends more"
        );
        assert!(profile.read_bursts(1).is_empty());
        let written: f64 = profile.write_rates.bytes().iter().sum();
        assert!((written - 2_000_000.0).abs() < 1.0, "{written}");
    }

    #[test]
    fn a_file_without_a_name_keeps_its_events() {
        let mut profiler = Profiler::default();
        profiler
            .event(&event(0, Op::Read, 0, 1, 0, 10))
            .expect("keeps");
        let profile = profiler.finish();
        assert_eq!(profile.files.len(), 1);
        assert_eq!(profile.files[0].name(), "<file 7>");
        assert_eq!(profile.files[0].moved(), (10, 0));
    }
}
