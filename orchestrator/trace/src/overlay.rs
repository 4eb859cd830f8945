//! Maps operations on a file to parts of the file, and sums bytes and time of each part.

use crate::event::Event;
use std::ops::Range;

/// Sums over operations, for a linear fit of time against size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeBySize {
    n: f64,
    mib: f64,
    s: f64,
    mib_mib: f64,
    mib_s: f64,
    s_s: f64,
}

/// Minimum number of operations for a fit.
const MIN_FITTED: f64 = 3.0;

impl TimeBySize {
    fn add(&mut self, mib: f64, s: f64) {
        let one = [1.0, mib, s, mib * mib, mib * s, s * s];
        *self = self.plus(one);
    }

    fn plus(self, [n, mib, s, mib_mib, mib_s, s_s]: [f64; 6]) -> Self {
        Self {
            n: self.n + n,
            mib: self.mib + mib,
            s: self.s + s,
            mib_mib: self.mib_mib + mib_mib,
            mib_s: self.mib_s + mib_s,
            s_s: self.s_s + s_s,
        }
    }

    /// Returns the fit of an operation's time as a + b·MiB by least squares, and Pearson's correlation of size and time: `(a in s, b in s/MiB, r)`.
    /// `None` for fewer than three operations, or if all sizes or all times are equal.
    pub fn line(&self) -> Option<(f64, f64, f64)> {
        let covariance = self.mib_s - self.mib * self.s / self.n;
        let (of_mib, of_s) = (
            self.mib_mib - self.mib * self.mib / self.n,
            self.s_s - self.s * self.s / self.n,
        );
        // differences due to rounding do not count as variation
        let varies = of_mib > 1e-12 * self.mib_mib && of_s > 1e-12 * self.s_s;
        let slope = covariance / of_mib;
        (self.n >= MIN_FITTED && varies).then(|| {
            let a = (self.s - slope * self.mib) / self.n;
            (a, slope, covariance / (of_mib * of_s).sqrt())
        })
    }
}

/// Operations and time that are attributed to a part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartTime {
    /// Sums over operations that moved bytes of this part only.
    pub whole: TimeBySize,
    /// Number of operations that moved bytes of this part.
    pub operations: u64,
    /// Bytes of this part that were moved.
    pub bytes: u64,
    /// Time within operations, seconds. The time of an operation on several parts is divided in proportion to their bytes.
    pub time_s: f64,
    /// Time within operations and between them, seconds; the time since the previous operation counts as part of an operation. Over all parts it adds
    /// up to the time from the start of the first operation to the end of the last.
    pub elapsed_s: f64,
}

impl PartTime {
    /// Adds the operations of another file.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.time_s += other.time_s;
        self.elapsed_s += other.elapsed_s;
        let TimeBySize {
            n,
            mib,
            s,
            mib_mib,
            mib_s,
            s_s,
        } = other.whole;
        self.whole = self.whole.plus([n, mib, s, mib_mib, mib_s, s_s]);
    }
}

/// The parts of one file, with their operations and times.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// Ranges in the file, in order and disjoint, each with the index of its part.
    places: Vec<(Range<u64>, usize)>,
    taken: Vec<PartTime>,
    outside: PartTime,
    last_end_ns: Option<u64>,
}

impl Overlay {
    /// Creates an overlay from ranges in the file with their part indices, which are below `parts`. Where ranges overlap, the first one applies.
    pub fn new(mut places: Vec<(Range<u64>, usize)>, parts: usize) -> Self {
        places.retain(|(range, part)| range.start < range.end && *part < parts);
        places.sort_by_key(|(range, _)| range.start);
        let mut end = 0;
        for (range, _) in &mut places {
            range.start = range.start.max(end);
            end = end.max(range.end);
        }
        places.retain(|(range, _)| range.start < range.end);
        Self {
            places,
            taken: vec![PartTime::default(); parts],
            outside: PartTime::default(),
            last_end_ns: None,
        }
    }

    /// Attributes a read or write to the parts. Events must be of one process and in the order of time.
    pub fn add(&mut self, event: &Event) {
        let Some(offset) = event.offset.filter(|_| !event.failed && event.bytes > 0) else {
            return;
        };
        let end_ns = event.end_ns();
        let since = self.last_end_ns.unwrap_or(event.start_ns);
        let time_s = event.duration_ns as f64 / 1e9;
        let elapsed_s = end_ns.saturating_sub(since.min(event.start_ns)) as f64 / 1e9;
        self.last_end_ns = Some(self.last_end_ns.map_or(end_ns, |last| last.max(end_ns)));
        let end = offset.saturating_add(event.bytes);
        let first = self
            .places
            .partition_point(|(range, _)| range.end <= offset);
        let mut left = event.bytes;
        let take = |part: &mut PartTime, bytes: u64| {
            let share = bytes as f64 / event.bytes as f64;
            part.operations += 1;
            part.bytes += bytes;
            part.time_s += time_s * share;
            part.elapsed_s += elapsed_s * share;
            if bytes == event.bytes {
                part.whole.add(bytes as f64 / 1_048_576.0, time_s);
            }
        };
        for (range, part) in &self.places[first..] {
            if range.start >= end {
                break;
            }
            let bytes = range.end.min(end) - range.start.max(offset);
            take(&mut self.taken[*part], bytes);
            left -= bytes;
        }
        if left > 0 {
            take(&mut self.outside, left);
        }
    }

    /// Returns operations and times of each part, by its index.
    pub fn taken(&self) -> &[PartTime] {
        &self.taken
    }

    /// Returns operations and times outside all parts.
    pub fn outside(&self) -> &PartTime {
        &self.outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Api, FileId, Op, ProcessId};

    #[test]
    fn a_line_of_time_against_size_is_fitted_to_operations_of_one_part() {
        const MIB: u64 = 1 << 20;
        let mut overlay = Overlay::new(vec![(0..64 * MIB, 0), (64 * MIB..80 * MIB, 1)], 2);
        let mut offset = 0;
        for size in [1, 2, 4, 8, 16] {
            overlay.add(&write(offset, size * MIB, 0, 1_000_000 + 2_000_000 * size));
            offset += size * MIB;
        }
        // an operation on both parts is in neither fit
        overlay.add(&write(60 * MIB, 8 * MIB, 0, 900_000_000));
        let (a, b, r) = overlay.taken()[0].whole.line().expect("a line");
        assert!((a - 0.001).abs() < 1e-9 && (b - 0.002).abs() < 1e-9 && (r - 1.0).abs() < 1e-9);
        assert_eq!(overlay.taken()[1].whole.line(), None);
    }

    fn write(offset: u64, bytes: u64, start_ns: u64, duration_ns: u64) -> Event {
        Event {
            process: ProcessId(0),
            thread: 0,
            file: FileId(0),
            op: Op::Write,
            api: Api::Posix,
            offset: Some(offset),
            bytes,
            start_ns,
            duration_ns,
            failed: false,
        }
    }

    #[test]
    fn a_write_over_several_parts_is_divided_by_bytes_and_times_add_up() {
        const S: u64 = 1_000_000_000;
        let mut overlay = Overlay::new(vec![(0..100, 0), (100..400, 1), (500..600, 0)], 2);
        overlay.add(&write(0, 200, S, S));
        overlay.add(&write(200, 500, 3 * S, 2 * S));
        let [a, b] = overlay.taken() else {
            panic!("two parts")
        };
        assert_eq!((a.bytes, b.bytes, overlay.outside().bytes), (200, 300, 200));
        assert_eq!((a.operations, b.operations), (2, 2));
        let close = |x: f64, y: f64| (x - y).abs() < 1e-9;
        assert!(close(a.time_s, 0.5 + 0.4) && close(b.time_s, 0.5 + 0.8));
        let elapsed = a.elapsed_s + b.elapsed_s + overlay.outside().elapsed_s;
        assert!(close(elapsed, 4.0), "from 1 s to 5 s: {elapsed}");
    }
}
