//! Disjoint intervals with sums, in bounded memory: periods of activity, or ranges of a file that were used.

use std::collections::BTreeMap;

/// Sum over the operations in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalSum {
    /// Number of operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
}

impl IntervalSum {
    fn add(&mut self, other: Self) {
        self.operations = self.operations.saturating_add(other.operations);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A set of disjoint intervals. Intervals that are at most the gap apart are joined. If there are too many intervals, the gap is increased.
#[derive(Clone, Debug)]
pub struct Intervals {
    /// By start of the interval: its end and its sum.
    by_start: BTreeMap<u64, (u64, IntervalSum)>,
    gap: u64,
    most: usize,
    /// Start of the most recently used interval, and start of the interval after it. This is a cache: most operations continue the previous one.
    last: Option<(u64, u64)>,
}

impl Intervals {
    /// Creates an empty set of at most `most` intervals, with the initial gap `gap`.
    pub fn new(gap: u64, most: usize) -> Self {
        Self {
            by_start: BTreeMap::new(),
            gap,
            most: most.max(2),
            last: None,
        }
    }

    /// Adds `start..end`; intervals may be added in any order.
    pub fn add(&mut self, start: u64, end: u64, bytes: u64) {
        let end = end.max(start);
        let sum = IntervalSum {
            operations: 1,
            bytes,
        };
        if let Some((first, next)) = self.last
            && start >= first
            && end.saturating_add(self.gap) < next
            && let Some((until, of)) = self.by_start.get_mut(&first)
            && start <= until.saturating_add(self.gap)
        {
            *until = end.max(*until);
            of.add(sum);
            return;
        }
        self.merge(start, end, sum);
        if self.by_start.len() > self.most {
            self.coarsen();
        }
    }

    fn merge(&mut self, mut start: u64, mut end: u64, mut sum: IntervalSum) {
        // the preceding interval may overlap this one
        if let Some((&first, &(until, of))) = self.by_start.range(..=start).next_back()
            && until.saturating_add(self.gap) >= start
        {
            self.by_start.remove(&first);
            (start, end) = (first, end.max(until));
            sum.add(of);
        }
        loop {
            let following = self.by_start.range(start..).next();
            let Some((&first, &(until, of))) = following else {
                self.last = Some((start, u64::MAX));
                break;
            };
            if first > end.saturating_add(self.gap) {
                self.last = Some((start, first));
                break;
            }
            self.by_start.remove(&first);
            end = end.max(until);
            sum.add(of);
        }
        self.by_start.insert(start, (end, sum));
    }

    /// Doubles the gap until at most half of the maximum number of intervals is left.
    fn coarsen(&mut self) {
        while self.by_start.len() > self.most / 2 {
            self.gap = self.gap.saturating_mul(2).max(1);
            self.close(self.gap);
        }
    }

    /// Joins intervals that are at most `gap` apart, including those added later.
    pub fn close(&mut self, gap: u64) {
        self.gap = self.gap.max(gap);
        let old = std::mem::take(&mut self.by_start);
        self.last = None;
        let mut open: Option<(u64, u64, IntervalSum)> = None;
        for (start, (end, sum)) in old {
            match &mut open {
                Some((_, until, of)) if start <= until.saturating_add(self.gap) => {
                    *until = end.max(*until);
                    of.add(sum);
                }
                _ => {
                    if let Some((start, end, sum)) = open.replace((start, end, sum)) {
                        self.by_start.insert(start, (end, sum));
                    }
                }
            }
        }
        if let Some((start, end, sum)) = open {
            self.by_start.insert(start, (end, sum));
        }
    }

    /// Returns the intervals in order, as start, end and sum.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, IntervalSum)> + '_ {
        self.by_start
            .iter()
            .map(|(start, (end, sum))| (*start, *end, *sum))
    }

    /// Returns the number of intervals.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Returns whether there are no intervals.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Returns the gap. Intervals that are at most this far apart are joined.
    pub fn gap(&self) -> u64 {
        self.gap
    }

    /// Returns the total length of all intervals.
    pub fn length(&self) -> u64 {
        self.iter().map(|(start, end, _)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(parts: &[(u64, u64)], gap: u64, most: usize) -> Intervals {
        let mut all = Intervals::new(gap, most);
        for (start, end) in parts {
            all.add(*start, *end, end - start);
        }
        all
    }

    #[test]
    fn intervals_that_touch_are_one_and_sums_add_up() {
        let all = of(&[(0, 10), (20, 30), (10, 12), (40, 50), (11, 41)], 0, 100);
        let found: Vec<_> = all.iter().collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].1), (0, 50));
        assert_eq!(found[0].2.operations, 5);
        assert_eq!(found[0].2.bytes, 10 + 10 + 2 + 10 + 30);
    }

    #[test]
    fn too_many_are_made_coarser_and_nothing_is_lost() {
        let parts: Vec<(u64, u64)> = (0..1000).map(|i| (i * 10, i * 10 + 1)).collect();
        let all = of(&parts, 0, 64);
        assert!(
            all.len() <= 64 && all.gap() >= 9,
            "{} {}",
            all.len(),
            all.gap()
        );
        assert_eq!(all.iter().map(|(_, _, s)| s.operations).sum::<u64>(), 1000);
    }

    proptest! {
        /// Compares the intervals with a table of all positions.
        #[test]
        fn intervals_are_those_of_the_places_that_were_touched(
            parts in prop::collection::vec((0u64..200, 1u64..20), 0..60)
        ) {
            let mut touched = [false; 256];
            for (start, length) in &parts {
                touched[*start as usize..(start + length) as usize].fill(true);
            }
            let parts: Vec<_> = parts.iter().map(|(s, l)| (*s, s + l)).collect();
            let all = of(&parts, 0, 1000);
            let mut mine = [false; 256];
            let mut before = None;
            for (start, end, _) in all.iter() {
                prop_assert!(before.is_none_or(|b| b < start), "disjoint, in order");
                mine[start as usize..end as usize].fill(true);
                before = Some(end);
            }
            prop_assert_eq!(mine, touched);
            prop_assert_eq!(all.length(), touched.iter().filter(|t| **t).count() as u64);
        }
    }
}
