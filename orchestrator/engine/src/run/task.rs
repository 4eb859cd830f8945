//! A request for one attempt at a run.

use cvc_core::plan::PlannedRun;

use cvc_core::point::Point;
use cvc_core::store::KeptCheckpoint;
use serde::{Deserialize, Serialize};

/// A request for one attempt at a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The run.
    pub planned: PlannedRun,
    /// Point of the run.
    pub point: Point,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Number of the dispatch, unique among all dispatches of the run, including those that were cut off.
    pub dispatch: u32,
    /// Nodes to use, in the order of the mapping.
    pub nodes: Vec<String>,
    /// Maximum number of bytes that the run needs in its storage area, if known.
    pub disk_bytes: Option<u64>,
    /// The checkpoint of an earlier attempt from which the run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Box<KeptCheckpoint>>,
}
