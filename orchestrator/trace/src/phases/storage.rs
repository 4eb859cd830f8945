//! The measurements of storage from which the times of later models are estimated without a run: each kind of access, with several request sizes.

use super::{
    model::{
        AllRanks, FORMAT, IoFile, IoModel, Loop, Marks, PerRank, PhaseFamily, PhaseOp, Ranks,
        VERSION,
    },
    progression::{Level, Progression},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Request sizes, bytes.
const REQUESTS: [i64; 4] = [4 << 10, 32 << 10, 256 << 10, 2 << 20];
/// Approximate number of bytes per process for each kind of access and request size.
const VOLUME: i64 = 4 << 20;
/// Minimum and maximum number of calls per process.
const CALLS: (i64, i64) = (2, 256);

/// How processes access files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// POSIX, with a separate file for each process.
    PosixOwn,
    /// POSIX, with one shared file.
    PosixShared,
    /// Independent MPI-IO calls on one shared file.
    Independent,
    /// Collective MPI-IO calls on one shared file, each process on its own contiguous part.
    Collective,
    /// Collective MPI-IO calls on one shared file, with the requests of the processes interleaved.
    CollectiveStrided,
}

impl AccessKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::PosixOwn,
        Self::PosixShared,
        Self::Independent,
        Self::Collective,
        Self::CollectiveStrided,
    ];

    /// Returns the kind that is closest to a call of a model.
    #[must_use]
    pub fn of(file: &IoFile, op: &PhaseOp) -> Self {
        match (op.is_posix, op.is_collective) {
            (true, _) if file.is_shared => Self::PosixShared,
            (true, _) => Self::PosixOwn,
            (false, false) => Self::Independent,
            (false, true) if file.access == "strided" => Self::CollectiveStrided,
            (false, true) => Self::Collective,
        }
    }

    fn is_posix(self) -> bool {
        matches!(self, Self::PosixOwn | Self::PosixShared)
    }

    fn file(self) -> IoFile {
        let is_collective = matches!(self, Self::Collective | Self::CollectiveStrided);
        let interface = if self.is_posix() { "posix" } else { "mpi-io" };
        IoFile {
            name: "storage".to_owned(),
            processes: 1,
            is_shared: self != Self::PosixOwn,
            is_new_each_phase: false,
            interface: interface.to_owned(),
            access: "sequential".to_owned(),
            pointers: vec!["explicit".to_owned()],
            is_collective,
            is_blocking: true,
            etype_bytes: 1,
            hints: BTreeMap::new(),
            bytes_written: 0,
            bytes_read: 0,
            jumps_forward: 0,
            jumps_backward: 0,
            is_mapped: false,
        }
    }

    fn call(self, file: usize, op: &str, request: i64, processes: u32) -> PhaseOp {
        let calls = (VOLUME / request).clamp(CALLS.0, CALLS.1);
        let (per_process, step) = match self {
            Self::PosixOwn => (0, request),
            Self::CollectiveStrided => (request, request * i64::from(processes)),
            Self::PosixShared | Self::Independent | Self::Collective => (request * calls, request),
        };
        let of_file = self.file();
        PhaseOp {
            file,
            op: op.to_owned(),
            pointer: "explicit".to_owned(),
            is_collective: of_file.is_collective,
            is_blocking: true,
            is_posix: self.is_posix(),
            ranks: Ranks::All(AllRanks::All),
            request_bytes: PerRank::Same(request),
            view: PerRank::Same(0),
            within: PerRank::Same(0),
            first: PerRank::Linear {
                first: 0,
                per_process,
            },
            at: vec![Progression {
                first: 0,
                levels: vec![Level {
                    count: calls as u64,
                    step,
                }],
            }],
            per_round: PerRank::Same(0),
            per_phase: PerRank::Same(0),
            formula: String::new(),
        }
    }
}

/// One measurement of storage: a phase with one kind of access and one request size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageCell {
    /// Kind of access.
    pub kind: AccessKind,
    /// Whether the phase writes; otherwise it reads.
    pub is_write: bool,
    /// Bytes per call.
    pub request_bytes: u64,
}

/// Returns a model with all measurements as its phases, and the list of measurements in the order of the phases, which are numbered from 1.
#[must_use]
pub fn storage_model(processes: u32) -> (IoModel, Vec<StorageCell>) {
    let (mut phases, mut cells) = (Vec::new(), Vec::new());
    for (file, kind) in AccessKind::ALL.into_iter().enumerate() {
        for request in REQUESTS {
            for word in ["write", "read"] {
                let op = kind.call(file, word, request, processes);
                cells.push(StorageCell {
                    kind,
                    is_write: word == "write",
                    request_bytes: request as u64,
                });
                phases.push(PhaseFamily {
                    first: cells.len() as u32,
                    count: 1,
                    weight_bytes: op.calls() * request as u64 * u64::from(processes),
                    loops: vec![Loop {
                        rounds: 1,
                        ops: vec![op],
                    }],
                    is_irregular: false,
                    start_s: 0.0,
                    think_s: 0.0,
                    io_s: 0.0,
                    is_relevant: true,
                });
            }
        }
    }
    let model = IoModel {
        format: FORMAT.to_owned(),
        version: VERSION,
        processes,
        nodes: 1,
        run_s: 0.0,
        marks: Marks::Communication,
        most_ticks: 0,
        phases_without_ticks: cells.len() as u64,
        files: AccessKind::ALL.map(AccessKind::file).into(),
        views: Vec::new(),
        phases,
        remarks: Vec::new(),
    };
    (model, cells)
}
