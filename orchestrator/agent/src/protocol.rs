//! The messages between controller and agent.

use camino::Utf8PathBuf;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::Outcome;
use cvc_core::point::PlannedPoint;
use cvc_core::store::OutcomeFile;
use cvc_engine::attempt::{AttemptResult, Found, SiteContext, Task};
use cvc_os::proc::ProcessId;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Version of the protocol; a spool of another version is refused.
pub const PROTOCOL: u32 = 3;

/// The orders of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// [`PROTOCOL`] of the controller.
    pub protocol: u32,
    /// The context of the runs.
    pub context: SiteContext,
    /// The points of this site; the agent reports which of them can run.
    pub points: Vec<PlannedPoint>,
    /// Path of `cvc-node` on the nodes.
    pub program: Utf8PathBuf,
    /// Time without a controller and without a run under way after which the agent ends, seconds.
    #[serde(deserialize_with = "duration_s")]
    pub idle_s: f64,
}

/// Reads a number of seconds that is a duration.
fn duration_s<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let expected =
        |_| serde::de::Error::custom(format!("expected a duration in seconds, found {seconds}"));
    Duration::try_from_secs_f64(seconds)
        .map_err(expected)
        .map(|_| seconds)
}

/// A request of a controller. Requests have names, and each name is carried out once.
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
    /// The controller has fetched this attempt: remove its directory.
    Forget {
        /// Which run.
        run: RunId,
        /// Its dispatch.
        dispatch: u32,
        /// Attempt.
        attempt: u32,
    },
    /// Report once more how attempts ended, if they have: events were damaged.
    Report {
        /// Which attempts.
        of: Vec<AwaitedAttempt>,
    },
    /// Cut off running attempts, end everything on all nodes, and exit.
    Close,
}

/// One handing over of a run to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DispatchId {
    /// Which run.
    pub run: RunId,
    /// Number of the dispatch.
    pub dispatch: u32,
}

impl DispatchId {
    /// Returns the dispatch that a task belongs to.
    pub fn of_task(task: &Task) -> Self {
        Self {
            run: task.planned.id.clone(),
            dispatch: task.dispatch,
        }
    }

    /// Returns the name of the request for it.
    pub fn request_name(&self) -> String {
        format!("run-{}-{}", self.run, self.dispatch)
    }

    /// Parses the name of a request; `None` if it requests no attempt.
    pub(super) fn from_request_name(name: &str) -> Option<Self> {
        let (run, dispatch) = name.strip_prefix("run-")?.rsplit_once('-')?;
        Some(Self {
            run: RunId::from_written(run),
            dispatch: dispatch.parse().ok()?,
        })
    }
}

/// An attempt whose end a controller waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedAttempt {
    /// Its dispatch.
    #[serde(flatten)]
    pub id: DispatchId,
    /// Attempt.
    pub attempt: u32,
}

impl AwaitedAttempt {
    /// Returns the attempt that a task is for.
    pub fn of_task(task: &Task) -> Self {
        Self {
            id: DispatchId::of_task(task),
            attempt: task.attempt,
        }
    }
}

/// An event that an agent reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// An agent starts: what earlier ones reported about themselves no longer holds.
    Began {
        /// Number of the last event before this one; 0 if there is none, or in a log of an earlier version.
        #[serde(default)]
        after: u64,
    },
    /// A preparation step: one line for people.
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
        /// The installed software, to compare with the lock file.
        found: Found,
    },
    /// It cannot work.
    Unable {
        /// Why, and how to fix it.
        reason: String,
    },
    /// An attempt has begun.
    Started {
        /// Its dispatch.
        #[serde(flatten)]
        id: DispatchId,
        /// Its shepherd on the head.
        #[serde(flatten)]
        shepherd: ProcessId,
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
        /// Its dispatch.
        #[serde(flatten)]
        id: DispatchId,
        /// How it ended, as in its directory.
        #[serde(flatten)]
        file: OutcomeFile,
    },
    /// An attempt was cut off on request; nothing of it is left.
    Interrupted {
        /// Its dispatch.
        #[serde(flatten)]
        id: DispatchId,
    },
    /// An attempt was lost with an earlier agent, or this one is being ended; it does not count.
    Lost {
        /// Its dispatch.
        #[serde(flatten)]
        id: DispatchId,
        /// Why.
        reason: String,
        /// The agent's job reached its time limit, and the run had had the whole job.
        time_limit: bool,
    },
    /// A node is silent, and takes no runs until it answers again.
    NodeLost {
        /// Which node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The cloud is about to reclaim a node: it takes no more runs, and its present run goes on until it or the node ends.
    NodeLeaving {
        /// Which node.
        node: String,
        /// When; `None` if the cloud's notice has no readable time.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leaves_at: Option<jiff::Timestamp>,
        /// The cloud's action: `terminate`, `stop`, `hibernate`.
        action: String,
    },
    /// A lost node is back.
    NodeBack {
        /// Which node.
        node: String,
    },
    /// The agent is about to end: it cuts off running attempts.
    Closing {
        /// Why.
        reason: String,
    },
    /// The agent ends and has left nothing running.
    Closed {
        /// Why.
        reason: String,
    },
}

impl Event {
    /// Reports how an attempt ended.
    pub(super) fn end_of(attempt: AwaitedAttempt, result: AttemptResult) -> Self {
        let AwaitedAttempt { id, attempt } = attempt;
        match result {
            AttemptResult::Ended(file) => Self::Finished { id, file },
            AttemptResult::Interrupted => Self::Interrupted { id },
            AttemptResult::Lost { reason, time_limit } => Self::Lost {
                id,
                reason,
                time_limit,
            },
            AttemptResult::Failed { cause, detail } => Self::Finished {
                id,
                file: OutcomeFile {
                    attempt,
                    outcome: Outcome::Failed { cause, detail },
                    records: None,
                    wall_s: 0.0,
                    manifest: None,
                },
            },
        }
    }
}

/// A line of `events.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Numbered {
    /// From 1, without gaps but for those in front of [`Began`](Event::Began).
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
    fn seconds_that_are_no_duration_are_refused() {
        let read = |text: &str| {
            duration_s(&mut serde_json::Deserializer::from_str(text)).map_err(|e| e.to_string())
        };
        assert_eq!((read("0"), read("3600.5")), (Ok(0.0), Ok(3600.5)));
        for text in ["-1", "1e300", "1.8446744073709552e19"] {
            assert!(
                read(text).is_err_and(|e| e.starts_with("expected a duration in seconds, found ")),
                "{text}: {:?}",
                read(text)
            );
        }
    }

    #[test]
    fn a_node_that_leaves_is_read_back() {
        let at: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let event = Event::NodeLeaving {
            node: "n2".into(),
            leaves_at: Some(at),
            action: "terminate".into(),
        };
        let line = serde_json::to_string(&Numbered { seq: 1, at, event }).expect("JSON");
        // an event's fields are at the same level as those of its line
        let read: Numbered = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(
            matches!(read.event, Event::NodeLeaving { leaves_at: Some(l), .. } if l == at),
            "{read:?}"
        );
    }
}
