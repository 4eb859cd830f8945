//! The reads or the writes of one process on one file: their amount, and the pattern of their offsets.

use super::sizes::SizeBins;
use crate::event::Event;

/// Maximum number of different distances, and of different lengths, that are kept.
const KEPT: usize = 4;

/// Maximum period of repetition that is detected, in runs of equal distances.
const PERIODS: usize = 8;

/// Minimum share of operations that must follow a pattern.
const REGULAR_SHARE: f64 = 0.9;

/// Pattern of the offsets of consecutive operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpatialPattern {
    /// Too few operations with a known offset.
    Unknown,
    /// A single operation.
    Single,
    /// Each operation begins where the previous one ended.
    Consecutive,
    /// Offsets have equal distances, with gaps in between.
    Strided {
        /// Distance between offsets, bytes.
        stride: i64,
    },
    /// Runs of equal distances repeat, as in blocks of blocks.
    NestedStrided {
        /// Distance within a run, bytes.
        inner: i64,
        /// Distance from one run to the next, bytes.
        outer: i64,
        /// Number of runs after which the sequence repeats.
        period: usize,
    },
    /// Each operation begins after the end of the previous one, at varying distances.
    Sequential,
    /// All operations have the same offset.
    Repeated,
    /// None of the other patterns.
    Random,
}

impl SpatialPattern {
    /// Returns the word used in tables and JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Single => "single",
            Self::Consecutive => "consecutive",
            Self::Strided { .. } => "strided",
            Self::NestedStrided { .. } => "nested strided",
            Self::Sequential => "sequential",
            Self::Repeated => "repeated",
            Self::Random => "random",
        }
    }
}

/// Candidates for the most frequent value, by the algorithm of Misra and Gries. They include every value that makes up more than a fifth of all.
#[derive(Clone, Debug, Default)]
struct Frequent {
    of: [(i64, u64); KEPT],
}

impl Frequent {
    fn add(&mut self, value: i64) {
        if let Some((_, n)) = self.of.iter_mut().find(|(v, n)| *n > 0 && *v == value) {
            *n += 1;
            return;
        }
        if let Some(free) = self.of.iter_mut().find(|(_, n)| *n == 0) {
            *free = (value, 1);
            return;
        }
        for (_, n) in &mut self.of {
            *n -= 1;
        }
    }

    /// Returns the most frequent value; its count is a lower bound.
    fn most(&self) -> Option<(i64, u64)> {
        self.of
            .iter()
            .copied()
            .filter(|(_, n)| *n > 0)
            .max_by_key(|(_, n)| *n)
    }
}

/// Runs of equal distances, and the period after which they repeat.
#[derive(Clone, Debug, Default)]
struct Runs {
    /// Distance and length of the current run.
    open: Option<(i64, u64)>,
    /// Ring buffer of the last complete runs; the newest is at `complete - 1` modulo its length.
    last: [(i64, u64); PERIODS],
    complete: u64,
    /// For each period, the number of runs that were equal to the run one period earlier.
    equal: [u64; PERIODS],
}

impl Runs {
    fn add(&mut self, distance: i64) {
        match &mut self.open {
            Some((of, length)) if *of == distance => *length += 1,
            open => {
                if let Some(run) = open.replace((distance, 1)) {
                    self.end(run);
                }
            }
        }
    }

    fn end(&mut self, run: (i64, u64)) {
        for period in 1..=PERIODS as u64 {
            if self.complete >= period {
                let before = self.last[((self.complete - period) % PERIODS as u64) as usize];
                self.equal[(period - 1) as usize] += u64::from(before == run);
            }
        }
        self.last[(self.complete % PERIODS as u64) as usize] = run;
        self.complete += 1;
    }

    /// Returns the shortest period after which almost all runs repeat.
    fn period(&self) -> Option<usize> {
        (2..=PERIODS).find(|period| {
            let compared = self.complete.saturating_sub(*period as u64);
            compared >= *period as u64
                && self.equal[period - 1] as f64 >= REGULAR_SHARE * compared as f64
        })
    }

    /// Returns the distances of the longest and of the shortest run in the last period.
    fn distances(&self, period: usize) -> (i64, i64) {
        let of_period = (1..=period as u64)
            .map(|back| self.last[((self.complete - back) % PERIODS as u64) as usize]);
        let mut runs: Vec<(i64, u64)> = of_period.collect();
        // if two runs have equal length, the one with the shorter distance is the inner one
        runs.sort_by_key(|(distance, length)| {
            (std::cmp::Reverse(*length), distance.unsigned_abs())
        });
        let first = runs.first().map_or(0, |r| r.0);
        (first, runs.last().map_or(first, |r| r.0))
    }
}

/// Distances from one operation to the next.
#[derive(Clone, Debug, Default)]
struct Steps {
    distances: Frequent,
    runs: Runs,
}

/// The reads or the writes of one process on one file, through one interface.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Number of operations that did not fail.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Total duration, nanoseconds.
    pub duration_ns: u64,
    /// Start of the first operation, nanoseconds since the start of the trace.
    pub first_ns: u64,
    /// End of the last operation, nanoseconds since the start of the trace.
    pub last_ns: u64,
    /// Lowest offset.
    pub lowest: Option<u64>,
    /// End of the highest byte.
    pub highest: Option<u64>,
    /// Number of operations by size.
    pub sizes: SizeBins,
    /// Number of operations that began where the previous one ended.
    pub consecutive: u64,
    /// Number of operations that began at or after the end of the previous one.
    pub sequential: u64,
    /// Number of operations with a known offset.
    placed: u64,
    again: u64,
    last: Option<(u64, u64)>,
    /// Distances between operations. Allocated at the second operation: in traces with very many files, most files have only one operation.
    steps: Option<Box<Steps>>,
    /// Digest of offsets and lengths in order, for comparing two streams.
    digest: u64,
}

impl Stream {
    /// Adds a read or write that did not fail.
    pub fn add(&mut self, event: &Event) {
        let end_ns = event.end_ns();
        if self.operations == 0 {
            self.first_ns = event.start_ns;
        }
        self.first_ns = self.first_ns.min(event.start_ns);
        self.last_ns = self.last_ns.max(end_ns);
        self.operations += 1;
        self.bytes = self.bytes.saturating_add(event.bytes);
        self.duration_ns = self.duration_ns.saturating_add(event.duration_ns);
        self.sizes.add(event.bytes);
        for word in [event.offset.unwrap_or(u64::MAX), event.bytes] {
            // FNV-1a over 64-bit words: fast, and equal for equal sequences
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3);
        }
        let Some(offset) = event.offset else {
            return;
        };
        let end = offset.saturating_add(event.bytes);
        self.placed += 1;
        self.lowest = Some(self.lowest.map_or(offset, |low| low.min(offset)));
        self.highest = Some(self.highest.map_or(end, |high| high.max(end)));
        if let Some((before, before_end)) = self.last {
            self.consecutive += u64::from(offset == before_end);
            self.sequential += u64::from(offset >= before_end);
            self.again += u64::from(offset == before);
            let distance = offset.wrapping_sub(before) as i64;
            let steps = self.steps.get_or_insert_default();
            steps.distances.add(distance);
            steps.runs.add(distance);
        }
        self.last = Some((offset, end));
    }

    /// Returns the pattern of the offsets.
    pub fn pattern(&self) -> SpatialPattern {
        match self.placed {
            0 => return SpatialPattern::Unknown,
            1 => return SpatialPattern::Single,
            _ => {}
        }
        let steps = self.placed - 1;
        let nearly = |n: u64| n as f64 >= REGULAR_SHARE * steps as f64;
        if nearly(self.consecutive) {
            return SpatialPattern::Consecutive;
        }
        if nearly(self.again) {
            return SpatialPattern::Repeated;
        }
        let known = self.steps.as_deref();
        if let Some((stride, n)) = known.and_then(|of| of.distances.most())
            && steps > 1
            && nearly(n)
        {
            return SpatialPattern::Strided { stride };
        }
        if let Some((runs, period)) = known.and_then(|of| Some((&of.runs, of.runs.period()?))) {
            let (inner, outer) = runs.distances(period);
            return SpatialPattern::NestedStrided {
                inner,
                outer,
                period,
            };
        }
        if nearly(self.sequential) {
            return SpatialPattern::Sequential;
        }
        SpatialPattern::Random
    }

    /// Returns a digest that is equal for streams with the same offsets and lengths in the same order.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Api, FileId, Op, ProcessId};

    fn pattern(places: &[(u64, u64)]) -> SpatialPattern {
        let mut stream = Stream::default();
        for (i, (offset, bytes)) in places.iter().enumerate() {
            stream.add(&Event {
                process: ProcessId(0),
                thread: 0,
                file: FileId(0),
                op: Op::Write,
                api: Api::Posix,
                offset: Some(*offset),
                bytes: *bytes,
                start_ns: i as u64,
                duration_ns: 1,
                failed: false,
            });
        }
        stream.pattern()
    }

    #[test]
    fn patterns_are_distinguished() {
        let consecutive: Vec<_> = (0..20).map(|i| (i * 10, 10)).collect();
        assert_eq!(pattern(&consecutive), SpatialPattern::Consecutive);
        let strided: Vec<_> = (0..20).map(|i| (i * 100, 10)).collect();
        assert_eq!(pattern(&strided), SpatialPattern::Strided { stride: 100 });
        let nested: Vec<_> = (0..20)
            .flat_map(|i| (0..4).map(move |j| (i * 10_000 + j * 100, 10)))
            .collect();
        assert_eq!(
            pattern(&nested),
            SpatialPattern::NestedStrided {
                inner: 100,
                outer: 9700,
                period: 2
            }
        );
        let sequential: Vec<_> = (0..20u64).map(|i| (i * i * 100, 10)).collect();
        assert_eq!(pattern(&sequential), SpatialPattern::Sequential);
        let again: Vec<_> = (0..20).map(|_| (4096, 512)).collect();
        assert_eq!(pattern(&again), SpatialPattern::Repeated);
        let random: Vec<_> = (0..40u64)
            .map(|i| (i * i * i * 7919 % 997 * 64, 64))
            .collect();
        assert_eq!(pattern(&random), SpatialPattern::Random);
        assert_eq!(pattern(&[(5, 5)]), SpatialPattern::Single);
        assert_eq!(pattern(&[]), SpatialPattern::Unknown);
    }

    #[test]
    fn the_digest_detects_another_order() {
        let digest = |places: &[(u64, u64)]| {
            let mut stream = Stream::default();
            for (offset, bytes) in places {
                stream.add(&Event {
                    process: ProcessId(0),
                    thread: 0,
                    file: FileId(0),
                    op: Op::Write,
                    api: Api::Posix,
                    offset: Some(*offset),
                    bytes: *bytes,
                    start_ns: 0,
                    duration_ns: 0,
                    failed: false,
                });
            }
            stream.digest()
        };
        assert_eq!(digest(&[(0, 1), (1, 2)]), digest(&[(0, 1), (1, 2)]));
        assert_ne!(digest(&[(0, 1), (1, 2)]), digest(&[(1, 2), (0, 1)]));
    }
}
