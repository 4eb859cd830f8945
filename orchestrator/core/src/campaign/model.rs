//! Sites and settings of a campaign file after the checks: defaults are filled in, names exist, and numbers are in range.
//!
//! Paths are kept as written, so that the plan is the same on every machine; [`crate::paths::expand_path`] resolves them.

use super::{
    blocks::Blocks,
    deltas::DeltaSettings,
    deployment::Deployment,
    levels::LevelSettings,
    run_environment::{RunEnvironment, SiteApp},
};
use crate::app::LoadedApp;
use crate::hosts::HostEntry;
use crate::point::{Moment, Point, Repeat, TracerKind};
use crate::registry::define_kind;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A site, where runs take place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Kind of the site.
    pub kind: SiteKind,
    /// Directories in which programs are searched, in order, as written: `~` and `$VARS` are not expanded, and relative paths are relative to the
    /// campaign file.
    pub app_dirs: Vec<String>,
    /// Whether more processes than cores may run on a node.
    pub oversubscribe: bool,
    /// Storage areas by name, never empty: the area `run` (the run's own directory) if the file names none.
    pub storage: IndexMap<String, StorageArea>,
    /// MPI libraries by name, never empty: `mpich` and `openmpi`, found on PATH, if the file names none.
    pub mpi: IndexMap<String, MpiLibrary>,
    /// Installation of DMTCP.
    pub dmtcp: DmtcpSettings,
    /// Environment set up before the launcher of every run.
    #[serde(skip_serializing_if = "RunEnvironment::is_empty", default)]
    pub environment: RunEnvironment,
    /// The site's settings for applications, by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty", default)]
    pub apps: IndexMap<String, SiteApp>,
    /// The site's machines and how to reach them; `None` for this machine.
    pub cluster: Option<super::Cluster>,
    /// The user name for the site's machines, if the file gives one. The settings of each host have it, too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub login: Option<String>,
    /// How to request instances from EC2.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ec2: Option<super::Ec2Settings>,
    /// The user's price of a node or a core.
    #[serde(default)]
    pub price: super::PriceSettings,
    /// How software is installed on the site.
    #[serde(default)]
    pub install: super::InstallSettings,
}

impl Site {
    /// Returns this machine as a site with default settings.
    pub fn local() -> Self {
        Self {
            kind: SiteKind::Local,
            app_dirs: Vec::new(),
            oversubscribe: true,
            storage: StorageArea::usual(),
            mpi: MpiLibrary::usual(),
            dmtcp: DmtcpSettings::default(),
            environment: RunEnvironment::default(),
            apps: IndexMap::new(),
            cluster: None,
            login: None,
            ec2: None,
            price: super::PriceSettings::default(),
            install: super::InstallSettings::default(),
        }
    }

    /// Returns the environment set up before the launcher of a run with this MPI library and, if given, this application: the modules of the site, of
    /// the library (its own `module` last) and of the application, followed by their lines. Empty if only the library's own `module` is loaded.
    pub fn run_environment(&self, mpi: &str, app: Option<&str>) -> RunEnvironment {
        let mut all = self.environment.clone();
        let library = self.mpi.get(mpi);
        if let Some(library) = library {
            all.extend(&library.environment);
        }
        let inner = app.and_then(|app| self.apps.get(app));
        if all.is_empty() && inner.is_none_or(|app| app.environment.is_empty()) {
            return all;
        }
        if let Some(MpiSource::Module(module)) = library.map(|library| &library.source) {
            all.modules.push(module.clone());
        }
        if let Some(app) = inner {
            all.extend(&app.environment);
        }
        all
    }

    /// Returns the number of nodes of the site, which excludes larger mappings; unlimited until the nodes have been queried.
    pub fn nodes(&self) -> u32 {
        self.known_nodes().unwrap_or(u32::MAX)
    }

    /// Like [`nodes`](Self::nodes), but `None` until the nodes have been queried.
    pub fn known_nodes(&self) -> Option<u32> {
        match (&self.ec2, &self.cluster) {
            (Some(ec2), _) => Some(ec2.instances.nodes),
            (None, Some(cluster)) => cluster.known_nodes(),
            (None, None) => Some(1),
        }
    }

    /// Returns whether distribution packages may be installed. The default is false on a cluster with a batch system: its users are not root, and its
    /// nodes are unknown until they are allocated.
    pub fn installs_packages(&self) -> bool {
        let usual = self.kind != SiteKind::Slurm;
        self.install.packages.unwrap_or(usual)
    }

    /// Returns whether each node gets its own ssh key, which the other nodes accept. New machines need this.
    pub fn exchanges_keys(&self) -> bool {
        self.install.ssh_keys || self.kind == SiteKind::Ec2
    }
}

impl Site {
    /// Returns the names of the machines that runs of this site may disturb, according to the campaign file; `name` is the site's name. Two sites
    /// without a common machine are independent.
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
            // which nodes are allocated is unknown: two sites of the same Slurm cluster may get the same nodes
            (SiteKind::Slurm, Some(cluster)) => [format!(
                "Slurm of {}",
                cluster.head.as_ref().map_or(HERE.to_owned(), host)
            )]
            .into(),
        }
    }

    /// Returns the number of nodes to request from the site, if the largest mapping needs `most` nodes. A site that runs points side by side requests
    /// all its nodes.
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
    /// Existing machines, reached by ssh.
    Ssh,
    /// Nodes that Slurm allocates.
    Slurm,
    /// Instances of Amazon EC2, launched for the campaign.
    Ec2,
}

/// Directory where runs write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Storage"))]
#[serde(
    deny_unknown_fields,
    expecting = "a table that describes a storage area"
)]
pub struct StorageArea {
    /// Directory. `~` and `$VARS` are expanded; a relative path is relative to this file. Default: the run's own directory.
    pub path: Option<String>,
    /// Visibility. Default: `node-local`.
    #[serde(default)]
    pub kind: StorageKind,
    /// A file system that `cvc install` deploys on hosts of the site and mounts at `path`. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy: Option<Deployment>,
    /// Whether the metadata operations of each run are counted, by the file system's own counters. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count_operations: bool,
}

impl StorageArea {
    /// Returns the areas of a site whose file names none: only the run's own directory.
    pub(super) fn usual() -> IndexMap<String, Self> {
        let own = Self {
            path: None,
            kind: StorageKind::NodeLocal,
            deploy: None,
            count_operations: false,
        };
        IndexMap::from([("run".to_owned(), own)])
    }
}

/// Visibility of a storage area.
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
    /// Family of the library, which determines launcher and settings.
    pub family: MpiFamily,
    /// How the library is found.
    pub source: MpiSource,
    /// Extra environment of the launcher and the program.
    pub env: IndexMap<String, String>,
    /// Extra arguments of the launcher.
    pub args: Vec<String>,
    /// I/O layer to use; `None` if the library chooses it. Open MPI only.
    pub io: Option<MpiIo>,
    /// Environment set up before the launcher, after the site's.
    #[serde(skip_serializing_if = "RunEnvironment::is_empty", default)]
    pub environment: RunEnvironment,
}

impl MpiLibrary {
    /// Returns the I/O layer that runs with this library use.
    pub fn io_layer(&self) -> MpiIo {
        match self.family {
            MpiFamily::Mpich => MpiIo::Romio,
            MpiFamily::OpenMpi => self.io.unwrap_or(MpiIo::Ompio),
        }
    }

    /// Returns the libraries of a site whose file names none: those on PATH.
    pub(super) fn usual() -> IndexMap<String, Self> {
        let on_path = |family: &MpiFamily| Self {
            family: *family,
            source: MpiSource::Path,
            env: IndexMap::new(),
            args: Vec::new(),
            io: None,
            environment: RunEnvironment::default(),
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
    /// Found on PATH: `mpiexec.mpich`, `mpiexec.openmpi`, or an `mpiexec` of the family.
    Path,
    /// Prefix of the installation with `PREFIX/bin/mpiexec`, as written.
    Prefix(String),
    /// Environment module to load first.
    Module(String),
    /// A launcher by name or path, as written.
    Mpiexec(String),
}

pub use crate::mpi_io::MpiIo;

/// DMTCP installation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Dmtcp"))]
#[serde(deny_unknown_fields, expecting = "a table with `prefix`")]
pub struct DmtcpSettings {
    /// Installation prefix: `PREFIX/bin/dmtcp_launch`. Default: on PATH.
    pub prefix: Option<String>,
}

/// Repeats, order, limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// Counted runs of each point, at least 1; the maximum, if runs end when an interval is narrow.
    pub repeats: u32,
    /// When a point needs no further run; `None` if all runs are needed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Until>,
    /// Blocks into which the counted runs of each point are divided; `None` if the runs are not divided, and all run as soon as possible.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocks: Option<Blocks>,
    /// Uncounted runs of each point, which come first in each block.
    pub warmups: u32,
    /// Seed of the order.
    pub seed: u64,
    /// Order of the runs.
    pub order: Order,
    /// Time limit of one run, seconds.
    pub timeout_s: f64,
    /// Maximum size of a run's standard output and error together, MiB.
    pub max_output_mib: u64,
    /// Further attempts for a failed run.
    pub retries: u32,
    /// Number of failed runs of a point after which its other runs are skipped.
    pub quarantine_after: u32,
    /// Whether sites run one after another even if they share no machine.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub sites_in_turn: bool,
    /// Whether to keep checkpoint images after reading.
    pub keep_images: bool,
    /// Whether to keep the program's output files after measuring.
    pub keep_outputs: bool,
    /// The locale of the runs, independent of the caller's language.
    #[serde(skip_serializing_if = "is_default_locale", default = "default_locale")]
    pub locale: String,
}

impl RunSettings {
    /// Returns the number of blocks; 1 if the runs are not divided.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        self.blocks.map_or(1, |blocks| blocks.count.max(1))
    }

    /// Returns the runs of each point in a block (numbered from 1): first the warm-ups, then the counted runs. The numbers of the runs continue those
    /// of the previous block.
    pub fn of_block(&self, block: u32) -> impl Iterator<Item = Repeat> + use<> {
        let numbers = |in_each: u32| block.saturating_sub(1) * in_each + 1..=block * in_each;
        numbers(self.warmups)
            .map(Repeat::Warmup)
            .chain(numbers(self.repeats / self.block_count()).map(Repeat::Measured))
    }
}

/// Default locale of runs: English, with decimal points, and text in UTF-8.
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
    /// Minimum number of counted runs.
    pub min: u32,
    /// Sufficient half width of the confidence interval of the mean, percent of the mean.
    pub half_width_pct: f64,
    /// The quantity whose interval is used; `None` for the main quantities.
    pub of: Option<String>,
}

/// Order of the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By repeat, with points shuffled by the seed within each repeat: drift affects all points equally.
    #[default]
    Interleaved,
    /// All runs shuffled by the seed, but warm-ups of a point before its counted runs.
    Random,
    /// By point, as in the file.
    AsWritten,
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// When and how checkpoints are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSettings {
    /// When DMTCP takes checkpoints; the application decides when it writes its own.
    pub moment: Moment,
    /// Whether the run is restarted from its (last) checkpoint, and must pass its verification again.
    pub restart_check: bool,
    /// Number of restarts. Before each restart except the first, the restarted program takes another checkpoint.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub restarts: u32,
    /// Whether the smallest MPI program is checkpointed once for each site, library and mapping with points under DMTCP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// Whether differences between the program's own checkpoints are measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_series: bool,
    /// Time limit of one checkpoint, seconds.
    pub timeout_s: f64,
    /// Storage of a compared series as deltas; `None` if it is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deltas: Option<DeltaSettings>,
    /// Checkpoint storage on nodes, for strategies that use it; `None` for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<LevelSettings>,
    /// Whether a run that loses a node continues from its last surviving checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
}

impl CheckpointSettings {
    /// Returns the settings for a point: the campaign's, overridden by the point's factors.
    pub fn of(&self, point: &Point) -> Self {
        Self {
            moment: point.moment.clone().unwrap_or_else(|| self.moment.clone()),
            restart_check: point.restart_check.unwrap_or(self.restart_check),
            restarts: self.restarts,
            baseline: self.baseline,
            own_series: self.own_series,
            timeout_s: self.timeout_s,
            deltas: self.deltas.clone(),
            levels: self.levels.clone(),
            resume: self.resume,
        }
    }
}

/// Tracing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Trace"))]
#[serde(deny_unknown_fields, default, expecting = "a table with `tracer`")]
pub struct TraceSettings {
    /// Tracer. Default: `none`.
    pub tracer: TracerKind,
}

impl TraceSettings {
    /// Returns the tracer of a point: the level of the factor `tracer`, or else the campaign's tracer.
    pub fn of(&self, point: &Point) -> TracerKind {
        point.tracer.unwrap_or(self.tracer)
    }

    /// Returns whether a point needs C sources of cvc that must be compiled: a kernel, or the MPI-IO tracer.
    pub fn needs_kernels(&self, apps: &IndexMap<String, LoadedApp>, point: &Point) -> bool {
        let is_kernel = apps
            .get(&point.app)
            .is_some_and(|app| app.descriptor.kernel);
        is_kernel || self.of(point) == TracerKind::MpiIo
    }
}

/// Report settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Report"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table with settings of the report"
)]
pub struct ReportSettings {
    /// Report formats. Default: all.
    pub formats: Vec<Format>,
    /// Report title. Default: the campaign's name.
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

/// Report format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// One self-contained page.
    Html,
    /// One file per table.
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
