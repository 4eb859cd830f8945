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
    /// `compression`, `aggregators`, `cb_buffer`, `storage`, or the name of a user-defined factor. `None` for any other name.
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
            other => return self.user.get(other).map(ToString::to_string),
        })
    }

    /// The point in a few words: `npb-bt.A 1Nx4P mpich-ch3`.
    pub fn label(&self) -> String {
        format!("{}.{} {} {}", self.app, self.class, self.mapping, self.mpi)
    }

    /// The factors that every point has, in the order of tables.
    pub const FACTORS: [&'static str; 11] =
        ["site", "app", "class", "mapping", "processes", "mpi", "checkpointer", "compression", "aggregators", "cb_buffer", "storage"];
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
