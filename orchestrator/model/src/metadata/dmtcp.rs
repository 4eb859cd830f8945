//! Operations of DMTCP's images, which are always stored as one file for each process.
//!
//! Source: system calls of DMTCP 4.2 on its checkpoint directory. Each process writes `NAME.dmtcp.temp` and renames it to `NAME.dmtcp`. One process
//! on each node saves files of shared memory to `NAME_files/`, which all other processes look up. The coordinator writes the restart script.

use crate::{check::at_least_one, fit::FitError};
use serde::Serialize;

/// Files in `NAME_files/` of a node: the table of descriptors, and one saved file.
const SAVED_FILES: u64 = 2;

/// The images of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmtcpImages {
    /// Number of ranks.
    pub processes: u32,
    /// Number of processes of the MPI launcher, which have images too.
    pub launchers: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// Whether images are compressed by gzip.
    pub gzip: bool,
}

/// Number of operations of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DmtcpKind {
    /// The kind.
    pub kind: &'static str,
    /// Number of operations.
    pub count: u64,
}

/// Operations on the checkpoint directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmtcpOperations {
    /// Operations of one checkpoint by kind.
    pub kinds: Vec<DmtcpKind>,
    /// Sum over all kinds.
    pub total: u64,
    /// Files and directories of a complete checkpoint.
    pub entries: u64,
    /// Number of entries in the checkpoint directory if all nodes share one.
    pub largest_directory: u64,
    /// Number of entries in the largest checkpoint directory if each node has its own.
    pub largest_per_node_directory: u64,
    /// Operations on shared storage if each node writes to its own storage and one archive of each node is copied later: create, close and rename.
    pub copied_behind: u64,
}

impl DmtcpImages {
    /// Returns the operations of one checkpoint.
    ///
    /// # Errors
    /// There are no processes or no nodes.
    pub fn operations(self) -> Result<DmtcpOperations, FitError> {
        at_least_one("the number of processes", self.processes)?;
        at_least_one("the number of nodes", self.nodes)?;
        let images = u64::from(self.processes) + u64::from(self.launchers);
        let nodes = u64::from(self.nodes);
        let packed = u64::from(self.gzip);
        let kinds = [
            ("create", images + SAVED_FILES * nodes + 1),
            ("open", 1),
            // lookups of the checkpoint directory, of `NAME_files/`, and of the table of descriptors in it, even if it does not exist
            ("lookup", 3 * images),
            ("getattr", 2 * images + 2),
            ("setattr", 1),
            ("directory-entry", nodes + 1),
            // the image, its pipe and gzip each have the file open
            ("close", (1 + 2 * packed) * images + SAVED_FILES * nodes + 1),
            ("sync", packed * images),
            ("rename", images),
        ]
        .map(|(kind, count)| DmtcpKind { kind, count });
        let per_node = images.div_ceil(nodes);
        Ok(DmtcpOperations {
            total: kinds.iter().map(|of| of.count).sum(),
            kinds: kinds.to_vec(),
            // images, directories with their files, the script and the link to it
            entries: images + (1 + SAVED_FILES) * nodes + 2,
            largest_directory: images + nodes + 2,
            largest_per_node_directory: per_node + 1,
            copied_behind: 3 * nodes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(of: &DmtcpOperations, kind: &str) -> u64 {
        let found = of.kinds.iter().find(|of| of.kind == kind);
        found.expect("the kind").count
    }

    #[test]
    fn recorded_runs_of_four_ranks_come_out() {
        // BT.W, 4 ranks and 2 processes of MPICH's launcher on a node; traced calls: openat, close, rename, fsync
        let images = |gzip| DmtcpImages {
            processes: 4,
            launchers: 2,
            nodes: 1,
            gzip,
        };
        let plain = images(false).operations().expect("operations");
        // the coordinator, which creates one file, was not traced
        assert_eq!(count(&plain, "create") - 1, 6 + 2);
        assert_eq!(count(&plain, "close") - 1, 6 + 2);
        assert_eq!(count(&plain, "rename"), 6);
        assert_eq!(count(&plain, "sync"), 0);
        let gzip = images(true).operations().expect("operations");
        assert_eq!(count(&gzip, "close") - 1, 18 + 2);
        assert_eq!(count(&gzip, "sync"), 6);
    }

    #[test]
    fn directories_and_copies_behind_grow_with_nodes_not_with_processes() {
        let of = |processes| DmtcpImages {
            processes,
            launchers: 5,
            nodes: 4,
            gzip: false,
        };
        let small = of(64).operations().expect("operations");
        let big = of(640).operations().expect("operations");
        assert_eq!(small.copied_behind, 12);
        assert_eq!(big.copied_behind, 12);
        assert_eq!(big.largest_directory - small.largest_directory, 576);
        assert_eq!(small.largest_per_node_directory, 18 + 1);
        assert!(of(0).operations().is_err());
    }
}
