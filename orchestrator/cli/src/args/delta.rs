//! The command line of `cvc delta`.

use clap::{Args, Subcommand};
use cvc_core::units::ByteSize;
use cvc_delta_rules::{Addressing, BlockSize, Codec, MethodName, Threshold, Transform};
use std::path::PathBuf;

#[derive(Args)]
pub struct DeltaArgs {
    #[command(subcommand)]
    pub command: DeltaCommand,
}

#[derive(Subcommand)]
pub enum DeltaCommand {
    /// Store checkpoints as what changed since earlier ones
    ///
    /// Makes a series, or adds to it. Options say how at its beginning; it keeps them.
    Make(DeltaMakeArgs),
    /// Restore a checkpoint of a series, identical to the byte
    Restore(DeltaRestoreArgs),
    /// Write a file of a checkpoint, or a stretch of it, to standard output
    ///
    /// Unpacks no more than the stretch needs. The content is uncompressed, as a restore writes it.
    Cat(DeltaCatArgs),
    /// Show a series, or the file of one of its states
    Show(DeltaShowArgs),
    /// Check that states can be restored
    ///
    /// Reads all that they need, and compares it with its checksums.
    Verify(DeltaVerifyArgs),
    /// Remove states that neither the last ones nor the next one needs
    Prune(DeltaPruneArgs),
    /// Compare what each method would store of checkpoints
    ///
    /// Stores nothing, unless --pack asks how well and how fast the codecs pack.
    Compare(DeltaCompareArgs),
}

#[derive(Args)]
pub struct DeltaMakeArgs {
    /// Directory of the series, made if it is not there
    pub series: PathBuf,
    /// Checkpoints in the order in which they were taken, each a directory with the images of all ranks, or one file
    #[arg(required = true, value_name = "STATE")]
    pub states: Vec<PathBuf>,
    /// Against which earlier state each is stored [default: adca]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub method: Option<MethodName>,
    /// When the base of adca and bounded moves: what changed since the base is more than so many times what changed since the state before, or
    /// more than so many bytes beyond it, as in 2, inf or 64MiB [default: 2]
    #[arg(long, value_name = "RATIO|SIZE", value_parser = threshold, allow_hyphen_values = true)]
    pub threshold: Option<Threshold>,
    /// Files that a restore needs at most, with bounded [default: 4]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..))]
    pub files: Option<u32>,
    /// Size of blocks: a power of two from 4KiB to 1MiB [default: 4KiB]
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub block: Option<BlockSize>,
    /// How blocks are compressed [default: zstd]
    #[arg(long, value_enum, value_name = "CODEC")]
    pub codec: Option<Codec>,
    /// What is done to blocks before [default: none]
    #[arg(long, value_enum, value_name = "TRANSFORM")]
    pub transform: Option<Transform>,
    /// Blocks that are compressed together, or `stream` for all of them [default: 256]
    #[arg(long, value_name = "Q|stream", value_parser = packet)]
    pub packet: Option<u32>,
    /// By what blocks are known again in another state [default: address]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<Addressing>,
    /// Print a line of JSON for each state
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
    /// Directory that is made with the files of the state; it must not exist
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
    /// Name of the file in the state, as `cvc delta show` of the state's file lists it
    pub file: String,
    /// Where the stretch begins [default: at the begin of the file]
    #[arg(long, value_name = "SIZE")]
    pub from: Option<ByteSize>,
    /// How long it is [default: to the end of the file]
    #[arg(long, value_name = "SIZE")]
    pub length: Option<ByteSize>,
}

#[derive(Args)]
pub struct DeltaShowArgs {
    /// Directory of a series, or a file of it
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
    /// The checkpoint from which the state was made, still there: bytes are compared with it. One N is needed then
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
    /// How many of the last states are kept
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,
}

#[derive(Args)]
pub struct DeltaCompareArgs {
    /// Checkpoints in the order in which they were taken, each a directory with the images of all ranks, or one file
    #[arg(required = true, num_args = 2.., value_name = "STATE")]
    pub states: Vec<PathBuf>,
    /// Size of blocks: a power of two from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "4KiB")]
    pub block: BlockSize,
    /// When the base of adca and bounded moves, as in 2, inf or 64MiB
    #[arg(long, value_name = "RATIO|SIZE", value_parser = threshold, default_value = "2", allow_hyphen_values = true)]
    pub threshold: Threshold,
    /// Files that a restore needs at most, with bounded
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..), default_value = "4")]
    pub files: u32,
    /// Compare only blocks that are known by this [default: both, one after the other; for CSV: address]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub by: Option<Addressing>,
    /// Also store the states with each codec in a temporary directory (TMPDIR says where), by address and with this method, and restore the last
    /// one: sizes and times
    #[arg(long, value_enum, value_name = "METHOD", num_args = 0..=1, default_missing_value = "adca", require_equals = true)]
    pub pack: Option<MethodName>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a line of CSV for each pair of states to this file: their distance in time, and what changed; `-` is standard output, and nothing
    /// else is printed then
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

#[derive(Args)]
pub struct ImageDiffArgs {
    /// The older image, or the directory of a checkpoint
    pub old: PathBuf,
    /// The newer one
    pub new: PathBuf,
    /// Size of the blocks that are compared: a power of two from 4KiB to 1MiB
    #[arg(long, value_name = "SIZE", value_parser = block_size, default_value = "4KiB")]
    pub block: BlockSize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn block_size(text: &str) -> Result<BlockSize, String> {
    let bytes: ByteSize = text.parse()?;
    BlockSize::new(bytes.0).map_err(|kind| kind.to_string())
}

/// Blocks of a packet; 0 for one stream.
fn packet(text: &str) -> Result<u32, String> {
    if text == "stream" {
        return Ok(0);
    }
    text.parse()
        .ok()
        .filter(|blocks| *blocks > 0)
        .ok_or_else(|| "write a number of blocks above 0, or `stream`".to_owned())
}

/// A ratio is a number, a difference a size.
fn threshold(text: &str) -> Result<Threshold, String> {
    let none = || {
        "write a ratio of 0 or more, as in 2 or inf, or a size with its unit, as in 64MiB"
            .to_owned()
    };
    let text = text.trim();
    if let Ok(ratio) = text.parse::<f64>() {
        return Threshold::Ratio(ratio).check().map_err(|_| none());
    }
    let bytes = text.parse::<ByteSize>().map_err(|_| none())?.0;
    i64::try_from(bytes)
        .map(Threshold::Bytes)
        .map_err(|_| none())
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
