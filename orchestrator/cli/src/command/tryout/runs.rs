//! Reads the runs of a campaign of `cvc try` from its index.

use crate::failure::Failure;
use cvc_core::measured::names;
use cvc_core::point::CheckpointerKind;
use cvc_core::store::CampaignDir;
use cvc_index::{Index, IndexedPoint, RunOutcome};
use cvc_model::stats::Summary;
use cvc_prediction::holdout::rebuild_index;
use std::collections::HashMap;

/// A campaign of `cvc try` with its index.
pub struct Read {
    pub index: Index,
    points: Vec<IndexedPoint>,
}

impl Read {
    pub fn campaign(dir: &CampaignDir) -> Result<Self, Failure> {
        let index = rebuild_index(dir.root())?;
        Ok(Self {
            points: index.points()?,
            index,
        })
    }

    /// Returns the point with a checkpointer, or the point without one.
    pub fn point(&self, has_checkpoints: bool) -> Option<&IndexedPoint> {
        let is_it =
            |p: &&IndexedPoint| (p.point.checkpointer != CheckpointerKind::None) == has_checkpoints;
        self.points.iter().find(is_it)
    }

    pub fn summaries(&self, has_checkpoints: bool) -> Result<HashMap<String, Summary>, Failure> {
        let Some(point) = self.point(has_checkpoints) else {
            return Ok(HashMap::new());
        };
        let all = self.index.summaries()?.into_iter();
        Ok(all
            .filter(|s| s.point == point.id.as_str())
            .map(|s| (s.quantity, s.summary))
            .collect())
    }

    /// Returns the values of a quantity in the successful runs of a point.
    pub fn values(&self, has_checkpoints: bool, quantity: &str) -> Result<Vec<f64>, Failure> {
        let Some(point) = self.point(has_checkpoints) else {
            return Ok(Vec::new());
        };
        let runs = self.index.runs()?.into_iter();
        let runs: Vec<String> = runs
            .filter(|run| run.point == point.id && run.state == RunOutcome::Succeeded)
            .map(|run| run.id)
            .collect();
        let mut values = Vec::new();
        self.index.each_run_value(|of| {
            if of.quantity == quantity && runs.contains(&of.run) {
                values.push(of.value);
            }
        })?;
        Ok(values)
    }

    pub fn fact(&self, key: &str) -> Result<Option<String>, Failure> {
        Ok(self.index.fact(key)?.into_iter().next().map(|of| of.value))
    }

    pub fn failures(&self) -> Result<Vec<(String, String)>, Failure> {
        let runs = self.index.runs()?.into_iter();
        Ok(runs
            .filter(|run| run.state == RunOutcome::Failed)
            .map(|run| {
                (
                    run.cause.unwrap_or_default(),
                    run.detail.unwrap_or_default(),
                )
            })
            .collect())
    }

    /// Returns whether a run took a checkpoint and succeeded.
    pub fn has_checkpoint(&self) -> Result<bool, Failure> {
        Ok(!self.values(true, names::CKPT_STORED_BYTES)?.is_empty())
    }
}
