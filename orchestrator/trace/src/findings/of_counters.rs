//! Derives the input of findings from the counters of a Darshan log.

use super::facts::{FileFacts, MpiIoFacts, PosixFacts, TraceFacts, is_program};
use crate::darshan::{DarshanModule, DarshanRecordId, DarshanSummary, DarshanSums, FileSums};
use std::collections::HashMap;

/// Returns the facts about a log.
#[must_use]
pub fn facts_of_summary(log: &DarshanSummary) -> TraceFacts {
    let mut files: Vec<FileFacts> = Vec::new();
    let mut places: HashMap<DarshanRecordId, usize> = HashMap::new();
    for of in &log.files {
        let module = of.sums.module;
        if !matches!(
            module,
            DarshanModule::Posix | DarshanModule::MpiIo | DarshanModule::Stdio
        ) {
            continue;
        }
        let at = *places.entry(of.id).or_insert_with(|| {
            files.push(FileFacts {
                name: log.name_text(of.id),
                ..FileFacts::default()
            });
            files.len() - 1
        });
        let file = &mut files[at];
        match module {
            DarshanModule::Posix => add_posix(file, of),
            DarshanModule::MpiIo => file.mpi_io = Some(mpi_io(&of.sums)),
            _ => file.stdio_bytes = bytes(&of.sums),
        }
    }
    // the executable is not data of the run
    if let Some(job) = &log.job {
        let command = String::from_utf8_lossy(&job.command);
        let program = command.split_whitespace().next().unwrap_or_default();
        files.retain(|file| !is_program(&file.name, program));
    }
    TraceFacts {
        files,
        has_interfaces: true,
        nodes: None,
        processes: log
            .job
            .as_ref()
            .map_or(0, |job| usize::try_from(job.ranks).unwrap_or(0)),
    }
}

fn bytes(of: &DarshanSums) -> u64 {
    let moved = [of.read_bytes(), of.written_bytes()].map(Option::unwrap_or_default);
    moved[0].saturating_add(moved[1])
}

fn add_posix(file: &mut FileFacts, of: &FileSums) {
    let sums = &of.sums;
    let int = |name: &str| sums.int(name).unwrap_or(0);
    // the counter of the last byte is 0 if no bytes were moved
    let end = |moved: u64, last: &str| match moved {
        0 => 0,
        _ => int(last).saturating_add(1),
    };
    file.posix = PosixFacts {
        reads: int("READS"),
        writes: int("WRITES"),
        read_bytes: int("BYTES_READ"),
        written_bytes: int("BYTES_WRITTEN"),
        read_sizes: sums.read_sizes().unwrap_or_default(),
        write_sizes: sums.write_sizes().unwrap_or_default(),
        sequential_reads: int("SEQ_READS"),
        sequential_writes: int("SEQ_WRITES"),
        memory_misaligned: Some(int("MEM_NOT_ALIGNED")),
        file_misaligned: Some(int("FILE_NOT_ALIGNED")),
        read_end: end(int("BYTES_READ"), "MAX_BYTE_READ"),
        write_end: end(int("BYTES_WRITTEN"), "MAX_BYTE_WRITTEN"),
    };
    file.is_shared = sums.is_shared;
    file.metadata_s = sums.longest_meta_s;
    file.time_s = [sums.read_s(), sums.write_s(), sums.meta_s()]
        .into_iter()
        .flatten()
        .sum();
    let ends = |of: [Option<crate::darshan::RankTime>; 2]| Some([of[0]?, of[1]?]);
    file.slowest_and_fastest = ends([sums.slowest, sums.fastest])
        .filter(|_| sums.is_shared)
        .map(|ranks| ranks.map(|of| (of.bytes as f64, of.time_s)));
    file.written_by = of.written_by;
    file.read_by = of.read_by;
    file.written_s = sums.span_of("WRITE").filter(|_| int("WRITES") > 0);
}

fn mpi_io(of: &DarshanSums) -> MpiIoFacts {
    let int = |name: &str| of.int(name).unwrap_or(0);
    MpiIoFacts {
        independent_reads: int("INDEP_READS"),
        independent_writes: int("INDEP_WRITES"),
        collective_reads: int("COLL_READS"),
        collective_writes: int("COLL_WRITES"),
        nonblocking_reads: int("NB_READS"),
        nonblocking_writes: int("NB_WRITES"),
        bytes: bytes(of),
    }
}
