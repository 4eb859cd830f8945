//! Facts about a run that are known before it starts.

use super::nodes::AllocatedNodes;
use camino::Utf8PathBuf;
use cvc_core::app::descriptor::Descriptor;
use cvc_core::campaign::CheckpointPlan;
use cvc_core::ids::RunId;
use cvc_core::point::Point;

/// Facts about a run that are known before it starts.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// Identifier of the run.
    pub id: RunId,
    /// Point of the run.
    pub point: Point,
    /// Descriptor of the application.
    pub app: Descriptor,
    /// Path of the application's program.
    pub program: Utf8PathBuf,
    /// When and how checkpoints of the run are taken.
    pub plan: CheckpointPlan,
    /// Directory of the run, whose name still ends in `.partial`.
    pub dir: Utf8PathBuf,
    /// Working directory, in the storage area.
    pub work: Utf8PathBuf,
    /// Directory to which checkpoints are flushed; `None` if they are not flushed.
    pub flush_dir: Option<Utf8PathBuf>,
    /// Short private directory, with the same path on every node.
    pub tmp: Utf8PathBuf,
    /// Nodes of the run.
    pub used: AllocatedNodes,
    /// Time limit, seconds.
    pub timeout_s: f64,
}
