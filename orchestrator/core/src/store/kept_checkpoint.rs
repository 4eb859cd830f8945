//! A checkpoint that is kept after its attempt.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the directory below an attempt's directory to which the attempt's last checkpoint is copied.
pub const KEPT: &str = "kept-checkpoint";

/// A checkpoint of an interrupted attempt, from which the next attempt can continue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptCheckpoint {
    /// Number of the attempt that took the checkpoint.
    pub attempt: u32,
    /// Place of the checkpoint's files.
    pub place: KeptPlace,
    /// Size of the checkpoint's files, bytes.
    pub bytes: u64,
    /// Wall-clock time of all parts of the run so far, seconds.
    pub wall_s: f64,
    /// Time for which all parts of the run so far occupied their nodes, seconds.
    pub used_s: f64,
    /// The notice of a loss after which the checkpoint was taken; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<NoticeUse>,
    /// Data that the checkpointer needs to continue from the checkpoint.
    pub details: Value,
    /// Data about the files that nodes keep ([`KeptPlace::Nodes`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_nodes: Option<Value>,
}

/// Place of the files of a kept checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeptPlace {
    /// The working directory of the run, on storage that all nodes of the site see.
    Site,
    /// The directory of the attempt ([`KEPT`]), which is copied to the campaign's directory.
    Campaign,
    /// The working directory of the run on its nodes' own storage, with redundancy.
    Nodes,
}

/// How the time between a notice and the announced loss was used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoticeUse {
    /// Time from the notice to the loss, seconds, if the notice states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_s: Option<f64>,
    /// Time from the notice until the checkpoint was in its final place, seconds.
    pub took_s: f64,
}
