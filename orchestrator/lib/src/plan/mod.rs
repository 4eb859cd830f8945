//! A plan: every run of a campaign in order, every excluded point with its reason. The same file and seed give the same plan, byte for byte.

mod build;
mod digest;
mod estimate;

pub use build::build;
pub use digest::canonical_json;
pub use estimate::{DiskNeed, Estimates, Machines, PointEstimate, estimate};

use crate::{
    ids::{PointId, RunId},
    point::{PlannedPoint, Point, Repeat},
    prediction::Split,
};
use serde::{Deserialize, Serialize};

/// Version of the format of plans, and of what enters the identifiers.
pub const SCHEMA: u32 = 1;

/// What would run, in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of this format.
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
    /// Digest of the point, its resolved inputs and the repeat.
    pub id: RunId,
    /// The point.
    pub point: PointId,
    /// Warm-up or counted repeat.
    pub repeat: Repeat,
}

/// A point that does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Excluded {
    /// The factor values.
    pub point: Point,
    /// Who excludes it.
    pub by: ExcludedBy,
    /// Why, for people.
    pub reason: String,
}

/// Who excludes a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExcludedBy {
    /// An `[[exclude]]` rule of the campaign.
    Rule,
    /// The application: process count, workload.
    Application,
    /// The combination makes no sense (more aggregators than processes, compression without DMTCP, processes against mapping).
    Combination,
    /// A known hazard (Darshan with DMTCP 4.2).
    Hazard,
    /// The site: too few nodes.
    Site,
    /// Something is not installed; found when the site was asked, so not part of the plan file.
    Missing,
}
