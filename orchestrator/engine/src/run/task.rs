//! A request for one attempt at a run.

use cvc_core::plan::PlannedRun;

use cvc_core::point::Point;
use serde::{Deserialize, Serialize};

/// A request for one attempt at a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The run.
    pub planned: PlannedRun,
    /// Its point.
    pub point: Point,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Number of this try among all of the run, those that were cut off included: no other has it.
    pub dispatch: u32,
    /// Nodes to use, in the order of the mapping.
    pub nodes: Vec<String>,
    /// Maximum number of bytes that it needs in its storage area, where that is known.
    pub disk_bytes: Option<u64>,
}
