//! Stages: steps that process each checkpoint of a series once the checkpoint is complete, for all checkpointers.
//!
//! To add a stage: a file here that implements [`Stage`], and its line in [`Stages::of`]. Files are processed on the nodes that have them, by
//! requests to the nodes' sentinels.

mod checkpoint_stage;
mod compare;
mod delta;
mod levels;

use crate::run::{AttemptReporter, Findings, RunContext, RunFailure};
use cvc_core::{campaign::StagePlan, outcome::Cause};
use std::sync::atomic::AtomicBool;

pub(crate) use checkpoint_stage::lost;
pub use checkpoint_stage::{Hold, KeptNode, KeptOnNode, KeptOnNodes, NodePart, Stage, Taken};

/// The stages of a run, in the order of their execution.
#[derive(Default)]
pub struct Stages<'r> {
    all: Vec<Box<dyn Stage + 'r>>,
    /// Number of a checkpoint whose processing was dropped, and the number of stages that had already processed it.
    under_way: Option<(u64, usize)>,
}

impl<'r> Stages<'r> {
    /// Creates the stages of a run.
    pub fn of(run: &'r RunContext) -> Self {
        let of = |stage: &'r StagePlan| -> Box<dyn Stage + 'r> {
            match stage {
                StagePlan::Compare => Box::new(compare::Compare::new(run)),
                StagePlan::Delta { deltas, place } => {
                    let at = place.directory.of(&run.work);
                    Box::new(delta::Delta::new(&run.used, at, &run.dir, deltas))
                }
                StagePlan::Levels(plan) => {
                    let flush_dir = run.flush_dir.as_deref();
                    Box::new(levels::Levels::new(&run.used, &run.work, flush_dir, plan))
                }
            }
        };
        Self {
            all: run.plan.stages().iter().map(of).collect(),
            under_way: None,
        }
    }

    /// Returns whether there are no stages.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// See [`Stage::hold`].
    pub async fn hold(&mut self, taken: &mut Taken) -> Result<Hold, RunFailure> {
        for stage in &mut self.all {
            if stage.hold(taken).await? == Hold::Held {
                return Ok(Hold::Held);
            }
        }
        Ok(Hold::Open)
    }

    /// Calls [`Stage::after`] of all stages in order. If its future was dropped, the next call for the same checkpoint continues with the first
    /// incomplete stage.
    pub async fn after(&mut self, taken: &Taken) -> Result<(), RunFailure> {
        let done = match self.under_way {
            Some((number, done)) if number == taken.number => done,
            _ => 0,
        };
        for (n, stage) in self.all.iter_mut().enumerate().skip(done) {
            self.under_way = Some((taken.number, n));
            stage.after(taken).await?;
        }
        self.under_way = None;
        Ok(())
    }

    /// See [`Stage::confirm`].
    pub fn confirm(&mut self, number: Option<u64>) {
        self.all.iter_mut().for_each(|stage| stage.confirm(number));
    }

    /// Calls [`Stage::before_restart`] of all stages, in reverse order.
    pub async fn before_restart(&mut self) -> Result<Option<u64>, RunFailure> {
        let mut earlier = None;
        for stage in self.all.iter_mut().rev() {
            earlier = stage.before_restart().await?.or(earlier);
        }
        Ok(earlier)
    }

    /// Calls [`Stage::keep`] of the first stage that keeps checkpoints.
    pub async fn keep(&mut self) -> Option<Result<KeptOnNodes, RunFailure>> {
        for stage in &mut self.all {
            if let Some(kept) = stage.keep().await {
                return Some(kept);
            }
        }
        None
    }

    /// Calls [`Stage::resume`] of the first stage that keeps checkpoints.
    ///
    /// # Errors
    /// No checkpoint is available.
    pub async fn resume(&mut self, kept: &KeptOnNodes) -> Result<KeptOnNode, RunFailure> {
        for stage in &mut self.all {
            if let Some(resumed) = stage.resume(kept).await {
                return resumed;
            }
        }
        let why = "the run has checkpoints on nodes, but its plan has no stage to restore them";
        Err(RunFailure::new(Cause::Restart, why))
    }

    /// See [`Stage::evaluate`].
    pub async fn evaluate(
        &mut self,
        reporter: &AttemptReporter,
        stop: &AtomicBool,
    ) -> Result<(), RunFailure> {
        for stage in &mut self.all {
            stage.evaluate(reporter, stop).await?;
        }
        Ok(())
    }

    /// See [`Stage::settle`].
    pub async fn settle(&mut self) {
        for stage in &mut self.all {
            stage.settle().await;
        }
    }

    /// Calls [`Stage::finish`] of all stages, even if one of them fails.
    pub async fn finish(&mut self) -> Result<(), RunFailure> {
        let mut finished = Ok(());
        for stage in &mut self.all {
            finished = finished.and(stage.finish().await);
        }
        finished
    }

    /// See [`Stage::measure`].
    pub fn measure(&self, planned: u64, to: &mut Findings) {
        self.all.iter().for_each(|stage| stage.measure(planned, to));
    }
}
