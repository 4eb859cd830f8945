//! Facts of a Darshan log, from its counters.

use super::facts::{Facts, FileFacts, MpiIoFacts, PosixFacts, Spread, is_program};
use crate::{
    darshan::{
        DarshanCounters, DarshanHeader, DarshanJob, DarshanModule, DarshanRecordId, DarshanVisitor,
    },
    profile::SizeBins,
};
use std::{
    collections::{BTreeMap, HashMap},
    io,
};

/// The bins of sizes in the names of counters.
const BINS: [&str; 10] = [
    "0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G",
    "1G_PLUS",
];

/// The rank of a record that is of all processes together.
const ALL: i64 = -1;

/// What the records of one file add up to.
#[derive(Default)]
struct Sums {
    facts: FileFacts,
    written: BTreeMap<i64, f64>,
    read: BTreeMap<i64, f64>,
    metadata_s: Vec<f64>,
}

/// Takes the counters of a Darshan log.
#[derive(Default)]
pub struct CounterFacts {
    sums: HashMap<DarshanRecordId, Sums>,
    order: Vec<DarshanRecordId>,
    names: HashMap<DarshanRecordId, Vec<u8>>,
    header: Option<DarshanHeader>,
    job: Option<DarshanJob>,
}

impl CounterFacts {
    /// The facts of all records so far.
    pub fn finish(mut self) -> Facts {
        let mut files = Vec::new();
        let command = self
            .job
            .as_ref()
            .map(|job| String::from_utf8_lossy(&job.command).into_owned());
        let program = command
            .as_deref()
            .and_then(|command| command.split_whitespace().next())
            .unwrap_or_default();
        for id in &self.order {
            let Some(mut sums) = self.sums.remove(id) else {
                continue;
            };
            sums.facts.name = self.names.get(id).map_or_else(
                || format!("<record {}>", id.0),
                |name| String::from_utf8_lossy(name).into_owned(),
            );
            sums.facts.written_by = Spread::of(sums.written.into_values());
            sums.facts.read_by = Spread::of(sums.read.into_values());
            sums.facts.metadata_s = sums.metadata_s.into_iter().fold(0.0, f64::max);
            if !is_program(&sums.facts.name, program) {
                files.push(sums.facts);
            }
        }
        Facts {
            files,
            has_interfaces: true,
            nodes: None,
            processes: self
                .job
                .map_or(0, |job| usize::try_from(job.ranks).unwrap_or(0)),
        }
    }

    /// The header of the log.
    pub fn header(&self) -> Option<&DarshanHeader> {
        self.header.as_ref()
    }

    /// What the log says of the job.
    pub fn job(&self) -> Option<&DarshanJob> {
        self.job.as_ref()
    }

    fn of(&mut self, id: DarshanRecordId) -> &mut Sums {
        self.sums.entry(id).or_insert_with(|| {
            self.order.push(id);
            Sums::default()
        })
    }
}

/// A counter, or 0 where the version of the log does not have it.
fn int(counters: &DarshanCounters<'_>, name: &str) -> u64 {
    counters
        .int(name)
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or(0)
}

/// The end of what moved, from the place of its last byte, which is 0 where nothing moved.
fn end(moved: u64, last_byte: u64) -> u64 {
    if moved == 0 {
        0
    } else {
        last_byte.saturating_add(1)
    }
}

fn seconds(counters: &DarshanCounters<'_>, name: &str) -> f64 {
    counters.float(name).map_or(0.0, |s| s.max(0.0))
}

fn sizes(counters: &DarshanCounters<'_>, prefix: &str) -> SizeBins {
    SizeBins::of(BINS.map(|bin| int(counters, &format!("{prefix}_{bin}"))))
}

impl DarshanVisitor for CounterFacts {
    fn wants(&mut self, module: DarshanModule) -> bool {
        matches!(
            module,
            DarshanModule::Posix | DarshanModule::MpiIo | DarshanModule::Stdio
        )
    }

    fn header(&mut self, header: &DarshanHeader) -> io::Result<()> {
        self.header = Some(header.clone());
        Ok(())
    }

    fn job(&mut self, job: &DarshanJob) -> io::Result<()> {
        self.job = Some(job.clone());
        Ok(())
    }

    fn name(&mut self, id: DarshanRecordId, name: &[u8]) -> io::Result<()> {
        self.names.entry(id).or_insert_with(|| name.to_vec());
        Ok(())
    }

    fn counters(&mut self, c: &DarshanCounters<'_>) -> io::Result<()> {
        let rank = c.rank;
        let sums = self.of(c.id);
        match c.module {
            DarshanModule::Posix => {
                let of = PosixFacts {
                    reads: int(c, "POSIX_READS"),
                    writes: int(c, "POSIX_WRITES"),
                    read_bytes: int(c, "POSIX_BYTES_READ"),
                    written_bytes: int(c, "POSIX_BYTES_WRITTEN"),
                    read_sizes: sizes(c, "POSIX_SIZE_READ"),
                    write_sizes: sizes(c, "POSIX_SIZE_WRITE"),
                    sequential_reads: int(c, "POSIX_SEQ_READS"),
                    sequential_writes: int(c, "POSIX_SEQ_WRITES"),
                    memory_misaligned: Some(int(c, "POSIX_MEM_NOT_ALIGNED")),
                    file_misaligned: Some(int(c, "POSIX_FILE_NOT_ALIGNED")),
                    read_end: end(int(c, "POSIX_BYTES_READ"), int(c, "POSIX_MAX_BYTE_READ")),
                    write_end: end(
                        int(c, "POSIX_BYTES_WRITTEN"),
                        int(c, "POSIX_MAX_BYTE_WRITTEN"),
                    ),
                };
                sums.facts.posix.add(&of);
                sums.metadata_s.push(seconds(c, "POSIX_F_META_TIME"));
                sums.facts.time_s += seconds(c, "POSIX_F_READ_TIME")
                    + seconds(c, "POSIX_F_WRITE_TIME")
                    + seconds(c, "POSIX_F_META_TIME");
                if rank == ALL {
                    sums.facts.is_shared = true;
                    sums.facts.slowest_and_fastest = Some(
                        [
                            ("POSIX_SLOWEST_RANK_BYTES", "POSIX_F_SLOWEST_RANK_TIME"),
                            ("POSIX_FASTEST_RANK_BYTES", "POSIX_F_FASTEST_RANK_TIME"),
                        ]
                        .map(|(bytes, time)| (int(c, bytes) as f64, seconds(c, time))),
                    );
                } else {
                    *sums.written.entry(rank).or_default() += of.written_bytes as f64;
                    *sums.read.entry(rank).or_default() += of.read_bytes as f64;
                }
                let (start, end) = (
                    seconds(c, "POSIX_F_WRITE_START_TIMESTAMP"),
                    seconds(c, "POSIX_F_WRITE_END_TIMESTAMP"),
                );
                if of.writes > 0 && end > 0.0 {
                    let known = sums.facts.written_s.unwrap_or((start, end));
                    sums.facts.written_s = Some((known.0.min(start), known.1.max(end)));
                }
            }
            DarshanModule::MpiIo => {
                let of = MpiIoFacts {
                    independent_reads: int(c, "MPIIO_INDEP_READS"),
                    independent_writes: int(c, "MPIIO_INDEP_WRITES"),
                    collective_reads: int(c, "MPIIO_COLL_READS"),
                    collective_writes: int(c, "MPIIO_COLL_WRITES"),
                    nonblocking_reads: int(c, "MPIIO_NB_READS"),
                    nonblocking_writes: int(c, "MPIIO_NB_WRITES"),
                    bytes: int(c, "MPIIO_BYTES_READ") + int(c, "MPIIO_BYTES_WRITTEN"),
                };
                sums.facts.mpi_io.get_or_insert_default().add(&of);
            }
            DarshanModule::Stdio => {
                sums.facts.stdio_bytes +=
                    int(c, "STDIO_BYTES_READ") + int(c, "STDIO_BYTES_WRITTEN");
            }
            _ => {}
        }
        Ok(())
    }
}
