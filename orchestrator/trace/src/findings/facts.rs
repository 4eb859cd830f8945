//! What findings are made of.

pub use crate::spread::Spread;

use crate::profile::SizeBins;
use std::collections::HashMap;

/// Calls of POSIX on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PosixFacts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads by size.
    pub read_sizes: SizeBins,
    /// Writes by size.
    pub write_sizes: SizeBins,
    /// Reads that began at or behind the end of the one before.
    pub sequential_reads: u64,
    /// Writes that did.
    pub sequential_writes: u64,
    /// Operations whose memory is not aligned, if the trace tells.
    pub memory_misaligned: Option<u64>,
    /// Operations whose place in the file is not aligned, if the trace tells.
    pub file_misaligned: Option<u64>,
    /// The highest byte that was read, plus one.
    pub read_end: u64,
    /// The highest byte that was written, plus one.
    pub write_end: u64,
}

impl PosixFacts {
    /// Adds those of another file or process.
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

/// Calls of MPI-IO on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiIoFacts {
    /// Independent reads.
    pub independent_reads: u64,
    /// Independent writes.
    pub independent_writes: u64,
    /// Collective reads.
    pub collective_reads: u64,
    /// Collective writes.
    pub collective_writes: u64,
    /// Reads that do not wait.
    pub nonblocking_reads: u64,
    /// Writes that do not wait.
    pub nonblocking_writes: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

impl MpiIoFacts {
    /// Adds those of another file or process.
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
    /// Its path.
    pub name: String,
    /// Whether all processes used it.
    pub is_shared: bool,
    /// POSIX, of all processes together.
    pub posix: PosixFacts,
    /// MPI-IO, if the trace has it and the file was opened so.
    pub mpi_io: Option<MpiIoFacts>,
    /// Bytes through streams of the C library.
    pub stdio_bytes: u64,
    /// Seconds of one process in operations that move no bytes: the most.
    pub metadata_s: f64,
    /// Bytes that the slowest and the fastest process of a shared file moved, and how long they took, seconds.
    pub slowest_and_fastest: Option<[(f64, f64); 2]>,
    /// Seconds of all processes in calls on the file.
    pub time_s: f64,
    /// Bytes that each process wrote, where the trace tells processes apart.
    pub written_by: Option<Spread>,
    /// Bytes that each process read.
    pub read_by: Option<Spread>,
    /// How many processes wrote through MPI-IO, and through POSIX, where the trace tells.
    pub writers: Option<(usize, usize)>,
    /// Bytes that more than one process wrote, and how often the writer changes along the file.
    pub shared_extents: Option<(u64, usize)>,
    /// When its first write began and its last ended, seconds since the start of the trace.
    pub written_s: Option<(f64, f64)>,
}

/// A trace, as findings see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Its files.
    pub files: Vec<FileFacts>,
    /// Whether the trace would show MPI-IO and streams of the C library.
    pub has_interfaces: bool,
    /// How many nodes it is of, if it tells.
    pub nodes: Option<usize>,
    /// How many processes.
    pub processes: usize,
}

impl Facts {
    /// Adds to what counters tell what only the events of the same trace do: who wrote which places of each file, and on how many nodes.
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

/// Whether a file is the program that ran; `program` is the path or name that it was started by.
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
