//! The command line.

mod bandwidth;
mod campaign;
mod delta;
pub mod image;
mod layout;
mod metadata;
mod phases;
mod storage;
mod strategy;
mod values;

pub use delta::{
    DeltaArgs, DeltaCatArgs, DeltaCommand, DeltaCompareArgs, DeltaMakeArgs, DeltaPruneArgs,
    DeltaRestoreArgs, DeltaShowArgs, DeltaVerifyArgs, ImageDiffArgs,
};

pub use bandwidth::BandwidthArgs;
pub use campaign::{Where, Which};
pub use layout::LayoutArgs;
pub use metadata::MetadataArgs;
pub use phases::{EstimateArgs, PhasesArgs, ReplayArgs};
pub use storage::StorageArgs;
pub use strategy::{KeptCheckpoints, KnownCost, StrategyArgs, WhenLateArg};

use values::{
    directory, mib_each_second, multiple, part, process_count, seconds, site_price, web_address,
};

use crate::complete;
use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use cvc_core::log::LevelFilter;

/// Measure what checkpoints of MPI applications cost, on clusters and in the cloud
#[derive(Parser)]
#[command(
    version,
    disable_help_subcommand = true,
    after_help = "`cvc help commands` describes all commands, `cvc help exit-codes` exit codes.\n`cvc help` lists words such as mapping, which `cvc help WORD` explains."
)]
pub struct Arguments {
    /// Log level on standard error; `run`, `install` and `down` also log to the campaign's logs/
    #[arg(
        long,
        global = true,
        env = "CVC_LOG",
        value_name = "LEVEL",
        value_enum,
        default_value = "off"
    )]
    pub log: LogLevel,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Minimum level of log lines shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a small campaign on this machine, up to its report
    ///
    /// Writes its campaign file, kernels and results to DIR. Needs an MPI library and its compiler. A later call continues.
    Demo(DemoArgs),
    /// Write a campaign file from a few answers
    ///
    /// Options answer what to measure, where and with which programs; cvc asks for the rest.
    Init(InitArgs),
    /// Try one command: time and size of its checkpoints
    ///
    /// Example: `cvc try -- mpirun -np 4 ./a.out`. Uses DMTCP, or without it the program's own checkpoints.
    Try(TryArgs),
    /// Show what would run, and its time, price and space
    ///
    /// Starts nothing.
    Plan(PlanArgs),
    /// Run a campaign, or what remains of it, and write its report
    Run(RunArgs),
    /// Show the progress of a campaign
    Status(StatusArgs),
    /// Show a campaign in a browser of this machine
    ///
    /// Progress, runs, costs, failures and report, read-only.
    Serve(ServeArgs),
    /// Explain the state of a run or a point
    ///
    /// Lists attempts, their results and the next step.
    Explain(ExplainArgs),
    /// Check the files of a campaign, and repair them without guessing
    Fsck(FsckArgs),
    /// Pack the data for a bug report on cvc
    ///
    /// Writes runs, journal lines, logs and versions without secrets and names. Sends nothing.
    ReportBug(ReportBugArgs),
    /// Rebuild a campaign's report
    Report(ReportArgs),
    /// Show how often comparisons call equal things different
    ///
    /// Compares odd repeats with even ones, and equal sites with each other.
    #[command(alias = "calibrate")]
    AaTest(AaTestArgs),
    /// Compare sites, campaigns or baselines, with verdicts
    ///
    /// Begins with differences in the environment.
    Compare(CompareArgs),
    /// Advise on machines, mapping and checkpoint setting
    ///
    /// By time, cost and storage, with the next useful measurement.
    Advise(AdviseArgs),
    /// Price the jobs of a cluster on instances of a cloud
    Jobs(JobsArgs),
    /// Import measurements of others as a campaign
    Import(ImportArgs),
    /// Export a campaign as tables, RO-Crate or artefact
    Export(ExportArgs),
    /// Compare a paper's printed tables with its inputs and own runs
    Reproduce(ReproduceArgs),
    /// Predict checkpoints that were not run from those that were
    ///
    /// At any mapping, process count or class, with the optimal interval between checkpoints.
    Predict(PredictArgs),
    /// Measure memory, storage and network bandwidth of this machine
    Bandwidth(BandwidthArgs),
    /// Choose how to take checkpoints, and how often
    ///
    /// Compares synchronous, asynchronous and node-local ways under failures.
    Strategy(StrategyArgs),
    /// Show the zones of checkpoint images
    Image(ImageCommandArgs),
    /// Store and restore checkpoints as changes
    Delta(DeltaArgs),
    /// Show who wrote what, when and in which pattern, from a trace
    Trace(TraceArgs),
    /// Find the I/O phases of a traced program, as a portable model
    Phases(PhasesArgs),
    /// Estimate a program's I/O time on sites by repeating its phases
    Estimate(EstimateArgs),
    /// Count metadata operations of a file system or a trace
    ///
    /// Reads counters of GlusterFS, MooseFS, OrangeFS, NFS or Lustre, or strace.
    Metadata(MetadataArgs),
    /// Install what a campaign needs on the machines of a site
    ///
    /// Records versions in the campaign's cvc.lock.
    Install(InstallArgs),
    /// End a campaign's processes, and release its cloud resources
    Down(DownArgs),
    /// Rehearse the reclaim of a node under a running campaign
    ///
    /// The site's agent gets a notice; then EC2 terminates the instance, or an ssh site ends its processes. With `[checkpoint] resume = true`, runs continue
    /// from a checkpoint.
    Interrupt(InterruptArgs),
    /// Find and remove resources of campaigns in a cloud, by tags
    Sweep(SweepArgs),
    /// Fetch cloud prices of a campaign's instances
    ///
    /// For `cvc plan` and budgets.
    Prices(PricesArgs),
    /// Show what is installed, what is missing, and how to fix it
    Doctor(DoctorArgs),
    /// Print a JSON Schema
    ///
    /// Of campaign files, application descriptors, or the output of a command with `--json`.
    Schema {
        /// The kind of file
        #[arg(value_enum, default_value = "campaign")]
        of: SchemaOf,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Explain a command, a topic or a word of cvc
    Help {
        /// A command, a topic, or a word such as mapping [default: list them]
        #[arg(value_name = "NAME")]
        words: Vec<String>,
    },
    /// Print the reference of all commands as Markdown (docs/cli.md), or write a manual page of each
    #[command(hide = true)]
    Reference {
        /// Write manual pages (cvc.1, cvc-run.1, …) into this directory instead
        #[arg(long, value_name = "DIR")]
        man: Option<Utf8PathBuf>,
    },
    /// Start and watch the processes of one run (cvc itself uses it)
    #[command(hide = true)]
    Shepherd,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SchemaOf {
    /// Campaign files
    Campaign,
    /// Application descriptors
    App,
    /// Output of `cvc aa-test --json`
    AaTest,
    /// Output of `cvc advise --json`
    Advise,
    /// Output of `cvc bandwidth --json`
    Bandwidth,
    /// Output of `cvc compare --json`
    Compare,
    /// Output of `cvc delta make`, `show`, `verify` and `compare` with `--json`
    Delta,
    /// Output of `cvc doctor --json`, also with `--probe` and `--app`
    Doctor,
    /// Output of `cvc estimate --json`
    Estimate,
    /// Output of `cvc explain --json`
    Explain,
    /// Output of `cvc fsck --json`
    Fsck,
    /// Output of `cvc image --json`
    Image,
    /// Output of `cvc jobs --json`
    Jobs,
    /// Output of `cvc metadata --json`
    Metadata,
    /// Output of `cvc phases --json` and `--write`
    Phases,
    /// Output of `cvc plan --json`
    Plan,
    /// Output of `cvc predict --json`
    Predict,
    /// Output of `cvc reproduce --json`
    Reproduce,
    /// Output of `cvc status --json`
    Status,
    /// Output of `cvc strategy --json`
    Strategy,
    /// Output of `cvc trace --json`
    Trace,
    /// Output of `cvc try --json`
    Try,
}

#[derive(Args)]
pub struct DemoArgs {
    /// Directory of the campaign, its results and its report
    #[arg(default_value = "cvc-demo", value_name = "DIR", value_parser = directory)]
    pub dir: Utf8PathBuf,
}

#[derive(Args)]
pub struct TryArgs {
    /// Command, with or without its MPI launcher
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "compare",
        value_name = "COMMAND"
    )]
    pub command: Vec<String>,
    /// Commands to compare, each quoted
    #[arg(long, num_args = 2.., value_name = "COMMAND", conflicts_with_all = ["command", "write"])]
    pub compare: Vec<String>,
    /// Runs of each kind [default: 2 or 3]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: Option<u32>,
    /// Time limit of the command; its checkpoint is then taken early
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "60s")]
    pub timeout: f64,
    /// Job's mean time between failures [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub mtbf: Option<f64>,
    /// Write a campaign file and the program's descriptor
    #[arg(long, value_name = "FILE")]
    pub write: Option<Utf8PathBuf>,
    /// Replace existing files
    #[arg(long, requires = "write")]
    pub force: bool,
    /// Run directory [default: temporary]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub dir: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Measurement of a new campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// Size and time of checkpoints
    Sizes,
    /// Restarts, which must verify their results
    Restart,
    /// Time of runs with checkpoints against runs without
    Overhead,
    /// DMTCP images with gzip against uncompressed ones
    Compression,
    /// One I/O aggregator against two
    Aggregators,
    /// Several process counts
    Scaling,
}

/// Where a new campaign runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InitSite {
    /// This machine
    Local,
    /// Machines that you reach by ssh (--hosts)
    Ssh,
    /// Nodes that Slurm allocates (--nodes)
    Slurm,
    /// Instances of Amazon EC2 (--region, --instance-types, --nodes)
    Ec2,
}

#[derive(Args)]
pub struct InitArgs {
    /// Campaign file to write; its name becomes the campaign's
    #[arg(default_value = "campaign.toml")]
    pub file: Utf8PathBuf,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub measure: Vec<Measure>,
    /// Where to run
    #[arg(long, value_enum)]
    pub site: Option<InitSite>,
    /// Machines of site `ssh`; the first launches MPI
    #[arg(long, value_delimiter = ',', value_name = "HOSTS")]
    pub hosts: Vec<String>,
    /// Maximum nodes of sites `slurm` and `ec2`
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub nodes: Option<u32>,
    /// Slurm login node [default: this machine]
    #[arg(long)]
    pub login: Option<String>,
    /// Slurm partition [default: Slurm's]
    #[arg(long)]
    pub partition: Option<String>,
    /// EC2 region
    #[arg(long)]
    pub region: Option<String>,
    /// EC2 instance types, preferred first
    #[arg(long, value_delimiter = ',', value_name = "TYPES")]
    pub instance_types: Vec<String>,
    /// Applications; `list` lists them
    #[arg(
        long,
        value_delimiter = ',',
        conflicts_with = "program",
        value_name = "APPS",
        add = ArgValueCompleter::new(complete::applications)
    )]
    pub app: Vec<String>,
    /// Your own program; writes its descriptor to apps/
    #[arg(long, value_name = "PATH")]
    pub program: Option<Utf8PathBuf>,
    /// Arguments of --program, quoted
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub args: Option<String>,
    /// Input file copied to each run; repeatable
    #[arg(long, value_name = "FILE")]
    pub input: Vec<String>,
    /// Run --program once (at most a minute) to recognise success and steps
    #[arg(long = "try", conflicts_with = "no_try")]
    pub try_it: bool,
    /// Neither run it nor ask
    #[arg(long)]
    pub no_try: bool,
    /// Problem size
    #[arg(long)]
    pub class: Option<String>,
    /// Process counts
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", value_parser = process_count)]
    pub processes: Vec<u32>,
    /// `mpich`, `openmpi` [default: found here]
    #[arg(long, value_delimiter = ',', value_name = "LIBRARIES")]
    pub mpi: Vec<String>,
    /// Use defaults without asking
    #[arg(long, short)]
    pub yes: bool,
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub struct PlanArgs {
    /// Campaign file or its directory
    #[arg(default_value = ".", add = ArgValueCompleter::new(complete::campaign_files))]
    pub file: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print the plan as reproducible JSON
    #[arg(long)]
    pub json: bool,
    /// Add time, space and cost estimates to --json
    #[arg(long, requires = "json")]
    pub estimates: bool,
    /// Sort points and sites [default: file order]
    #[arg(long, value_name = "BY")]
    pub sort: Option<SortBy>,
    /// Show every run
    #[arg(long)]
    pub runs: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// Order of a plan's points and sites.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// US dollars; unknown costs last
    Cost,
    /// Time of a run, and of a site
    Time,
}

/// The points that a command is limited to.
#[derive(Args, Clone)]
pub struct SelectionArgs {
    /// Only points with these factors (e.g. "app=npb-bt processes=4,9"); repeated: any of them
    #[arg(long, value_name = "FACTORS")]
    pub only: Vec<String>,
}

/// Results for continuous integration.
#[derive(Args, Clone, Default)]
pub struct CiArgs {
    /// Write results as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<Utf8PathBuf>,
    /// Append a Markdown summary
    #[arg(long, value_name = "FILE")]
    pub summary: Option<Utf8PathBuf>,
}

impl CiArgs {
    /// Returns whether any file is requested.
    pub fn is_wanted(&self) -> bool {
        self.junit.is_some() || self.summary.is_some()
    }
}

#[derive(Args)]
pub struct PricesArgs {
    /// Campaign file
    pub file: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
}

#[derive(Args)]
pub struct RunArgs {
    /// Campaign file or its directory
    #[arg(default_value = ".", add = ArgValueCompleter::new(complete::campaign_files))]
    pub file: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print one JSON object per event
    #[arg(long)]
    pub json: bool,
    /// Retry runs that failed permanently
    #[arg(long)]
    pub retry_failed: bool,
    /// Continue after identical early failures, and retry immediate ones
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Start no run expected to end after this time; the next `cvc run` continues
    #[arg(long = "for", value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub time_limit: Option<f64>,
    /// Run `cvc install` first
    #[arg(long)]
    pub install: bool,
    /// Accept software that differs from cvc.lock
    #[arg(long)]
    pub update_lock: bool,
    /// Report directory [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub report: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub ci: CiArgs,
}

impl RunArgs {
    /// Returns the arguments of `cvc run FILE`.
    pub fn for_file(file: Utf8PathBuf, which: Which, place: Where) -> Self {
        Self {
            file,
            which,
            place,
            json: false,
            retry_failed: false,
            keep_going: false,
            selection: SelectionArgs { only: Vec::new() },
            time_limit: None,
            install: false,
            update_lock: false,
            report: None,
            ci: CiArgs::default(),
        }
    }
}

#[derive(Args)]
pub struct FsckArgs {
    /// Campaign file or directory [default: the only one here]
    #[arg(default_value = ".", hide_default_value = true, add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Repair, keeping replaced files
    #[arg(long)]
    pub repair: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct StatusArgs {
    /// Campaign file or directory [default: the only one here]
    #[arg(default_value = ".", hide_default_value = true, add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Refresh at this interval [without a value: 2s]
    #[arg(long, value_name = "TIME", value_parser = seconds, num_args = 0..=1, default_missing_value = "2s", require_equals = true)]
    pub watch: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ServeArgs {
    /// Campaign file or directory [default: the only one here]
    #[arg(default_value = ".", hide_default_value = true, add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Loopback port [default: any]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Report directory [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub report: Option<Utf8PathBuf>,
}

#[derive(Args)]
pub struct ExplainArgs {
    /// Campaign file or directory
    #[arg(add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    /// Start of an identifier, or factors (e.g. mpi=mpich)
    #[arg(required = true, value_name = "RUN|POINT|FACTOR=VALUE")]
    pub what: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReportBugArgs {
    /// Campaign file, directory or name, or run directory
    pub campaign: Utf8PathBuf,
    /// Starts of run identifiers [default: last failures]
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// File to write [default: cvc-bug-CAMPAIGN-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    pub to: Option<Utf8PathBuf>,
}

#[derive(Args)]
pub struct DownArgs {
    /// Campaign file, directory or name
    #[arg(add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Assume that this unreachable site is clean; repeatable
    #[arg(long, value_name = "SITE")]
    pub forget: Vec<String>,
    /// Also remove login keys between nodes of ssh sites; `cvc install` adds them again
    #[arg(long)]
    pub keys: bool,
    /// Also take deployed file systems down, with all data in them
    #[arg(long)]
    pub storage: bool,
    /// Print one JSON object per event
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct InterruptArgs {
    /// Site of the campaign
    pub site: String,
    /// Campaign file, directory or name [default: the only one here]
    #[arg(default_value = ".", hide_default_value = true, add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Node, as named by `cvc run`
    #[arg(long, value_name = "NODE")]
    pub node: String,
    /// Time from notice to reclaim; on EC2, two minutes
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "2m")]
    pub notice: f64,
}

#[derive(Args)]
pub struct SweepArgs {
    /// Only this region; repeatable [default: configured and used ones]
    #[arg(long, value_name = "REGION")]
    pub region: Vec<String>,
    /// All regions of the account
    #[arg(long)]
    pub all_regions: bool,
    /// Only resources older than this
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub older_than: Option<f64>,
    /// Only fleets past their tagged end
    #[arg(long)]
    pub expired: bool,
    /// Maximum wait per region [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub wait: Option<f64>,
    /// Resource owner [default: CVC_OWNER or USER@MACHINE]
    #[arg(long, conflicts_with = "any_owner")]
    pub owner: Option<String>,
    /// Resources of all owners
    #[arg(long)]
    pub any_owner: bool,
    /// Only show what would be removed
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Include resources of running campaigns and reserved ones
    #[arg(long)]
    pub in_use: bool,
    /// AWS profile
    #[arg(long)]
    pub profile: Option<String>,
    /// AWS endpoint
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReportArgs {
    /// Campaign file or directory [default: the only one here]
    #[arg(default_value = ".", hide_default_value = true, add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Report directory [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Report formats [default: the campaign's]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub format: Vec<ReportFormat>,
    /// Exit with code 11 if predictions miss a bound
    #[arg(long)]
    pub gate: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ImageCommandArgs {
    #[command(subcommand)]
    pub command: Option<ImageCommand>,
    #[command(flatten)]
    pub show: Option<image::ImageArgs>,
    /// Print a CSV line per checkpoint, for `cvc predict --from`
    #[arg(long, conflicts_with_all = ["json", "estimate"])]
    pub csv: bool,
}

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Show pages that differ between two checkpoints, by zone
    Diff(ImageDiffArgs),
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub command: Option<TraceCommand>,
    /// Traces of Darshan, `strace -ff -ttt -T -y` or DFTracer, or directories
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write events as CSV; `-`: standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<Utf8PathBuf>,
    /// Write CSV by file, of several logs
    #[arg(long, value_name = "FILE")]
    pub files_csv: Option<Utf8PathBuf>,
    /// Only logs with this text in program or path; repeatable
    #[arg(long, value_name = "TEXT")]
    pub job: Vec<String>,
    /// Only files with this text in the path; repeatable
    #[arg(long, value_name = "TEXT")]
    pub path: Vec<String>,
    /// Write a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<Utf8PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<Utf8PathBuf>,
    /// Images of the traced checkpoint; shows writes by zone
    #[arg(long, value_name = "IMAGE")]
    pub images: Vec<Utf8PathBuf>,
    /// Requested aggregators, to compare with writers
    #[arg(long, value_name = "N")]
    pub aggregators: Option<usize>,
    /// TOML file with thresholds of findings
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<Utf8PathBuf>,
    /// Pause that ends a burst [default: 1 % of the trace, at least 1ms]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub gap: Option<f64>,
    /// List all files, bursts and findings
    #[arg(long)]
    pub all: bool,
}

#[derive(Subcommand)]
pub enum TraceCommand {
    /// Compare files, operations and their order of two traces
    Compare(TraceCompareArgs),
}

#[derive(Args)]
pub struct TraceCompareArgs {
    /// First trace: file or directory
    pub first: Utf8PathBuf,
    /// Second trace
    pub second: Utf8PathBuf,
    /// Pause that ends a burst
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub gap: Option<f64>,
    /// Exit with code 13 if operations differ
    #[arg(long)]
    pub gate: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CompareArgs {
    /// Campaigns, sites (CAMPAIGN:SITE) or baselines (@NAME), compared with the first; one campaign: its sites
    #[arg(required = true, value_name = "SIDE", add = ArgValueCompleter::new(complete::campaigns))]
    pub sides: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Only this quantity; repeatable
    #[arg(long, value_name = "NAME")]
    pub quantity: Vec<String>,
    /// Maximum relative difference of equal values
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = part)]
    pub margin: f64,
    /// Compare each side with the previous one
    #[arg(long, conflicts_with = "save")]
    pub history: bool,
    /// List every pair of points
    #[arg(long)]
    pub detail: bool,
    /// Save the first side as baseline @NAME
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Report directory [default: none]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Report formats
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "html,csv",
        requires = "to"
    )]
    pub format: Vec<ReportFormat>,
    /// Exit with code 13 if sides differ (or are worse), 14 if undecided
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "differs", require_equals = true)]
    pub gate: Option<CompareGate>,
    #[command(flatten)]
    pub ci: CiArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct AdviseArgs {
    /// Campaigns, sites (CAMPAIGN:SITE) or baselines (@NAME)
    #[arg(required = true, value_name = "SIDE", add = ArgValueCompleter::new(complete::campaigns))]
    pub sides: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Only this application (e.g. npb-bt, npb-bt.C)
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// Job length in measured runs
    #[arg(long, value_name = "N", default_value = "1", value_parser = multiple)]
    pub times: f64,
    /// Computing time on the fastest candidate
    #[arg(long, value_name = "TIME", value_parser = seconds, conflicts_with = "times")]
    pub work: Option<f64>,
    /// Computing time between checkpoints [default with --mtbf: optimal]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub every: Option<f64>,
    /// Only candidates with checkpoints
    #[arg(long)]
    pub checkpointed: bool,
    /// Maximum job time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub deadline: Option<f64>,
    /// Maximum job cost
    #[arg(long, value_name = "USD", value_parser = multiple)]
    pub budget: Option<f64>,
    /// Maximum checkpoint overhead
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub overhead: Option<f64>,
    /// Job's mean time between failures
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub mtbf: Option<f64>,
    /// Restart time after a failure [default: a checkpoint's time]
    #[arg(long, value_name = "TIME", value_parser = seconds, requires = "mtbf")]
    pub restart_time: Option<f64>,
    /// Maximum time of a batch job
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub walltime: Option<f64>,
    /// Time from reclaim notice to instance end; a checkpoint must fit
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub notice: Option<f64>,
    /// Hourly node price where runs have no cost; repeatable
    #[arg(long, value_name = "SITE=USD", value_parser = site_price)]
    pub price: Vec<(String, f64)>,
    /// Region of the shipped prices
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    pub region: String,
    /// Storage price per GiB and month, for two checkpoints
    #[arg(long, value_name = "USD", value_parser = multiple)]
    pub dollars_per_gib_month: Option<f64>,
    /// Report directory [default: none]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Report formats
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "html,csv",
        requires = "to"
    )]
    pub format: Vec<ReportFormat>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct JobsArgs {
    /// Output of `sacct --parsable2` or `sacct --json`
    pub file: Utf8PathBuf,
    /// Price region
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    pub region: String,
    /// Only this instance type; repeatable [default: all non-burstable]
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub types: Vec<String>,
    /// Only this architecture
    #[arg(long, value_name = "ARCH", value_parser = ["x86_64", "arm64"])]
    pub architecture: Option<String>,
    /// Cluster processors are vCPUs [default: physical cores]
    #[arg(long)]
    pub vcpu: bool,
    /// Campaign with measured program times; repeatable
    #[arg(long, value_name = "SIDE")]
    pub from: Vec<String>,
    /// The cluster's site in --from, to scale job times
    #[arg(long, value_name = "SITE", requires = "from")]
    pub cluster: Option<String>,
    /// Mean time between failures per instance
    #[arg(long, value_name = "TIME", value_parser = seconds, requires = "from")]
    pub mtbf_node: Option<f64>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Write the cheapest type of each job as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ImportArgs {
    /// Table, description (.toml), or JSON of ReFrame, HPCAdvisor, Ramble or hyperfine
    pub file: Utf8PathBuf,
    /// Campaign name
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Replace an earlier import
    #[arg(long)]
    pub replace: bool,
    /// Skip rows without a value [else: exit code 16]
    #[arg(long)]
    pub skip: bool,
    /// Words for missing values; `common`: N/A, NA, NaN, null, -, --, ?
    #[arg(
        long,
        value_name = "WORD,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub missing: Vec<String>,
    /// Decimal sign [default: detected]
    #[arg(long, value_name = "SIGN", value_parser = ["point", "comma"])]
    pub decimal: Option<String>,
    /// Columns to use as factors
    #[arg(long = "factor", value_name = "COLUMN,...", value_delimiter = ',')]
    pub factors: Vec<String>,
    #[command(flatten)]
    pub place: Where,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("form").required(true).multiple(true).args(["csv", "parquet", "artifact", "ro_crate"]))]
pub struct ExportArgs {
    /// Campaign file, directory or name
    #[arg(add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Write CSV tables and datapackage.json
    #[arg(long, value_name = "DIR")]
    pub csv: Option<Utf8PathBuf>,
    /// Write Parquet tables
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<Utf8PathBuf>,
    /// Write a BagIt zip to publish, without secrets; names and addresses are replaced
    #[arg(long, value_name = "FILE")]
    pub artifact: Option<Utf8PathBuf>,
    /// Report to include [default: reports/NAME]
    #[arg(long, value_name = "DIR", requires = "artifact")]
    pub report: Option<Utf8PathBuf>,
    /// Accept missing, damaged or changed records
    #[arg(long, requires = "artifact")]
    pub damaged: bool,
    /// Keep names and addresses in the artefact
    #[arg(long, requires = "artifact")]
    pub keep_names: bool,
    /// Write a Process Run Crate
    #[arg(long, value_name = "DIR")]
    pub ro_crate: Option<Utf8PathBuf>,
    /// Agent of the crate's runs
    #[arg(long, value_name = "NAME", requires = "ro_crate")]
    pub agent: Option<String>,
    /// Licence of the crate
    #[arg(long, value_name = "URL", requires = "ro_crate", value_parser = web_address)]
    pub license: Option<String>,
    /// Replace an earlier export
    #[arg(long)]
    pub replace: bool,
}

/// Result that fails the gate of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareGate {
    /// Any difference
    Differs,
    /// A worse value, or a difference where equality is required
    Worse,
}

#[derive(Args)]
pub struct AaTestArgs {
    /// Campaign file or directory [default: the only one here]
    #[arg(default_value = ".", hide_default_value = true, add = ArgValueCompleter::new(complete::campaigns))]
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// Paper's name, or folder with paper.toml
    pub paper: Option<Utf8PathBuf>,
    /// Only this table, by number or name; repeatable
    #[arg(long, value_name = "ID")]
    pub table: Vec<String>,
    /// List papers, or the paper's tables
    #[arg(long)]
    pub list: bool,
    /// Directory of further papers, searched first
    #[arg(long, value_name = "DIR")]
    pub papers: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Report directory [default: reports/papers/PAPER]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Report formats [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub format: Vec<ReportFormat>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub ci: CiArgs,
}

/// Measurements for a paper's tables.
#[derive(Args, Clone)]
pub struct MeasureArgs {
    /// First run the paper's campaigns for one machine
    #[arg(long)]
    pub measure: bool,
    /// Variant to measure; `kernels` needs only MPI and DMTCP
    #[arg(long, value_name = "NAME", requires = "measure")]
    pub variant: Option<String>,
    /// Campaign directory to compare; repeatable [default: the paper's]
    #[arg(long, value_name = "DIR", conflicts_with = "measure")]
    pub from: Vec<Utf8PathBuf>,
    #[command(flatten)]
    pub place: Where,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ReportFormat {
    Html,
    Csv,
    Json,
    Markdown,
    Latex,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("priced").multiple(true).args(["delta", "instance", "dollars_per_hour", "storage"]))]
pub struct PredictArgs {
    /// Campaign, CSV of observations or directory of images; repeatable
    #[arg(long, value_name = "CAMPAIGN|CSV|IMAGES")]
    pub from: Vec<Utf8PathBuf>,
    /// Directories of DMTCP images at two or more process counts
    #[arg(long, value_name = "DIRECTORY", num_args = 1.., conflicts_with = "delta")]
    pub images: Vec<Utf8PathBuf>,
    /// APP.CLASS MAPPING MPI [gzip|pigz] [aggregators=N] [cb=16MiB], e.g. "npb-bt.D 2Nx32P mpich-ch3"; repeatable
    #[arg(long, value_name = "SETTING", required_unless_present_any = ["judge", "delta", "checkpoint_time", "stand_in", "layout"])]
    pub at: Vec<String>,
    /// Show smaller runs that can represent this setting (e.g. "npb-bt.C 4Nx16P mpich-ch3"); repeatable
    #[arg(long, value_name = "SETTING", conflicts_with_all = ["delta", "checkpoint_time", "storage"])]
    pub stand_in: Vec<String>,
    /// Train only on these factors; repeatable
    #[arg(long, value_name = "FACTORS")]
    pub train: Vec<String>,
    /// Exclude observations with these factors
    #[arg(long, value_name = "FACTORS")]
    pub exclude: Vec<String>,
    /// Compare predictions with observations not trained on
    #[arg(long)]
    pub judge: bool,
    /// Show the most useful next run for each --at, and its cost
    #[arg(long, requires = "at")]
    pub next: bool,
    /// Share of time for checkpoints (e.g. 30%)
    #[arg(long, value_name = "PART", value_parser = part, allow_hyphen_values = true)]
    pub overhead: Option<f64>,
    /// Program time without checkpoints [default: observed]
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub app_time: Option<f64>,
    /// Job's mean time between failures
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub mtbf: Option<f64>,
    /// Mean time between failures of a node
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true, conflicts_with = "mtbf")]
    pub mtbf_node: Option<f64>,
    /// Restart time after a failure [default: a checkpoint's time]
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub restart_time: Option<f64>,
    /// Known checkpoint time, instead of observations
    #[arg(
        long,
        value_name = "TIME",
        value_parser = seconds,
        conflicts_with_all = ["at", "from", "images", "train", "exclude", "judge", "next", "detail", "delta"]
    )]
    pub checkpoint_time: Option<f64>,
    /// Job's nodes, with --checkpoint-time
    #[arg(long, value_name = "N", requires = "checkpoint_time", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
    /// Instance type of the nodes, for the cost
    #[arg(long, value_name = "TYPE", conflicts_with_all = ["delta", "dollars_per_hour"])]
    pub instance: Option<String>,
    /// Region for --instance
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    pub region: String,
    /// Show all quantities, models and underlying runs
    #[arg(long)]
    pub detail: bool,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub kept: StorageArgs,
    #[command(flatten)]
    pub stored: DeltaChoiceArgs,
    #[command(flatten)]
    pub layouts: LayoutArgs,
}

/// Checkpoints stored as changes.
#[derive(Args)]
#[command(next_help_heading = "Changes between checkpoints")]
pub struct DeltaChoiceArgs {
    /// Choose storage method and interval, from checkpoints (oldest first), CSV of `cvc delta compare`, or --from
    #[arg(
        long,
        value_name = "STATE|CSV",
        num_args = 0..,
        requires_all = ["app_time", "mtbf", "bandwidth"],
        conflicts_with_all = ["at", "train", "exclude", "judge", "next", "overhead", "mtbf_node", "detail"]
    )]
    pub delta: Option<Vec<Utf8PathBuf>>,
    /// Time between the given checkpoints [default: from files]
    #[arg(long, value_name = "TIME", value_parser = seconds, requires = "delta", allow_hyphen_values = true)]
    pub every: Option<f64>,
    /// Campaign point with the series
    #[arg(long, value_name = "ID", requires_all = ["delta", "from"])]
    pub point: Option<String>,
    /// Codecs to choose from [default: none; campaign: its own]
    #[arg(
        long,
        value_name = "CODECS",
        value_delimiter = ',',
        value_enum,
        requires = "delta"
    )]
    pub codec: Vec<cvc_delta_rules::Codec>,
    /// Write rate per second, all nodes
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "bandwidth_for")]
    pub bandwidth: Option<f64>,
    /// Read rate per second [default: write rate]
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "delta")]
    pub read_bandwidth: Option<f64>,
    /// Search rate for changes per second, if the program waits
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "delta")]
    pub search_bandwidth: Option<f64>,
    /// Fixed time per checkpoint and restart
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1s", allow_hyphen_values = true)]
    pub start_time: f64,
    /// Fixed time per restored file
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "0.01s", allow_hyphen_values = true)]
    pub file_time: f64,
    /// Block sizes to choose from [default: 4KiB]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', requires = "delta")]
    pub block: Vec<cvc_core::units::ByteSize>,
    /// Hourly price of all machines
    #[arg(long, value_name = "DOLLARS", value_parser = multiple, requires = "app_time")]
    pub dollars_per_hour: Option<f64>,
    /// Storage price per GiB and month
    #[arg(long, value_name = "DOLLARS", value_parser = multiple, requires = "priced")]
    pub dollars_per_gib_month: Option<f64>,
    /// Objective to minimise
    #[arg(long, value_enum, default_value = "time")]
    pub least: Objective,
}

/// Objective of the choice of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Objective {
    /// Expected time of the run
    Time,
    /// Cost of machines, and of storage for a month
    Cost,
}

/// A site of a campaign file.
#[derive(Args, Clone)]
pub struct SiteOf {
    /// Site of the campaign
    #[arg(add = ArgValueCompleter::new(complete::sites))]
    pub site: String,
    /// Campaign file [default: the only one here]
    #[arg(long, value_name = "FILE")]
    pub file: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub which: Which,
}

#[derive(Args)]
pub struct InstallArgs {
    #[command(flatten)]
    pub of: SiteOf,
    #[command(flatten)]
    pub place: Where,
    /// Only show what would be done
    #[arg(long)]
    pub check: bool,
    /// Only these: base, storage, mpi, dmtcp, darshan, apps, kernels
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// Only these hosts, as for ansible-playbook; repeatable
    #[arg(long, value_name = "HOST")]
    pub limit: Vec<String>,
    /// Use current versions instead of cvc.lock
    #[arg(long)]
    pub update_lock: bool,
    /// Only write files for ansible-playbook
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "tags", "limit"])]
    pub inventory_only: Option<Utf8PathBuf>,
    /// Print one JSON object per event
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DoctorArgs {
    /// Campaign file, or a site of --file [default: this machine]
    #[arg(value_name = "FILE|SITE", add = ArgValueCompleter::new(complete::campaign_files))]
    pub target: Option<Utf8PathBuf>,
    /// Campaign file [default: the only one here]
    #[arg(long, value_name = "FILE", requires = "target")]
    pub file: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub which: Which,
    /// Show known hazards of MPI and DMTCP
    #[arg(long)]
    pub hazards: bool,
    /// Test checkpoint and restart with each MPI library
    #[arg(long)]
    pub probe: bool,
    /// Measure whether non-blocking MPI-IO progresses during computation
    #[arg(long, conflicts_with = "probe")]
    pub overlap: bool,
    /// Include collective writes, which crash some libraries
    #[arg(long, requires = "overlap")]
    pub collective: bool,
    /// Test an application and its descriptor with each MPI library
    #[arg(long, value_name = "NAME", conflicts_with_all = ["probe", "overlap"], add = ArgValueCompleter::new(complete::applications))]
    pub app: Option<String>,
    /// Only this MPI library; repeatable
    #[arg(long, value_name = "NAME", requires = "app")]
    pub mpi: Vec<String>,
    /// Workload [default: smallest]
    #[arg(long, requires = "app")]
    pub class: Option<String>,
    /// Processes [default: the smallest legal number above 1]
    #[arg(long, requires = "app", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: Option<u32>,
    /// Program directory to search first; repeatable
    #[arg(long, value_name = "DIR", requires = "app")]
    pub app_dir: Vec<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Command, part, seconds};
    use clap::Parser;

    #[test]
    fn times_and_parts_have_units() {
        for (text, is) in [
            ("90s", 90.0),
            ("30m", 1800.0),
            ("2min", 120.0),
            ("1.5h", 5400.0),
            ("1h 30m", 5400.0),
            ("30d", 2_592_000.0),
        ] {
            assert_eq!(seconds(text), Ok(is), "{text}");
        }
        for wrong in [
            "",
            "h",
            "-3s",
            "0s",
            "0",
            "24",
            "1.5",
            "-3",
            "3 lightyears",
            "inf",
            "NaN",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            seconds("24").expect_err("no unit").to_string(),
            "`24` has no unit: write 24s, 24m, 24h or 24d"
        );
        assert!((part("30%").expect("a part") - 0.3).abs() < 1e-12);
        assert_eq!(part("0.3"), Ok(0.3));
        assert_eq!(
            part("30").expect_err("unclear").to_string(),
            "`30` means 3000 %: write 30% or 0.3"
        );
        for wrong in ["", "%", "-1%", "0", "x", "30", "NaN"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_durations_of_the_command_line_have_one_grammar() {
        let predict = [
            "cvc",
            "predict",
            "--at",
            "npb-bt.D 16 mpich-ch3",
            "--mtbf",
            "30m",
            "--app-time",
            "1h 30m",
        ];
        let Some(Command::Predict(args)) = Arguments::try_parse_from(predict)
            .expect("a command line")
            .command
        else {
            panic!("predict")
        };
        assert_eq!((args.mtbf, args.app_time), (Some(1800.0), Some(5400.0)));
        let Some(Command::Sweep(args)) =
            Arguments::try_parse_from(["cvc", "sweep", "--older-than", "30m", "--wait", "15m"])
                .expect("a command line")
                .command
        else {
            panic!("sweep")
        };
        assert_eq!((args.older_than, args.wait), (Some(1800.0), Some(900.0)));
    }
}
