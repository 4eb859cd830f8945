//! The most common values of a quantity.

use std::collections::BTreeMap;

/// Maximum number of different values that are counted separately; all others are counted together.
const MAX_VALUES: usize = 2048;

/// Values such as sizes of operations, and how often each occurred. Darshan records at most four for each file and rank, so the counts are lower
/// bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    counts: BTreeMap<i64, u64>,
    further: u64,
}

impl Common {
    pub(super) fn add(&mut self, value: i64, count: u64) {
        if count == 0 {
            return;
        }
        let full = self.counts.len() >= MAX_VALUES;
        let place = match self.counts.get_mut(&value) {
            Some(known) => known,
            None if full => &mut self.further,
            None => self.counts.entry(value).or_default(),
        };
        *place = place.saturating_add(count);
    }

    /// Returns the `most` most frequent values with their counts. Among values with equal counts, the smaller comes first.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<(i64, u64)> {
        let mut all: Vec<(i64, u64)> = self.counts.iter().map(|(v, n)| (*v, *n)).collect();
        all.sort_by_key(|&(value, count)| (u64::MAX - count, value));
        all.truncate(most);
        all
    }

    /// Returns the number of occurrences of values that are not counted separately.
    #[must_use]
    pub fn further(&self) -> u64 {
        self.further
    }
}
