//! The sections of a campaign file as written. With the feature `schema` they have a JSON Schema.
//!
//! `[matrix]`, `[[zip]]`, `[[points]]` and `when` are read by [`super::factor`], which keeps a position for every value.

use super::{
    checker::{wrong_seconds, yes},
    cluster::SlurmSettings,
    ec2::{Credits, Disk, Market, OnInterruption, PriceSettings, Volume},
    install::InstallSettings,
    model::{DEFAULT_LOCALE, DmtcpSettings, MpiFamily, MpiIo, Order, StorageArea},
    run_environment::{RunEnvironment, SiteApp},
};
use crate::{
    hosts::HostKeys,
    point::Moment,
    source::Step,
    units::{ByteSize, counted},
};
use cvc_delta_rules::{Codec, MethodName};
use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::fmt;

/// Top-level keys, in the order of the reference.
pub const SECTIONS: [&str; 17] = [
    "schema",
    "name",
    "variant",
    "description",
    "sites",
    "matrix",
    "zip",
    "exclude",
    "expect_failure",
    "points",
    "run",
    "checkpoint",
    "trace",
    "report",
    "budget",
    "predict",
    "variants",
];

/// Site where runs happen.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Site"))]
#[serde(deny_unknown_fields, expecting = "a table that describes a site")]
pub struct RawSite {
    /// Kind of site: `local` is this machine, `ssh` existing machines, `slurm` allocated nodes, `ec2` instances launched for the campaign.
    #[cfg_attr(feature = "schema", schemars(with = "super::model::SiteKind"))]
    pub kind: String,
    /// Directories searched for programs before PATH. `~` and `$VARS` are expanded; relative paths are relative to this file.
    #[serde(default)]
    pub app_dirs: Vec<String>,
    /// Whether more processes than cores may run on a node. Default: true on this machine, false elsewhere.
    pub oversubscribe: Option<bool>,
    /// Storage areas by name; the first is the default. Default: `run`, the run's own directory.
    #[serde(default)]
    pub storage: IndexMap<String, StorageArea>,
    /// MPI libraries by name; the first is the default. Default: `mpich` and `openmpi`, found on PATH.
    #[serde(default)]
    pub mpi: IndexMap<String, RawMpi>,
    /// DMTCP installation. Default: on PATH.
    #[serde(default)]
    pub dmtcp: DmtcpSettings,
    /// Set-up before the launcher of each run. Default: none.
    #[serde(default)]
    pub environment: RunEnvironment,
    /// Site settings of applications, by application name.
    #[serde(default)]
    pub apps: IndexMap<String, SiteApp>,
    /// Nodes of a site of the kind `ssh`, in the order of mappings: names as ssh knows them, or tables with `name`, `address`, ...
    #[serde(default)]
    pub hosts: Vec<RawHost>,
    /// Ansible inventory instead of `hosts`, relative to this file.
    pub inventory: Option<String>,
    /// Group of the inventory. Default: `all`.
    pub group: Option<String>,
    /// Kind `ssh`: the machine that launches MPI. Default: the first host.
    pub head: Option<RawHost>,
    /// Kind `slurm`: the machine where sbatch is called. Default: this one.
    pub login: Option<RawHost>,
    /// User on hosts without their own. Default: from the ssh configuration.
    pub user: Option<String>,
    /// ssh settings.
    #[serde(default)]
    pub ssh: RawSsh,
    /// Directory on the nodes for cvc's own files and for runs without a storage area. Default: `~/.cvc`.
    pub base: Option<String>,
    /// Network interface of MPI between nodes. Default: chosen by the library.
    pub interface: Option<String>,
    /// Cores per node. Default: detected.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub cores: Option<i64>,
    /// Whether small points run concurrently on different nodes, which can disturb measurements. Default: false.
    #[serde(default)]
    pub side_by_side: bool,
    /// Silence after which a node counts as lost, seconds. Default: 15.
    pub lost_after_s: Option<f64>,
    /// Kind `slurm`: how to request nodes.
    pub slurm: Option<SlurmSettings>,
    /// Kind `ec2`: how to request instances.
    pub ec2: Option<RawEc2>,
    /// Price of a node or a core, for sites outside a cloud.
    #[serde(default)]
    pub price: PriceSettings,
    /// Settings of `cvc install`.
    #[serde(default)]
    pub install: InstallSettings,
}

/// How to request EC2 instances.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Ec2"))]
#[serde(
    deny_unknown_fields,
    expecting = "a table with settings of EC2 instances"
)]
pub struct RawEc2 {
    /// Region, as in `us-east-1`.
    pub region: String,
    /// Instance types, in order of preference; the next is used if the previous one is unavailable. All nodes have one type.
    #[serde(default)]
    pub instance_types: Vec<String>,
    /// Instance types to compare, instead of `instance_types`: each becomes a site with the type in its name (`cloud-c7i-xlarge`).
    #[serde(default)]
    pub compare_instance_types: Vec<String>,
    /// Maximum instances; larger mappings are excluded. Only needed instances are launched.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub nodes: i64,
    /// AWS profile. Default: as for the AWS command line.
    pub profile: Option<String>,
    /// Endpoint of a compatible cloud. Default: `AWS_ENDPOINT_URL`, or AWS itself.
    pub endpoint: Option<String>,
    /// Zones, in order of preference; all nodes are in one. Default: all zones with the type.
    #[serde(default)]
    pub zones: Vec<String>,
    /// Subnet, which determines the zone. Default: each zone's default subnet.
    pub subnet: Option<String>,
    /// Image: `debian-12`, `debian-13`, `ubuntu-22.04`, `ubuntu-24.04`, `amazon-linux-2023`, `ami-...`, or a table. Default: `debian-12`.
    pub image: Option<RawImage>,
    /// Market. Default: `on-demand`.
    #[serde(default)]
    pub market: Market,
    /// Spot market: maximum price of one instance, US dollars an hour. Default: the on-demand price.
    pub max_price_usd: Option<f64>,
    /// Whether to use a cluster placement group. Default: for several instances, if the type allows it.
    pub placement_group: Option<bool>,
    /// Whether to use the Elastic Fabric Adapter. Default: false.
    #[serde(default)]
    pub efa: bool,
    /// Root volume. Default: gp3 of the image's size.
    #[serde(default)]
    pub root: Disk,
    /// Further EBS volumes of each node, formatted and mounted.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Mount point of the instance's own disks. Default: not mounted.
    pub instance_store: Option<String>,
    /// Directory that the first node exports by NFS and all others mount. Default: none.
    pub nfs: Option<String>,
    /// Time without contact to cvc after which an instance ends itself, as in `4h`; limited by the budget. Default: `4h`.
    pub lifetime: Option<String>,
    /// Time to keep instances for the next campaign with the same settings, as in `30m`. Default: none.
    pub keep: Option<String>,
    /// Time limit for an instance to answer by ssh, seconds. Default: 300.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub ready_limit_s: Option<f64>,
    /// Addresses from which ssh is allowed, as in `203.0.113.7/32`. Default: the caller's own address.
    pub allow_from: Option<String>,
    /// Whether all EBS volumes are encrypted, with the key of the account. Default: true.
    #[serde(default = "yes")]
    pub encrypted: bool,
    /// Behaviour of burstable instances (t2, t3, t3a, t4g) without processor credits. Default: `standard` for t2, else `unlimited`.
    pub credits: Option<Credits>,
    /// Replacement of reclaimed spot instances. Default: `replace`, by the same type.
    #[serde(default)]
    pub on_interruption: OnInterruption,
    /// Whether to install needed software on new instances. Default: true.
    #[serde(default = "yes")]
    pub install: bool,
}

/// Image of instances.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Image"))]
#[serde(
    untagged,
    expecting = "the name of an image, or a table with `owner` and `name`, or with `ssm`"
)]
pub enum RawImage {
    /// Known name, or `ami-...`.
    Name(String),
    /// Image search.
    Table(RawImageTable),
}

/// Search for an image.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ImageTable"))]
#[serde(deny_unknown_fields)]
pub struct RawImageTable {
    /// Owner: an account number, `amazon` or `self`; with `name`.
    pub owner: Option<String>,
    /// Name, with `*` and `?`; the newest match is used.
    pub name: Option<String>,
    /// Systems Manager parameter with the image, instead.
    pub ssm: Option<String>,
}

/// A machine: its name, or a table.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Host"))]
#[serde(untagged, expecting = "the name of a host, or a table with `name`")]
pub enum RawHost {
    /// Its name, as ssh knows it.
    Name(String),
    /// Its settings.
    Table(RawHostTable),
}

/// A machine.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "HostTable"))]
#[serde(deny_unknown_fields)]
pub struct RawHostTable {
    /// Its name in messages, host files and reports.
    pub name: String,
    /// Name or address that ssh connects to. Default: its name.
    pub address: Option<String>,
    /// Name or address for the other nodes. Default: its address.
    pub internal: Option<String>,
    /// User there.
    pub user: Option<String>,
    /// Port of its sshd.
    pub port: Option<u16>,
    /// Private key file. `~` and `$VARS` are expanded; a relative path is relative to the campaign file.
    pub identity_file: Option<String>,
}

/// ssh settings.
#[derive(Clone, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Ssh"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table with settings of ssh"
)]
pub struct RawSsh {
    /// Configuration file instead of `~/.ssh/config`.
    pub config: Option<String>,
    /// Additional file with host keys of the site.
    pub known_hosts: Option<String>,
    /// Policy for hosts with unknown keys. Default: `strict`.
    pub host_keys: HostKeys,
}

/// MPI library, with at most one of `prefix`, `module`, `mpiexec`. Default: on PATH.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Mpi"))]
#[serde(
    deny_unknown_fields,
    expecting = "a table that describes an MPI library"
)]
pub struct RawMpi {
    /// Family, which determines launcher and settings.
    pub family: MpiFamily,
    /// Installation prefix: `PREFIX/bin/mpiexec`.
    pub prefix: Option<String>,
    /// Environment module to load first.
    pub module: Option<String>,
    /// Its launcher, by name or path.
    pub mpiexec: Option<String>,
    /// Extra environment.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Extra arguments of the launcher.
    #[serde(default)]
    pub args: Vec<String>,
    /// I/O layer to use; Open MPI only.
    pub io: Option<MpiIo>,
    /// Set-up before the launcher, after the site's. Default: none.
    #[serde(default)]
    pub environment: RunEnvironment,
}

/// Repeats, order, limits.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Run"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table with settings of the runs"
)]
pub struct RawRun {
    /// Counted runs of each point: a number, or until the interval is narrow: `{ max = 20, until = "5 %" }`.
    pub repeats: RawRepeats,
    /// Number of consecutive days over which the runs of each point are spread. Default: as soon as possible.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub days: Option<i64>,
    /// Number of consecutive EC2 fleets over which the runs of each point are spread. Default: one.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub fleets: Option<i64>,
    /// Uncounted first runs of each point, on each day or fleet.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 10_000)))]
    pub warmups: i64,
    /// Seed of the order.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub seed: i64,
    /// Order of the runs.
    pub order: Order,
    /// Time limit of one run, seconds.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub timeout_s: f64,
    /// Maximum size of a run's standard output and error together, MiB.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_048_576)))]
    pub max_output_mib: i64,
    /// Further attempts for a failed run.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub retries: i64,
    /// Permanently failed runs of a point before its other runs are skipped.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub quarantine_after: i64,
    /// Whether sites run one after another even if they share no machine.
    pub sites_in_turn: bool,
    /// Whether to keep checkpoint images after reading.
    pub keep_images: bool,
    /// Whether to keep the program's output files after measuring.
    pub keep_outputs: bool,
    /// Locale of the runs (`LC_ALL`).
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub locale: String,
}

impl Default for RawRun {
    fn default() -> Self {
        Self {
            repeats: RawRepeats::Number(3),
            days: None,
            fleets: None,
            warmups: 0,
            seed: 1,
            order: Order::Interleaved,
            timeout_s: 600.0,
            max_output_mib: 1024,
            retries: 1,
            quarantine_after: 2,
            sites_in_turn: false,
            keep_images: false,
            keep_outputs: false,
            locale: DEFAULT_LOCALE.to_owned(),
        }
    }
}

/// When and how checkpoints are taken.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Checkpoint"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table with settings of the checkpoints"
)]
pub struct RawCheckpoint {
    /// When DMTCP takes checkpoints. Default: after the first step.
    pub moment: RawMoment,
    /// Whether runs are restarted from their last checkpoint and verified again.
    pub restart_check: bool,
    /// Number of restarts of a run with a restart check, with a new checkpoint before each further one. Default: 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub restarts: u32,
    /// Whether to checkpoint a minimal MPI program once per site, library and mapping, to separate library memory from program memory.
    pub baseline: bool,
    /// Whether the program's own checkpoints are a series, with measured differences.
    pub own_series: bool,
    /// Time limit of one checkpoint, seconds.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub timeout_s: f64,
    /// For series: also store each checkpoint as changes since an earlier one, restore it, and record the cost. Default: none.
    pub deltas: Option<RawDeltas>,
    /// Checkpoint storage on nodes, for `strategy` `local`, `partner` or `xor`.
    pub levels: Option<RawLevels>,
    /// Whether the next attempt after a node loss continues from the last surviving checkpoint. Default: false.
    pub resume: bool,
}

/// Checkpoint storage on nodes.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Levels"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table that says how nodes keep checkpoints"
)]
pub struct RawLevels {
    /// Complete checkpoints to keep, in addition to the one being written. Default: 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1000)))]
    pub keep: u32,
    /// With `xor`: nodes per group, of which one may be lost. Default: 4.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub group: u32,
    /// Copy every n-th checkpoint to shared storage. Default: 0, none.
    pub flush_every: u32,
    /// Whether the next checkpoint waits for the copy. Default: `waits`.
    pub flush: RawFlush,
    /// Shared storage area.
    pub flush_to: Option<String>,
    /// Nodes (from 1, in mapping order) whose storage is emptied before the restart check, to test rebuilding.
    pub lose: Vec<u32>,
}

/// When a checkpoint is copied to shared storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Flush"))]
#[serde(rename_all = "kebab-case")]
pub enum RawFlush {
    /// Before the next checkpoint.
    #[default]
    Waits,
    /// In the background.
    Behind,
}

impl Default for RawLevels {
    fn default() -> Self {
        Self {
            keep: 1,
            group: 4,
            flush_every: 0,
            flush: RawFlush::default(),
            flush_to: None,
            lose: Vec::new(),
        }
    }
}

/// Storage of series. The first value of each list is used while the program runs, the others after its end.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Deltas"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table that says how deltas are made"
)]
pub struct RawDeltas {
    /// Earlier checkpoint that each is stored against. Default: the previous one.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub methods: Vec<MethodName>,
    /// Block compression. Default: zstd.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub codecs: Vec<Codec>,
    /// Block sizes: powers of two from 4KiB to 1MiB. Default: 4KiB, a page.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub blocks: Vec<ByteSize>,
    /// Whether to keep the series made during the run, as `deltas` in the run's directory. Default: false.
    pub keep: bool,
}

impl Default for RawDeltas {
    fn default() -> Self {
        Self {
            methods: vec![MethodName::Incremental],
            codecs: vec![Codec::Zstd],
            blocks: vec![ByteSize(4 << 10)],
            keep: false,
        }
    }
}

impl Default for RawCheckpoint {
    fn default() -> Self {
        Self {
            moment: RawMoment::Named(NamedMoment::AfterStep(1)),
            restart_check: false,
            restarts: 1,
            baseline: false,
            own_series: false,
            timeout_s: 120.0,
            deltas: None,
            levels: None,
            resume: false,
        }
    }
}

/// When DMTCP takes checkpoints.
#[derive(Clone)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Moment", untagged))]
pub enum RawMoment {
    /// At named moments.
    Named(NamedMoment),
    /// Periodically.
    Series(RawSeries),
}

/// Periodic checkpoints, with their differences.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Series"))]
#[serde(deny_unknown_fields)]
pub struct RawSeries {
    /// Interval, seconds, counted from the start of computation.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub every_s: f64,
    /// Number of checkpoints; fewer if the program ends earlier.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub count: i64,
    /// Whether differences between them are measured. Default: true.
    #[serde(default = "yes")]
    pub compare: bool,
}

/// Maximum number of checkpoints of a series; the hashes of all are held in memory.
const MAX_SERIES: i64 = 1000;

/// Recognises a table by its first key, because a derived enum would not recognise the keys of a series.
impl<'de> Deserialize<'de> for RawMoment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MomentVisitor)
    }
}

struct MomentVisitor;

impl<'de> Visitor<'de> for MomentVisitor {
    type Value = RawMoment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a moment of checkpoints")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawMoment, E> {
        NamedMoment::deserialize(text.into_deserializer()).map(RawMoment::Named)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMoment, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(serde::de::Error::custom("the moment is empty"));
        };
        if ["every_s", "count", "compare"].contains(&key.as_str()) {
            let pushed = FirstAgain {
                first: Some(key),
                map,
            };
            return RawSeries::deserialize(MapAccessDeserializer::new(pushed))
                .map(RawMoment::Series);
        }
        let mut pushed = FirstAgain {
            first: Some(key),
            map,
        };
        let named = NamedMoment::deserialize(MapAccessDeserializer::new(&mut pushed))?;
        match pushed.next_key::<String>()? {
            None => Ok(RawMoment::Named(named)),
            // the same message as for other enums
            Some(_) => Err(serde::de::Error::custom("wanted exactly 1 element")),
        }
    }
}

/// A map whose first key was already read, and which returns this key once more.
struct FirstAgain<A> {
    first: Option<String>,
    map: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FirstAgain<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.map.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Named moment with its value.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NamedMoment"))]
#[serde(rename_all = "snake_case")]
pub enum NamedMoment {
    /// At these seconds after the program began to compute.
    AtS(Seconds),
    /// After this step of the program, from 1.
    AfterStep(i64),
    /// After the first step; then the program is killed.
    #[serde(rename = "size-only")]
    SizeOnly,
    /// After this step of the program, from 1; then the program is killed.
    SizeOnlyAfterStep(i64),
}

impl RawMoment {
    /// Checks the moment. Passes each error to `wrong`: the path of the wrong value below the moment, the problem, and a hint. After an error,
    /// returns the nearest legal moment.
    pub fn check(&self, wrong: &mut dyn FnMut(&[Step<'_>], String, String)) -> Moment {
        let mut step = |key: &str, step: i64| {
            if step < 1 {
                wrong(
                    &[key.into()],
                    format!("`{key}` is {step}"),
                    "steps are counted from 1".to_owned(),
                );
            }
            step.max(1) as u64
        };
        let named = match self {
            Self::Named(named) => named,
            Self::Series(series) => return series.check(wrong),
        };
        match named {
            NamedMoment::SizeOnly => Moment::SizeOnly,
            NamedMoment::AfterStep(number) => Moment::AfterStep(step("after_step", *number)),
            NamedMoment::SizeOnlyAfterStep(number) => {
                Moment::SizeOnlyAfterStep(step("size_only_after_step", *number))
            }
            NamedMoment::AtS(seconds) => {
                let list = match seconds {
                    Seconds::One(s) => std::slice::from_ref(s),
                    Seconds::Many(list) => list.as_slice(),
                };
                let mut wrong = |i: usize, message: String, hint: String| {
                    wrong(&["at_s".into(), i.into()], message, hint)
                };
                if list.is_empty() {
                    let hint = "give at least one number of seconds, as in { at_s = 5 }".to_owned();
                    wrong(
                        0,
                        "the list of checkpoint moments is empty".to_owned(),
                        hint,
                    );
                }
                for (i, s) in list.iter().enumerate() {
                    if let Some((message, hint)) = wrong_seconds("a checkpoint moment", *s) {
                        wrong(i, message, hint);
                    }
                    if i > 0 && *s <= list[i - 1] {
                        let message =
                            format!("the checkpoint moment {s} is not after the previous one");
                        wrong(i, message, "write increasing seconds".to_owned());
                    }
                }
                Moment::AtS(list.to_vec())
            }
        }
    }
}

impl RawSeries {
    /// Like [`RawMoment::check`].
    fn check(&self, wrong: &mut dyn FnMut(&[Step<'_>], String, String)) -> Moment {
        if let Some((message, hint)) = wrong_seconds("the time between checkpoints", self.every_s) {
            wrong(&["every_s".into()], message, hint);
        }
        if !(2..=MAX_SERIES).contains(&self.count) {
            wrong(
                &["count".into()],
                format!(
                    "a series of {} is impossible",
                    counted(self.count, "checkpoint")
                ),
                format!(
                    "write a whole number from 2 to {MAX_SERIES}; one checkpoint is {{ at_s = 5 }}"
                ),
            );
        }
        Moment::Series {
            every_s: self.every_s,
            count: u32::try_from(self.count.clamp(2, MAX_SERIES)).unwrap_or(2),
            compare: self.compare,
        }
    }
}

/// Number of runs of each point.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Repeats"))]
#[serde(
    untagged,
    expecting = "expected a number of runs, or a table with `max` and `until`, as in { max = 20, until = \"5 %\" }"
)]
pub enum RawRepeats {
    /// Number of runs.
    Number(#[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))] i64),
    /// Until an interval is narrow.
    Until(RawUntil),
}

/// Repeats until an interval is narrow.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Until"))]
#[serde(deny_unknown_fields)]
pub struct RawUntil {
    /// Minimum counted runs of each point. Default: 5, or `max` if less.
    #[cfg_attr(feature = "schema", schemars(range(min = 3, max = 10_000)))]
    pub min: Option<i64>,
    /// Maximum counted runs of each point.
    #[cfg_attr(feature = "schema", schemars(range(min = 3, max = 10_000)))]
    pub max: i64,
    /// Sufficient half width of the interval of the mean, in percent of it: `"5 %"`.
    pub until: String,
    /// Quantity of the interval, as in the report's data. Default: checkpoint time and wall time, if measured, else stored bytes.
    pub of: Option<String>,
}

/// A number of seconds, or several.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "expected seconds: a number or a list of numbers"
)]
pub enum Seconds {
    /// One.
    One(f64),
    /// Several.
    Many(Vec<f64>),
}
