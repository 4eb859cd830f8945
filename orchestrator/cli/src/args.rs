//! The command line.

mod delta;

pub use delta::{
    DeltaArgs, DeltaCatArgs, DeltaCommand, DeltaCompareArgs, DeltaMakeArgs, DeltaPruneArgs,
    DeltaRestoreArgs, DeltaShowArgs, DeltaVerifyArgs, ImageDiffArgs,
};

use crate::exit_status::ExitStatus;
use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};
use cvc_core::log::LevelFilter;

/// Measure what checkpoints of MPI applications cost, on clusters and in the cloud: campaigns of real runs, from one file to a report.
#[derive(Parser)]
#[command(version, after_help = ExitStatus::help_table())]
pub struct Arguments {
    /// Show the log of the session on standard error, up to this level; `run`, `install` and `down` also write all of it to a file in the
    /// campaign's logs/
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
    pub command: Command,
}

/// The lowest level of the log that is shown.
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
    /// Write a campaign file from a few answers
    ///
    /// What to measure, where, and with which programs is asked for, or given as options.
    Init(InitArgs),
    /// Show what would run, for how long, at what price, in what space
    ///
    /// Nothing is started.
    Plan(PlanArgs),
    /// Run a campaign, or what remains of it, and write its report
    Run(RunArgs),
    /// Show the progress of a campaign
    Status(StatusArgs),
    /// Show a campaign in a browser of this machine
    ///
    /// Progress, what runs where, costs, failures, the report; nothing can be changed there.
    Serve(ServeArgs),
    /// Explain why a run or a point is where it is
    ///
    /// What was tried, what came of it, what happens next.
    Explain(ExplainArgs),
    /// Check the files of a campaign, and repair what needs no guess
    Fsck(FsckArgs),
    /// Rebuild a campaign's report
    Report(ReportArgs),
    /// Show how often comparisons call equal things different
    ///
    /// An A/A test: odd repeats against even ones, and sites that are alike against each other.
    #[command(alias = "calibrate")]
    AaTest(AaTestArgs),
    /// Compare sites, campaigns or baselines, with verdicts
    ///
    /// Begins with what differs around the programs.
    Compare(CompareArgs),
    /// Advise which machines, mapping and checkpoint setting to take
    ///
    /// By time, cost and storage, and what to measure next.
    Advise(AdviseArgs),
    /// Import what others measured as a campaign
    ///
    /// A table, a description of tables, or JSON of another program.
    Import(ImportArgs),
    /// Export a campaign as tables, RO-Crate or artefact
    ///
    /// Flat tables with a schema (CSV, Parquet), a Process Run Crate (RO-Crate), or an artefact (BagIt).
    Export(ExportArgs),
    /// Compare a paper's printed tables with its inputs and own runs
    ///
    /// With what its own inputs give, and with what was measured here.
    Reproduce(ReproduceArgs),
    /// Predict checkpoints that were not run from those that were
    ///
    /// At any mapping, process count or class; with the interval between checkpoints that loses least.
    Predict(PredictArgs),
    /// Show the zones of checkpoint images
    ///
    /// Of one file, or of all images of a directory or campaign.
    Image(ImageCommandArgs),
    /// Store and restore checkpoints as what changed between them
    ///
    /// And compare what each method would store.
    Delta(DeltaArgs),
    /// Show who wrote what, when and in which pattern, from a trace
    ///
    /// Of Darshan, strace or DFTracer; with findings, and what differs between two.
    Trace(TraceArgs),
    /// Install what a campaign needs on the machines of a site
    ///
    /// And record it in the campaign's cvc.lock.
    Install(InstallArgs),
    /// End what a campaign runs, and release what it has in clouds
    Down(DownArgs),
    /// Find and remove what campaigns left in a cloud, by its tags
    Sweep(SweepArgs),
    /// Ask a cloud for the prices of the instances of a campaign
    ///
    /// For `cvc plan` and budgets.
    Prices(PricesArgs),
    /// Show what is installed, what is missing, and how to fix it
    ///
    /// With what cannot be done without it.
    Doctor(DoctorArgs),
    /// Print the JSON Schema of a kind of file
    ///
    /// Of campaign files, of application descriptors, or of what `cvc predict --json` or `cvc delta ... --json` prints.
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
    /// What `cvc predict --json` prints
    Predict,
    /// What `cvc delta make`, `show`, `verify` and `compare` print with `--json`
    Delta,
}

/// What a new campaign measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measure {
    /// Size and time of checkpoints
    Sizes,
    /// Restarts, which must verify their results
    Restart,
    /// Time of runs with checkpoints against runs without
    Overhead,
    /// DMTCP's images with gzip against images as they are
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
    /// Campaign file to write; the campaign is named after it, and `campaign.toml` after its program or directory
    #[arg(default_value = "campaign.toml")]
    pub file: Utf8PathBuf,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub measure: Vec<Measure>,
    /// Where to run
    #[arg(long, value_enum)]
    pub site: Option<InitSite>,
    /// Machines of the site `ssh`; the first one launches MPI
    #[arg(long, value_delimiter = ',', value_name = "HOSTS")]
    pub hosts: Vec<String>,
    /// Maximum number of nodes, of the sites `slurm` and `ec2`
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub nodes: Option<u32>,
    /// Slurm's login node, as ssh knows it [default: sbatch is called here]
    #[arg(long)]
    pub login: Option<String>,
    /// Slurm's partition [default: left to Slurm]
    #[arg(long)]
    pub partition: Option<String>,
    /// Region of EC2, as in us-east-1
    #[arg(long)]
    pub region: Option<String>,
    /// Instance types of EC2 in order of preference
    #[arg(long, value_delimiter = ',', value_name = "TYPES")]
    pub instance_types: Vec<String>,
    /// Applications; `cvc init --app list` lists them
    #[arg(
        long,
        value_delimiter = ',',
        conflicts_with = "program",
        value_name = "APPS"
    )]
    pub app: Vec<String>,
    /// A program of your own instead; its descriptor is written to apps/ beside the campaign file
    #[arg(long, value_name = "PATH")]
    pub program: Option<Utf8PathBuf>,
    /// Arguments of --program, in one word of the shell, as in "--size 100 --in box.in"
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub args: Option<String>,
    /// A file that --program reads from its working directory, where every run gets a copy of it; may be given several times
    #[arg(long, value_name = "FILE")]
    pub input: Vec<String>,
    /// Run --program once, for a minute at most, and learn from its output how it shows success and steps; on a terminal cvc asks
    #[arg(long = "try", conflicts_with = "no_try")]
    pub try_it: bool,
    /// Do not run it, and do not ask
    #[arg(long)]
    pub no_try: bool,
    /// Size of the problem: a workload of all applications
    #[arg(long)]
    pub class: Option<String>,
    /// Total numbers of processes
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub processes: Vec<u32>,
    /// MPI libraries: mpich, openmpi [default: those that are found here]
    #[arg(long, value_delimiter = ',', value_name = "LIBRARIES")]
    pub mpi: Vec<String>,
    /// Take the default of everything that no option gives, without asking
    #[arg(long, short)]
    pub yes: bool,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

/// The directory that campaigns are kept in.
#[derive(Args, Clone)]
pub struct Where {
    /// Directory that contains the directories of campaigns
    #[arg(long, env = "CVC_CAMPAIGNS", default_value = "campaigns", value_name = "DIR", value_parser = directory)]
    pub campaigns: Utf8PathBuf,
}

/// A directory, which need not exist.
fn directory(text: &str) -> Result<Utf8PathBuf, ValueError> {
    let path = Utf8PathBuf::from(text);
    if path.exists() && !path.is_dir() {
        Err(ValueError::File)
    } else {
        Ok(path)
    }
}

/// The campaign of a file.
#[derive(Args, Clone)]
pub struct Which {
    /// Variant of the campaign, [variants.NAME] in its file
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
}

#[derive(Args)]
pub struct PlanArgs {
    /// Campaign file
    pub file: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print the plan as JSON; the same file and seed give the same bytes on every machine
    #[arg(long)]
    pub json: bool,
    /// With --json: also what is expected, of time, space and money; that depends on the day, the prices and this machine
    #[arg(long, requires = "json")]
    pub estimates: bool,
    /// Show the points and sites that cost or last least first, instead of in the order of the file
    #[arg(long, value_name = "BY")]
    pub sort: Option<SortBy>,
    /// Show every run in its order, not only the points
    #[arg(long)]
    pub runs: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
}

/// What a plan's points and sites are sorted by.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// US dollars; what is not known comes last
    Cost,
    /// Time of a run, and of a site
    Time,
}

/// The points that a command is limited to.
#[derive(Args, Clone)]
pub struct SelectionArgs {
    /// Only points with these factors, as in "app=npb-bt processes=4,9"; given several times, any of them
    #[arg(long, value_name = "FACTORS")]
    pub only: Vec<String>,
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
    /// Campaign file
    pub file: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print one JSON object for each event
    #[arg(long)]
    pub json: bool,
    /// Try runs again that have failed for good
    #[arg(long)]
    pub retry_failed: bool,
    /// Go on where the first runs all fail in the same way, and try again what failed at once
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Begin no run that would probably end after this time, as in 90m or 2h; the rest is left for the next `cvc run`
    #[arg(long = "for", value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub time_limit: Option<f64>,
    /// First install what the campaign needs on its sites, as `cvc install` does
    #[arg(long)]
    pub install: bool,
    /// Accept the software that is installed now, where it differs from cvc.lock
    #[arg(long)]
    pub update_lock: bool,
    /// Directory of the report [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub report: Option<Utf8PathBuf>,
}

#[derive(Args)]
pub struct FsckArgs {
    /// Campaign file, or a campaign's directory
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Repair what was found; nothing is removed, and what is replaced is kept beside
    #[arg(long)]
    pub repair: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct StatusArgs {
    /// Campaign file, or a campaign's directory
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Show it again and again until the campaign is complete, with a pause of so long in between
    #[arg(long, value_name = "TIME", value_parser = seconds, num_args = 0..=1, default_missing_value = "2s", require_equals = true)]
    pub watch: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ServeArgs {
    /// Campaign file, or a campaign's directory
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Port of the loopback interface [default: any that is free]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Directory of the campaign's report [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub report: Option<Utf8PathBuf>,
}

#[derive(Args)]
pub struct ExplainArgs {
    /// Campaign file, or a campaign's directory
    pub campaign: Utf8PathBuf,
    /// Beginning of the identifier of a run or a point, or factors of points, as in mapping=4Nx1P mpi=mpich
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
pub struct DownArgs {
    /// Campaign file, or a campaign's directory or name
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Take it that nothing is left on this site, which cannot be reached any more; may be given several times
    #[arg(long, value_name = "SITE")]
    pub forget: Vec<String>,
    /// Then also remove the keys with which cvc lets the nodes of its ssh sites log in to each other; `cvc install` lets them in again
    #[arg(long)]
    pub keys: bool,
    /// Print one JSON object for each event
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SweepArgs {
    /// Search only this region; may be given several times [default: the region of the AWS configuration, and all that campaigns have used]
    #[arg(long, value_name = "REGION")]
    pub region: Vec<String>,
    /// Search every region that the account may use
    #[arg(long)]
    pub all_regions: bool,
    /// Only what is older than this, as in 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub older_than: Option<f64>,
    /// Only fleets whose end, by their tags, is past; for cron
    #[arg(long)]
    pub expired: bool,
    /// Maximum time to wait in each region for resources that are in use [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub wait: Option<f64>,
    /// Owner of the resources [default: CVC_OWNER, or USER@MACHINE]
    #[arg(long, conflicts_with = "any_owner")]
    pub owner: Option<String>,
    /// Resources of all owners
    #[arg(long)]
    pub any_owner: bool,
    /// Show what would be removed, without removing it
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Also resources of campaigns that are running here, or that are kept for the next campaign
    #[arg(long)]
    pub in_use: bool,
    /// Profile of the AWS configuration
    #[arg(long)]
    pub profile: Option<String>,
    /// Address to use instead of AWS's own
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A duration: `90s`, `30m`, `1h 30m`, `2d`.
fn seconds(text: &str) -> Result<f64, cvc_core::units::DurationError> {
    cvc_core::units::seconds(text)
}

/// A value that an option does not take.
#[derive(Debug, PartialEq, thiserror::Error)]
enum ValueError {
    #[error("write a share as 30% or 0.3")]
    Share,
    #[error("`{part}` means {} %: write {part}% or {}", part * 100.0, part / 100.0)]
    UnclearShare { part: f64 },
    #[error("a share must be above 0 and at most 1000%")]
    ShareRange,
    #[error("it is a file, and a directory is needed")]
    File,
    #[error("write a number above 0, as in 12.5")]
    Positive,
    #[error("write a site and its price in US dollars, as in c3.xlarge=0.21")]
    SitePrice,
}

/// A size that is written or read each second: `200MiB`, also `200MiB/s`.
fn mib_each_second(text: &str) -> Result<f64, String> {
    let size: cvc_core::units::ByteSize = text.strip_suffix("/s").unwrap_or(text).parse()?;
    if size.0 == 0 {
        return Err("nothing is ever written at this rate: write it as in 200MiB".into());
    }
    Ok(size.0 as f64 / f64::from(1 << 20))
}

/// A share: `30%` or `0.3`.
fn part(text: &str) -> Result<f64, ValueError> {
    let (number, factor) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 0.01));
    let part = number
        .trim()
        .parse::<f64>()
        .map_err(|_| ValueError::Share)?
        * factor;
    if factor == 1.0 && (1.5..=100.0).contains(&part) {
        return Err(ValueError::UnclearShare { part });
    }
    if part.is_finite() && part > 0.0 && part <= 10.0 {
        Ok(part)
    } else {
        Err(ValueError::ShareRange)
    }
}

#[derive(Args)]
pub struct ReportArgs {
    /// Campaign file, or a campaign's directory
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Directory of the report [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Formats of the report [default: those of the campaign file]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub format: Vec<ReportFormat>,
    /// Exit with code 11 if predictions miss a bound of the campaign's [predict], as `cvc run` does
    #[arg(long)]
    pub gate: bool,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ImageCommandArgs {
    #[command(subcommand)]
    pub command: Option<ImageCommand>,
    #[command(flatten)]
    pub show: Option<cvc_image_show::command::ImageArgs>,
    /// Print a line of CSV for each checkpoint in a directory, in the form that `cvc predict --from` takes
    #[arg(long, conflicts_with_all = ["json", "estimate"])]
    pub csv: bool,
}

#[derive(Subcommand)]
pub enum ImageCommand {
    /// Show which pages differ between two checkpoints of the same processes, by zone and part
    Diff(ImageDiffArgs),
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub command: Option<TraceCommand>,
    /// The files of one trace: a log of Darshan, files of `strace -ff -ttt -T -y` or `-f`, .pfw files of DFTracer, or directories with them; the
    /// directory of a run stands for the trace in it. Several logs of Darshan, or a directory with several, are a table of jobs
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<Utf8PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write every event as a line of CSV to this file; `-` is standard output, and nothing else is printed then
    #[arg(long, value_name = "FILE")]
    pub csv: Option<Utf8PathBuf>,
    /// Of several logs, write a line of CSV for each file to this file; --csv writes one for each job and module
    #[arg(long, value_name = "FILE")]
    pub files_csv: Option<Utf8PathBuf>,
    /// Of several logs, only those whose program or path has this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub job: Vec<String>,
    /// Of several logs, only files whose path has this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub path: Vec<String>,
    /// Write a file for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<Utf8PathBuf>,
    /// Write a page with plots: bandwidth over time, bursts, and who wrote which places when
    #[arg(long, value_name = "FILE")]
    pub html: Option<Utf8PathBuf>,
    /// Images of the checkpoint that was traced, or their directory: their writes are laid over their zones
    #[arg(long, value_name = "IMAGE")]
    pub images: Vec<Utf8PathBuf>,
    /// Aggregators that were asked for, to hold against those that wrote
    #[arg(long, value_name = "N")]
    pub aggregators: Option<usize>,
    /// TOML file with other thresholds of findings
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<Utf8PathBuf>,
    /// Pause that ends a burst [default: a hundredth of the trace, at least a millisecond]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub gap: Option<f64>,
    /// List all files and bursts, and also findings of what is as it should be
    #[arg(long)]
    pub all: bool,
}

#[derive(Subcommand)]
pub enum TraceCommand {
    /// Compare two traces: files of the same role, their operations, and the order of these
    Compare(TraceCompareArgs),
}

#[derive(Args)]
pub struct TraceCompareArgs {
    /// The first trace: a file, or a directory of files
    pub first: Utf8PathBuf,
    /// The second
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
    /// Campaigns (directory, file or name), one site of a campaign (CAMPAIGN:SITE), or saved baselines (@NAME). The others are compared with
    /// the first; of one campaign alone, its sites with its first site
    #[arg(required = true, value_name = "SIDE")]
    pub sides: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Compare only this quantity; may be given several times
    #[arg(long, value_name = "NAME")]
    pub quantity: Vec<String>,
    /// Relative difference up to which two values count as the same
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = part)]
    pub margin: f64,
    /// Take the sides as one history: compare each with the one before, and tell the steps
    #[arg(long, conflicts_with = "save")]
    pub history: bool,
    /// List every pair of points
    #[arg(long)]
    pub detail: bool,
    /// Save the results of the first side as a baseline of this name, which later comparisons call @NAME
    #[arg(long, value_name = "NAME")]
    pub save: Option<String>,
    /// Directory for a report of each comparison [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Formats of the report
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "html,csv",
        requires = "to"
    )]
    pub format: Vec<ReportFormat>,
    /// Exit with code 13 if something differs (or got worse), and with code 14 if of something nothing can be told
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "differs", require_equals = true)]
    pub gate: Option<CompareGate>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct AdviseArgs {
    /// Campaigns (directory, file or name), one site of a campaign (CAMPAIGN:SITE), or saved baselines (@NAME)
    #[arg(required = true, value_name = "SIDE")]
    pub sides: Vec<String>,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Only this application, or application and class, as in npb-bt or npb-bt.C
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// The job computes so many times as long as the measured runs
    #[arg(long, value_name = "N", default_value = "1", value_parser = multiple)]
    pub times: f64,
    /// The job must end within this time, as in 90m or 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub deadline: Option<f64>,
    /// The job may cost so many US dollars
    #[arg(long, value_name = "USD", value_parser = multiple)]
    pub budget: Option<f64>,
    /// Checkpoints may lengthen it by this share at most, as in 5%
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub overhead: Option<f64>,
    /// Mean time between failures of the whole job: time and cost are those that are expected with failures
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub mtbf: Option<f64>,
    /// Longest time of a batch job: a longer one goes on from its checkpoint
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub walltime: Option<f64>,
    /// Time between the notice that an instance is taken back and its end: a checkpoint must fit in
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub notice: Option<f64>,
    /// Price of a node for an hour where no run has a cost, as in c3.xlarge=0.21; may be given several times
    #[arg(long, value_name = "SITE=USD", value_parser = site_price)]
    pub price: Vec<(String, f64)>,
    /// Directory for a report [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Formats of the report
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

/// A number above 0.
fn multiple(text: &str) -> Result<f64, ValueError> {
    let number = text.trim().trim_start_matches('$').parse::<f64>();
    number
        .ok()
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or(ValueError::Positive)
}

/// A site with its price.
fn site_price(text: &str) -> Result<(String, f64), ValueError> {
    let (site, price) = text.rsplit_once('=').ok_or(ValueError::SitePrice)?;
    if site.is_empty() {
        return Err(ValueError::SitePrice);
    }
    Ok((site.to_owned(), multiple(price)?))
}

#[derive(Args)]
pub struct ImportArgs {
    /// Table whose columns are named like factors and quantities, description of tables (.toml), or JSON of ReFrame, HPCAdvisor, Ramble or
    /// hyperfine
    pub file: Utf8PathBuf,
    /// Name of the campaign [default: that of the description, or of the file]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Take the place of an earlier import of this name
    #[arg(long)]
    pub replace: bool,
    /// Leave out rows without a value, which otherwise end the import with exit code 16
    #[arg(long)]
    pub skip: bool,
    /// Words that stand for a missing value; `common` is N/A, NA, NaN, null, -, -- and ?
    #[arg(
        long,
        value_name = "WORD,...",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub missing: Vec<String>,
    /// Sign before decimals [default: recognised]
    #[arg(long, value_name = "SIGN", value_parser = ["point", "comma"])]
    pub decimal: Option<String>,
    /// Columns that are factors, whatever their names
    #[arg(long = "factor", value_name = "COLUMN,...", value_delimiter = ',')]
    pub factors: Vec<String>,
    #[command(flatten)]
    pub place: Where,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("form").required(true).multiple(true).args(["csv", "parquet", "artifact", "ro_crate"]))]
pub struct ExportArgs {
    /// Campaign file, a campaign's directory, or its name
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Write points, runs, values, facts and leases as CSV tables into this directory, with their schema in datapackage.json
    #[arg(long, value_name = "DIR")]
    pub csv: Option<Utf8PathBuf>,
    /// Write the same tables as Parquet files into this directory
    #[arg(long, value_name = "DIR")]
    pub parquet: Option<Utf8PathBuf>,
    /// Write an artefact to publish into this zip: a BagIt bag of the campaign's files, tables and report, with ARTIFACT.md; secrets are
    /// withheld, and names of hosts, users and accounts, and addresses, are replaced by words such as host-1
    #[arg(long, value_name = "FILE")]
    pub artifact: Option<Utf8PathBuf>,
    /// Directory of the report for the artefact [default: reports/NAME, if it is there]
    #[arg(long, value_name = "DIR", requires = "artifact")]
    pub report: Option<Utf8PathBuf>,
    /// Write the artefact although records of runs are missing, damaged or changed
    #[arg(long, requires = "artifact")]
    pub damaged: bool,
    /// Leave names and addresses in the artefact as they are
    #[arg(long, requires = "artifact")]
    pub keep_names: bool,
    /// Write a Process Run Crate into this directory: the files of the campaign, the tables, and an action for each run
    #[arg(long, value_name = "DIR")]
    pub ro_crate: Option<Utf8PathBuf>,
    /// Who made the runs, for the crate [default: nobody is named]
    #[arg(long, value_name = "NAME", requires = "ro_crate")]
    pub agent: Option<String>,
    /// Address of the licence of the crate, as https://creativecommons.org/licenses/by/4.0/
    #[arg(long, value_name = "URL", requires = "ro_crate")]
    pub license: Option<String>,
    /// Take the place of an earlier export
    #[arg(long)]
    pub replace: bool,
}

/// What a comparison must not find.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareGate {
    /// Any difference
    Differs,
    /// A difference in the direction that is not better, or something unequal that must be equal
    Worse,
}

#[derive(Args)]
pub struct AaTestArgs {
    /// Campaign file, or a campaign's directory
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
    /// A paper (thesis, pas2p-io, ...), or a folder with a paper.toml
    #[arg(required_unless_present = "list")]
    pub paper: Option<Utf8PathBuf>,
    /// Only this table: its printed number or its name; may be given several times
    #[arg(long, value_name = "ID")]
    pub table: Vec<String>,
    /// List the papers, or the tables of the paper, without writing anything
    #[arg(long)]
    pub list: bool,
    /// Directory with folders of papers, searched before the built-in papers
    #[arg(long, value_name = "DIR")]
    pub papers: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Directory of the report [default: reports/papers/PAPER]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Formats of the report [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub format: Vec<ReportFormat>,
}

/// Measurements for a paper's tables.
#[derive(Args, Clone)]
pub struct MeasureArgs {
    /// First run what remains to be done of the paper's campaigns for one machine
    #[arg(long)]
    pub measure: bool,
    /// Directory of a campaign whose runs are compared with the tables; may be given several times [default: those of the paper's
    /// campaigns]
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
pub struct PredictArgs {
    /// Campaign (its directory, file or name), a CSV table of observations, or a directory with images; may be given several times
    #[arg(long, value_name = "CAMPAIGN|CSV|IMAGES")]
    pub from: Vec<Utf8PathBuf>,
    /// Directories with DMTCP's images of one program at two or more numbers of processes: everything is read from the images
    #[arg(long, value_name = "DIRECTORY", num_args = 1.., conflicts_with = "delta")]
    pub images: Vec<Utf8PathBuf>,
    /// What to predict: APP.CLASS MAPPING MPI [gzip|pigz] [aggregators=N] [cb=16MiB], as in "npb-bt.D 2Nx32P mpich-ch3"; a number instead of a
    /// mapping is that many processes on one node; program and library may be left out if all observations have the same; may be given several times
    #[arg(long, value_name = "SETTING", required_unless_present_any = ["judge", "delta"])]
    pub at: Vec<String>,
    /// Train only on observations with these factors, as in "processes=1,4,9 app=npb-bt"; given several times, any of them
    #[arg(long, value_name = "FACTORS")]
    pub train: Vec<String>,
    /// Leave out observations with these factors
    #[arg(long, value_name = "FACTORS")]
    pub exclude: Vec<String>,
    /// Compare the observations that do not train with what is predicted for them
    #[arg(long)]
    pub judge: bool,
    /// Tell which further run would make the answer to each --at narrower, and what it costs
    #[arg(long, requires = "at")]
    pub next: bool,
    /// Share of the program's time that checkpoints may take, as in 30% or 0.3; gives the number of checkpoints
    #[arg(long, value_name = "PART", value_parser = part, allow_hyphen_values = true)]
    pub overhead: Option<f64>,
    /// Time of the program without checkpoints, as in 3000s, 50m or 2h [default: as observed with as many processes]
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub app_time: Option<f64>,
    /// Mean time between failures of the whole job (that of a node, divided by the nodes), as in 30m, 24h or 30d; gives the interval between
    /// checkpoints, and what the run then takes on average
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub mtbf: Option<f64>,
    /// The same of one node, as in 200d or 5y: that of the job is this, divided by the nodes of the setting
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true, conflicts_with = "mtbf")]
    pub mtbf_node: Option<f64>,
    /// Time from a failure until the program computes again, as in 3m [default: as long as a checkpoint takes]
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    pub restart_time: Option<f64>,
    /// Show all quantities, every model that was fitted with its parameters, and the runs behind each number
    #[arg(long)]
    pub detail: bool,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub stored: DeltaChoiceArgs,
}

/// Checkpoints that store what changed.
#[derive(Args)]
#[command(next_help_heading = "What changes between checkpoints")]
pub struct DeltaChoiceArgs {
    /// Tell by which method to store checkpoints, and how often: from directories of consecutive checkpoints of a run, the oldest first, a
    /// table of pairs as `cvc delta compare --csv` prints it, or, with --from, a campaign that took series; takes --app-time, --mtbf and --bandwidth
    #[arg(
        long,
        value_name = "STATE|CSV",
        num_args = 0..,
        requires_all = ["app_time", "mtbf", "bandwidth"],
        conflicts_with_all = ["at", "train", "exclude", "judge", "next", "overhead", "mtbf_node", "detail"]
    )]
    pub delta: Option<Vec<Utf8PathBuf>>,
    /// Time between the checkpoints that are given, as in 60s [default: that of DMTCP's restart scripts with them; of other files, their own times]
    #[arg(long, value_name = "TIME", value_parser = seconds, requires = "delta", allow_hyphen_values = true)]
    pub every: Option<f64>,
    /// Point of the campaign, where several have series
    #[arg(long, value_name = "ID", requires_all = ["delta", "from"])]
    pub point: Option<String>,
    /// Codecs to choose from. Of directories, up to four states are stored with each in a temporary directory, and the last of them is restored; of a
    /// campaign, they are those of its records [default: none, of a campaign all that it has]
    #[arg(
        long,
        value_name = "CODECS",
        value_delimiter = ',',
        value_enum,
        requires = "delta"
    )]
    pub codec: Vec<cvc_delta_rules::Codec>,
    /// What is written of checkpoints each second, all nodes together, as in 200MiB
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "delta")]
    pub bandwidth: Option<f64>,
    /// What is read at restarts each second [default: as much as is written]
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "delta")]
    pub read_bandwidth: Option<f64>,
    /// At how much each second a checkpoint is searched for what changed while the program waits, as in 1GiB [default: it does not wait]
    #[arg(long, value_name = "SIZE", value_parser = mib_each_second, requires = "delta")]
    pub search_bandwidth: Option<f64>,
    /// What a checkpoint takes whatever it stores; also a restart, unless --restart-time says otherwise
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1s", allow_hyphen_values = true)]
    pub start_time: f64,
    /// What each file of a chain takes at a restart beside its bytes
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "0.01s", allow_hyphen_values = true)]
    pub file_time: f64,
    /// Size of the blocks that are compared, a power of two from 4KiB to 1MiB; of several, the one with which least is lost [default: 4KiB]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', requires = "delta")]
    pub block: Vec<cvc_core::units::ByteSize>,
    /// Dollars for an hour of all machines of the run
    #[arg(long, value_name = "DOLLARS", value_parser = multiple, requires = "delta")]
    pub dollars_per_hour: Option<f64>,
    /// Dollars for a GiB that is stored for a month
    #[arg(long, value_name = "DOLLARS", value_parser = multiple, requires = "delta")]
    pub dollars_per_gib_month: Option<f64>,
    /// What is to be least: the expected time, or the dollars for machines and a month of storage
    #[arg(long, value_enum, default_value = "time")]
    pub least: Least,
}

/// What the choice of a method makes least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Least {
    /// The expected time of the run
    Time,
    /// Dollars of the machines for it, and of all its checkpoints for a month
    Cost,
}

/// A site of a campaign file.
#[derive(Args, Clone)]
pub struct SiteOf {
    /// Site of the campaign
    pub site: String,
    /// Campaign file [default: the only one in this directory]
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
    /// Show what would be done, without doing it
    #[arg(long)]
    pub check: bool,
    /// Only these parts: base, storage, mpi, dmtcp, darshan, apps, kernels
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// Only these hosts, as ansible-playbook takes them; may be given several times
    #[arg(long, value_name = "HOST")]
    pub limit: Vec<String>,
    /// Take the versions that are installed or available now, instead of those in cvc.lock
    #[arg(long)]
    pub update_lock: bool,
    /// Write the inventory, the variables and the roles for ansible-playbook to this directory, without installing anything
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "tags", "limit"])]
    pub inventory_only: Option<Utf8PathBuf>,
    /// Print one JSON object for each event
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DoctorArgs {
    /// Campaign file to check, with all its sites; or one site of --file [default: everything that cvc can use on this machine]
    #[arg(value_name = "FILE|SITE")]
    pub target: Option<Utf8PathBuf>,
    /// Campaign file of the site [default: the only one in this directory]
    #[arg(long, value_name = "FILE", requires = "target")]
    pub file: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub which: Which,
    /// Show each known hazard of MPI and DMTCP with its reason, and what cvc sets against it
    #[arg(long)]
    pub hazards: bool,
    /// Take a small checkpoint and restart it, with each MPI library that is found, on one node and over two
    #[arg(long)]
    pub probe: bool,
    /// Run the smallest workload of an application (a name, or the file of a descriptor) with each MPI library, and say which parts of its
    /// descriptor fit and which do not
    #[arg(long, value_name = "NAME", conflicts_with = "probe")]
    pub app: Option<String>,
    /// Only with this MPI library of the site; may be given several times
    #[arg(long, value_name = "NAME", requires = "app")]
    pub mpi: Vec<String>,
    /// This workload instead of the smallest
    #[arg(long, requires = "app")]
    pub class: Option<String>,
    /// This number of processes instead of the smallest legal one above 1
    #[arg(long, requires = "app", value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: Option<u32>,
    /// Look for the program here first; may be given several times
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
        let Command::Predict(args) = Arguments::try_parse_from(predict)
            .expect("a command line")
            .command
        else {
            panic!("predict")
        };
        assert_eq!((args.mtbf, args.app_time), (Some(1800.0), Some(5400.0)));
        let Command::Sweep(args) =
            Arguments::try_parse_from(["cvc", "sweep", "--older-than", "30m", "--wait", "15m"])
                .expect("a command line")
                .command
        else {
            panic!("sweep")
        };
        assert_eq!((args.older_than, args.wait), (Some(1800.0), Some(900.0)));
    }
}
