//! The options of `cvc predict --storage`.

use super::values::{part, seconds};
use clap::Args;
use cvc_core::retention::{DeltaChain, Retention, checkpoints_within};

/// The storage of a job's checkpoints.
#[derive(Args)]
#[command(next_help_heading = "Storage of a job")]
pub struct StorageArgs {
    /// Show the job's checkpoint storage
    #[arg(long, requires = "at", conflicts_with_all = ["delta", "judge", "next", "detail"])]
    pub storage: bool,
    /// Checkpoints kept
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub keep: u32,
    /// Copies of each checkpoint
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub copies: u32,
    /// Time between checkpoints
    #[arg(long, value_name = "TIME", value_parser = seconds, requires_all = ["interval_for"])]
    pub interval: Option<f64>,
    /// Job time [default: unlimited]
    #[arg(long = "for", id = "job_s", value_name = "TIME", value_parser = seconds, requires_all = ["interval_for", "interval"])]
    pub job_s: Option<f64>,
    /// Store changes in chains of this many files
    #[arg(long, value_name = "FILES", requires_all = ["storage", "changed"], value_parser = clap::value_parser!(u32).range(1..))]
    pub chain: Option<u32>,
    /// Share that changes between checkpoints (e.g. 12%)
    #[arg(long, value_name = "PART", value_parser = part, requires_all = ["storage", "chain"])]
    pub changed: Option<f64>,
}

impl StorageArgs {
    /// Returns the rule by which checkpoints are kept.
    pub fn retention(&self) -> Retention {
        let deltas = self.chain.zip(self.changed);
        Retention {
            keep: self.keep,
            copies: self.copies,
            deltas: deltas.map(|(files, changed)| DeltaChain { files, changed }),
        }
    }

    /// Returns the number of checkpoints in the whole job; `None` if the job's time is unlimited.
    pub fn checkpoints(&self) -> Option<u64> {
        let times = self.job_s.zip(self.interval);
        times.map(|(job_s, interval_s)| checkpoints_within(job_s, interval_s))
    }
}
