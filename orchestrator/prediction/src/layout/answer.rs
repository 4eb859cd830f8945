//! The answer to a question about layouts.

use cvc_model::{
    Estimate,
    metadata::{
        Layout,
        cost::{FileCount, LayoutTime, ServerLoad},
        crossing::WinningRange,
        dmtcp::DmtcpOperations,
        stripes::PartialStripes,
    },
};
use serde::Serialize;

/// Operations of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindOperations {
    /// The kind.
    pub kind: String,
    /// Number of operations of this kind for all checkpoints.
    pub count: f64,
}

/// The forecast for a layout with known operations.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutForecast {
    /// The layout.
    pub layout: Layout,
    /// Number of operations for all checkpoints.
    pub operations: Estimate,
    /// Operations by kind.
    pub kinds: Vec<KindOperations>,
    /// Time of all checkpoints.
    pub time: LayoutTime,
    /// Load of the metadata server; null without an interval.
    pub load: Option<ServerLoad>,
    /// Number of files.
    pub files: FileCount,
    /// Stripes that several processes write, for each checkpoint; null without --stripe, and for layouts without a shared file.
    pub stripes: Option<PartialStripes>,
    /// Uncertain facts.
    pub notes: Vec<String>,
}

/// A layout that cannot be predicted.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownLayout {
    /// The layout.
    pub layout: Layout,
    /// The reason why the layout cannot be predicted.
    pub reason: String,
}

/// Operations of DMTCP's images for one checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct DmtcpForecast {
    /// Operations on the checkpoint directory.
    #[serde(flatten)]
    pub operations: DmtcpOperations,
    /// Seconds of the operations of one checkpoint.
    pub operations_s: f64,
    /// Seconds of the operations with node-local storage and a later copy to shared storage.
    pub copied_behind_s: f64,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct LayoutAnswer {
    /// Source of the operations.
    pub source: String,
    /// The recommendation, in a sentence.
    pub sentence: String,
    /// The layouts, the fastest first.
    pub layouts: Vec<LayoutForecast>,
    /// Layouts that cannot be predicted.
    pub unknown: Vec<UnknownLayout>,
    /// Layouts with the fewest operations, by the number of nodes.
    pub by_nodes: Vec<WinningRange>,
    /// Layouts with the fewest operations, by the number of checkpoints.
    pub by_checkpoints: Vec<WinningRange>,
    /// Operations of DMTCP's images; only with --dmtcp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dmtcp: Option<DmtcpForecast>,
    /// Notes about the counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
