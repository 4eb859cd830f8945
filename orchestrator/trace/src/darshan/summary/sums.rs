//! The counters of a record, or the sum of several records.

use super::common::Common;
use crate::{
    darshan::{layout::RecordLayout, module::DarshanModule, visitor::DarshanCounters},
    profile::SizeBins,
};

/// How to combine a counter of several records.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    Sum,
    Max,
    Min,
    /// The value is not a count. It is unknown if it differs between records.
    Same,
}

/// Parts of the names of integer counters that must not be added.
const NO_SUMS: [&str; 16] = [
    "_MODE",
    "_RENAMED_FROM",
    "_ALIGNMENT",
    "_TIME_SIZE",
    "_RANK",
    "_ACCESS1",
    "_ACCESS2",
    "_ACCESS3",
    "_ACCESS4",
    "_STRIDE",
    "_OTYPE",
    "_CELL_SIZE",
    "_CHUNK_SIZE",
    "_NDIMS",
    "_NPOINTS",
    "_DATATYPE_SIZE",
];
const MAXIMA: [&str; 4] = [
    "_MAX_BYTE_",
    "_USE_MPIIO",
    "_USE_DEPRECATED",
    "_IS_RECORD_VAR",
];

impl Rule {
    fn of_int(name: &str) -> Self {
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        if has(&MAXIMA) {
            Self::Max
        } else if has(&NO_SUMS) {
            Self::Same
        } else {
            Self::Sum
        }
    }

    fn of_float(name: &str) -> Self {
        if name.ends_with("_START_TIMESTAMP") {
            Self::Min
        } else if name.ends_with("_END_TIMESTAMP") || name.contains("_MAX_") {
            Self::Max
        } else if name.contains("_RANK_") {
            Self::Same
        } else {
            Self::Sum
        }
    }
}

/// The names, without the module's prefix, of the counters of opens, reads and writes.
struct Roles {
    prefix: &'static str,
    opens: &'static [&'static str],
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

fn roles(module: DarshanModule) -> Roles {
    let of = |prefix, opens, reads, writes| Roles {
        prefix,
        opens,
        reads,
        writes,
    };
    match module {
        DarshanModule::Posix => of("POSIX_", &["OPENS"], &["READS"], &["WRITES"]),
        DarshanModule::MpiIo => of(
            "MPIIO_",
            &["INDEP_OPENS", "COLL_OPENS"],
            &["INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"],
            &["INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"],
        ),
        DarshanModule::H5f => of("H5F_", &["OPENS"], &[], &[]),
        DarshanModule::H5d => of("H5D_", &["OPENS"], &["READS"], &["WRITES"]),
        DarshanModule::PnetcdfFile => of("PNETCDF_FILE_", &["CREATES", "OPENS"], &[], &[]),
        DarshanModule::PnetcdfVar => of(
            "PNETCDF_VAR_",
            &["OPENS"],
            &["INDEP_READS", "COLL_READS", "NB_READS"],
            &["INDEP_WRITES", "COLL_WRITES", "NB_WRITES"],
        ),
        DarshanModule::Stdio => of("STDIO_", &["OPENS"], &["READS"], &["WRITES"]),
        // non-blocking operations are included in these counters
        DarshanModule::Dfs => of(
            "DFS_",
            &["OPENS", "GLOBAL_OPENS"],
            &["READS", "READXS"],
            &["WRITES", "WRITEXS"],
        ),
        DarshanModule::Daos => of(
            "DAOS_",
            &["OBJ_OPENS", "ARRAY_OPENS", "KV_OPENS"],
            &["OBJ_FETCHES", "ARRAY_READS", "KV_GETS"],
            &["OBJ_UPDATES", "ARRAY_WRITES", "KV_PUTS"],
        ),
        DarshanModule::Null
        | DarshanModule::BlueGeneQ
        | DarshanModule::Lustre
        | DarshanModule::DxtPosix
        | DarshanModule::DxtMpiIo
        | DarshanModule::Mdhim
        | DarshanModule::Apxc
        | DarshanModule::Apmpi
        | DarshanModule::Heatmap
        | DarshanModule::Unknown(_) => of("", &[], &[], &[]),
    }
}

/// Positions of a module's counters, determined once for a log.
pub(super) struct Columns {
    ints: Vec<Rule>,
    floats: Vec<Rule>,
    /// For each common size, the indices of the counters with its value and with its number of occurrences. The next field has those of the common
    /// strides.
    sizes: Vec<(usize, usize)>,
    strides: Vec<(usize, usize)>,
    moved: [Option<usize>; 2],
    times: [Option<usize>; 3],
    slowest: Option<[usize; 3]>,
    fastest: Option<[usize; 3]>,
}

impl Columns {
    pub(super) fn of(module: DarshanModule) -> Option<Self> {
        let layout = RecordLayout::of(module)?;
        let prefix = roles(module).prefix;
        let place = |names: &[&str], suffix: &str| {
            let is = |name: &&str| name.strip_prefix(prefix) == Some(suffix);
            names.iter().position(is)
        };
        let int = |suffix: &str| place(layout.ints, suffix);
        let float = |suffix: &str| place(layout.floats, suffix);
        let common = |what: &str, value: &str| {
            let pair = |n| int(&format!("{what}{n}_{value}")).zip(int(&format!("{what}{n}_COUNT")));
            (1..=4).filter_map(pair).collect()
        };
        let rank = |which: &str| {
            Some([
                int(&format!("{which}_RANK"))?,
                int(&format!("{which}_RANK_BYTES"))?,
                float(&format!("F_{which}_RANK_TIME"))?,
            ])
        };
        Some(Self {
            ints: layout.ints.iter().map(|name| Rule::of_int(name)).collect(),
            floats: layout
                .floats
                .iter()
                .map(|name| Rule::of_float(name))
                .collect(),
            sizes: common("ACCESS", "ACCESS"),
            strides: common("STRIDE", "STRIDE"),
            moved: ["BYTES_READ", "BYTES_WRITTEN"].map(int),
            times: ["F_META_TIME", "F_READ_TIME", "F_WRITE_TIME"].map(float),
            slowest: rank("SLOWEST"),
            fastest: rank("FASTEST"),
        })
    }
}

impl Columns {
    /// Returns the bytes read and written according to a record.
    pub(super) fn moved(&self, of: &DarshanCounters<'_>) -> [u64; 2] {
        self.moved.map(|at| {
            let value = at.and_then(|at| of.ints.get(at).copied());
            value
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or(0)
        })
    }
}

/// A rank, the bytes that it moved, and the time of its operations.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct RankTime {
    /// The rank.
    pub rank: i64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Time in operations, seconds.
    pub time_s: f64,
}

/// The counters of a module for a file and rank, or the sum of several records. Values that the module or its version does not count are `None`;
/// sums saturate.
#[derive(Clone, Debug, PartialEq)]
pub struct DarshanSums {
    /// The module.
    pub module: DarshanModule,
    /// Number of records in the sum.
    pub records: u64,
    /// Whether one of the records is of all ranks together.
    pub is_shared: bool,
    /// Sizes of operations.
    pub sizes: Common,
    /// Distances between the offsets of operations, bytes.
    pub strides: Common,
    /// The rank with the longest time of operations on one file.
    pub slowest: Option<RankTime>,
    /// The rank with the shortest time of operations on one file.
    pub fastest: Option<RankTime>,
    /// Longest time in operations without data on one file, seconds. It is that of one rank or, if there is only a record of all ranks, their sum.
    pub longest_meta_s: f64,
    ints: Box<[i64]>,
    floats: Box<[f64]>,
}

impl DarshanSums {
    pub(super) fn new(module: DarshanModule) -> Self {
        let (ints, floats) = RecordLayout::of(module)
            .map_or((0, 0), |layout| (layout.ints.len(), layout.floats.len()));
        Self {
            module,
            records: 0,
            is_shared: false,
            sizes: Common::default(),
            strides: Common::default(),
            slowest: None,
            fastest: None,
            longest_meta_s: 0.0,
            ints: vec![-1; ints].into(),
            floats: vec![-1.0; floats].into(),
        }
    }

    /// Adds a record. Returns the bytes and the time of its rank; for a record of all ranks, those of the slowest rank.
    pub(super) fn add(&mut self, of: &DarshanCounters<'_>, columns: &Columns) -> RankTime {
        let first = self.records == 0;
        self.records += 1;
        for ((mine, &theirs), rule) in self.ints.iter_mut().zip(of.ints).zip(&columns.ints) {
            *mine = match rule {
                _ if first => theirs,
                Rule::Same if *mine == theirs => theirs,
                Rule::Same => -1,
                Rule::Max => theirs.max(*mine),
                Rule::Min => theirs.min(*mine),
                Rule::Sum if theirs < 0 => *mine,
                Rule::Sum => (*mine).max(0).saturating_add(theirs),
            };
        }
        for ((mine, &theirs), rule) in self.floats.iter_mut().zip(of.floats).zip(&columns.floats) {
            let theirs = if theirs.is_finite() { theirs } else { -1.0 };
            *mine = match rule {
                _ if first => theirs,
                Rule::Same if *mine == theirs => theirs,
                Rule::Same => -1.0,
                Rule::Max => theirs.max(*mine),
                // a time of 0 means that nothing happened
                Rule::Min if *mine <= 0.0 || theirs > 0.0 && theirs < *mine => theirs,
                Rule::Min => *mine,
                Rule::Sum if theirs < 0.0 => *mine,
                Rule::Sum => mine.max(0.0) + theirs,
            };
        }
        let int = |at: usize| of.ints.get(at).copied().unwrap_or(-1);
        let float = |at: usize| {
            of.floats
                .get(at)
                .copied()
                .filter(|s| s.is_finite())
                .unwrap_or(0.0)
                .max(0.0)
        };
        for (to, from) in [
            (&mut self.sizes, &columns.sizes),
            (&mut self.strides, &columns.strides),
        ] {
            for &(value, count) in from {
                to.add(int(value), u64::try_from(int(count)).unwrap_or(0));
            }
        }
        let [read, written] = columns.moved(of);
        let times = columns.times.map(|at| at.map_or(0.0, float));
        self.longest_meta_s = self.longest_meta_s.max(times[0]);
        let own = RankTime {
            rank: of.rank,
            bytes: read.saturating_add(written),
            time_s: times.iter().sum(),
        };
        let (mut slowest, mut fastest) = (Some(own), Some(own));
        if of.rank < 0 {
            self.is_shared = true;
            // a negative rank means that Darshan did not record it
            let noted = |at: Option<[usize; 3]>| {
                at.filter(|&[rank, ..]| int(rank) >= 0)
                    .map(|[rank, bytes, time]| RankTime {
                        rank: int(rank),
                        bytes: u64::try_from(int(bytes)).unwrap_or(0),
                        time_s: float(time),
                    })
            };
            (slowest, fastest) = (noted(columns.slowest), noted(columns.fastest));
        }
        let later = |a: RankTime, b: RankTime| if b.time_s > a.time_s { b } else { a };
        let sooner = |a: RankTime, b: RankTime| if b.time_s < a.time_s { b } else { a };
        self.slowest = either(self.slowest, slowest, later);
        self.fastest = either(self.fastest, fastest, sooner);
        // without a recorded rank there is no time of the slowest rank
        let none = RankTime { time_s: 0.0, ..own };
        slowest.unwrap_or(none)
    }

    /// Returns the integer counters with their names. Negative: not counted, or different between records.
    pub fn ints(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let names = RecordLayout::of(self.module).map_or(&[][..], |layout| layout.ints);
        names.iter().copied().zip(self.ints.iter().copied())
    }

    /// Returns the floating-point counters, in seconds, with their names.
    pub fn floats(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let names = RecordLayout::of(self.module).map_or(&[][..], |layout| layout.floats);
        names.iter().copied().zip(self.floats.iter().copied())
    }

    /// Returns the integer counters that are sums, with their names.
    pub fn summed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.ints()
            .filter(|(name, _)| Rule::of_int(name) == Rule::Sum)
            .filter_map(|(name, value)| Some((name, u64::try_from(value).ok()?)))
    }

    /// Returns the integer counter with this name, given without the module's prefix, such as `SEEKS`.
    #[must_use]
    pub fn int(&self, suffix: &str) -> Option<u64> {
        let prefix = roles(self.module).prefix;
        self.ints()
            .find(|(name, _)| name.strip_prefix(prefix) == Some(suffix))
            .and_then(|(_, value)| u64::try_from(value).ok())
    }

    /// Returns the floating-point counter with this name, such as `F_READ_TIME`, seconds.
    #[must_use]
    pub fn float(&self, suffix: &str) -> Option<f64> {
        let prefix = roles(self.module).prefix;
        self.floats()
            .find(|(name, _)| name.strip_prefix(prefix) == Some(suffix))
            .map(|(_, value)| value)
            .filter(|&value| value >= 0.0)
    }

    fn sum_of(&self, suffixes: &[&str]) -> Option<u64> {
        let known = suffixes.iter().filter_map(|suffix| self.int(suffix));
        known.reduce(u64::saturating_add)
    }

    /// Returns the number of opens.
    #[must_use]
    pub fn opens(&self) -> Option<u64> {
        self.sum_of(roles(self.module).opens)
    }

    /// Returns the number of reads.
    #[must_use]
    pub fn reads(&self) -> Option<u64> {
        self.sum_of(roles(self.module).reads)
    }

    /// Returns the number of writes.
    #[must_use]
    pub fn writes(&self) -> Option<u64> {
        self.sum_of(roles(self.module).writes)
    }

    /// Returns the bytes read.
    #[must_use]
    pub fn read_bytes(&self) -> Option<u64> {
        self.int("BYTES_READ")
    }

    /// Returns the bytes written.
    #[must_use]
    pub fn written_bytes(&self) -> Option<u64> {
        self.int("BYTES_WRITTEN")
    }

    /// Returns the number of reads by size.
    #[must_use]
    pub fn read_sizes(&self) -> Option<SizeBins> {
        self.bins("_SIZE_READ_")
    }

    /// Returns the number of writes by size.
    #[must_use]
    pub fn write_sizes(&self) -> Option<SizeBins> {
        self.bins("_SIZE_WRITE_")
    }

    fn bins(&self, part: &str) -> Option<SizeBins> {
        let mut bins = [0; 10];
        let mut found = self.ints().filter(|(name, _)| name.contains(part));
        for bin in &mut bins {
            *bin = u64::try_from(found.next()?.1).ok()?;
        }
        Some(SizeBins::of(bins))
    }

    /// Returns the time in operations without data, seconds.
    #[must_use]
    pub fn meta_s(&self) -> Option<f64> {
        self.float("F_META_TIME")
    }

    /// Returns the time in reads, summed over ranks, seconds.
    #[must_use]
    pub fn read_s(&self) -> Option<f64> {
        self.float("F_READ_TIME")
    }

    /// Returns the time in writes, summed over ranks, seconds.
    #[must_use]
    pub fn write_s(&self) -> Option<f64> {
        self.float("F_WRITE_TIME")
    }

    /// Returns the start of the first operation and the end of the last, seconds since the start of the job.
    #[must_use]
    pub fn span_s(&self) -> Option<(f64, f64)> {
        let of = |ending: &'static str| {
            self.floats()
                .filter(move |(name, s)| name.ends_with(ending) && *s > 0.0)
                .map(|(_, s)| s)
        };
        let first = of("_START_TIMESTAMP").reduce(f64::min)?;
        Some((first, of("_END_TIMESTAMP").reduce(f64::max)?.max(first)))
    }

    /// Returns the start of the first operation of this kind (`OPEN`, `READ`, `WRITE`, `CLOSE`) and the end of the last, seconds since the start of
    /// the job.
    #[must_use]
    pub fn span_of(&self, kind: &str) -> Option<(f64, f64)> {
        let of = |end: &str| self.float(&format!("F_{kind}_{end}_TIMESTAMP"));
        of("START").zip(of("END")).filter(|span| span.1 > 0.0)
    }
}

fn either<T>(a: Option<T>, b: Option<T>, both: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(both(a, b)),
        (a, b) => a.or(b),
    }
}
