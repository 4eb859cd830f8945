//! The sections of a campaign file as they are written. With the feature `schema` they have a JSON Schema.
//!
//! `[matrix]`, `[[zip]]`, `[[points]]` and `when` are read by [`super::factor`], which keeps a position for every value.

use super::{
    checker::{wrong_seconds, yes},
    cluster::SlurmSettings,
    ec2::{Credits, Disk, Market, PriceSettings, Volume},
    install::InstallSettings,
    model::{DEFAULT_LOCALE, DmtcpSettings, MpiFamily, MpiIo, Order, StorageKind},
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
pub const SECTIONS: [&str; 16] = [
    "schema",
    "name",
    "variant",
    "description",
    "sites",
    "matrix",
    "zip",
    "exclude",
    "points",
    "run",
    "checkpoint",
    "trace",
    "report",
    "budget",
    "predict",
    "variants",
];

/// A place where runs happen.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Site"))]
#[serde(deny_unknown_fields, expecting = "a table that describes a site")]
pub struct RawSite {
    /// What kind of place: `local` is this machine, `ssh` machines that are reached by ssh, `slurm` nodes that Slurm gives, `ec2` instances
    /// that are launched for the campaign.
    #[cfg_attr(feature = "schema", schemars(with = "super::model::SiteKind"))]
    pub kind: String,
    /// Directories where programs are searched before PATH. `~` and `$VARS` are allowed; relative ones are relative to this file.
    #[serde(default)]
    pub app_dirs: Vec<String>,
    /// Whether more processes than cores may run on a node. Default: true on this machine, false elsewhere.
    pub oversubscribe: Option<bool>,
    /// Storage areas by name; the first is the default. Default: `run`, the run's own directory.
    #[serde(default)]
    pub storage: IndexMap<String, RawStorage>,
    /// MPI libraries by name; the first is the default. Default: `mpich` and `openmpi`, found on PATH.
    #[serde(default)]
    pub mpi: IndexMap<String, RawMpi>,
    /// Where DMTCP is. Default: on PATH.
    #[serde(default)]
    pub dmtcp: DmtcpSettings,
    /// Nodes of a site of the kind `ssh`, in the order of mappings: names as ssh knows them, or tables with `name`, `address`, ...
    #[serde(default)]
    pub hosts: Vec<RawHost>,
    /// Instead of `hosts`: an Ansible inventory, relative to this file.
    pub inventory: Option<String>,
    /// Group of the inventory. Default: `all`.
    pub group: Option<String>,
    /// Kind `ssh`: the machine that launches MPI. Default: the first host.
    pub head: Option<RawHost>,
    /// Kind `slurm`: the machine where sbatch is called. Default: this one.
    pub login: Option<RawHost>,
    /// User on all hosts that do not name one. Default: as in the ssh configuration.
    pub user: Option<String>,
    /// How ssh is used.
    #[serde(default)]
    pub ssh: RawSsh,
    /// Directory on the nodes for cvc's own files and for runs without a storage area. Default: `~/.cvc`.
    pub base: Option<String>,
    /// Network interface that MPI uses between nodes. Default: left to the library.
    pub interface: Option<String>,
    /// Cores of a node. Default: as the nodes say.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub cores: Option<i64>,
    /// Whether points that need few nodes run at the same time on different ones; neighbours disturb measurements. Default: false.
    #[serde(default)]
    pub side_by_side: bool,
    /// Silence after which a node counts as lost, seconds. Default: 15.
    pub lost_after_s: Option<f64>,
    /// Kind `slurm`: how to request nodes.
    pub slurm: Option<SlurmSettings>,
    /// Kind `ec2`: how to request instances.
    pub ec2: Option<RawEc2>,
    /// Price of a node or a core, where no cloud gives it.
    #[serde(default)]
    pub price: PriceSettings,
    /// How software is installed by `cvc install`.
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
    /// Instance types; the next one is used if the one before is not available. All nodes are of one type.
    #[serde(default)]
    pub instance_types: Vec<String>,
    /// Instance types to compare, in place of `instance_types`: the site becomes one site for each, with the type in its name
    /// (`cloud-c7i-xlarge`), so that reports tell them apart.
    #[serde(default)]
    pub compare_instance_types: Vec<String>,
    /// Maximum number of instances; mappings over more are excluded. No more are launched than the points need.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub nodes: i64,
    /// Profile of the AWS configuration. Default: as for the AWS command line.
    pub profile: Option<String>,
    /// Address of a compatible cloud, or a test's, instead of AWS's own. Default: `AWS_ENDPOINT_URL`, or AWS itself.
    pub endpoint: Option<String>,
    /// Zones, in order of preference; all nodes are in one. Default: every zone that has the type.
    #[serde(default)]
    pub zones: Vec<String>,
    /// Subnet, which determines the zone. Default: the default one of each zone.
    pub subnet: Option<String>,
    /// Their image: `debian-12`, `debian-13`, `ubuntu-22.04`, `ubuntu-24.04`, `amazon-linux-2023`, `ami-...`, or a table. Default:
    /// `debian-12`.
    pub image: Option<RawImage>,
    /// Their market. Default: `on-demand`.
    #[serde(default)]
    pub market: Market,
    /// Spot market: maximum price of one instance, US dollars an hour. Default: the on-demand price.
    pub max_price_usd: Option<f64>,
    /// Whether they are in a cluster placement group. Default: if the type allows it and there is more than one.
    pub placement_group: Option<bool>,
    /// Whether they have the Elastic Fabric Adapter. Default: false.
    #[serde(default)]
    pub efa: bool,
    /// Root volume. Default: gp3 of the image's size.
    #[serde(default)]
    pub root: Disk,
    /// Further EBS volumes of each node, formatted and mounted.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Where the machine's own disks are mounted. Default: they are left alone.
    pub instance_store: Option<String>,
    /// Directory that the first node exports by NFS and all others mount. Default: none.
    pub nfs: Option<String>,
    /// Time after the last contact with cvc at which an instance ends itself, as in `4h`; with a budget, no later than the budget covers.
    /// Default: `4h`.
    pub lifetime: Option<String>,
    /// Time for which instances are kept after the campaign, for the next one with the same settings, as in `30m`. Default: not at all.
    pub keep: Option<String>,
    /// Time limit for an instance to answer by ssh, seconds. Default: 300.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub ready_limit_s: Option<f64>,
    /// Addresses from which ssh is allowed, as in `203.0.113.7/32`. Default: the caller's own address.
    pub allow_from: Option<String>,
    /// Whether all EBS volumes are encrypted, with the key of the account. Default: true.
    #[serde(default = "yes")]
    pub encrypted: bool,
    /// What burstable instances (t2, t3, t3a, t4g) do when their processor credits are used up. Default: `standard` for t2, `unlimited` for
    /// the others.
    pub credits: Option<Credits>,
    /// Whether what the campaign needs is installed on fresh instances. Default: true.
    #[serde(default = "yes")]
    pub install: bool,
}

/// What instances boot.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Image"))]
#[serde(
    untagged,
    expecting = "the name of an image, or a table with `owner` and `name`, or with `ssm`"
)]
pub enum RawImage {
    /// A name that cvc knows, or `ami-...`.
    Name(String),
    /// Where it is found.
    Table(RawImageTable),
}

/// Where an image is found.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ImageTable"))]
#[serde(deny_unknown_fields)]
pub struct RawImageTable {
    /// Its owner: an account number, `amazon` or `self`; with `name`.
    pub owner: Option<String>,
    /// Its name, with `*` and `?`; the newest that matches is taken.
    pub name: Option<String>,
    /// Instead: the parameter of the Systems Manager that names it.
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
    /// Name or address by which the other nodes reach it. Default: its address.
    pub internal: Option<String>,
    /// User there.
    pub user: Option<String>,
    /// Port of its sshd.
    pub port: Option<u16>,
    /// File with the private key. `~` and `$VARS` are allowed; a relative path is below the campaign file.
    pub identity_file: Option<String>,
}

/// How ssh is used.
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
    /// File with the host keys of the site, besides `~/.ssh/known_hosts`.
    pub known_hosts: Option<String>,
    /// What to do about a host with an unknown key. Default: `strict`.
    pub host_keys: HostKeys,
}

/// A directory tree where runs write.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Storage"))]
#[serde(
    deny_unknown_fields,
    expecting = "a table that describes a storage area"
)]
pub struct RawStorage {
    /// The directory. `~` and `$VARS` are allowed; a relative one is relative to this file. Default: the run's own directory.
    pub path: Option<String>,
    /// Who sees it. Default: `node-local`.
    #[serde(default)]
    pub kind: StorageKind,
}

/// An installed MPI library: at most one of `prefix`, `module`, `mpiexec`; without any it is searched on PATH.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Mpi"))]
#[serde(
    deny_unknown_fields,
    expecting = "a table that describes an MPI library"
)]
pub struct RawMpi {
    /// Which launcher and which settings it understands.
    pub family: MpiFamily,
    /// Where it is installed: `PREFIX/bin/mpiexec`.
    pub prefix: Option<String>,
    /// An environment module that is loaded first.
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
    /// Counted runs of each point: a number, or as many as a narrow interval needs: `{ max = 20, until = "5 %" }`.
    pub repeats: RawRepeats,
    /// Days, one after another, among which the counted runs of each point are divided. Default: they run as soon as they can.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub days: Option<i64>,
    /// Fleets of instances (EC2), one after another, among which the counted runs of each point are divided. Default: one fleet.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub fleets: Option<i64>,
    /// Runs of each point that come first, on each day or fleet, and are not counted.
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
    /// Most that a run may write to its standard output and error together, MiB.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_048_576)))]
    pub max_output_mib: i64,
    /// Further attempts for a run that failed.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 100)))]
    pub retries: i64,
    /// Runs of one point that failed for good before the rest of the point is skipped.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub quarantine_after: i64,
    /// Whether the runs of different sites go one after another even if the sites share no machine.
    pub sites_in_turn: bool,
    /// Whether checkpoint images stay after they were read.
    pub keep_images: bool,
    /// Whether the program's output files stay after they were measured.
    pub keep_outputs: bool,
    /// The locale of the runs (`LC_ALL`), whatever the language of who starts them.
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
    /// When DMTCP takes them. Default: after the first step.
    pub moment: RawMoment,
    /// Whether the run is restarted from its last checkpoint and must verify again.
    pub restart_check: bool,
    /// Whether the smallest MPI program is checkpointed once on each site, library and mapping, to tell the libraries' memory from the program's.
    pub baseline: bool,
    /// Whether the checkpoints that a program writes itself are a series: what differs between them is measured.
    pub own_series: bool,
    /// Time limit of one checkpoint, seconds.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub timeout_s: f64,
    /// Of a series: each checkpoint is also stored as what changed since an earlier one, restored, and what that took is recorded. Default: not.
    pub deltas: Option<RawDeltas>,
}

/// How the checkpoints of a series are stored. The first of each list is made while the program runs, all others after its end.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Deltas"))]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table that says how deltas are made"
)]
pub struct RawDeltas {
    /// Against which earlier checkpoint each is stored. Default: the one before.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub methods: Vec<MethodName>,
    /// How blocks are compressed. Default: zstd.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub codecs: Vec<Codec>,
    /// Sizes of blocks: powers of two from 4KiB to 1MiB. Default: 4KiB, a page.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub blocks: Vec<ByteSize>,
    /// Whether the series that was made while the program ran stays in the directory of the run, as `deltas`. Default: false.
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
            baseline: false,
            own_series: false,
            timeout_s: 120.0,
            deltas: None,
        }
    }
}

/// When DMTCP takes checkpoints.
#[derive(Clone)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Moment", untagged))]
pub enum RawMoment {
    /// At moments of which each is named.
    Named(NamedMoment),
    /// Again and again.
    Series(RawSeries),
}

/// Checkpoints again and again, with what differs between them.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Series"))]
#[serde(deny_unknown_fields)]
pub struct RawSeries {
    /// Seconds between them; the first is so long after the program began to compute.
    #[cfg_attr(feature = "schema", schemars(range(max = 31_536_000)))]
    pub every_s: f64,
    /// How many. A program that ends before the last has fewer.
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 1000)))]
    pub count: i64,
    /// Whether what differs between them is measured. Default: true. Without, they only cost what checkpoints cost.
    #[serde(default = "yes")]
    pub compare: bool,
}

/// Most checkpoints of a series: the hashes of all are held in memory.
const MAX_SERIES: i64 = 1000;

/// A table is told from its first key: an enum of serde would not know the keys of a series.
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
            // as for other enums
            Some(_) => Err(serde::de::Error::custom("wanted exactly 1 element")),
        }
    }
}

/// A map of which the first key was read, and is given again.
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

/// A moment that has a name, with its value.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NamedMoment"))]
#[serde(rename_all = "snake_case")]
pub enum NamedMoment {
    /// At these seconds after the program began to compute.
    AtS(Seconds),
    /// After this step of the program, from 1.
    AfterStep(i64),
    /// After the first step, and then the program is killed.
    #[serde(rename = "size-only")]
    SizeOnly,
    /// After this step of the program, from 1, and then the program is killed.
    SizeOnlyAfterStep(i64),
}

impl RawMoment {
    /// Checks it. `wrong` hears of each error: the way to it below the moment, what is wrong, and a hint; what is returned is then as near
    /// to what was meant as is legal.
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
                            format!("the checkpoint moment {s} is not after the one before it");
                        wrong(i, message, "write increasing seconds".to_owned());
                    }
                }
                Moment::AtS(list.to_vec())
            }
        }
    }
}

impl RawSeries {
    /// As [`RawMoment::check`].
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

/// How often each point is run.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Repeats"))]
#[serde(
    untagged,
    expecting = "expected a number of runs, or a table with `max` and `until`, as in { max = 20, until = \"5 %\" }"
)]
pub enum RawRepeats {
    /// So often.
    Number(#[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))] i64),
    /// Until the interval is narrow.
    Until(RawUntil),
}

/// Repeats until an interval is narrow.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Until"))]
#[serde(deny_unknown_fields)]
pub struct RawUntil {
    /// Fewest counted runs of each point. Default: 5, or `max` if that is less.
    #[cfg_attr(feature = "schema", schemars(range(min = 3, max = 10_000)))]
    pub min: Option<i64>,
    /// Most counted runs of each point.
    #[cfg_attr(feature = "schema", schemars(range(min = 3, max = 10_000)))]
    pub max: i64,
    /// Half width of the interval of the mean, in percent of it, from which on no further run is needed: `"5 %"`.
    pub until: String,
    /// Quantity whose interval counts, as in the report's data. Default: the checkpoint's time and the wall time, as far as they are
    /// measured, else the bytes stored.
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
