//! What counters say, as documents have it: of a rank, a record, a module, a layer, a log.

use cvc_trace::{DarshanSums, LayerTotal, RankTime, profile::SizeBins};
use serde::Serialize;
use std::collections::BTreeMap;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;
/// Number of common sizes and strides that are shown.
const COMMON: usize = 4;

/// A rank of a file that all ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShownRank {
    /// Which.
    pub rank: i64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Seconds in its operations.
    pub time_s: f64,
}

impl ShownRank {
    pub(crate) fn of(rank: RankTime) -> Self {
        Self {
            rank: rank.rank,
            bytes: rank.bytes,
            time_s: rank.time_s,
        }
    }
}

/// Counters of one module: of a record, a file, or all. What is not counted is null.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownCounts {
    /// Number of records that are added.
    pub records: u64,
    /// Opens.
    pub opens: Option<u64>,
    /// Reads.
    pub reads: Option<u64>,
    /// Writes.
    pub writes: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub written_bytes: Option<u64>,
    /// Reads by size, in Darshan's bins; empty ones are left out.
    pub read_sizes: Option<BTreeMap<&'static str, u64>>,
    /// Writes by size.
    pub write_sizes: Option<BTreeMap<&'static str, u64>>,
    /// Most common sizes of operations, and how often each is noted: at least so often it occurred.
    pub common_sizes: Vec<(i64, u64)>,
    /// Most common distances between operations.
    pub common_strides: Vec<(i64, u64)>,
    /// Seconds in operations that move no bytes, of all ranks.
    pub meta_s: Option<f64>,
    /// Seconds in reads.
    pub read_s: Option<f64>,
    /// Seconds in writes.
    pub write_s: Option<f64>,
    /// When the first operation began, seconds since the start of the job.
    pub first_s: Option<f64>,
    /// When the last operation ended.
    pub last_s: Option<f64>,
    /// The rank whose operations on one file took longest.
    pub slowest: Option<ShownRank>,
    /// The rank whose operations on one file took shortest.
    pub fastest: Option<ShownRank>,
    /// All counters that are known, by their names in Darshan: sums, maxima of places, and what is equal in all records.
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
            slowest: sums.slowest.map(ShownRank::of),
            fastest: sums.fastest.map(ShownRank::of),
            counters: sums.ints().filter(known).collect(),
        }
    }
}

/// A module of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownModule {
    /// Its name in Darshan.
    pub module: String,
    /// What is read of it: `counters`, `events`, `other`, or `nothing`.
    pub read: &'static str,
    /// Bytes of it in the log, compressed.
    pub log_bytes: u64,
    /// Whether records are missing because Darshan had no memory for them.
    pub partial: bool,
    /// Number of files, data sets or variables.
    pub files: u64,
    /// Seconds of the slowest rank on files of its own, and of the slowest rank of each shared file, added.
    pub slowest_path_s: f64,
    /// Bytes over that time, MiB a second: Darshan's estimate.
    pub bandwidth_mib_s: Option<f64>,
    /// The rank that spent the most time on files of its own.
    pub slowest_rank: Option<ShownRank>,
    /// Its counters.
    pub counts: Option<ShownCounts>,
}

impl ShownModule {
    /// Its name, with what is missing of it.
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

/// A record: a file and a rank, or a file and all ranks together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownRecord {
    /// The file, data set or variable.
    pub file: String,
    /// Its module.
    pub module: &'static str,
    /// Its rank; null for all together.
    pub rank: Option<i64>,
    /// Its counters.
    #[serde(flatten)]
    pub counts: ShownCounts,
}

/// A log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownLog {
    /// Number of the job.
    pub job: Option<i64>,
    /// Number of ranks.
    pub ranks: Option<i64>,
    /// Seconds from the start to the end of the job.
    pub run_time_s: Option<f64>,
    /// Its modules, read or not.
    pub modules: Vec<ShownModule>,
    /// What the files add up to by the lowest interface that counted them. These can be added, modules cannot: what MPI-IO moves, POSIX moves too.
    pub lowest: BTreeMap<&'static str, ShownLayer>,
}

/// Sums of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ShownLayer {
    /// Number of files.
    pub files: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl ShownLayer {
    pub(crate) fn of(of: &LayerTotal) -> Self {
        Self {
            files: of.files,
            reads: of.reads,
            writes: of.writes,
            read_bytes: of.read_bytes,
            written_bytes: of.written_bytes,
        }
    }

    /// Adds others up.
    pub fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::default(), |sum, of| Self {
            files: sum.files.saturating_add(of.files),
            reads: sum.reads.saturating_add(of.reads),
            writes: sum.writes.saturating_add(of.writes),
            read_bytes: sum.read_bytes.saturating_add(of.read_bytes),
            written_bytes: sum.written_bytes.saturating_add(of.written_bytes),
        })
    }
}

/// MiB a second; `None` of nothing.
pub(crate) fn bandwidth(bytes: u64, time_s: f64) -> Option<f64> {
    (bytes > 0 && time_s > 0.0).then(|| bytes as f64 / MIB / time_s)
}

/// The bins that are not empty.
pub(crate) fn filled(sizes: &SizeBins) -> BTreeMap<&'static str, u64> {
    sizes.iter().filter(|(_, n)| *n > 0).collect()
}
