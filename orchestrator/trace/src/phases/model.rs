//! The model of a program's I/O: a document from which the I/O can be repeated on another machine, without the program.

use super::{log::PhaseError, progression::Progression};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};

/// Name of the document's format.
pub const FORMAT: &str = "cvc-io-model";
/// Version of the format; other versions are refused.
pub const VERSION: u32 = 1;

/// A number for each process: equal for all, linear in the rank, or listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PerRank {
    /// Equal for all processes.
    Same(i64),
    /// Linear in the rank.
    Linear {
        /// Value of the first participating process.
        first: i64,
        /// Difference from one process to the next.
        per_process: i64,
    },
    /// Values by rank.
    Each(Vec<i64>),
}

impl PerRank {
    /// Converts a list of numbers, ordered by rank, to the shortest form.
    #[must_use]
    pub fn of(all: &[i64]) -> Self {
        let (Some(first), second) = (all.first().copied(), all.get(1)) else {
            return Self::Same(0);
        };
        let per_process = second.map_or(0, |s| s - first);
        let is_linear = all
            .iter()
            .enumerate()
            .all(|(i, n)| *n == first + per_process * i as i64);
        match (is_linear, per_process) {
            (true, 0) => Self::Same(first),
            (true, _) => Self::Linear { first, per_process },
            (false, _) => Self::Each(all.to_vec()),
        }
    }

    /// Returns the value of the `i`th participating process, counted from 0.
    #[must_use]
    pub fn get(&self, i: usize) -> i64 {
        match self {
            Self::Same(n) => *n,
            Self::Linear { first, per_process } => first + per_process * i as i64,
            Self::Each(all) => all.get(i).copied().unwrap_or_default(),
        }
    }
}

/// The participating processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ranks {
    /// All processes.
    All(AllRanks),
    /// The processes with these ranks.
    Some(Vec<u32>),
}

/// The word `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllRanks {
    /// All processes.
    All,
}

impl Ranks {
    /// Returns the list of ranks, given the number of processes.
    #[must_use]
    pub fn list(&self, processes: u32) -> Vec<u32> {
        match self {
            Self::All(AllRanks::All) => (0..processes).collect(),
            Self::Some(list) => list.clone(),
        }
    }
}

/// A file, or files whose names differ in digits only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoFile {
    /// Name of the file; if there are several files, numbers in it are replaced by `#`.
    pub name: String,
    /// Number of processes that access the file.
    pub processes: u32,
    /// Whether several processes open the same file; otherwise each opens its own.
    pub is_shared: bool,
    /// Whether each phase uses a new file.
    pub is_new_each_phase: bool,
    /// Interface: `mpi-io` or `posix`.
    pub interface: String,
    /// Access pattern: `sequential`, `strided` or `random`.
    pub access: String,
    /// File pointers that calls use: `explicit`, `individual`, `shared`.
    pub pointers: Vec<String>,
    /// Whether any call is collective.
    pub is_collective: bool,
    /// Whether all calls block.
    pub is_blocking: bool,
    /// Size of the elementary type (etype) of its view, bytes.
    pub etype_bytes: i64,
    /// Hints (MPI info) that the program gave to the I/O layer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hints: BTreeMap<String, String>,
    /// Bytes written by all processes.
    pub bytes_written: u64,
    /// Bytes read by all processes.
    pub bytes_read: u64,
    /// Number of accesses that begin after the end of the previous one.
    pub jumps_forward: u64,
    /// Number of accesses that begin before the end of the previous one.
    pub jumps_backward: u64,
    /// Whether the file is mapped into memory for writing; writes through the mapping are not recorded.
    pub is_mapped: bool,
}

/// The pattern of an MPI-IO view with holes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewPattern {
    /// Size of the elementary type (etype), bytes.
    pub etype_bytes: i64,
    /// Bytes of data in one repetition of the pattern.
    pub filetype_bytes: i64,
    /// Distance in the file from one repetition to the next, bytes.
    pub extent: i64,
    /// Pieces of data; empty if the tracer could not analyse the datatype.
    pub pieces: Vec<ViewPiece>,
}

/// Pieces of equal size in a pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewPiece {
    /// Offsets of the pieces, bytes.
    #[serde(flatten)]
    pub at: Progression,
    /// Size of each piece, bytes.
    pub bytes: u64,
}

/// One kind of call of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseOp {
    /// Index of the file.
    pub file: usize,
    /// Kind: `read`, `write` or `sync`.
    pub op: String,
    /// File pointer: `explicit`, `individual` or `shared`.
    pub pointer: String,
    /// Whether the call is collective.
    pub is_collective: bool,
    /// Whether the call is blocking.
    pub is_blocking: bool,
    /// Whether this is a POSIX call and not an MPI-IO call.
    pub is_posix: bool,
    /// The participating processes.
    pub ranks: Ranks,
    /// Bytes per call.
    pub request_bytes: PerRank,
    /// Index of the view's pattern in the model's `views`, from 1; 0 if the view has no holes.
    pub view: PerRank,
    /// Data bytes between the beginning of the current repetition of the view's pattern and the first byte of the call.
    pub within: PerRank,
    /// Offset in the file at which the view's pattern begins, in the first round of the first phase, bytes.
    pub first: PerRank,
    /// Offsets of the calls of a round, relative to `first`, bytes.
    pub at: Vec<Progression>,
    /// Distance between the offsets of one round and the next, bytes.
    pub per_round: PerRank,
    /// Distance between the offsets of one phase and the next, bytes.
    pub per_phase: PerRank,
    /// Position of the first byte, as a formula of the process and the phase.
    pub formula: String,
}

/// A sequence of calls that is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loop {
    /// Number of repetitions (rounds).
    pub rounds: u64,
    /// The calls of a round.
    pub ops: Vec<PhaseOp>,
}

/// Consecutive phases that differ only in position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseFamily {
    /// Number of the first phase, from 1.
    pub first: u32,
    /// Number of phases.
    pub count: u32,
    /// The calls of each phase.
    pub loops: Vec<Loop>,
    /// Bytes moved in each phase.
    pub weight_bytes: u64,
    /// Whether the order of calls was too irregular to be kept. If so, each loop has one kind of call, whose positions are spread evenly.
    pub is_irregular: bool,
    /// Time from the beginning of the run to the first phase, seconds.
    pub start_s: f64,
    /// Time of computation and communication before each phase, mean, seconds.
    pub think_s: f64,
    /// Time of the slowest process within the calls of each phase, mean, seconds.
    pub io_s: f64,
    /// Whether its I/O takes at least 1 % of the run's time.
    pub is_relevant: bool,
}

/// What separates phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum Marks {
    /// Communicating calls, as counted by the tracer of MPI-IO.
    #[default]
    Communication,
    /// Pauses, because the trace does not record communication.
    Gaps {
        /// Minimum length of a pause that ends a phase of a process, seconds.
        gap_s: f64,
    },
    /// Nothing: the model is of a single checkpoint.
    Image,
}

/// The model of a program's I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IoModel {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    #[serde(rename = "schema")]
    pub version: u32,
    /// Number of processes in the traced run.
    pub processes: u32,
    /// Number of nodes in the traced run.
    pub nodes: u32,
    /// Duration of the traced run, seconds.
    pub run_s: f64,
    /// What separates phases.
    #[serde(default)]
    pub marks: Marks,
    /// Maximum number of communicating calls between two I/O calls of the same phase.
    pub most_ticks: u32,
    /// Number of phases if any communicating call between two I/O calls ended a phase.
    pub phases_without_ticks: u64,
    /// Files that were read or written.
    pub files: Vec<IoFile>,
    /// Patterns of views with holes.
    pub views: Vec<ViewPattern>,
    /// Families of phases, in order.
    pub phases: Vec<PhaseFamily>,
    /// Remarks about missing parts, or parts that the tracer cannot record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl IoModel {
    /// Reads a model.
    ///
    /// # Errors
    /// The file cannot be read, is not a model, or has another version.
    pub fn read(path: &Path) -> Result<Self, PhaseError> {
        let unreadable = |problem: String| PhaseError::Unreadable {
            path: path.to_owned(),
            problem,
        };
        let text = std::fs::read(path).map_err(|source| PhaseError::Io {
            path: path.to_owned(),
            source,
        })?;
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
        if value.get("format").and_then(serde_json::Value::as_str) != Some(FORMAT) {
            return Err(unreadable(format!(
                "not a model: its format is not {FORMAT}"
            )));
        }
        let version = value.get("schema").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            let found = version.map_or_else(
                || "without a version".to_owned(),
                |v| format!("of version {v}"),
            );
            return Err(unreadable(format!(
                "a model {found}; this program reads version {VERSION}"
            )));
        }
        serde_json::from_value(value).map_err(|error| unreadable(error.to_string()))
    }

    /// Returns the number of phases.
    #[must_use]
    pub fn phase_count(&self) -> u32 {
        self.phases.iter().map(|family| family.count).sum()
    }

    /// Returns the bytes moved in all phases.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let all = self.phases.iter();
        all.map(|f| f.weight_bytes * u64::from(f.count)).sum()
    }

    /// Returns the time within calls of all phases, seconds.
    #[must_use]
    pub fn io_s(&self) -> f64 {
        let all = self.phases.iter();
        all.map(|f| f.io_s * f64::from(f.count)).sum()
    }
}

impl PhaseFamily {
    /// Returns the bytes that all processes write in each phase; the other bytes of its weight are read.
    #[must_use]
    pub fn bytes_written(&self, processes: u32) -> u64 {
        let of_op = |rounds: u64, op: &PhaseOp| {
            let ranks = op.ranks.list(processes).len();
            let each = (0..ranks).map(|i| op.request_bytes.get(i).max(0) as u64);
            each.sum::<u64>() * op.calls() * rounds
        };
        let loops = self.loops.iter();
        let ops = loops.flat_map(|l| l.ops.iter().map(|op| (l.rounds, op)));
        let written = ops.filter(|(_, op)| op.op == "write");
        written.map(|(rounds, op)| of_op(rounds, op)).sum()
    }
}

impl PhaseOp {
    /// Returns the number of calls in one round.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.at.iter().map(Progression::len).sum()
    }

    /// Returns the name of the MPI-IO or POSIX function.
    #[must_use]
    pub fn call(&self) -> String {
        match (self.is_posix, self.op.as_str()) {
            (true, "sync") => "fsync".to_owned(),
            (false, "sync") => "MPI_File_sync".to_owned(),
            (true, op) if self.pointer == "explicit" => format!("p{op}"),
            (true, op) => op.to_owned(),
            (false, op) => {
                let is_ordered = self.pointer == "shared" && self.is_collective;
                let place = match self.pointer.as_str() {
                    "explicit" => "_at",
                    "shared" if is_ordered => "_ordered",
                    "shared" => "_shared",
                    _ => "",
                };
                let all = if self.is_collective && !is_ordered {
                    "_all"
                } else {
                    ""
                };
                let now = if self.is_blocking { "" } else { "i" };
                format!("MPI_File_{now}{op}{place}{all}")
            }
        }
    }
}
