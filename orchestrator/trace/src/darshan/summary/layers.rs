//! Selects the counters of the lowest interface that recorded an operation. MPI-IO moves bytes by calling POSIX or DFS, so interfaces must not be
//! added.

use super::{
    log::{DarshanSummary, FileSums},
    sums::DarshanSums,
};
use crate::darshan::{module::DarshanModule, visitor::DarshanRecordId};
use std::collections::{BTreeMap, HashSet};

/// Sums over the files of one interface, without files that a lower interface recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct LayerTotal {
    /// Number of files.
    pub files: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl LayerTotal {
    /// Returns the sum of several totals.
    pub fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::default(), |mut sum, of| {
            sum.add(of);
            sum
        })
    }

    /// Adds another total.
    pub fn add(&mut self, other: &Self) {
        self.files = self.files.saturating_add(other.files);
        self.reads = self.reads.saturating_add(other.reads);
        self.writes = self.writes.saturating_add(other.writes);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
    }

    fn of(sums: &DarshanSums, files: u64) -> Self {
        Self {
            files,
            reads: sums.reads().unwrap_or(0),
            writes: sums.writes().unwrap_or(0),
            read_bytes: sums.read_bytes().unwrap_or(0),
            written_bytes: sums.written_bytes().unwrap_or(0),
        }
    }
}

/// Interfaces below which Darshan records nothing, or nothing that can be compared file by file.
const LOWEST: [DarshanModule; 3] = [
    DarshanModule::Posix,
    DarshanModule::Stdio,
    DarshanModule::Dfs,
];

impl DarshanSummary {
    /// Returns the sums that may be added to totals. For each file, these are the sums of POSIX, streams and DFS. Those of a higher interface are
    /// included only if no lower one has a record of the file. Those of DAOS objects are included if the log has no DFS. With DFS or DAOS no higher
    /// interface is included, because libraries on DAOS use other file names.
    #[must_use]
    pub fn lowest(&self) -> Vec<&FileSums> {
        let has = |module| self.module(module).is_some_and(|of| of.sums.is_some());
        let (dfs, daos) = (has(DarshanModule::Dfs), has(DarshanModule::Daos));
        let mut below: HashSet<DarshanRecordId> = HashSet::new();
        let mut counting = Vec::new();
        let layers: [&[DarshanModule]; 4] = [
            &LOWEST,
            &[DarshanModule::Daos],
            &[DarshanModule::MpiIo],
            &[DarshanModule::H5d, DarshanModule::PnetcdfVar],
        ];
        for layer in layers {
            let of_layer = |of: &&FileSums| layer.contains(&of.sums.module);
            let on_daos = layer != LOWEST && (dfs || daos && layer != [DarshanModule::Daos]);
            // a variable whose file is unknown is assumed to be in a file that a lower interface recorded
            let nameless = |of: &FileSums| {
                layer[0] == DarshanModule::H5d && of.file.is_none() && !below.is_empty()
            };
            let counts = |of: &&FileSums| {
                !on_daos && !nameless(of) && !below.contains(&of.file.unwrap_or(of.id))
            };
            let files: Vec<&FileSums> = self.files.iter().filter(of_layer).collect();
            counting.extend(files.iter().copied().filter(counts));
            below.extend(files.iter().map(|of| of.file.unwrap_or(of.id)));
        }
        counting
    }

    /// Returns the bytes moved, by the lowest interface that recorded them; `None` if no module counts data operations.
    #[must_use]
    pub fn moved(&self) -> Option<BTreeMap<DarshanModule, LayerTotal>> {
        let mut moved: BTreeMap<DarshanModule, LayerTotal> = BTreeMap::new();
        for of in self.lowest() {
            let total = LayerTotal::of(&of.sums, 1);
            moved.entry(of.sums.module).or_default().add(&total);
        }
        // unlike the list of files, totals of modules include the records of all files
        for module in LOWEST.into_iter().chain([DarshanModule::Daos]) {
            if let (Some(total), Some(of)) = (moved.get_mut(&module), self.module(module)) {
                *total = of
                    .sums
                    .as_ref()
                    .map_or(*total, |sums| LayerTotal::of(sums, of.files));
            }
        }
        Some(moved).filter(|moved| !moved.is_empty())
    }
}
