//! Derives the input of findings from the events of a trace.

use super::facts::{FileFacts, MpiIoFacts, PosixFacts, RankSpread, TraceFacts, is_program};
use crate::{
    event::{Api, ProcessId},
    profile::{FileUse, Profile, Stream, Usage},
};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the facts about those files of the run whose bytes were moved. Collective and independent operations are not distinguished.
pub fn facts_of_profile(profile: &Profile) -> TraceFacts {
    let hosts: BTreeSet<&str> = profile
        .processes
        .values()
        .filter_map(|process| process.host.as_deref())
        .collect();
    let programs: BTreeSet<&str> = profile
        .processes
        .values()
        .filter_map(|process| process.program.as_deref())
        .collect();
    let is_of_mpi = |file: &FileUse| file.by(Api::MpiIo).next().is_some();
    TraceFacts {
        files: profile
            .files
            .iter()
            .filter(|file| file.is_of_run && file.moved() != (0, 0))
            .filter(|file| {
                !programs
                    .iter()
                    .any(|program| is_program(&file.name(), program))
            })
            .map(of_file)
            .collect(),
        has_interfaces: profile.files.iter().any(is_of_mpi),
        nodes: Some(hosts.len()).filter(|n| *n > 0),
        processes: profile.processes.len(),
    }
}

fn of_file(file: &FileUse) -> FileFacts {
    let posix: Vec<(ProcessId, &Usage)> = file.by(Api::Posix).collect();
    let mut facts = FileFacts {
        name: file.name(),
        is_shared: posix.len() > 1,
        ..FileFacts::default()
    };
    let mut written: BTreeMap<ProcessId, f64> = BTreeMap::new();
    let mut read: BTreeMap<ProcessId, f64> = BTreeMap::new();
    let mut times: Vec<(f64, f64)> = Vec::new();
    for (process, usage) in &posix {
        facts.posix.add(&of_streams(&usage.reads, &usage.writes));
        let seconds = |ns: u64| ns as f64 / 1e9;
        let busy = seconds(
            usage
                .reads
                .duration_ns
                .saturating_add(usage.writes.duration_ns),
        );
        let metadata = seconds(usage.metadata.duration_ns);
        facts.metadata_s = facts.metadata_s.max(metadata);
        facts.time_s += busy + metadata;
        times.push((
            usage.reads.bytes.saturating_add(usage.writes.bytes) as f64,
            busy + metadata,
        ));
        if usage.writes.operations > 0 {
            written.insert(*process, usage.writes.bytes as f64);
            let of = (
                seconds(usage.writes.first_ns),
                seconds(usage.writes.last_ns),
            );
            let known = facts.written_s.unwrap_or(of);
            facts.written_s = Some((known.0.min(of.0), known.1.max(of.1)));
        }
        if usage.reads.operations > 0 {
            read.insert(*process, usage.reads.bytes as f64);
        }
    }
    if times.len() > 1 {
        let slowest = times.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let fastest = times.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        facts.slowest_and_fastest = slowest.zip(fastest).map(|(s, f)| [s, f]);
    }
    facts.written_by = RankSpread::of(written.into_values());
    facts.read_by = RankSpread::of(read.into_values());
    let through_mpi: Vec<(ProcessId, u64)> = file.writers(Api::MpiIo);
    let through_posix = file.writers(Api::Posix);
    if file.by(Api::MpiIo).next().is_some() {
        facts.mpi_io = Some(MpiIoFacts {
            bytes: file.by(Api::MpiIo).fold(0, |sum: u64, (_, u)| {
                sum.saturating_add(u.reads.bytes)
                    .saturating_add(u.writes.bytes)
            }),
            ..MpiIoFacts::default()
        });
    }
    if !through_posix.is_empty() || !through_mpi.is_empty() {
        facts.writers = Some((through_mpi.len(), through_posix.len()));
    }
    facts.stdio_bytes = file.by(Api::Stdio).fold(0, |sum: u64, (_, u)| {
        sum.saturating_add(u.reads.bytes)
            .saturating_add(u.writes.bytes)
    });
    facts.shared_extents = file.shared_extents();
    facts
}

fn of_streams(reads: &Stream, writes: &Stream) -> PosixFacts {
    PosixFacts {
        reads: reads.operations,
        writes: writes.operations,
        read_bytes: reads.bytes,
        written_bytes: writes.bytes,
        read_sizes: reads.sizes,
        write_sizes: writes.sizes,
        sequential_reads: reads.sequential,
        sequential_writes: writes.sequential,
        memory_misaligned: None,
        file_misaligned: None,
        read_end: reads.highest.unwrap_or(0),
        write_end: writes.highest.unwrap_or(0),
    }
}
