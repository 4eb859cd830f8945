//! Stages: what is done with each checkpoint of a series once it is complete, whoever took it.
//!
//! To add one: a file here that implements [`Stage`], and its line in [`Stages::of`]. Work with files happens on the nodes that have them, by a
//! request to their sentinels.

mod checkpoint_stage;
mod compare;
mod delta;

use crate::run::{AttemptReporter, Findings, RunContext, RunFailure};
use cvc_core::campaign::StagePlan;
use std::sync::atomic::AtomicBool;

pub use checkpoint_stage::{Hold, NodePart, Stage, Taken};
pub(crate) use checkpoint_stage::{SCRATCH, lost};

/// The stages of a run, in their order.
#[derive(Default)]
pub struct Stages<'r> {
    all: Vec<Box<dyn Stage + 'r>>,
    /// The checkpoint that was not done when its work was dropped, and how many stages were.
    under_way: Option<(u64, usize)>,
}

impl<'r> Stages<'r> {
    /// Those of a run.
    pub fn of(run: &'r RunContext) -> Self {
        let of = |stage| -> Box<dyn Stage + 'r> {
            match stage {
                StagePlan::Compare => Box::new(compare::Compare::new(run)),
                StagePlan::Delta(deltas) => {
                    Box::new(delta::Delta::new(&run.used, &run.work, &run.dir, deltas))
                }
            }
        };
        let planned = run.checkpoint.stages(&run.point);
        Self {
            all: planned.into_iter().map(of).collect(),
            under_way: None,
        }
    }

    /// Whether nothing is done with checkpoints.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// As [`Stage::hold`].
    pub async fn hold(&mut self, taken: &mut Taken) -> Result<Hold, RunFailure> {
        for stage in &mut self.all {
            if stage.hold(taken).await? == Hold::Held {
                return Ok(Hold::Held);
            }
        }
        Ok(Hold::Open)
    }

    /// As [`Stage::after`], of all, one after another. Called again for a checkpoint after it was dropped, it goes on with the stage that was not done.
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

    /// As [`Stage::confirm`].
    pub fn confirm(&mut self, number: Option<u64>) {
        self.all.iter_mut().for_each(|stage| stage.confirm(number));
    }

    /// As [`Stage::before_restart`], the last stage first.
    pub async fn before_restart(&mut self) -> Result<(), RunFailure> {
        for stage in self.all.iter_mut().rev() {
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
        for stage in &mut self.all {
            stage.evaluate(reporter, stop).await?;
        }
        Ok(())
    }

    /// As [`Stage::settle`].
    pub async fn settle(&mut self) {
        for stage in &mut self.all {
            stage.settle().await;
        }
    }

    /// As [`Stage::finish`], of all, whatever one of them says.
    pub async fn finish(&mut self) -> Result<(), RunFailure> {
        let mut finished = Ok(());
        for stage in &mut self.all {
            finished = finished.and(stage.finish().await);
        }
        finished
    }

    /// As [`Stage::measure`].
    pub fn measure(&self, planned: u64, to: &mut Findings) {
        self.all.iter().for_each(|stage| stage.measure(planned, to));
    }
}
