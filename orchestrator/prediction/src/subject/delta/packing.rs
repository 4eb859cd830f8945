//! Effect of codecs on blocks, measured on stored files.

use cvc_model::{Interval, delta::Packing, stats};
use serde::Serialize;

/// A stored checkpoint (state) of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedState {
    /// Name of the method, as in records.
    pub method: String,
    /// Number of the checkpoint.
    pub state: u32,
    /// Whether it is stored in full.
    pub is_full: bool,
    /// MiB of the stored blocks, uncompressed.
    pub blocks_mib: f64,
    /// MiB of the file.
    pub file_mib: f64,
    /// Seconds to compress and write it; `None` if not measured, or not comparable.
    pub store_s: Option<f64>,
    /// MiB of the blocks in all files read to restore it, and the seconds for this.
    pub restored: Option<(f64, f64)>,
}

/// Checkpoints stored with one codec.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// Name of the codec in options; `none` for uncompressed blocks.
    pub codec: String,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The checkpoints, once for each method.
    pub states: Vec<PackedState>,
}

/// Results for a codec.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CodecAnswer {
    /// The codec.
    pub codec: String,
    /// Effect of the codec on blocks.
    pub packing: Packing,
    /// Interval of the ratio of compressed to uncompressed changed blocks, from the scatter of the checkpoints.
    pub delta_ratio: Interval,
    /// Number of checkpoints from which `delta_ratio` follows: those stored as changed blocks.
    pub states: usize,
    /// Mean error, in percent, of a file's length predicted from the other checkpoints; `None` with fewer than three checkpoints.
    pub left_out_pct: Option<f64>,
    /// Warnings about unknown quantities.
    pub warnings: Vec<String>,
}

/// Methods from whose files the ratio is computed, in order of preference. All methods store some checkpoints in the same way, so files of several
/// methods are not independent samples.
const SAMPLED: [&str; 4] = ["incremental", "differential", "adca", "bounded"];

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    // an empty sum would be -0
    values.fold(0.0, |sum, value| sum + value)
}

/// The reason why the rate of a codec is unknown, with the codec's name. Compression is then assumed to take no time.
#[derive(Debug, thiserror::Error)]
enum UnknownRate {
    #[error(
        "the compression rate of {0} is unknown, so compressing is assumed to take no time: no state was stored by the same method with {0} and without a codec, \
         both after the program's end; the first of `methods` in `deltas` is stored while it runs: put another method before it"
    )]
    NotStored(String),
    #[error(
        "the compression rate of {0} is unknown, so compressing is assumed to take no time: storing with it took no longer than writing alone"
    )]
    StoringNotSlower(String),
    #[error(
        "the decompression rate of {0} is unknown, so decompressing is assumed to take no time: no state was restored both with it and without a codec"
    )]
    NotRestored(String),
    #[error(
        "the decompression rate of {0} is unknown, so decompressing is assumed to take no time: restoring with it took no longer than without"
    )]
    RestoringNotSlower(String),
    #[error(
        "the compression and decompression rates of {0} are unknown, so both are assumed to take no time: nothing was stored without a codec; add `none` to \
         the `codecs` of `deltas`"
    )]
    NoPlain(String),
}

impl Packed {
    /// Returns the checkpoints of the method with the most deltas.
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

    /// Returns the checkpoints together with the same checkpoints stored without a codec.
    fn pairs_with<'a>(
        &'a self,
        plain: &'a Packed,
    ) -> impl Iterator<Item = (&'a PackedState, &'a PackedState)> {
        self.states.iter().filter_map(|s| {
            let is_same = |p: &&PackedState| p.method == s.method && p.state == s.state;
            Some((s, plain.states.iter().find(is_same)?))
        })
    }

    /// Returns the MiB of blocks compressed per second, without writing. Compressed and uncompressed files are assumed to be written at the same
    /// rate.
    fn pack_mib_s(&self, plain: &Packed) -> Result<f64, UnknownRate> {
        let codec = &self.codec;
        let timed: Vec<(&PackedState, &PackedState, f64, f64)> = self
            .pairs_with(plain)
            .filter_map(|(s, p)| Some((s, p, s.store_s?, p.store_s?)))
            .collect();
        let [own_mib, plain_mib] = [
            sum(timed.iter().map(|(s, ..)| s.file_mib)),
            sum(timed.iter().map(|(_, p, ..)| p.file_mib)),
        ];
        if timed.is_empty() || plain_mib <= 0.0 {
            return Err(UnknownRate::NotStored(codec.clone()));
        }
        let write_s = sum(timed.iter().map(|(.., plain_s)| *plain_s)) * own_mib / plain_mib;
        let pack_s = sum(timed.iter().map(|(_, _, own_s, _)| *own_s)) - write_s;
        let blocks_mib = sum(timed.iter().map(|(s, ..)| s.blocks_mib));
        if pack_s > 0.0 && blocks_mib > 0.0 {
            Ok(blocks_mib / pack_s)
        } else {
            Err(UnknownRate::StoringNotSlower(codec.clone()))
        }
    }

    /// Returns the MiB of blocks uncompressed per second, without reading.
    fn unpack_mib_s(&self, plain: &Packed) -> Result<f64, UnknownRate> {
        let restored: Vec<(f64, f64)> = self
            .pairs_with(plain)
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
        let codec = self.codec.clone();
        Err(if restored.is_empty() {
            UnknownRate::NotRestored(codec)
        } else {
            UnknownRate::RestoringNotSlower(codec)
        })
    }

    /// Returns the effect of the codec on blocks, with its interval. `plain` is the same checkpoints stored uncompressed, which separates the time
    /// of writing from the time of compression. Returns `None` if no checkpoint was stored as changed blocks.
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
                let mut or_warning = |rate: Result<f64, UnknownRate>| {
                    rate.map_err(|e| warnings.push(e.to_string())).ok()
                };
                pack_mib_s = or_warning(self.pack_mib_s(plain));
                unpack_mib_s = or_warning(self.unpack_mib_s(plain));
            }
            None => warnings.push(UnknownRate::NoPlain(self.codec.clone()).to_string()),
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

/// Returns the interval of the ratio of sums, from the interval of the mean over the checkpoints, with a half-width of at least 1 %. The scatter of
/// one checkpoint is unknown: its interval is from half the ratio to twice the ratio.
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

/// Returns the mean error of file lengths in percent, each predicted from the ratio of the other checkpoints.
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
