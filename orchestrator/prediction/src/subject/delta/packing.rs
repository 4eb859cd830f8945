//! What codecs make of blocks, from files that were stored.

use cvc_model::{Interval, delta::Packing, stats};
use serde::Serialize;

/// A state as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedState {
    /// The method, as records name it.
    pub method: String,
    /// Number of the state.
    pub state: u32,
    /// Whether it is stored in full.
    pub is_full: bool,
    /// MiB of its blocks that are stored.
    pub blocks_mib: f64,
    /// MiB of its file.
    pub file_mib: f64,
    /// Seconds to compress and write it; none: not measured, or not such that it compares with others.
    pub store_s: Option<f64>,
    /// MiB of the blocks of all files that restore it, and seconds that this took.
    pub restored: Option<(f64, f64)>,
}

/// States as a codec stored them.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// The codec, as options name it; `none` for blocks as they are.
    pub codec: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The states, once by each method.
    pub states: Vec<PackedState>,
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
    /// What cannot be told of it.
    pub warnings: Vec<String>,
}

/// Methods whose files tell what is left of changed blocks, the best first: all methods store some states alike, so that files of several are no
/// independent samples.
const SAMPLED: [&str; 4] = ["incremental", "differential", "adca", "bounded"];

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    // the sum of none would be -0
    values.fold(0.0, |sum, value| sum + value)
}

impl Packed {
    /// The states of the method with most deltas.
    fn sample(&self) -> Vec<&PackedState> {
        let of = |method: &str| -> Vec<&PackedState> {
            self.states.iter().filter(|s| s.method == method).collect()
        };
        let deltas = |states: &[&PackedState]| states.iter().filter(|s| !s.is_full).count();
        let mut most = Vec::new();
        for states in SAMPLED.map(of) {
            if deltas(&states) > deltas(&most) {
                most = states;
            }
        }
        most
    }

    /// The states that were stored in the same way without a codec too.
    fn beside<'a>(
        &'a self,
        plain: &'a Packed,
    ) -> impl Iterator<Item = (&'a PackedState, &'a PackedState)> {
        self.states.iter().filter_map(|s| {
            let is_same = |p: &&PackedState| p.method == s.method && p.state == s.state;
            Some((s, plain.states.iter().find(is_same)?))
        })
    }

    /// MiB of blocks that are compressed each second, beside writing. Files of both kinds are taken to be written at the same rate.
    fn pack_mib_s(&self, plain: &Packed) -> Result<f64, String> {
        let codec = &self.codec;
        let timed: Vec<(&PackedState, &PackedState, f64, f64)> = self
            .beside(plain)
            .filter_map(|(s, p)| Some((s, p, s.store_s?, p.store_s?)))
            .collect();
        let [own_mib, plain_mib] = [
            sum(timed.iter().map(|(s, ..)| s.file_mib)),
            sum(timed.iter().map(|(_, p, ..)| p.file_mib)),
        ];
        if timed.is_empty() || plain_mib <= 0.0 {
            return Err(format!(
                "how fast {codec} compresses cannot be told, and it is taken to need no time: no state was stored by the same method with {codec} and \
                 without a codec, both after the program's end; the first of `methods` in `deltas` is stored while it runs: put another method before it"
            ));
        }
        let write_s = sum(timed.iter().map(|(.., plain_s)| *plain_s)) * own_mib / plain_mib;
        let pack_s = sum(timed.iter().map(|(_, _, own_s, _)| *own_s)) - write_s;
        let blocks_mib = sum(timed.iter().map(|(s, ..)| s.blocks_mib));
        if pack_s > 0.0 && blocks_mib > 0.0 {
            Ok(blocks_mib / pack_s)
        } else {
            Err(format!(
                "how fast {codec} compresses cannot be told, and it is taken to need no time: storing took no longer than writing alone"
            ))
        }
    }

    /// MiB of blocks that are uncompressed each second, beside reading.
    fn unpack_mib_s(&self, plain: &Packed) -> Result<f64, String> {
        let restored: Vec<(f64, f64)> = self
            .beside(plain)
            .filter_map(|(s, p)| {
                let ((chain_mib, own_s), (_, plain_s)) = (s.restored?, p.restored?);
                Some((chain_mib, own_s - plain_s))
            })
            .collect();
        let chains_mib = sum(restored.iter().map(|(mib, _)| *mib));
        let unpack_s = sum(restored.iter().map(|(_, seconds)| *seconds));
        if unpack_s > 0.0 && chains_mib > 0.0 {
            return Ok(chains_mib / unpack_s);
        }
        let why = if restored.is_empty() {
            "no state was restored both with it and without a codec"
        } else {
            "restoring took no longer than without"
        };
        Err(format!(
            "how fast {} uncompresses cannot be told, and it is taken to need no time: {why}",
            self.codec
        ))
    }

    /// What the codec makes of blocks, and how sure that is. `plain` are the same states as they are, by which the time of writing is told from that
    /// of compressing. `None` without a state that was stored as changed blocks.
    #[must_use]
    pub fn answer(&self, plain: Option<&Packed>) -> Option<CodecAnswer> {
        let sample = self.sample();
        let ratio = |is_full: bool| {
            let of = || sample.iter().filter(|s| s.is_full == is_full);
            let blocks = sum(of().map(|s| s.blocks_mib));
            let ratio = sum(of().map(|s| s.file_mib)) / blocks;
            (blocks > 0.0 && ratio > 0.0).then_some(ratio)
        };
        let delta_ratio = ratio(false)?;
        let full_ratio = ratio(true).unwrap_or(delta_ratio);
        let mut warnings = Vec::new();
        let (mut pack_mib_s, mut unpack_mib_s) = (None, None);
        match plain {
            _ if self.codec == "none" => {}
            Some(plain) => {
                let mut told = |rate: Result<f64, String>| rate.map_err(|e| warnings.push(e)).ok();
                pack_mib_s = told(self.pack_mib_s(plain));
                unpack_mib_s = told(self.unpack_mib_s(plain));
            }
            None => warnings.push(format!(
                "how fast {} compresses and uncompresses cannot be told, and it is taken to need no time: nothing was stored without a codec; add `none` to \
                 the `codecs` of `deltas`",
                self.codec
            )),
        }
        let each: Vec<(f64, f64)> = sample
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
            warnings,
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
