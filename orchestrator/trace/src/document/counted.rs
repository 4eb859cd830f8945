//! Counters in documents: those of a rank, a record, a module, an interface, a log.

use crate::{DarshanSums, LayerTotal, RankTime, profile::SizeBins};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;
/// Number of common sizes and strides that are shown.
const COMMON: usize = 4;

/// Counters of a record, a file, or a whole module. Values that are not counted are null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownCounts {
    /// Number of records in the sum.
    pub records: u64,
    /// Number of opens.
    pub opens: Option<u64>,
    /// Number of reads.
    pub reads: Option<u64>,
    /// Number of writes.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Number of reads by size, in Darshan's bins; empty bins are omitted.
    pub read_sizes: Option<BTreeMap<&'static str, u64>>,
    /// Number of writes by size.
    pub write_sizes: Option<BTreeMap<&'static str, u64>>,
    /// Most common sizes of operations, each with a lower bound of its count.
    pub common_sizes: Vec<(i64, u64)>,
    /// Most common distances between operations, each with a lower bound of its count.
    pub common_strides: Vec<(i64, u64)>,
    /// Time in operations that move no bytes, summed over ranks, seconds.
    pub meta_s: Option<f64>,
    /// Time in reads, seconds.
    pub read_s: Option<f64>,
    /// Time in writes, seconds.
    pub write_s: Option<f64>,
    /// Start of the first operation, seconds since the start of the job.
    pub first_s: Option<f64>,
    /// End of the last operation, seconds since the start of the job.
    pub last_s: Option<f64>,
    /// The rank with the longest time of operations on one file.
    pub slowest: Option<RankTime>,
    /// The rank with the shortest time of operations on one file.
    pub fastest: Option<RankTime>,
    /// All known counters, by their Darshan names: sums, maxima of offsets, and values that are equal in all records.
    pub counters: BTreeMap<&'static str, i64>,
}

impl ShownCounts {
    pub(crate) fn of(sums: &DarshanSums) -> Self {
        let span = sums.span_s();
        let known = |(_, value): &(&str, i64)| *value >= 0;
        Self {
            records: sums.records,
            opens: sums.opens(),
            reads: sums.reads(),
            writes: sums.writes(),
            read_bytes: sums.read_bytes(),
            written_bytes: sums.written_bytes(),
            read_sizes: sums.read_sizes().as_ref().map(filled),
            write_sizes: sums.write_sizes().as_ref().map(filled),
            common_sizes: sums.sizes.top(COMMON),
            common_strides: sums.strides.top(COMMON),
            meta_s: sums.meta_s(),
            read_s: sums.read_s(),
            write_s: sums.write_s(),
            first_s: span.map(|(first, _)| first),
            last_s: span.map(|(_, last)| last),
            slowest: sums.slowest,
            fastest: sums.fastest,
            counters: sums.ints().filter(known).collect(),
        }
    }
}

/// A module of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownModule {
    /// Name of the module in Darshan.
    pub module: String,
    /// How its content is used: `counters`, `events`, `other`, or `nothing`.
    pub read: &'static str,
    /// Compressed length in the log, bytes.
    pub log_bytes: u64,
    /// Whether records are missing because Darshan had no memory for them.
    pub partial: bool,
    /// Number of files, data sets or variables.
    pub files: u64,
    /// Time of the slowest rank on unshared files plus that of the slowest rank on each shared file, seconds.
    pub slowest_path_s: f64,
    /// Bytes divided by `slowest_path_s`, MiB/s: Darshan's estimate of the bandwidth.
    pub bandwidth_mib_s: Option<f64>,
    /// The rank that spent the most time on unshared files.
    pub slowest_rank: Option<RankTime>,
    /// Its counters.
    pub counts: Option<ShownCounts>,
}

impl ShownModule {
    /// Returns the name, with a note if records are missing.
    #[must_use]
    pub fn title(&self) -> String {
        let name = &self.module;
        match (self.read, self.partial) {
            ("nothing", _) => format!("{name} (not read, {} bytes)", self.log_bytes),
            (_, true) => format!("{name} (incomplete)"),
            _ => name.clone(),
        }
    }
}

/// A record: of a file and a rank, or of a file and all ranks together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownRecord {
    /// The file, data set or variable.
    pub file: String,
    /// The module.
    pub module: &'static str,
    /// The rank; null for all ranks together.
    pub rank: Option<i64>,
    /// Its counters.
    #[serde(flatten)]
    pub counts: ShownCounts,
}

/// A log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownLog {
    /// Job ID.
    pub job: Option<i64>,
    /// Number of ranks.
    pub ranks: Option<i64>,
    /// Time from the start to the end of the job, seconds.
    pub run_time_s: Option<f64>,
    /// All modules, including those that are not read.
    pub modules: Vec<ShownModule>,
    /// Sums over files by the lowest interface that counted them. These sums may be added. Sums of modules may not, because bytes moved by MPI-IO
    /// are also moved by POSIX.
    pub lowest: BTreeMap<&'static str, LayerTotal>,
}

/// Returns the bandwidth, MiB/s; `None` if there are no bytes or no time.
pub(crate) fn bandwidth(bytes: u64, time_s: f64) -> Option<f64> {
    (bytes > 0 && time_s > 0.0).then(|| bytes as f64 / MIB / time_s)
}

/// Returns the bins that are not empty.
pub(crate) fn filled(sizes: &SizeBins) -> BTreeMap<&'static str, u64> {
    sizes.iter().filter(|(_, n)| *n > 0).collect()
}
