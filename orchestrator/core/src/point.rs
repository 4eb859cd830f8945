//! A point: one combination of factor values.

use crate::{ids::PointId, mapping::Mapping, registry::define_kind, units::ByteSize};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::fmt;

crate::checkpointers!(
    define_kind,
    #[doc = " What writes the checkpoints of a run."]
    CheckpointerKind
);

impl Default for CheckpointerKind {
    fn default() -> Self {
        Self::None
    }
}

/// What distinguishes checkpointers outside `cvc-engine`: nothing else compares them with one another.
impl CheckpointerKind {
    /// Whether anything takes checkpoints of a run.
    pub fn takes_checkpoints(self) -> bool {
        match self {
            Self::None => false,
            Self::Application | Self::Dmtcp => true,
        }
    }

    /// Whether cvc asks for each checkpoint of a run at its [`Moment`], with software that the site has to have. The program decides itself
    /// when it writes its own.
    pub fn is_driven(self) -> bool {
        match self {
            Self::None | Self::Application => false,
            Self::Dmtcp => true,
        }
    }

    /// Whether the program writes checkpoints of its own.
    pub fn has_own_files(self) -> bool {
        self.takes_checkpoints() && !self.is_driven()
    }

    /// Whether it can store its checkpoints compressed, as [`Compression`] says.
    pub fn compresses(self) -> bool {
        match self {
            Self::None | Self::Application => false,
            Self::Dmtcp => true,
        }
    }

    /// Whether its checkpoints are images of processes, from which these are restarted where they were. A program that reads what it wrote
    /// itself is started anew.
    pub fn restarts_images(self) -> bool {
        match self {
            Self::None | Self::Application => false,
            Self::Dmtcp => true,
        }
    }

    /// Why runs cannot be traced by `tracer` with it, as far as that is known.
    pub fn hazard_with(self, tracer: TracerKind) -> Option<&'static str> {
        match (self, tracer) {
            (Self::Dmtcp, TracerKind::Darshan) => Some(
                "Darshan and DMTCP cannot run together: Darshan's dup2 wrapper recurses until the stack overflows; trace with strace, or run Darshan without checkpoints",
            ),
            (Self::Dmtcp, TracerKind::None | TracerKind::Strace) | (Self::None | Self::Application, _) => None,
        }
    }
}

/// How DMTCP stores images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// Piped through gzip.
    Gzip,
}

/// When DMTCP takes checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// At these seconds after the program began to compute; rising, not empty.
    AtS(Vec<f64>),
    /// After this step of the program, counted from 1, as its output tells; step 1 of a program that does not tell is its first output.
    AfterStep(u64),
    /// After the first step, and then the program is killed: sizes in minutes instead of hours.
    #[serde(rename = "size-only")]
    SizeOnly,
    /// The same after this step, for what a program allocates only later: buffers of its first output, for example.
    SizeOnlyAfterStep(u64),
}

impl fmt::Display for Moment {
    /// As tables show it: `at 5 s`, `after step 1`, `size-only`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtS(seconds) => {
                let list: Vec<String> = seconds.iter().map(ToString::to_string).collect();
                write!(f, "at {} s", list.join(" and "))
            }
            Self::AfterStep(step) => write!(f, "after step {step}"),
            Self::SizeOnly => f.write_str("size-only"),
            Self::SizeOnlyAfterStep(step) => write!(f, "size-only after step {step}"),
        }
    }
}

impl Moment {
    /// Whether the program is killed after its checkpoint, for good.
    pub fn kills(&self) -> bool {
        match self {
            Self::SizeOnly | Self::SizeOnlyAfterStep(_) => true,
            Self::AtS(_) | Self::AfterStep(_) => false,
        }
    }
}

crate::tracers!(
    define_kind,
    #[doc = " A tracer."]
    TracerKind
);

impl Default for TracerKind {
    fn default() -> Self {
        Self::None
    }
}

/// The value of a free, user-defined factor. It is available in command templates as `{{user.NAME}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum UserValue {
    /// true or false
    Bool(bool),
    /// a whole number
    Integer(i64),
    /// a number
    Float(f64),
    /// text
    Text(String),
}

impl fmt::Display for UserValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(v) => write!(f, "{v}"),
            Self::Integer(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v}"),
            Self::Text(v) => f.write_str(v),
        }
    }
}

/// One combination of factor values, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Name of a site of the campaign.
    pub site: String,
    /// Name of an application descriptor.
    pub app: String,
    /// A workload of that descriptor (a NAS class, or a size of a kernel).
    pub class: String,
    /// Processes on nodes.
    pub mapping: Mapping,
    /// Name of an MPI library of the site.
    pub mpi: String,
    /// What writes the checkpoints.
    pub checkpointer: CheckpointerKind,
    /// How DMTCP stores images; `none` for the other checkpointers.
    pub compression: Compression,
    /// Collective-buffering aggregators in all; `None` leaves it to the MPI library.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aggregators: Option<u32>,
    /// Collective buffer size for one aggregator; `None` leaves it to the MPI library.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cb_buffer: Option<ByteSize>,
    /// Name of a storage area of the site, where the run writes.
    pub storage: String,
    /// Whether the run is restarted from its last checkpoint and must verify again; `None` where nothing is checkpointed, and in plans of
    /// earlier versions, for which `[checkpoint]` holds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub restart_check: Option<bool>,
    /// When DMTCP takes checkpoints; `None` for the other checkpointers, and in plans of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub moment: Option<Moment>,
    /// What traces the run; `None` in plans of earlier versions, for which `[trace]` holds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracer: Option<TracerKind>,
    /// Free factors.
    #[serde(skip_serializing_if = "IndexMap::is_empty", default)]
    pub user: IndexMap<String, UserValue>,
}

impl Point {
    /// Processes in all.
    pub fn processes(&self) -> u32 {
        self.mapping.processes()
    }

    /// The value of a factor as a table shows it: `site`, `app`, `class`, `processes`, `mapping`, `mpi`, `checkpointer`,
    /// `compression`, `aggregators`, `cb_buffer`, `storage`, `restart_check`, `moment`, `tracer`, or the name of a user-defined factor.
    /// `None` for any other name, and for a factor that says nothing of this point (the moment of one without DMTCP).
    pub fn factor(&self, name: &str) -> Option<String> {
        let or_default = |v: Option<String>| v.unwrap_or_else(|| "default".to_owned());
        Some(match name {
            "site" => self.site.clone(),
            "app" => self.app.clone(),
            "class" => self.class.clone(),
            "processes" => self.processes().to_string(),
            "mapping" => self.mapping.to_string(),
            "mpi" => self.mpi.clone(),
            "checkpointer" => kebab(&self.checkpointer),
            "compression" => kebab(&self.compression),
            "aggregators" => or_default(self.aggregators.map(|v| v.to_string())),
            "cb_buffer" => or_default(self.cb_buffer.map(|v| v.to_string())),
            "storage" => self.storage.clone(),
            "restart_check" => return self.restart_check.map(|v| v.to_string()),
            "moment" => return self.moment.as_ref().map(ToString::to_string),
            "tracer" => return self.tracer.map(|v| v.word().to_owned()),
            other => return self.user.get(other).map(ToString::to_string),
        })
    }

    /// The point in a few words: `npb-bt.A 1Nx4P mpich-ch3`.
    pub fn label(&self) -> String {
        format!("{}.{} {} {}", self.app, self.class, self.mapping, self.mpi)
    }

    /// The factors that every point has, in the order of tables.
    pub const FACTORS: [&'static str; 14] = [
        "site",
        "app",
        "class",
        "mapping",
        "processes",
        "mpi",
        "checkpointer",
        "compression",
        "aggregators",
        "cb_buffer",
        "storage",
        "restart_check",
        "moment",
        "tracer",
    ];
}

/// The kebab-case name of a unit variant, as in files.
fn kebab<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// First run(s) whose results are kept apart, or a counted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// Runs first, never enters statistics; numbered from 1.
    Warmup(u32),
    /// Counted; numbered from 1.
    Measured(u32),
}

/// A point of a plan with its identifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedPoint {
    /// Digest of the point and of everything that affects its results.
    pub id: PointId,
    /// The factor values.
    pub point: Point,
    /// Whether it was added to tell the memory of libraries from that of programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
}

/// A point that does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excluded {
    /// The factor values.
    pub point: Point,
    /// Who excludes it.
    pub by: ExcludedBy,
    /// Why, for people.
    pub reason: String,
}

/// Who excludes a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExcludedBy {
    /// An `[[exclude]]` rule of the campaign.
    Rule,
    /// The application: process count, workload.
    Application,
    /// The combination makes no sense (more aggregators than processes, compression without DMTCP, processes against mapping).
    Combination,
    /// A known hazard (Darshan with DMTCP 4.2).
    Hazard,
    /// The site: too few nodes.
    Site,
    /// Something is not installed; found when the site was asked, so not part of the plan file.
    Missing,
}
