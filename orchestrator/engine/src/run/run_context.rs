//! What is known of a run before it starts.

use super::nodes::AllocatedNodes;
use camino::Utf8PathBuf;
use cvc_core::app::descriptor::Descriptor;
use cvc_core::campaign::CheckpointSettings;
use cvc_core::ids::RunId;
use cvc_core::point::Point;

/// What is known of a run before it starts.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The run.
    pub id: RunId,
    /// Its point.
    pub point: Point,
    /// Its application.
    pub app: Descriptor,
    /// The program of it.
    pub program: Utf8PathBuf,
    /// When and how its checkpoints are taken.
    pub checkpoint: CheckpointSettings,
    /// Its directory, still called `.partial`.
    pub dir: Utf8PathBuf,
    /// Its working directory in the storage area.
    pub work: Utf8PathBuf,
    /// Its short private directory, on every node.
    pub tmp: Utf8PathBuf,
    /// Its nodes.
    pub used: AllocatedNodes,
    /// Time limit, seconds.
    pub timeout_s: f64,
}
