//! Counts operations by size, in the same bins as Darshan.

/// The bins, each with the largest size that it contains, bytes.
const BINS: [(&str, u64); 10] = [
    ("0-100", 100),
    ("100-1K", 1024),
    ("1K-10K", 10 << 10),
    ("10K-100K", 100 << 10),
    ("100K-1M", 1 << 20),
    ("1M-4M", 4 << 20),
    ("4M-10M", 10 << 20),
    ("10M-100M", 100 << 20),
    ("100M-1G", 1 << 30),
    ("1G+", u64::MAX),
];

/// Numbers of operations by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeBins([u64; 10]);

impl SizeBins {
    /// Counts an operation of this size.
    pub fn add(&mut self, bytes: u64) {
        let bin = BINS.partition_point(|(_, most)| *most < bytes);
        self.0[bin] = self.0[bin].saturating_add(1);
    }

    /// Creates counts from the numbers of all bins, smallest first.
    pub fn of(numbers: [u64; 10]) -> Self {
        Self(numbers)
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Returns the bins with their counts, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        BINS.iter().zip(self.0).map(|((name, _), n)| (*name, n))
    }

    /// Returns the number of operations in the bins whose largest size is at most `bytes`.
    pub fn up_to(&self, bytes: u64) -> u64 {
        BINS.iter()
            .zip(self.0)
            .filter(|((_, most), _)| *most <= bytes)
            .map(|(_, n)| n)
            .fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_darshan() {
        let mut bins = SizeBins::default();
        for bytes in [0, 100, 101, 1024, 1025, 1 << 20, (1 << 20) + 1, 1 << 40] {
            bins.add(bytes);
        }
        let found: Vec<u64> = bins.iter().map(|(_, n)| n).collect();
        assert_eq!(found, [2, 2, 1, 0, 1, 1, 0, 0, 0, 1]);
        assert_eq!(bins.up_to(1 << 20), 6);
    }
}
