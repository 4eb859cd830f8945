//! Requests to a node about the checkpoints that it keeps, and their results.

use super::{error::LevelError, flow::Flow, stream::StreamToken, table::FileTable};
use crate::sentinel::series::CheckpointFiles;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

/// The manifest of a checkpoint, on a node or in a shared directory. A checkpoint without a manifest is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelManifest {
    /// Number of the checkpoint among the kept ones, from 1.
    pub id: u64,
    /// Number of the checkpoint in the run.
    pub ckpt: u64,
    /// The nodes that have a part of the checkpoint, in order.
    pub nodes: Vec<String>,
    /// For each node whose files this node can help to rebuild: the table of that node's files.
    pub tables: BTreeMap<String, FileTable>,
}

/// A port to open for a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRequest {
    /// Name of the stream.
    pub name: String,
    /// Address of this node, as the sender resolves it.
    pub address: IpAddr,
    /// The token that the sender must send.
    pub token: StreamToken,
}

/// An operation on the checkpoints kept on a node, in a directory used for nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LevelWork {
    /// Keeps the node's own files of a checkpoint.
    Hold {
        /// Number of the checkpoint among the kept ones.
        id: u64,
        /// Location of the files.
        from: CheckpointFiles,
        /// Further directories that belong to the checkpoint, with their contents; missing directories are skipped.
        also: Vec<PathBuf>,
    },
    /// Resolves the addresses of other nodes.
    Resolve(Vec<String>),
    /// Opens ports for streams.
    Listen(Vec<PortRequest>),
    /// Carries out the node's flows of a transfer.
    Move {
        /// The checkpoint in whose directory the flows work.
        id: u64,
        /// The flows.
        flows: Vec<Flow>,
        /// Time limit, seconds.
        limit_s: f64,
    },
    /// Syncs the files of a checkpoint and writes its manifest. From then on the checkpoint counts as kept.
    Commit(LevelManifest),
    /// Reads the existing manifests.
    Scan,
    /// Removes all checkpoints except these.
    Release(Vec<u64>),
    /// Copies the node's own files of a checkpoint to shared storage.
    Flush {
        /// Number of the checkpoint.
        id: u64,
        /// The node's directory on shared storage, created anew.
        to: PathBuf,
    },
    /// Restores files to their original places.
    Place {
        /// The directory that contains the kept files.
        from: PathBuf,
        /// Table of the files.
        table: FileTable,
        /// Directories to empty first, except for scripts.
        clear: Vec<PathBuf>,
        /// Whether to copy the files instead of hard-linking them. Needed if the program may change the restored files in place, because the kept
        /// files must not change.
        #[serde(default)]
        as_copies: bool,
    },
    /// Keeps files from another directory, on the node or on shared storage, as the node's own files of a checkpoint.
    Adopt {
        /// Number of the checkpoint.
        id: u64,
        /// The directory that contains the files.
        from: PathBuf,
        /// Table of the files.
        table: FileTable,
    },
    /// Removes all kept checkpoints of the run.
    Finish,
}

/// The result of a [`LevelWork`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelDone {
    /// Table of the kept files.
    #[serde(default)]
    pub table: FileTable,
    /// The resolved addresses.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Addresses of the opened ports.
    #[serde(default)]
    pub ports: Vec<SocketAddr>,
    /// The existing manifests.
    #[serde(default)]
    pub manifests: Vec<LevelManifest>,
    /// Number of bytes sent to other nodes, or restored.
    pub bytes: u64,
    /// Duration of the operation, seconds.
    pub seconds: f64,
}

/// The reason why a [`LevelWork`] failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelProblem {
    /// The problem, with the path or node.
    pub why: String,
    /// Whether the disk is full.
    pub is_full: bool,
    /// Whether kept files are damaged or missing.
    pub is_damaged: bool,
}

impl From<LevelError> for LevelProblem {
    fn from(error: LevelError) -> Self {
        Self {
            is_full: error.is_full(),
            is_damaged: match &error {
                LevelError::Damaged(_) | LevelError::Short(_) => true,
                LevelError::Io { error, .. } => error.kind() == io::ErrorKind::NotFound,
                LevelError::Encoding { .. }
                | LevelError::Listing(_)
                | LevelError::Changed(_)
                | LevelError::Network { .. }
                | LevelError::Garbled(_)
                | LevelError::Late(_)
                | LevelError::NotListening(_)
                | LevelError::NoAddress(_) => false,
            },
            why: error.to_string(),
        }
    }
}
