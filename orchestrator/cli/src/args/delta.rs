//! The command line of `cvc delta`.

use clap::{Args, Subcommand};
use cvc_core::units::{ByteSize, ByteSizeError};
use cvc_delta_rules::{
    Addressing, BlockSize, Codec, InvalidRule, MethodName, Threshold, Transform,
};
use std::path::PathBuf;

#[derive(Args)]
pub struct DeltaArgs {
    #[command(subcommand)]
    pub command: DeltaCommand,
}

#[derive(Subcommand)]
pub enum DeltaCommand {
    /// Store checkpoints as changes since earlier ones
    ///
    /// Creates a series or adds to it. A series keeps its options.
    Make(DeltaMakeArgs),
    /// Restore a checkpoint of a series, identical to the byte
    Restore(DeltaRestoreArgs),
    /// Write a file of a checkpoint, or a range of it, to standard output
    Cat(DeltaCatArgs),
    /// Show a series, or the file of one of its states
    Show(DeltaShowArgs),
    /// Check that states can be restored, by their checksums
    Verify(DeltaVerifyArgs),
    /// Remove states that neither the last ones nor the next one needs
    Prune(DeltaPruneArgs),
    /// Compare what each method would store of checkpoints
    ///
    /// Stores nothing, except temporarily with --pack.
    Compare(DeltaCompareArgs),
}

#[derive(Args)]
pub struct DeltaMakeArgs {
    /// Directory of the series, created if missing
    pub series: PathBuf,
    /// Checkpoint directories or files, oldest first
    #[arg(required = true, value_name = "STATE")]
    pub states: Vec<PathBuf>,
    /// Method for each state's base [default: adca]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub method: Option<MethodName>,
    /// When adca and bounded move the base: changes since it, against changes since the previous state (e.g. 2, inf, 64MiB) [default: 2]
    #[arg(long, value_name = "RATIO|SIZE", value_parser = threshold, allow_hyphen_values = true)]
    pub threshold: Option<Threshold>,
    /// Maximum files for a restore, with bounded [default: 4]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..))]
    pub files: Option<u32>,
    /// Block size, from 4KiB to 1MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub block: Option<BlockSize>,
    /// Block compression [default: zstd]
    #[arg(long, value_enum, value_name = "CODEC")]
    pub codec: Option<Codec>,
    /// Transform before compression [default: none]
    #[arg(long, value_enum, value_name = "TRANSFORM")]
    pub transform: Option<Transform>,
    /// Blocks compressed together, or `stream` [default: 256]
    #[arg(long, value_name = "Q|stream", value_parser = packet)]
    pub packet: Option<u32>,
    /// How blocks are matched [default: address]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<Addressing>,
    /// Print a JSON line per state
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DeltaRestoreArgs {
    /// Directory of the series
    pub series: PathBuf,
    /// Number of the state
    #[arg(value_name = "N")]
    pub state: u32,
    /// Directory to create
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
}

#[derive(Args)]
pub struct DeltaCatArgs {
    /// Directory of the series
    pub series: PathBuf,
    /// Number of the state
    #[arg(value_name = "N")]
    pub state: u32,
    /// File of the state
    pub file: String,
    /// Start of the range
    #[arg(long, value_name = "SIZE")]
    pub from: Option<ByteSize>,
    /// Length of the range
    #[arg(long, value_name = "SIZE")]
    pub length: Option<ByteSize>,
}

#[derive(Args)]
pub struct DeltaShowArgs {
    /// Directory of a series, or one of its files
    #[arg(value_name = "SERIES|FILE")]
    pub path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DeltaVerifyArgs {
    /// Directory of the series
    pub series: PathBuf,
    /// Numbers of states [default: all]
    #[arg(value_name = "N")]
    pub states: Vec<u32>,
    /// Original checkpoint to compare with one N
    #[arg(long, value_name = "STATE")]
    pub against: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DeltaPruneArgs {
    /// Directory of the series
    pub series: PathBuf,
    /// Last states to keep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,
}

#[derive(Args)]
pub struct DeltaCompareArgs {
    /// Checkpoint directories or files, oldest first
    #[arg(required = true, num_args = 2.., value_name = "STATE")]
    pub states: Vec<PathBuf>,
    /// Block size, from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "4KiB")]
    pub block: BlockSize,
    /// When the base of adca and bounded moves
    #[arg(long, value_name = "RATIO|SIZE", value_parser = threshold, default_value = "2", allow_hyphen_values = true)]
    pub threshold: Threshold,
    /// Maximum files for a restore, with bounded
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..), default_value = "4")]
    pub files: u32,
    /// How blocks are matched [default: both; CSV: address]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<Addressing>,
    /// Also store with each codec and this method, and measure
    #[arg(long, value_enum, value_name = "METHOD", num_args = 0..=1, default_missing_value = "adca", require_equals = true)]
    pub pack: Option<MethodName>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write changes per pair as CSV; `-`: standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Args)]
pub struct ImageDiffArgs {
    /// Older image or checkpoint directory
    pub old: PathBuf,
    /// Newer one
    pub new: PathBuf,
    /// Block size, from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "4KiB")]
    pub block: BlockSize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Why the value of an option of `cvc delta` is invalid.
#[derive(Debug, PartialEq, thiserror::Error)]
enum DeltaValueError {
    #[error(transparent)]
    Size(#[from] ByteSizeError),
    #[error(transparent)]
    Rule(#[from] InvalidRule),
    #[error("write a number of blocks above 0, or `stream`")]
    Packet,
    #[error("write a ratio of 0 or more, as in 2 or inf, or a size with its unit, as in 64MiB")]
    Threshold,
}

fn block_size(text: &str) -> Result<BlockSize, DeltaValueError> {
    let bytes: ByteSize = text.parse()?;
    Ok(BlockSize::new(bytes.0)?)
}

/// Parses the number of blocks in a packet, which are compressed together. Returns 0 for `stream`: all blocks are one stream.
fn packet(text: &str) -> Result<u32, DeltaValueError> {
    if text == "stream" {
        return Ok(0);
    }
    text.parse()
        .ok()
        .filter(|blocks| *blocks > 0)
        .ok_or(DeltaValueError::Packet)
}

/// Parses a threshold: a plain number is a ratio, a size is a difference in bytes.
fn threshold(text: &str) -> Result<Threshold, DeltaValueError> {
    let text = text.trim();
    let threshold = match text.parse::<f64>() {
        Ok(ratio) => Threshold::Ratio(ratio).check().ok(),
        Err(_) => text
            .parse::<ByteSize>()
            .ok()
            .and_then(|bytes| i64::try_from(bytes.0).ok())
            .map(Threshold::Bytes),
    };
    threshold.ok_or(DeltaValueError::Threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_ratios_or_sizes() {
        assert_eq!(threshold("2"), Ok(Threshold::Ratio(2.0)));
        assert_eq!(threshold("inf"), Ok(Threshold::Ratio(f64::INFINITY)));
        assert_eq!(threshold("64MiB"), Ok(Threshold::Bytes(64 << 20)));
        for wrong in [
            "-1",
            "nan",
            "NaN",
            "-64MiB",
            "much",
            "",
            "9999999999999999999B",
        ] {
            assert!(threshold(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn packets_have_blocks() {
        assert_eq!((packet("stream"), packet("64")), (Ok(0), Ok(64)));
        assert!(packet("0").is_err() && packet("-1").is_err());
    }
}
