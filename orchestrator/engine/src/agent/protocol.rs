//! What controller and agent say to each other.

use crate::attempt::{Found, SiteContext, Task};
use camino::Utf8PathBuf;
use cvc_core::{
    ids::{PointId, RunId},
    outcome::Outcome,
    point::PlannedPoint,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of the protocol; a spool of another one is refused.
pub const PROTOCOL: u32 = 1;

/// What an agent is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// [`PROTOCOL`] of the controller.
    pub protocol: u32,
    /// What the runs depend on.
    pub context: SiteContext,
    /// The points that are meant for this site: of each the agent says whether it can run.
    pub points: Vec<PlannedPoint>,
    /// Where `cvc-node` lies on the nodes.
    pub program: Utf8PathBuf,
    /// Without a controller and without a run under way, the agent ends after so long, seconds.
    pub idle_s: f64,
}

/// What a controller asks for. A request has a name, and one of a name that was given before is not done again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Carry out one attempt.
    Run(Box<Task>),
    /// Cut an attempt off: nothing of it remains.
    Stop {
        /// Which run.
        run: RunId,
    },
    /// The controller has what it needs of this attempt: its directory can go.
    Forget {
        /// Which run.
        run: RunId,
        /// Its dispatch.
        dispatch: u32,
        /// Attempt.
        attempt: u32,
    },
    /// Cut off what is under way, end everything on all nodes, and go.
    Close,
}

/// What an agent tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// An agent begins: what earlier ones said of themselves does not hold any more.
    Began,
    /// It is getting ready: one line for people.
    Note {
        /// What it does.
        what: String,
    },
    /// It takes runs.
    Ready {
        /// Nodes that answer, in the order of mappings.
        nodes: Vec<String>,
        /// Cores of the smallest of them.
        cores: u32,
        /// Points that cannot run here, with the reason.
        obstacles: BTreeMap<PointId, String>,
        /// What is installed, to be held against the lock file.
        found: Found,
    },
    /// It cannot work.
    Unable {
        /// Why, and how to fix it.
        reason: String,
    },
    /// An attempt has begun.
    Started {
        /// Which run.
        run: RunId,
        /// Its dispatch.
        dispatch: u32,
        /// Process of its shepherd on the head.
        pid: u32,
        /// Start time of that process in kernel ticks.
        start_ticks: u64,
    },
    /// What a run does now.
    Stage {
        /// Which run.
        run: RunId,
        /// The stage.
        stage: String,
    },
    /// An attempt has ended; its directory is whole.
    Finished {
        /// Which run.
        run: RunId,
        /// Its dispatch.
        dispatch: u32,
        /// Attempt.
        attempt: u32,
        /// How it ended.
        outcome: Outcome,
        /// Digest of its records.
        records: Option<String>,
        /// Its wall time, seconds.
        wall_s: f64,
    },
    /// An attempt was cut off on request; nothing of it is left.
    Interrupted {
        /// Which run.
        run: RunId,
        /// Its dispatch.
        dispatch: u32,
    },
    /// An attempt was lost with an earlier agent, or this one is being ended; it does not count.
    Lost {
        /// Which run.
        run: RunId,
        /// Its dispatch.
        dispatch: u32,
        /// Why.
        reason: String,
        /// The job that the agent is in reached its time limit, and the run had had it for itself from the beginning.
        time_limit: bool,
    },
    /// A node is not heard of any more, and takes no runs until it is.
    NodeLost {
        /// Which node.
        node: String,
        /// What was seen.
        reason: String,
    },
    /// The cloud takes a node back: it takes no runs any more, and what runs there goes on until it ends or the node goes.
    NodeLeaving {
        /// Which node.
        node: String,
        /// When; `None` if the cloud has not said it in a way that is understood.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leaves_at: Option<jiff::Timestamp>,
        /// What becomes of it: `terminate`, `stop`, `hibernate`.
        action: String,
    },
    /// A lost node is there again.
    NodeBack {
        /// Which node.
        node: String,
    },
    /// The agent is about to go: what is under way is cut off.
    Closing {
        /// Why.
        reason: String,
    },
    /// The agent goes, and has left nothing running.
    Closed {
        /// Why.
        reason: String,
    },
}

/// A line of `events.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Numbered {
    /// From 1, without gaps.
    pub seq: u64,
    /// When, by the head's clock.
    pub at: jiff::Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_leaves_is_read_back() {
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let event = Event::NodeLeaving { node: "n2".into(), leaves_at: Some(at), action: "terminate".into() };
        let line = serde_json::to_string(&Numbered { seq: 1, at, event }).expect("JSON");
        // names of an event's fields stand beside those of its line
        let read: Numbered = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(matches!(read.event, Event::NodeLeaving { leaves_at: Some(l), .. } if l == at), "{read:?}");
    }
}
