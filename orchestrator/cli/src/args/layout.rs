//! The options of `cvc predict --layout`.

use super::values::multiple;
use camino::Utf8PathBuf;
use clap::{Args, ValueEnum};
use cvc_core::units::ByteSize;

/// File systems whose operations are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    /// PVFS2, from published counts of 16 to 128 clients
    Pvfs2,
    /// OrangeFS 2.10, delegation only
    Orangefs,
    /// MooseFS 3.0, 8 clients only
    Moosefs,
}

impl FileSystem {
    /// Returns the name of the file system in the table of known operations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pvfs2 => "pvfs2",
            Self::Orangefs => "orangefs",
            Self::Moosefs => "moosefs",
        }
    }
}

/// Layouts of checkpoints on a file system.
#[derive(Args)]
#[command(next_help_heading = "Layouts of checkpoints")]
#[command(group = clap::ArgGroup::new("bandwidth_for").multiple(true).args(["delta", "layout"]))]
#[command(group = clap::ArgGroup::new("interval_for").multiple(true).args(["storage", "layout"]))]
pub struct LayoutArgs {
    /// Compare files per process, per node and shared: metadata operations, time, server load
    #[arg(
        long,
        conflicts_with_all = ["at", "from", "images", "stand_in", "train", "exclude", "judge", "next", "detail", "delta", "checkpoint_time", "storage",
            "overhead", "app_time", "mtbf", "mtbf_node", "restart_time", "instance", "dollars_per_hour", "dollars_per_gib_month", "chain", "copies"]
    )]
    pub layout: bool,
    /// File system with known operations
    #[arg(long, value_enum, requires = "layout", conflicts_with = "operations")]
    pub file_system: Option<FileSystem>,
    /// Operation counts of your file system, from `cvc metadata --setting`
    #[arg(long, value_name = "CSV", requires = "layout")]
    pub operations: Option<Utf8PathBuf>,
    /// Number of processes
    #[arg(long, value_name = "N", requires = "layout", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: Option<u32>,
    /// Processes per node
    #[arg(long, value_name = "N", requires = "layout", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub per_node: u32,
    /// Checkpoint size, all processes
    #[arg(long, value_name = "SIZE", requires = "layout")]
    pub size: Option<ByteSize>,
    /// Checkpoints [default: from --interval and --for, else 1]
    #[arg(long, value_name = "N", requires = "layout", conflicts_with = "job_s", value_parser = clap::value_parser!(u32).range(1..))]
    pub checkpoints: Option<u32>,
    /// Metadata servers
    #[arg(long, value_name = "N", requires = "layout", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub servers: u32,
    /// Metadata operations per second (e.g. from mdtest) [default: the measured creates]
    #[arg(long, value_name = "N", requires = "layout", value_parser = multiple)]
    pub metadata_rate: Option<f64>,
    /// Output of `cvc bandwidth DIR --json`, for bandwidth, creates and free files
    #[arg(
        long,
        value_name = "JSON",
        requires = "layout",
        conflicts_with = "bandwidth"
    )]
    pub measured: Option<Utf8PathBuf>,
    /// Stripe size, for shared stripes
    #[arg(long, value_name = "SIZE", requires = "layout")]
    pub stripe: Option<ByteSize>,
    /// Size of each write in a strided file
    #[arg(long, value_name = "SIZE", requires = "stripe")]
    pub write_size: Option<ByteSize>,
    /// Maximum files (quota or free inodes)
    #[arg(long, value_name = "N", requires = "layout", value_parser = clap::value_parser!(u64).range(1..))]
    pub file_limit: Option<u64>,
    /// Include DMTCP's images
    #[arg(long, requires = "layout")]
    pub dmtcp: bool,
    /// Images of the MPI launcher [default: one, plus one per node]
    #[arg(long, value_name = "N", requires = "dmtcp")]
    pub launchers: Option<u32>,
    /// DMTCP compresses its images with gzip
    #[arg(long, requires = "dmtcp")]
    pub packed: bool,
}
