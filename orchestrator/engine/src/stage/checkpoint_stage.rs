//! The contract of a stage, and its input.

use crate::{
    crew::CrewError,
    run::{AttemptReporter, Findings, RunFailure},
};
use async_trait::async_trait;
use cvc_core::outcome::Cause;
use cvc_probe::sentinel::CheckpointFiles;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{path::PathBuf, sync::atomic::AtomicBool};

/// A complete checkpoint.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Number among the checkpoints of the run, from 1.
    pub number: u64,
    /// Time of the request, seconds since the program began to compute. For a checkpoint that the program writes by itself: when cvc began to read
    /// its files, seconds since the program's start.
    pub at_s: f64,
    /// The parts of the checkpoint on the nodes.
    pub parts: Vec<NodePart>,
}

/// The part of a checkpoint on one node.
#[derive(Clone, Debug)]
pub struct NodePart {
    /// The node.
    pub node: String,
    /// The files.
    pub files: CheckpointFiles,
    /// Uncompressed length of the files, bytes; 0 if they are not compressed.
    pub content_bytes: u64,
    /// Further directories of the node that a restart needs. A missing directory is not an error.
    pub also: Vec<PathBuf>,
}

/// Checkpoints that nodes keep for the run's next attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptOnNodes {
    /// The nodes that have parts of the checkpoints, in the order of the mapping.
    pub nodes: Vec<KeptNode>,
    /// The checkpoints, newest first; never empty.
    pub checkpoints: Vec<KeptOnNode>,
    /// Directories of images, which are emptied before restored images are put there.
    pub image_dirs: Vec<PathBuf>,
    /// Whether one of the checkpoints was flushed to shared storage.
    pub is_flushed: bool,
}

/// A node that keeps checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptNode {
    /// Index among the nodes of the mapping, from 0.
    pub place: usize,
    /// Name of the node.
    pub name: String,
}

/// A checkpoint that nodes keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptOnNode {
    /// Number among the kept checkpoints of the run.
    pub id: u64,
    /// Number among the checkpoints of its attempt.
    pub ckpt: u64,
    /// Size of its files, bytes.
    pub bytes: u64,
    /// The checkpointer's data for continuing from the checkpoint; `None` until the checkpointer has reported them.
    pub details: Option<Value>,
}

/// A step that processes each checkpoint. Callers may drop its futures; a node still completes the work that it has begun.
#[async_trait]
pub trait Stage: Send + Sync {
    /// Copies a checkpoint to a place where the program's next checkpoint cannot overwrite it, and records that place in the argument. Copies nothing
    /// if the checkpointer writes the next checkpoint only on request.
    ///
    /// # Errors
    /// The checkpoint cannot be copied, for example because its files were changed meanwhile.
    async fn hold(&mut self, _: &mut Taken) -> Result<Hold, RunFailure> {
        Ok(Hold::Open)
    }

    /// Processes a checkpoint before the next one overwrites it. If the future is dropped, the caller may call this again for the same checkpoint.
    ///
    /// # Errors
    /// The checkpoint cannot be processed. Results of earlier checkpoints are kept.
    async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure>;

    /// Tells the stage the final number of the checkpoint that [`Stage::after`] has processed. `None` means that the files were not a valid
    /// checkpoint.
    fn confirm(&mut self, _: Option<u64>) {}

    /// Processes the last checkpoint before the run is restarted from it. Returns the number of an earlier checkpoint if the run must restart from
    /// that checkpoint instead.
    ///
    /// # Errors
    /// The run cannot be restarted.
    async fn before_restart(&mut self) -> Result<Option<u64>, RunFailure> {
        Ok(None)
    }

    /// After the loss of a node, returns the checkpoints on nodes from which the run's next attempt can continue. Returns `None` if this stage keeps
    /// no checkpoints for a next attempt.
    ///
    /// # Errors
    /// No checkpoint is available.
    async fn keep(&mut self) -> Option<Result<KeptOnNodes, RunFailure>> {
        None
    }

    /// Restores the newest available checkpoint of an earlier attempt to the place from which the run continues, and returns the checkpoint. Returns
    /// `None` if this stage keeps no checkpoints for a next attempt.
    ///
    /// # Errors
    /// No checkpoint is available.
    async fn resume(&mut self, _: &KeptOnNodes) -> Option<Result<KeptOnNode, RunFailure>> {
        None
    }

    /// Takes the measurements that do not need the program. May take long, but ends early once `stop` is set.
    ///
    /// # Errors
    /// Something cannot be measured.
    async fn evaluate(&mut self, _: &AttemptReporter, _: &AtomicBool) -> Result<(), RunFailure> {
        Ok(())
    }

    /// Waits for work that nodes still do although the future that requested it was dropped.
    async fn settle(&mut self) {}

    /// Stores the files to keep, and removes all others.
    ///
    /// # Errors
    /// A file could not be stored or removed.
    async fn finish(&mut self) -> Result<(), RunFailure> {
        Ok(())
    }

    /// Records the measurements of a series for which `planned` checkpoints were planned.
    fn measure(&self, planned: u64, to: &mut Findings);
}

/// Whether the files of a checkpoint can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The files are where the program or the checkpointer wrote them, and can change.
    Open,
    /// The files are a copy, which does not change.
    Held,
}

/// Converts a failed request to a node into the failure of the run: a lost node if the node does not answer, otherwise a failed checkpoint.
pub(crate) fn lost(error: &CrewError) -> RunFailure {
    let cause = match error {
        CrewError::Lost { .. } | CrewError::Timeout { .. } => Cause::NodeLost,
        _ => Cause::Checkpoint,
    };
    RunFailure::new(cause, error.to_string())
}
