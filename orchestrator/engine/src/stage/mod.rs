//! Stages: what is done with each checkpoint of a series once it is complete, whoever took it.
//!
//! To add one: a file here that implements [`Stage`], and its line in [`Stages::of`]. Work with files happens on the nodes that have them, by a
//! request to their sentinels.

mod compare;
mod delta;

use crate::{
    crew::CrewError,
    run::{AttemptReporter, Findings, RunContext, RunFailure},
};
use async_trait::async_trait;
use cvc_core::{campaign::StagePlan, outcome::Cause};
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

    /// Does its work on a checkpoint before the next one overwrites it.
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

/// The stages of a run, in their order.
#[derive(Default)]
pub struct Stages<'r>(Vec<Box<dyn Stage + 'r>>);

impl<'r> Stages<'r> {
    /// Those of a run.
    pub fn of(run: &'r RunContext) -> Self {
        let of = |stage| -> Box<dyn Stage + 'r> {
            match stage {
                StagePlan::Compare => Box::new(compare::Compare::new(run)),
                StagePlan::Delta(deltas) => Box::new(delta::Delta::new(run, deltas)),
            }
        };
        let planned = run.checkpoint.stages(&run.point);
        Self(planned.into_iter().map(of).collect())
    }

    /// Whether nothing is done with checkpoints.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As [`Stage::hold`].
    pub async fn hold(&mut self, taken: &mut Taken) -> Result<Hold, RunFailure> {
        for stage in &mut self.0 {
            if stage.hold(taken).await? == Hold::Held {
                return Ok(Hold::Held);
            }
        }
        Ok(Hold::Open)
    }

    /// As [`Stage::after`], of all, one after another.
    pub async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure> {
        for stage in &mut self.0 {
            stage.after(taken).await?;
        }
        Ok(())
    }

    /// As [`Stage::confirm`].
    pub fn confirm(&mut self, number: Option<u64>) {
        self.0.iter_mut().for_each(|stage| stage.confirm(number));
    }

    /// As [`Stage::before_restart`], the last stage first.
    pub async fn before_restart(&mut self) -> Result<(), RunFailure> {
        for stage in self.0.iter_mut().rev() {
            stage.before_restart().await?;
        }
        Ok(())
    }

    /// As [`Stage::evaluate`].
    pub async fn evaluate(
        &mut self,
        reporter: &AttemptReporter,
        stop: &AtomicBool,
    ) -> Result<(), RunFailure> {
        for stage in &mut self.0 {
            stage.evaluate(reporter, stop).await?;
        }
        Ok(())
    }

    /// As [`Stage::settle`].
    pub async fn settle(&mut self) {
        for stage in &mut self.0 {
            stage.settle().await;
        }
    }

    /// As [`Stage::finish`], of all, whatever one of them says.
    pub async fn finish(&mut self) -> Result<(), RunFailure> {
        let mut finished = Ok(());
        for stage in &mut self.0 {
            finished = finished.and(stage.finish().await);
        }
        finished
    }

    /// As [`Stage::measure`].
    pub fn measure(&self, planned: u64, to: &mut Findings) {
        self.0.iter().for_each(|stage| stage.measure(planned, to));
    }
}

/// Returns why there is no checkpoint: a node that does not answer is lost; one that could not do it has none.
pub(crate) fn lost(error: &CrewError) -> RunFailure {
    let cause = match error {
        CrewError::Lost { .. } | CrewError::Timeout { .. } => Cause::NodeLost,
        _ => Cause::Checkpoint,
    };
    RunFailure::new(cause, error.to_string())
}
