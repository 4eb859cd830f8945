//! Arguments of `cvc phases` and `cvc estimate`.

use super::{
    Where, Which,
    values::{multiple, seconds, site_factor, site_price},
};
use camino::Utf8PathBuf;
use clap::Args;
use cvc_core::mapping::Mapping;

/// Which phases a replay repeats.
#[derive(Args, Clone, Copy)]
pub struct ReplayArgs {
    /// Include phases below 1 % of the run
    #[arg(long)]
    pub all: bool,
    /// Maximum phases repeated per kind
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub most: u32,
    /// Part of the computation to wait for, 0 to 1
    #[arg(long, value_name = "PART", default_value = "0")]
    pub think: f64,
}

#[derive(Args)]
pub struct PhasesArgs {
    /// Logs (RANK.mpi-io), a trace, images, a run's directory, a campaign or a model; several for --at; observations for --predict
    #[arg(value_name = "PATH", required_unless_present_any = ["tracer", "predict"])]
    pub paths: Vec<Utf8PathBuf>,
    /// Traced run of a campaign, by prefix of its identifier
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Model the predicted checkpoint of this setting (see `cvc predict --at`)
    #[arg(long, value_name = "SETTING", conflicts_with_all = ["ticks", "gap", "at", "run"])]
    pub predict: Option<String>,
    #[command(flatten)]
    pub place: Where,
    /// Maximum communicating calls within a phase [default: from the widest gap]
    #[arg(long, value_name = "COUNT")]
    pub ticks: Option<u32>,
    /// Pause that ends a phase, for traces without communication [default: 1/100 of the trace, at least 1 ms]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub gap: Option<f64>,
    /// Write the model to this file
    #[arg(long, value_name = "FILE")]
    pub write: Option<Utf8PathBuf>,
    /// Write a page with plots of the phases
    #[arg(long, value_name = "FILE")]
    pub html: Option<Utf8PathBuf>,
    /// Show phases at this process count, from models at others
    #[arg(long, value_name = "PROCESSES", value_parser = clap::value_parser!(u32).range(1..))]
    pub at: Option<u32>,
    /// Write input for `kernel-replay`
    #[arg(long, value_name = "FILE")]
    pub replay: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub options: ReplayArgs,
    /// Compile the tracer with this MPI compiler
    #[arg(long, value_name = "MPICC", conflicts_with_all = ["paths", "write", "html", "at", "replay", "run", "predict"])]
    pub tracer: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct EstimateArgs {
    /// Model from `cvc phases --write`; with --measure, the campaign file
    #[arg(value_name = "MODEL", required_unless_present = "measure")]
    pub model: Option<Utf8PathBuf>,
    /// Campaign file with the sites [default: this machine]
    #[arg(value_name = "FILE")]
    pub file: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub which: Which,
    /// Only this site
    #[arg(long, value_name = "SITE")]
    pub site: Option<String>,
    /// Only this MPI library
    #[arg(long, value_name = "LIBRARY")]
    pub mpi: Option<String>,
    /// Only this storage area
    #[arg(long, value_name = "AREA")]
    pub storage: Option<String>,
    /// Mapping (e.g. 2Nx2P) [default: one node]
    #[arg(long, value_name = "MAPPING")]
    pub mapping: Option<Mapping>,
    /// Repeats
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// Time limit per replay
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "10m")]
    pub timeout: f64,
    /// Sync files after each phase
    #[arg(long)]
    pub sync: bool,
    #[command(flatten)]
    pub options: ReplayArgs,
    /// Computing time relative to the traced run; repeatable [default: 1]
    #[arg(long, value_name = "[SITE=]FACTOR", value_parser = site_factor)]
    pub compute: Vec<(Option<String>, f64)>,
    /// Hourly node price of a site; repeatable
    #[arg(long, value_name = "SITE=USD", value_parser = site_price)]
    pub price: Vec<(String, f64)>,
    /// Hourly price of all nodes, where a site has none
    #[arg(long, value_name = "DOLLARS", value_parser = multiple)]
    pub dollars_per_hour: Option<f64>,
    /// Measure storage for later models, and keep the results with their date in FILE
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub measure: Option<Utf8PathBuf>,
    /// Interpolate from measured storage in FILE, without a run
    #[arg(long, value_name = "FILE")]
    pub from: Option<Utf8PathBuf>,
    /// Compare with times by request size, from measured storage
    #[arg(long, value_name = "FILE", conflicts_with_all = ["measure", "from"])]
    pub by_size: Option<Utf8PathBuf>,
    /// IOR to compare with, repeatable for several MPI libraries [default: `ior` on the site's PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub ior: Vec<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
