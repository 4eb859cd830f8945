//! Operations on a file laid over its parts: what each part took.

use crate::event::Event;
use std::ops::Range;

/// What a part took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartTime {
    /// Operations that moved bytes of it.
    pub operations: u64,
    /// Bytes of it that they moved.
    pub bytes: u64,
    /// Seconds within operations: of one that moved bytes of several parts, each has its share by bytes.
    pub time_s: f64,
    /// The same with the time since the operation before it: what it took to come to them. Those of all parts add up to the time from the first
    /// operation to the end of the last.
    pub elapsed_s: f64,
}

impl PartTime {
    /// Adds that of another file.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.time_s += other.time_s;
        self.elapsed_s += other.elapsed_s;
    }
}

/// The parts of one file and what they took.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// In order and disjoint; each with the number of its part.
    places: Vec<(Range<u64>, usize)>,
    taken: Vec<PartTime>,
    outside: PartTime,
    last_end_ns: Option<u64>,
}

impl Overlay {
    /// Parts by the places that they have in the file; `parts` is how many different ones there are. Places that overlap belong to the first.
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

    /// Lays a read or a write over the parts. Events come in the order of their times, those of one process.
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

    /// What each part took, in the order of their numbers.
    pub fn taken(&self) -> &[PartTime] {
        &self.taken
    }

    /// What lies in no part.
    pub fn outside(&self) -> &PartTime {
        &self.outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Api, FileId, Op, ProcessId};

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
