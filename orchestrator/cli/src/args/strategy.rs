//! Arguments of `cvc strategy`.

use super::{
    campaign::{Where, Which},
    values::{mib_each_second, multiple, part, seconds},
};
use crate::complete;
use camino::Utf8PathBuf;
use clap::Args;
use clap_complete::ArgValueCompleter;
use cvc_core::units::{ByteSize, MIB};
use cvc_model::strategy::{CheckpointCost, LatePolicy, Way};

/// The measured cost of a checkpoint by a strategy ("way").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownCost {
    /// The strategy.
    pub way: Way,
    /// The cost of a checkpoint.
    pub cost: CheckpointCost,
    /// Half-width of the interval of both times, as a fraction of them; 0 if not given.
    pub spread: f64,
}

/// Why a given cost is invalid.
#[derive(Debug, thiserror::Error)]
pub enum CostError {
    #[error(
        "write a way with the program's waiting time, as in partner=13s, optionally the time until safe, as in thread=17s/170s, and an interval, as in partner=13s+-10%"
    )]
    Form,
    #[error("write an interval below 100 %, as in partner=13s+-10%")]
    Spread,
    #[error(
        "`{0}` is not a way: write sync, thread, staggered, swap, iwrite, local, partner or xor"
    )]
    Way(String),
    #[error(transparent)]
    Time(#[from] cvc_core::units::DurationError),
    #[error(
        "a checkpoint is safe after {latency_s} s, before the program continues after {overhead_s} s: write the shorter time first"
    )]
    Order { overhead_s: f64, latency_s: f64 },
}

fn known_cost(text: &str) -> Result<KnownCost, CostError> {
    let (name, times) = text.split_once('=').ok_or(CostError::Form)?;
    let (times, spread) = match times.split_once("+-").or_else(|| times.split_once('±')) {
        Some((times, share)) => {
            let share = part(share.trim()).map_err(|_| CostError::Spread)?;
            (times.trim(), share)
        }
        None => (times, 0.0),
    };
    if spread >= 1.0 {
        return Err(CostError::Spread);
    }
    let way = Way::ALL.into_iter().find(|way| way.word() == name.trim());
    let way = way.ok_or_else(|| CostError::Way(name.to_owned()))?;
    let (overhead, latency) = times.split_once('/').unwrap_or((times, times));
    let (overhead_s, latency_s) = (seconds(overhead)?, seconds(latency)?);
    if overhead_s > latency_s {
        return Err(CostError::Order {
            overhead_s,
            latency_s,
        });
    }
    let cost = CheckpointCost {
        overhead_s,
        latency_s,
    };
    Ok(KnownCost { way, cost, spread })
}

/// Parses a size, and returns it in MiB.
fn mib(text: &str) -> Result<f64, cvc_core::units::ByteSizeError> {
    text.parse::<ByteSize>().map(|size| size.0 as f64 / MIB)
}

/// Checkpoints that one level keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptCheckpoints {
    /// A single one, which the next one overwrites.
    Overwritten,
    /// The last complete ones, at least 1, while a further one is written.
    Last(u32),
}

impl KeptCheckpoints {
    /// Returns the number of checkpoints that occupy space while one is written.
    pub fn peak(self) -> f64 {
        match self {
            Self::Overwritten => 1.0,
            Self::Last(count) => f64::from(count) + 1.0,
        }
    }
}

fn kept_checkpoints(text: &str) -> Result<KeptCheckpoints, KeepError> {
    if text == "overwrite" {
        return Ok(KeptCheckpoints::Overwritten);
    }
    let count = text.parse().map_err(|_| KeepError)?;
    match count {
        1..=1000 => Ok(KeptCheckpoints::Last(count)),
        _ => Err(KeepError),
    }
}

/// The kept checkpoints are invalid.
#[derive(Debug, thiserror::Error)]
#[error("write the number of complete checkpoints, 1 to 1000, or overwrite")]
pub struct KeepError;

/// Policy for a checkpoint due before the previous one is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WhenLateArg {
    /// Wait until the previous one is safe
    Wait,
    /// Skip it
    Skip,
}

impl From<WhenLateArg> for LatePolicy {
    fn from(of: WhenLateArg) -> Self {
        match of {
            WhenLateArg::Wait => Self::Wait,
            WhenLateArg::Skip => Self::Skip,
        }
    }
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("failures").args(["mtbf", "mtbf_node"]).required(true))]
pub struct StrategyArgs {
    /// Job's nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: u32,
    /// Checkpoint size, all nodes
    #[arg(long, value_name = "SIZE", value_parser = mib, required_unless_present_any = ["cost", "from"])]
    pub stored: Option<f64>,
    /// Job's mean time between failures
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "mtbf_node")]
    pub mtbf: Option<f64>,
    /// Mean time between failures of a node
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub mtbf_node: Option<f64>,
    /// Restart time after a failure [default: from --from, else 0]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub restart_time: Option<f64>,
    /// Output of `cvc bandwidth --json`; options take precedence
    #[arg(long, value_name = "FILE")]
    pub measured: Option<Utf8PathBuf>,
    /// Write rate of shared storage per second, all nodes
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second)]
    pub shared: Option<f64>,
    /// For staggered: share of nodes that write at once
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub at_once: Option<f64>,
    /// Write rate of shared storage per second for this share [default: --shared]
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "at_once")]
    pub shared_at_once: Option<f64>,
    /// Write rate of a node's storage per second
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second)]
    pub local: Option<f64>,
    /// Network rate between nodes per second
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second)]
    pub network: Option<f64>,
    /// Memory rate of a node per second
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second)]
    pub memory: Option<f64>,
    /// Memory traffic per written byte [default: measured, else 7]
    #[arg(long, value_name = "BYTES", value_parser = multiple)]
    pub traffic: Option<f64>,
    /// Nodes per parity group
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub group: u32,
    /// Share of failures that lose no storage, for local checkpoints
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub of_processes: Option<f64>,
    /// Share that loses at most one node's storage, for copies and parity
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub of_a_node: Option<f64>,
    /// Measured cost: partner=13s+-10%, or thread=17s/170s (waiting / until safe); repeatable
    #[arg(long, value_name = "WAY=TIME[/TIME][+-SHARE]", value_parser = known_cost)]
    pub cost: Vec<KnownCost>,
    /// Campaign with measured costs
    #[arg(long, value_name = "CAMPAIGN", add = ArgValueCompleter::new(complete::campaigns))]
    pub from: Option<Utf8PathBuf>,
    /// Campaign points (e.g. "kernel-stencil.A 1Nx2P mpich run") [default: the only ones]
    #[arg(long, value_name = "POINTS", requires = "from")]
    pub at: Option<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Program time without checkpoints and failures
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "24h")]
    pub work: f64,
    /// Share of time for checkpoints, by the thesis's rule
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub overhead: Option<f64>,
    /// Program time between checkpoints [default: best]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub every: Option<f64>,
    /// With --every: wait or skip if the previous checkpoint is unfinished
    #[arg(long, value_name = "POLICY", default_value = "wait")]
    pub when_late: WhenLateArg,
    /// Complete checkpoints kept on nodes, or overwrite
    #[arg(long, value_name = "N", default_value = "1", value_parser = kept_checkpoints)]
    pub keep: KeptCheckpoints,
    /// The same on shared storage
    #[arg(long, value_name = "N", default_value = "1", value_parser = kept_checkpoints)]
    pub keep_shared: KeptCheckpoints,
    /// Latest recommended end
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub deadline: Option<f64>,
    /// Maximum memory of a node for copies
    #[arg(long, value_name = "SIZE", value_parser = mib)]
    pub memory_limit: Option<f64>,
    /// Hourly price of all nodes
    #[arg(long, value_name = "DOLLARS", value_parser = multiple)]
    pub dollars_per_hour: Option<f64>,
    /// Hourly spot price of all nodes
    #[arg(long, value_name = "DOLLARS", value_parser = multiple, requires = "reclaims_per_hour")]
    pub spot_dollars_per_hour: Option<f64>,
    /// Spot reclaims of a node per hour
    #[arg(long, value_name = "RATE", value_parser = multiple)]
    pub reclaims_per_hour: Option<f64>,
    /// Time from reclaim notice to node end
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "120s")]
    pub notice: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
