//! Sites and settings of a campaign file, once checked: every default filled in, every name known, every number in its range.
//!
//! Paths are kept as written, so that the plan is the same on every machine; [`crate::paths::expand_path`] resolves them.

use super::{blocks::Blocks, deltas::DeltaSettings};
use crate::hosts::HostEntry;
use crate::point::{Moment, Point, Repeat, TracerKind};
use crate::registry::define_kind;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A place where runs happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Its kind.
    pub kind: SiteKind,
    /// Directories where programs are searched, in order, as written: `~` and `$VARS` are not expanded yet, relative ones are
    /// relative to the campaign file.
    pub app_dirs: Vec<String>,
    /// Whether more processes than cores may run on a node.
    pub oversubscribe: bool,
    /// Storage areas by name, never empty: the area `run` (the run's own directory) if the file names none.
    pub storage: IndexMap<String, StorageArea>,
    /// MPI libraries by name, never empty: `mpich` and `openmpi`, found on PATH, if the file names none.
    pub mpi: IndexMap<String, MpiLibrary>,
    /// Installation of DMTCP.
    pub dmtcp: DmtcpSettings,
    /// Its machines and how to reach them; `None` for this machine.
    pub cluster: Option<super::Cluster>,
    /// The user on the machines, if the file gives one; also set for each host.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub login: Option<String>,
    /// How to request its instances from EC2.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ec2: Option<super::Ec2Settings>,
    /// The user's price of a node or a core.
    #[serde(default)]
    pub price: super::PriceSettings,
    /// How software is installed there.
    #[serde(default)]
    pub install: super::InstallSettings,
}

impl Site {
    /// This machine, as a file has it that says nothing more about it.
    pub fn local() -> Self {
        Self {
            kind: SiteKind::Local,
            app_dirs: Vec::new(),
            oversubscribe: true,
            storage: StorageArea::usual(),
            mpi: MpiLibrary::usual(),
            dmtcp: DmtcpSettings::default(),
            cluster: None,
            login: None,
            ec2: None,
            price: super::PriceSettings::default(),
            install: super::InstallSettings::default(),
        }
    }

    /// Nodes that the site has; a mapping over more is excluded. As many as mappings want while nobody has asked for them.
    pub fn nodes(&self) -> u32 {
        self.known_nodes().unwrap_or(u32::MAX)
    }

    /// The same; `None` while nobody has asked for them.
    pub fn known_nodes(&self) -> Option<u32> {
        match (&self.ec2, &self.cluster) {
            (Some(ec2), _) => Some(ec2.instances.nodes),
            (None, Some(cluster)) => cluster.known_nodes(),
            (None, None) => Some(1),
        }
    }

    /// Whether packages of the distribution may be installed. Users of a cluster with a batch system are not root, and its nodes are unknown until
    /// it allocates them.
    pub fn installs_packages(&self) -> bool {
        let usual = self.kind != SiteKind::Slurm;
        self.install.packages.unwrap_or(usual)
    }

    /// Whether each node gets a key of its own that the other nodes accept: fresh machines do not know each other.
    pub fn exchanges_keys(&self) -> bool {
        self.install.ssh_keys || self.kind == SiteKind::Ec2
    }
}

impl Site {
    /// Names of the machines that its runs may disturb, as far as the campaign file says which they are; `name` is the site's. Sites without a
    /// common one are independent.
    pub fn machines(&self, name: &str) -> BTreeSet<String> {
        const HERE: &str = "this machine";
        let host = |entry: &HostEntry| {
            let address = entry.address.as_deref().unwrap_or(&entry.name);
            let is_here = address == "localhost" || address == "::1" || address.starts_with("127.");
            if is_here {
                HERE.to_owned()
            } else {
                address.to_owned()
            }
        };
        match (self.kind, &self.cluster) {
            (SiteKind::Ec2, _) => [format!("instances of {name}")].into(),
            (SiteKind::Local, _) | (_, None) => [HERE.to_owned()].into(),
            (SiteKind::Ssh, Some(cluster)) => cluster
                .hosts
                .iter()
                .chain(&cluster.head)
                .map(host)
                .collect(),
            // which nodes it gives is not known: two sites of one Slurm may get the same
            (SiteKind::Slurm, Some(cluster)) => [format!(
                "Slurm of {}",
                cluster.head.as_ref().map_or(HERE.to_owned(), host)
            )]
            .into(),
        }
    }

    /// Number of nodes to ask for when the largest mapping of the points needs `most`.
    pub fn nodes_for(&self, most: u32) -> u32 {
        let side_by_side = self.cluster.as_ref().is_some_and(|c| c.side_by_side);
        if side_by_side {
            self.nodes()
        } else {
            most.min(self.nodes())
        }
    }
}

/// A kind of site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SiteKind {
    /// This machine.
    Local,
    /// Existing machines that are reached by ssh.
    Ssh,
    /// Nodes that Slurm allocates.
    Slurm,
    /// Instances of Amazon EC2, launched for the campaign.
    Ec2,
}

/// A directory tree where runs write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StorageArea {
    /// The directory, as written; `None` is the run's own directory.
    pub path: Option<String>,
    /// Who sees it.
    pub kind: StorageKind,
}

impl StorageArea {
    /// The areas of a site that names none: the run's own directory.
    pub(super) fn usual() -> IndexMap<String, Self> {
        let own = Self {
            path: None,
            kind: StorageKind::NodeLocal,
        };
        IndexMap::from([("run".to_owned(), own)])
    }
}

/// Who sees a storage area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StorageKind {
    /// Each node has its own.
    #[default]
    NodeLocal,
    /// All nodes see the same files.
    Shared,
}

/// An installed MPI library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiLibrary {
    /// Its family, which determines launcher and settings.
    pub family: MpiFamily,
    /// Where it is.
    pub source: MpiSource,
    /// Extra environment of the launcher and the program.
    pub env: IndexMap<String, String>,
    /// Extra arguments of the launcher.
    pub args: Vec<String>,
    /// I/O layer to use; `None` leaves it to the library. Open MPI only.
    pub io: Option<MpiIo>,
}

impl MpiLibrary {
    /// The libraries of a site that names none: those on PATH.
    pub(super) fn usual() -> IndexMap<String, Self> {
        let on_path = |family: &MpiFamily| Self {
            family: *family,
            source: MpiSource::Path,
            env: IndexMap::new(),
            args: Vec::new(),
            io: None,
        };
        let families = MpiFamily::ALL.iter();
        families
            .map(|family| (family.word().to_owned(), on_path(family)))
            .collect()
    }
}

crate::mpi_families!(
    define_kind,
    #[doc = " A family of MPI libraries."]
    MpiFamily
);

/// How to find an MPI library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MpiSource {
    /// `mpiexec.mpich`, `mpiexec.openmpi`, or an `mpiexec` of the family on PATH.
    Path,
    /// `PREFIX/bin/mpiexec`; as written.
    Prefix(String),
    /// An environment module that is loaded first.
    Module(String),
    /// A launcher by name or path; as written.
    Mpiexec(String),
}

/// The MPI-IO layer of Open MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MpiIo {
    /// Open MPI's own.
    Ompio,
    /// ROMIO, from MPICH.
    Romio,
}

/// Where DMTCP is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Dmtcp"))]
#[serde(deny_unknown_fields, expecting = "a table with `prefix`")]
pub struct DmtcpSettings {
    /// Where it is installed: `PREFIX/bin/dmtcp_launch`. Default: on PATH.
    pub prefix: Option<String>,
}

/// Repeats, order, limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Counted runs of each point, at least 1; the most, if they end when an interval is narrow.
    pub repeats: u32,
    /// When a point needs no further run; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Until>,
    /// Among what the counted runs of each point are divided; `None`: they run as soon as they can.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocks: Option<Blocks>,
    /// Runs of each point that come first, in each block, and are not counted.
    pub warmups: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Order of the runs.
    pub order: Order,
    /// Time limit of one run, seconds.
    pub timeout_s: f64,
    /// Most that a run may write to its standard output and error together, MiB.
    pub max_output_mib: u64,
    /// Further attempts for a run that failed.
    pub retries: u32,
    /// Runs of one point that failed for good before the rest of the point is skipped.
    pub quarantine_after: u32,
    /// Whether the runs of different sites go one after another even if the sites share no machine.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub sites_in_turn: bool,
    /// Whether checkpoint images stay after they were read.
    pub keep_images: bool,
    /// Whether the program's output files stay after they were measured.
    pub keep_outputs: bool,
    /// The locale of the runs, whatever the language of who starts them.
    #[serde(skip_serializing_if = "is_default_locale", default = "default_locale")]
    pub locale: String,
}

impl RunSettings {
    /// Number of blocks; 1 where the runs are not divided.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.blocks.map_or(1, |blocks| blocks.count.max(1))
    }

    /// The runs of each point in a block, which is counted from 1: its warm-ups, then the counted ones, each numbered on from the block before.
    pub fn of_block(&self, block: u32) -> impl Iterator<Item = Repeat> + use<> {
        let numbers = |in_each: u32| block.saturating_sub(1) * in_each + 1..=block * in_each;
        numbers(self.warmups)
            .map(Repeat::Warmup)
            .chain(numbers(self.repeats / self.block_count()).map(Repeat::Measured))
    }
}

/// The locale of runs unless the campaign file says otherwise: English, with a point in numbers, and text in UTF-8.
pub const DEFAULT_LOCALE: &str = "C.UTF-8";

fn default_locale() -> String {
    DEFAULT_LOCALE.to_owned()
}

fn is_default_locale(locale: &str) -> bool {
    locale == DEFAULT_LOCALE
}

/// When a point needs no further run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// Fewest counted runs.
    pub min: u32,
    /// Half width of the interval of the mean, percent of it.
    pub half_width_pct: f64,
    /// The quantity whose interval counts; `None`: the main ones.
    pub of: Option<String>,
}

/// Order of the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Repeat by repeat, with the points of each repeat shuffled by the seed: drift affects all points equally.
    #[default]
    Interleaved,
    /// All runs shuffled by the seed; the warm-ups of a point still come before its counted runs.
    Random,
    /// Point by point, as in the file.
    AsWritten,
}

/// When and how checkpoints are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSettings {
    /// When DMTCP takes them; an application's own checkpoints come when the application wants.
    pub moment: Moment,
    /// Whether the run is restarted from its (last) checkpoint and must verify again.
    pub restart_check: bool,
    /// Whether the smallest MPI program is checkpointed once on each site, library and mapping with points under DMTCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// Whether what differs between the checkpoints that a program writes itself is measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_series: bool,
    /// Time limit of one checkpoint, seconds.
    pub timeout_s: f64,
    /// How the checkpoints of a series that is compared are stored as deltas; none: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deltas: Option<DeltaSettings>,
}

impl CheckpointSettings {
    /// The settings of a point: where it has no factor of its own, those of the campaign.
    pub fn of(&self, point: &Point) -> Self {
        Self {
            moment: point.moment.clone().unwrap_or_else(|| self.moment.clone()),
            restart_check: point.restart_check.unwrap_or(self.restart_check),
            baseline: self.baseline,
            own_series: self.own_series,
            timeout_s: self.timeout_s,
            deltas: self.deltas.clone(),
        }
    }
}

/// What is traced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Trace"))]
#[serde(deny_unknown_fields, default, expecting = "a table with `tracer`")]
pub struct TraceSettings {
    /// The tool. Default: `none`.
    pub tracer: TracerKind,
}

impl TraceSettings {
    /// The tracer of a point: where it has no factor of its own, that of the campaign.
    pub fn of(&self, point: &Point) -> TracerKind {
        point.tracer.unwrap_or(self.tracer)
    }
}

/// What is reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Report"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table with settings of the report"
)]
pub struct ReportSettings {
    /// Files that a report consists of. Default: all of them.
    pub formats: Vec<Format>,
    /// Its heading. Default: the name of the campaign.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub title: String,
}

impl Default for ReportSettings {
    fn default() -> Self {
        Self {
            formats: Format::USUAL.to_vec(),
            title: String::new(),
        }
    }
}

/// A form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// One self-contained page.
    Html,
    /// One file for each table.
    Csv,
    /// Everything, for programs.
    Json,
    /// Tables for a wiki or a README.
    Markdown,
    /// Tables for a paper.
    Latex,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 5] = [
        Self::Html,
        Self::Csv,
        Self::Json,
        Self::Markdown,
        Self::Latex,
    ];

    /// The default formats of a report.
    pub const USUAL: [Self; 4] = [Self::Html, Self::Csv, Self::Json, Self::Markdown];
}
