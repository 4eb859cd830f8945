//! A plan: every run of a campaign in order, and every excluded point with its reason. The same file and seed give the same plan, byte for byte.

mod build;
mod digest;
mod effect;
mod estimate;
mod selection;

pub use build::build;
pub use effect::without_effect;
pub use estimate::{
    CheckpointBytes, DiskNeed, Estimates, Machines, PointEstimate, estimate, fullest_share,
};
pub use selection::{SelectionError, select_points};

use crate::{
    campaign::Block,
    ids::{PointId, RunId},
    point::{Excluded, PlannedPoint, Repeat},
    quantity::Quantity,
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Version of the format of plans, and of the contents of identifiers.
pub const SCHEMA: u32 = 1;

/// The runs of a campaign, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the format.
    pub schema: u32,
    /// Name of the campaign.
    pub campaign: String,
    /// Seed of the order.
    pub seed: u64,
    /// Every point that runs, in the order of the campaign file.
    pub points: Vec<PlannedPoint>,
    /// Every run, in the order of execution.
    pub runs: Vec<PlannedRun>,
    /// Every point that does not run, in the order of the campaign file.
    pub excluded: Vec<Excluded>,
    /// Training and held-out points, if the campaign file has `[predict]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predict: Option<Split>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRun {
    /// Digest of the point, all inputs on which its results depend, and the repeat.
    pub id: RunId,
    /// The point.
    pub point: PointId,
    /// Warm-up or counted repeat.
    pub repeat: Repeat,
    /// The block that contains the run; `None` if the runs are not divided into blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
}

/// Training and held-out points of models, and the bounds for their errors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Training points.
    pub train: Vec<PointId>,
    /// Held-out points, which are not training points.
    pub held_out: Vec<PointId>,
    /// Maximum mean error over the held-out points of a program and MPI library, percent.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub max_error_pct: IndexMap<Quantity, f64>,
    /// Minimum share of held-out measurements within their prediction interval, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_coverage_pct: Option<f64>,
}
