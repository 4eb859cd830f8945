//! The input from which findings are derived.

pub use crate::spread::RankSpread;

use crate::profile::SizeBins;
use std::collections::HashMap;

/// POSIX calls on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PosixFacts {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of reads by size.
    pub read_sizes: SizeBins,
    /// Number of writes by size.
    pub write_sizes: SizeBins,
    /// Number of reads that began at or after the end of the previous read.
    pub sequential_reads: u64,
    /// Number of writes that began at or after the end of the previous write.
    pub sequential_writes: u64,
    /// Number of operations with unaligned memory addresses, if the trace records them.
    pub memory_misaligned: Option<u64>,
    /// Number of operations with unaligned offsets in the file, if the trace records them.
    pub file_misaligned: Option<u64>,
    /// End of the highest byte read.
    pub read_end: u64,
    /// End of the highest byte written.
    pub write_end: u64,
}

impl PosixFacts {
    /// Adds the calls of another file or process.
    pub fn add(&mut self, other: &Self) {
        let some = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.reads = self.reads.saturating_add(other.reads);
        self.writes = self.writes.saturating_add(other.writes);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.read_sizes.merge(&other.read_sizes);
        self.write_sizes.merge(&other.write_sizes);
        self.sequential_reads = self.sequential_reads.saturating_add(other.sequential_reads);
        self.sequential_writes = self
            .sequential_writes
            .saturating_add(other.sequential_writes);
        self.memory_misaligned = some(self.memory_misaligned, other.memory_misaligned);
        self.file_misaligned = some(self.file_misaligned, other.file_misaligned);
        self.read_end = self.read_end.max(other.read_end);
        self.write_end = self.write_end.max(other.write_end);
    }
}

/// MPI-IO calls on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiIoFacts {
    /// Number of independent reads.
    pub independent_reads: u64,
    /// Number of independent writes.
    pub independent_writes: u64,
    /// Number of collective reads.
    pub collective_reads: u64,
    /// Number of collective writes.
    pub collective_writes: u64,
    /// Number of non-blocking reads.
    pub nonblocking_reads: u64,
    /// Number of non-blocking writes.
    pub nonblocking_writes: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl MpiIoFacts {
    /// Adds the calls of another file or process.
    pub fn add(&mut self, other: &Self) {
        self.independent_reads = self
            .independent_reads
            .saturating_add(other.independent_reads);
        self.independent_writes = self
            .independent_writes
            .saturating_add(other.independent_writes);
        self.collective_reads = self.collective_reads.saturating_add(other.collective_reads);
        self.collective_writes = self
            .collective_writes
            .saturating_add(other.collective_writes);
        self.nonblocking_reads = self
            .nonblocking_reads
            .saturating_add(other.nonblocking_reads);
        self.nonblocking_writes = self
            .nonblocking_writes
            .saturating_add(other.nonblocking_writes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileFacts {
    /// Path of the file.
    pub name: String,
    /// Whether all processes used it.
    pub is_shared: bool,
    /// POSIX calls, summed over processes.
    pub posix: PosixFacts,
    /// MPI-IO calls; `None` if the trace has no MPI-IO or the file was not opened with it.
    pub mpi_io: Option<MpiIoFacts>,
    /// Bytes moved through streams of the C library.
    pub stdio_bytes: u64,
    /// Longest time of one process in operations that move no bytes, seconds.
    pub metadata_s: f64,
    /// Bytes moved and time in seconds, of the slowest and of the fastest process of a shared file.
    pub slowest_and_fastest: Option<[(f64, f64); 2]>,
    /// Time of all processes in calls on the file, seconds.
    pub time_s: f64,
    /// Spread of the bytes written per process, if the trace distinguishes processes.
    pub written_by: Option<RankSpread>,
    /// Spread of the bytes read per process, if the trace distinguishes processes.
    pub read_by: Option<RankSpread>,
    /// Number of processes that wrote through MPI-IO, and of those that wrote through POSIX, if the trace records them.
    pub writers: Option<(usize, usize)>,
    /// Bytes that more than one process wrote, and how often the writer changes along the file.
    pub shared_extents: Option<(u64, usize)>,
    /// Start of the first write and end of the last, seconds since the start of the trace.
    pub written_s: Option<(f64, f64)>,
}

/// The facts about a trace from which findings are derived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceFacts {
    /// Facts about each file.
    pub files: Vec<FileFacts>,
    /// Whether the tracer records MPI-IO and streams of the C library.
    pub has_interfaces: bool,
    /// Number of nodes, if recorded.
    pub nodes: Option<usize>,
    /// Number of processes.
    pub processes: usize,
}

impl TraceFacts {
    /// Adds facts from events of the same trace to facts from counters: which processes wrote which ranges of each file, and the number of nodes.
    pub fn add_events(&mut self, events: &Self) {
        self.nodes = events.nodes;
        let by_name: HashMap<&str, &FileFacts> =
            events.files.iter().map(|f| (f.name.as_str(), f)).collect();
        for file in &mut self.files {
            let Some(events) = by_name.get(file.name.as_str()) else {
                continue;
            };
            file.writers = events.writers;
            file.shared_extents = events.shared_extents;
        }
    }
}

/// Returns whether a file is the executable; `program` is the path or name with which it was started.
pub(super) fn is_program(file: &str, program: &str) -> bool {
    let mut program = program;
    while let Some(rest) = program.strip_prefix("./").or(program.strip_prefix("../")) {
        program = rest;
    }
    !program.is_empty()
        && file
            .strip_suffix(program)
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
}
