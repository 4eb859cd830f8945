//! What is done with each checkpoint of a point, whoever takes it.

use super::{deltas::DeltaSettings, model::CheckpointSettings};
use crate::point::Point;

/// Something that is done with each complete checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StagePlan<'a> {
    /// It is compared with all before it.
    Compare,
    /// It is stored as what changed since an earlier one.
    Delta(&'a DeltaSettings),
}

impl CheckpointSettings {
    /// Returns what is done with each checkpoint of a point, in this order: of a series that cvc takes, or of one that the program writes itself.
    pub fn stages(&self, point: &Point) -> Vec<StagePlan<'_>> {
        let taker = point.checkpointer;
        let moment = point.moment.as_ref().unwrap_or(&self.moment);
        let is_series = (taker.is_driven() && moment.is_compared())
            || (taker.has_own_files() && self.own_series);
        if !is_series {
            return Vec::new();
        }
        let delta = self.deltas.as_ref().map(StagePlan::Delta);
        std::iter::once(StagePlan::Compare).chain(delta).collect()
    }

    /// Returns how the checkpoints of a point are stored as deltas, if they are.
    pub fn deltas_of(&self, point: &Point) -> Option<&DeltaSettings> {
        self.stages(point)
            .into_iter()
            .find_map(|stage| match stage {
                StagePlan::Delta(deltas) => Some(deltas),
                StagePlan::Compare => None,
            })
    }
}
