//! What codecs make of blocks, from files that were stored.

use cvc_model::{Interval, delta::Packing, stats};
use serde::Serialize;

/// A state as it was stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackedState {
    /// Whether it is stored in full.
    pub is_full: bool,
    /// MiB of its blocks that are stored.
    pub blocks_mib: f64,
    /// MiB of its file.
    pub file_mib: f64,
    /// Seconds to compress and write it.
    pub store_s: Option<f64>,
}

/// States as a codec stored them.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// The codec, as options name it; `none` for blocks as they are.
    pub codec: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The states.
    pub states: Vec<PackedState>,
    /// Seconds to restore one, in the mean.
    pub restore_s: Option<f64>,
}

/// What was found of a codec.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodecAnswer {
    /// The codec.
    pub codec: String,
    /// What it makes of blocks.
    pub packing: Packing,
    /// Where the part that is left of changed blocks is expected, as the states scatter.
    pub delta_ratio: Interval,
    /// States behind it, without those in full.
    pub states: usize,
    /// Error of the length of a file that is predicted from the other states, in percent, in the mean; none with fewer than three.
    pub left_out_pct: Option<f64>,
}

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    // the sum of none would be -0
    values.fold(0.0, |sum, value| sum + value)
}

impl Packed {
    fn ratio(&self, is_full: bool) -> Option<f64> {
        let of = || self.states.iter().filter(|s| s.is_full == is_full);
        let blocks = sum(of().map(|s| s.blocks_mib));
        let ratio = sum(of().map(|s| s.file_mib)) / blocks;
        (blocks > 0.0 && ratio > 0.0).then_some(ratio)
    }

    fn written_mib(&self) -> f64 {
        sum(self.timed().map(|(s, _)| s.file_mib))
    }

    fn store_s(&self) -> f64 {
        sum(self.timed().map(|(_, seconds)| seconds))
    }

    fn timed(&self) -> impl Iterator<Item = (&PackedState, f64)> {
        self.states.iter().filter_map(|s| Some((s, s.store_s?)))
    }

    /// What the codec makes of blocks, and how sure that is. `plain` are the same states as they are, by which the time of writing is told from that
    /// of compressing. `None` without a state that was stored as changed blocks.
    #[must_use]
    pub fn answer(&self, plain: Option<&Packed>) -> Option<CodecAnswer> {
        let delta_ratio = self.ratio(false)?;
        let full_ratio = self.ratio(true).unwrap_or(delta_ratio);
        let is_plain = self.codec == "none";
        let beside = plain.filter(|_| !is_plain);
        let blocks_mib = sum(self.timed().map(|(s, _)| s.blocks_mib));
        let write_s = beside.map_or(0.0, |plain| {
            let rate = plain.written_mib() / plain.store_s();
            if rate > 0.0 && rate.is_finite() {
                self.written_mib() / rate
            } else {
                0.0
            }
        });
        let pack_s = self.store_s() - write_s;
        let pack_mib_s =
            (!is_plain && pack_s > 0.0 && blocks_mib > 0.0).then(|| blocks_mib / pack_s);
        let full_mib = self
            .states
            .iter()
            .find(|s| s.is_full)
            .map_or(0.0, |s| s.blocks_mib);
        let unpack_s = beside
            .and_then(|plain| Some(self.restore_s? - plain.restore_s?))
            .unwrap_or(0.0);
        let unpack_mib_s = (unpack_s > 0.0 && full_mib > 0.0).then(|| full_mib / unpack_s);
        let each: Vec<(f64, f64)> = self
            .states
            .iter()
            .filter(|s| !s.is_full && s.blocks_mib > 0.0)
            .map(|s| (s.blocks_mib, s.file_mib))
            .collect();
        Some(CodecAnswer {
            codec: self.codec.clone(),
            packing: Packing {
                full_ratio,
                delta_ratio,
                pack_mib_s,
                unpack_mib_s,
            },
            delta_ratio: spread(delta_ratio, &each),
            states: each.len(),
            left_out_pct: left_out_pct(&each),
        })
    }
}

/// Where the ratio of sums is expected: its mean with the interval of the mean over the states, at least 1 % to each side. One state alone says nothing of the scatter: then half and twice as much.
fn spread(ratio: f64, states: &[(f64, f64)]) -> Interval {
    let ratios: Vec<f64> = states.iter().map(|(blocks, file)| file / blocks).collect();
    let half = stats::Summary::of(&ratios)
        .and_then(|s| s.interval)
        .map(|i| (i.high - i.low) / 2.0);
    half.map_or(
        Interval {
            low: ratio / 2.0,
            high: ratio * 2.0,
        },
        |half| {
            let half = half.max(0.01 * ratio);
            Interval {
                low: (ratio - half).max(ratio / 10.0),
                high: ratio + half,
            }
        },
    )
}

/// The mean error of lengths of files, each predicted from the ratio of the other states, in percent.
fn left_out_pct(states: &[(f64, f64)]) -> Option<f64> {
    if states.len() < 3 {
        return None;
    }
    let (all_blocks, all_files) = (
        sum(states.iter().map(|s| s.0)),
        sum(states.iter().map(|s| s.1)),
    );
    let error = |(blocks, file): &(f64, f64)| {
        let predicted = blocks * (all_files - file) / (all_blocks - blocks);
        (predicted / file - 1.0).abs()
    };
    Some(100.0 * sum(states.iter().map(error)) / states.len() as f64)
}
