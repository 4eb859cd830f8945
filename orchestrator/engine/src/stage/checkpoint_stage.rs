//! What a stage does, and what it is given.

use crate::{
    crew::CrewError,
    run::{AttemptReporter, Findings, RunFailure},
};
use async_trait::async_trait;
use cvc_core::outcome::Cause;
use cvc_probe::sentinel::CheckpointFiles;
use std::sync::atomic::AtomicBool;

/// Directory in the working directory of a run for what stages make; it is never kept.
pub(crate) const SCRATCH: &str = ".cvc-deltas";

/// A complete checkpoint.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Its number among the checkpoints of the run, from 1.
    pub number: u64,
    /// When it was asked for, seconds of computation; of one that the program writes itself, when its reading began, seconds since the program's
    /// start.
    pub at_s: f64,
    /// Its files.
    pub parts: Vec<NodePart>,
}

/// The part of a checkpoint that is on a node.
#[derive(Clone, Debug)]
pub struct NodePart {
    /// The node.
    pub node: String,
    /// The files.
    pub files: CheckpointFiles,
    /// Their length, uncompressed, bytes; 0 if that is the length of the files.
    pub content_bytes: u64,
}

/// Something that is done with each checkpoint. Whoever calls it may drop what it waits for: what a node has begun, it ends.
#[async_trait]
pub trait Stage: Send + Sync {
    /// Puts a checkpoint where the next one cannot overwrite it, and says there. Of images the checkpointer writes the next one only on request.
    ///
    /// # Errors
    /// Why that is impossible, as when its files were changed meanwhile.
    async fn hold(&mut self, _: &mut Taken) -> Result<Hold, RunFailure> {
        Ok(Hold::Open)
    }

    /// Does its work on a checkpoint before the next one overwrites it. What was dropped is done again.
    ///
    /// # Errors
    /// Why it cannot be done. What was done of earlier ones stays.
    async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure>;

    /// Confirms the number of the checkpoint of [`Stage::after`]; with none it was no checkpoint.
    fn confirm(&mut self, _: Option<u64>) {}

    /// Does its work on the last checkpoint, before the run is restarted from it.
    ///
    /// # Errors
    /// Why it cannot be restarted.
    async fn before_restart(&mut self) -> Result<(), RunFailure> {
        Ok(())
    }

    /// Measures what needs the program no more. May take long; ends early once `stop` is set.
    ///
    /// # Errors
    /// Why it cannot be measured.
    async fn evaluate(&mut self, _: &AttemptReporter, _: &AtomicBool) -> Result<(), RunFailure> {
        Ok(())
    }

    /// Waits for what goes on although whoever called for it has dropped it.
    async fn settle(&mut self) {}

    /// Keeps what is to be kept, and removes all else.
    ///
    /// # Errors
    /// What could not be kept or removed.
    async fn finish(&mut self) -> Result<(), RunFailure> {
        Ok(())
    }

    /// Records what was measured of so many planned checkpoints.
    fn measure(&self, planned: u64, to: &mut Findings);
}

/// Whether the files of a checkpoint can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// They are where the program or the checkpointer wrote them.
    Open,
    /// They are a copy.
    Held,
}

/// Returns why there is no checkpoint: a node that does not answer is lost; one that could not do it has none.
pub(crate) fn lost(error: &CrewError) -> RunFailure {
    let cause = match error {
        CrewError::Lost { .. } | CrewError::Timeout { .. } => Cause::NodeLost,
        _ => Cause::Checkpoint,
    };
    RunFailure::new(cause, error.to_string())
}
