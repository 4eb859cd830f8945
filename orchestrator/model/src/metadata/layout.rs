//! The layouts of checkpoints, and the settings at which operations are counted.

use serde::{Deserialize, Serialize};

/// The layout in which the processes of a program store a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One log for each process, which any number of processes can read.
    Log,
    /// One file for each process (N-N).
    PerProcess,
    /// One file for each node.
    PerNode,
    /// One file with a contiguous segment for each process (N-1).
    Segmented,
    /// One file in which the blocks of the processes alternate (N-1).
    Strided,
    /// One file for all checkpoints, whose space is reserved once (delegation).
    Delegated,
}

impl Layout {
    /// All layouts.
    pub const ALL: [Self; 6] = [
        Self::Log,
        Self::PerProcess,
        Self::PerNode,
        Self::Segmented,
        Self::Strided,
        Self::Delegated,
    ];

    /// Returns the name used in options, tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::PerProcess => "per-process",
            Self::PerNode => "per-node",
            Self::Segmented => "segmented",
            Self::Strided => "strided",
            Self::Delegated => "delegated",
        }
    }

    /// Returns the layout with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.word() == word)
    }

    /// Returns whether several processes write to the same file.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Segmented | Self::Strided | Self::Delegated)
    }

    /// Returns the number of files of one checkpoint of `processes` on `nodes`. For [`Self::Delegated`], it is the one file of all checkpoints.
    pub fn files(self, processes: u64, nodes: u64) -> u64 {
        match self {
            Self::Log | Self::PerProcess => processes,
            Self::PerNode => nodes,
            Self::Segmented | Self::Strided | Self::Delegated => 1,
        }
    }
}

/// A setting at which operations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct MetadataSetting {
    /// Number of clients: the processes that use the file system.
    pub clients: u64,
    /// Number of checkpoints written.
    pub checkpoints: u64,
    /// Number of metadata servers.
    pub servers: u64,
}
