//! Arguments of `cvc image`.

use clap::{Args, ValueEnum};
use cvc_image::Method;
use std::path::PathBuf;

/// The zone rules to show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RuleSet {
    /// By owner of the memory: program (static, heap, allocated), libraries, shared
    #[default]
    Owner,
    /// By the order of the listing: everything up to `[heap]` is application data
    Literal,
    /// By the kind of each region
    Structural,
    /// Literal and structural, with their differences
    Both,
}

impl RuleSet {
    /// Returns whether the owner rules are shown.
    pub fn has_owner(self) -> bool {
        self == Self::Owner
    }

    /// Returns whether the structural rules are shown.
    pub fn has_structural(self) -> bool {
        matches!(self, Self::Structural | Self::Both)
    }
}

/// Name of a compression method in commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompressorName {
    /// `gzip -1`, as DMTCP itself
    Gzip,
    /// `zstd -3`: the default of zstd, on one thread
    Zstd,
    /// `lz4 -1`: the default of lz4
    Lz4,
}

impl From<CompressorName> for Method {
    fn from(name: CompressorName) -> Self {
        match name {
            CompressorName::Gzip => Self::Gzip,
            CompressorName::Zstd => Self::Zstd,
            CompressorName::Lz4 => Self::Lz4,
        }
    }
}

/// Order of images and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ImageSort {
    /// Largest on disk first
    #[default]
    Size,
    /// By path
    Name,
}

/// Show the zones of a DMTCP checkpoint image, of all images of a checkpoint directory, or of all below a directory, such as a campaign's.
#[derive(Clone, Debug, Args)]
pub struct ImageArgs {
    /// Image (ckpt_*.dmtcp) or directory of images
    pub path: PathBuf,
    /// Print JSON
    #[arg(long, conflicts_with = "listing")]
    pub json: bool,
    /// Print the listing of `mtcp_restart --simulate`
    #[arg(long)]
    pub listing: bool,
    /// Compare with another image, by zone
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["listing", "rules", "recursive", "sort", "top", "estimate"])]
    pub against: Option<PathBuf>,
    /// Zone rules
    #[arg(long, value_enum, default_value_t)]
    pub rules: RuleSet,
    /// Search all subdirectories
    #[arg(long, short)]
    pub recursive: bool,
    /// Sort order [default: size]
    #[arg(long, value_enum, value_name = "BY", conflicts_with = "listing")]
    pub sort: Option<ImageSort>,
    /// Show only the first N images; sums include all
    #[arg(long, value_name = "N", conflicts_with = "listing")]
    pub top: Option<usize>,
    /// Estimate compressed size, and time on one core
    #[arg(long, value_enum, value_name = "METHOD", value_delimiter = ',', conflicts_with_all = ["listing", "rules", "sort", "top"])]
    pub estimate: Vec<CompressorName>,
    /// Amount to compress per image; 0: all
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "estimate")]
    pub sample: u64,
}
