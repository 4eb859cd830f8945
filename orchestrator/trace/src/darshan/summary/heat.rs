//! Bytes of ranks over time, from the module HEATMAP.

use crate::{darshan::visitor::DarshanHeatmap, event::Op};
use std::collections::BTreeMap;

/// Maximum number of rows, and of bins in a row.
const MAX_ROWS: u64 = 1024;
const MAX_BINS: u64 = 1024;

/// Bytes read and written by ranks through one interface, over time. If there are too many, adjacent ranks share a row, and adjacent bins are
/// joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatGrid {
    /// Module that recorded the data, such as `POSIX`.
    pub module: String,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// Number of bins.
    pub bins: usize,
    /// Number of ranks in a row.
    pub ranks_per_row: u64,
    /// Bytes read and bytes written in each bin, by the first rank of the row. Ranks that moved no data have no row.
    pub rows: BTreeMap<u64, [Vec<u64>; 2]>,
    /// Number of bins in the log that form one bin here.
    joined: u64,
}

impl HeatGrid {
    pub(super) fn new(module: &str, heatmap: &DarshanHeatmap, ranks: u64) -> Self {
        let joined = heatmap.bins.div_ceil(MAX_BINS).max(1);
        Self {
            module: module.to_owned(),
            bin_s: heatmap.bin_width_s * joined as f64,
            bins: heatmap.bins.div_ceil(joined) as usize,
            ranks_per_row: ranks.div_ceil(MAX_ROWS).max(1),
            rows: BTreeMap::new(),
            joined,
        }
    }

    pub(super) fn add(&mut self, heatmap: &DarshanHeatmap, op: Op, index: u64, bytes: i64) {
        let (Ok(bytes), Ok(rank)) = (u64::try_from(bytes), u64::try_from(heatmap.rank)) else {
            return;
        };
        if bytes == 0 || self.bins == 0 {
            return;
        }
        let row = (rank / self.ranks_per_row).min(MAX_ROWS) * self.ranks_per_row;
        let bins = self.bins;
        let row = self.rows.entry(row);
        let row = row.or_insert_with(|| [vec![0; bins], vec![0; bins]]);
        // processes without MPI may have bins of a different width
        let place = if heatmap.bin_width_s * self.joined as f64 == self.bin_s {
            index / self.joined
        } else {
            ((index as f64 + 0.5) * heatmap.bin_width_s / self.bin_s) as u64
        };
        let place = (place as usize).min(bins - 1);
        let bin = &mut row[usize::from(op == Op::Write)][place];
        *bin = bin.saturating_add(bytes);
    }

    /// Returns the total bytes read and bytes written.
    #[must_use]
    pub fn totals(&self) -> [u64; 2] {
        [0, 1].map(|op| {
            let of_row =
                |row: &[Vec<u64>; 2]| row[op].iter().fold(0, |a: u64, b| a.saturating_add(*b));
            self.rows.values().map(of_row).fold(0, u64::saturating_add)
        })
    }
}
