//! The command line.

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// What checkpoints of MPI applications cost, on a cluster and in the cloud: campaigns of real runs, from one file to a report.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done                               7  a file of the campaign cannot be used
  2  the campaign file or the command   8  model
     line is wrong                      9  leases are left
  3  provider                          10  runs failed
  4  host                              11  a prediction missed its bound
  5  installation                      12  the budget does not pay for more
  6  a file cannot be read as what    130  interrupted
     it should be";

#[derive(Subcommand)]
pub enum Command {
    /// Show what would run, where, how long, and the space it needs; nothing is started
    Plan(PlanArgs),
    /// Run a campaign, or what of it is still to be done, and report
    Run(RunArgs),
    /// Show how far a campaign has come
    Status(CampaignArgs),
    /// Write the report of a campaign again
    Report(ReportArgs),
    /// Hold a paper's printed tables against what its own inputs give, and what was measured here
    Reproduce(ReproduceArgs),
    /// Predict checkpoints of any mapping, process count or class from observed ones
    Predict(PredictArgs),
    /// Read a checkpoint image, or a directory of them: zones, listing
    Image(cvc_probe::image::command::ImageArgs),
    /// Install what a campaign needs on the machines of a site, and note it in the campaign's cvc.lock
    Install(InstallArgs),
    /// End everything that a campaign has on the machines of its sites, and give back what it has in clouds
    Down(DownArgs),
    /// Find what is left in a cloud by its tags alone, whatever became of the campaigns, and remove it
    Sweep(SweepArgs),
    /// Ask a cloud what the instances of a campaign cost today, for `cvc plan` and budgets
    Prices(PricesArgs),
    /// Show what is installed, what is missing, what each gap costs, and how to fix it
    Doctor(DoctorArgs),
    /// Print the JSON Schema of campaign files, or of application descriptors
    Schema {
        /// Of what
        #[arg(value_enum, default_value = "campaign")]
        of: SchemaOf,
    },
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the reference of all commands as Markdown (docs/cli.md)
    #[command(hide = true)]
    Reference,
    /// Start and watch the processes of one run (used by cvc itself)
    #[command(hide = true)]
    Shepherd {
        /// The job, as JSON
        job: std::path::PathBuf,
    },
}

#[derive(Clone, Copy, ValueEnum)]
pub enum SchemaOf {
    /// Campaign files
    Campaign,
    /// Application descriptors
    App,
}

/// Where campaigns are kept.
#[derive(Args, Clone)]
pub struct Where {
    /// Directory in which each campaign has its own
    #[arg(long, env = "CVC_CAMPAIGNS", default_value = "campaigns", value_name = "DIR")]
    pub campaigns: Utf8PathBuf,
}

/// Which campaign of a file.
#[derive(Args, Clone)]
pub struct Which {
    /// A variant of the campaign file, [variants.NAME] in it
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
}

#[derive(Args)]
pub struct PlanArgs {
    /// Campaign file
    pub file: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    /// Print the plan as JSON: the same, byte for byte, for the same file and seed on every machine
    #[arg(long)]
    pub json: bool,
    /// Show every run in its order, not only the points
    #[arg(long)]
    pub runs: bool,
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
    /// Try runs again that failed for good
    #[arg(long)]
    pub retry_failed: bool,
    /// Install first what the campaign needs on its sites, as `cvc install` does
    #[arg(long)]
    pub install: bool,
    /// Go on with the software that is there now where it is not what cvc.lock says
    #[arg(long)]
    pub update_lock: bool,
    /// Directory of the report [default: reports/NAME]
    #[arg(long, value_name = "DIR")]
    pub report: Option<Utf8PathBuf>,
}

#[derive(Args)]
pub struct CampaignArgs {
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
pub struct DownArgs {
    /// Campaign file, or a campaign's directory or name
    pub campaign: Utf8PathBuf,
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub place: Where,
    /// Print one JSON object for each event
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct SweepArgs {
    /// Only look in this region; again for further ones [default: that of the AWS configuration, and all that campaigns have used]
    #[arg(long, value_name = "REGION")]
    pub region: Vec<String>,
    /// Look in every region that the account may use
    #[arg(long)]
    pub all_regions: bool,
    /// Only what is older, as in 2h
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub older_than: Option<f64>,
    /// How long to wait in each region for what is still in use [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub wait: Option<f64>,
    /// Whose [default: CVC_OWNER, or USER@MACHINE]
    #[arg(long, conflicts_with = "any_owner")]
    pub owner: Option<String>,
    /// Whoever launched it
    #[arg(long)]
    pub any_owner: bool,
    /// Only show what there is
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Also what belongs to campaigns that are under way here, or is kept for a next one
    #[arg(long)]
    pub in_use: bool,
    /// Profile of the AWS configuration
    #[arg(long)]
    pub profile: Option<String>,
    /// Instead of AWS's own addresses
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    cvc_core::units::seconds(text)
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
    /// Forms of the report [default: those of the campaign file]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub format: Vec<ReportFormat>,
    /// End with code 11 if predictions miss a bound of the campaign's [predict], as `cvc run` does
    #[arg(long)]
    pub gate: bool,
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// A paper (thesis, pas2p-io, ...), or a folder with a paper.toml
    #[arg(required_unless_present = "list")]
    pub paper: Option<Utf8PathBuf>,
    /// Only this table: its number in print or its name; again for further ones
    #[arg(long, value_name = "ID")]
    pub table: Vec<String>,
    /// List the papers, or the tables of the paper, and write nothing
    #[arg(long)]
    pub list: bool,
    /// Directory with folders of papers, which come before those that cvc carries
    #[arg(long, value_name = "DIR")]
    pub papers: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Directory of the report [default: reports/papers/PAPER]
    #[arg(long, value_name = "DIR")]
    pub to: Option<Utf8PathBuf>,
    /// Forms of the report [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub format: Vec<ReportFormat>,
}

/// What is measured for a paper's tables.
#[derive(Args, Clone)]
pub struct MeasureArgs {
    /// Run the paper's campaigns for one machine first, or what of them is still to be done
    #[arg(long)]
    pub measure: bool,
    /// A campaign's directory whose runs are put beside the tables; again for further ones [default: those of the paper's campaigns]
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
    /// Campaign (its directory, file or name), or a CSV table of observations; may be given several times
    #[arg(long, value_name = "CAMPAIGN|CSV")]
    pub from: Vec<Utf8PathBuf>,
    /// What to predict: APP.CLASS MAPPING MPI [gzip] [aggregators=N] [cb=16MiB], as in "npb-bt.D 2Nx32P mpich-ch3"; a number instead of a
    /// mapping is that many processes on one node; may be given several times
    #[arg(long, value_name = "SETTING", required_unless_present = "judge")]
    pub at: Vec<String>,
    /// Train only on observations with these factors, as in "processes=1,4,9 app=npb-bt"; given several times, any of them
    #[arg(long, value_name = "FACTORS")]
    pub train: Vec<String>,
    /// Leave out observations with these factors
    #[arg(long, value_name = "FACTORS")]
    pub exclude: Vec<String>,
    /// Hold the observations that do not train against what is predicted for them
    #[arg(long, requires = "from")]
    pub judge: bool,
    /// Part of the program's time that checkpoints may cost, as in 30% or 0.3: how many to take
    #[arg(long, value_name = "PART", value_parser = crate::quantity::part, allow_hyphen_values = true)]
    pub overhead: Option<f64>,
    /// Time of the program without checkpoints, as in 3000s, 50min or 2h [default: as observed with as many processes]
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::seconds, allow_hyphen_values = true)]
    pub app_time: Option<f64>,
    /// Mean time between failures, as in 24h or 30d: how far apart to take checkpoints
    #[arg(long, value_name = "TIME", value_parser = crate::quantity::seconds, allow_hyphen_values = true)]
    pub mtbf: Option<f64>,
    /// Show every model that was tried, with its parameters
    #[arg(long)]
    pub detail: bool,
    #[command(flatten)]
    pub place: Where,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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
    /// Only look what would be done
    #[arg(long)]
    pub check: bool,
    /// Only these parts: base, storage, mpi, dmtcp, darshan, apps, kernels
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub tags: Vec<String>,
    /// Only these hosts, as ansible-playbook takes them; again for further ones
    #[arg(long, value_name = "HOST")]
    pub limit: Vec<String>,
    /// Take what is there now, or can be had, instead of what cvc.lock says
    #[arg(long)]
    pub update_lock: bool,
    /// Write the inventory, the variables and the roles for ansible-playbook there, and install nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["check", "tags", "limit"])]
    pub inventory_only: Option<Utf8PathBuf>,
    /// Print one JSON object for each event
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DoctorArgs {
    /// Campaign file whose needs are checked, with all its sites; or one site of --file. Without it, everything that cvc can use on this machine
    #[arg(value_name = "FILE|SITE")]
    pub target: Option<Utf8PathBuf>,
    /// Campaign file of the site [default: the only one in this directory]
    #[arg(long, value_name = "FILE", requires = "target")]
    pub file: Option<Utf8PathBuf>,
    #[command(flatten)]
    pub which: Which,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
