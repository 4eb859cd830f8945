//! The messages between controller and agent.

use camino::Utf8PathBuf;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::Outcome;
use cvc_core::point::PlannedPoint;
use cvc_core::store::OutcomeFile;
use cvc_engine::attempt::{AttemptResult, FoundComponents, SiteContext, Task};
use cvc_os::proc::ProcessId;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Version of the protocol. A spool with another version is refused.
pub const PROTOCOL: u32 = 8;

/// Value of [`Event::NodeLeaving`]'s `action` for a rehearsed notice.
pub const REHEARSED: &str = "rehearsed";

/// What a controller gives an agent before its first run: the content of `orders.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// [`PROTOCOL`] of the controller.
    pub protocol: u32,
    /// The context of the runs.
    pub context: SiteContext,
    /// The points that are assigned to this site; the agent reports which of them can run.
    pub points: Vec<PlannedPoint>,
    /// Path of `cvc-node` on the nodes.
    pub program: Utf8PathBuf,
    /// Idle time, without a controller and without a run, after which the agent ends, seconds.
    #[serde(deserialize_with = "duration_s")]
    pub idle_s: f64,
}

/// Deserializes a number of seconds. Fails if the number is not a valid duration, for example negative.
fn duration_s<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let expected =
        |_| serde::de::Error::custom(format!("expected a duration in seconds, found {seconds}"));
    Duration::try_from_secs_f64(seconds)
        .map_err(expected)
        .map(|_| seconds)
}

/// A request of a controller. Each request has a name, and is carried out once per name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// Carry out one attempt.
    Run(Box<Task>),
    /// End the run's attempt immediately, and remove its files.
    Stop {
        /// The run.
        run: RunId,
    },
    /// The controller has fetched this attempt: remove its directory.
    Forget {
        /// The run.
        run: RunId,
        /// Number of the dispatch.
        dispatch: u32,
        /// Number of the attempt.
        attempt: u32,
    },
    /// Repeat the events that reported the ends of these attempts, because the controller received damaged events. Attempts that are still running
    /// are skipped.
    Report {
        /// The attempts.
        of: Vec<AwaitedAttempt>,
    },
    /// Rehearse that a cloud announces the reclaim of a node.
    Announce {
        /// The node.
        node: String,
        /// Time until the node is reclaimed, seconds.
        notice_s: f64,
        /// Who takes the node away at that time. If true, the agent ends the processes on the node and treats the node as lost for a while.
        is_taken_by_agent: bool,
    },
    /// Cut off running attempts, end everything on all nodes, and exit.
    Close,
}

/// One dispatch of a run: the controller gives the run to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DispatchId {
    /// The run.
    pub run: RunId,
    /// Number of the dispatch.
    pub dispatch: u32,
}

impl DispatchId {
    /// Returns the dispatch of a task.
    pub fn of_task(task: &Task) -> Self {
        Self {
            run: task.planned.id.clone(),
            dispatch: task.dispatch,
        }
    }

    /// Returns the name of the dispatch's request.
    pub fn request_name(&self) -> String {
        format!("run-{}-{}", self.run, self.dispatch)
    }

    /// Parses the name of a request; `None` if the request is not for an attempt.
    pub(super) fn from_request_name(name: &str) -> Option<Self> {
        let (run, dispatch) = name.strip_prefix("run-")?.rsplit_once('-')?;
        Some(Self {
            run: RunId::from_written(run),
            dispatch: dispatch.parse().ok()?,
        })
    }
}

/// An attempt whose end the controller waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedAttempt {
    /// Dispatch of the attempt.
    #[serde(flatten)]
    pub id: DispatchId,
    /// Number of the attempt.
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
    /// An agent starts. Facts that earlier agents reported about themselves are no longer valid.
    Began {
        /// Number of the last readable event before this event; 0 if there is none, or if an earlier version of cvc wrote this event.
        #[serde(default)]
        after: u64,
    },
    /// A preparation step begins: one line of display text.
    Note {
        /// Text of the line.
        what: String,
    },
    /// The agent accepts runs.
    Ready {
        /// Nodes that answer, in the order in which mappings use them.
        nodes: Vec<String>,
        /// Smallest number of cores of any of these nodes.
        cores: u32,
        /// Points that cannot run here, each with the reason.
        obstacles: BTreeMap<PointId, String>,
        /// The installed software, to compare with the lock file.
        found: FoundComponents,
    },
    /// The agent cannot work.
    Unable {
        /// The reason, and how to fix it.
        reason: String,
    },
    /// An attempt has begun.
    Started {
        /// Dispatch of the attempt.
        #[serde(flatten)]
        id: DispatchId,
        /// The attempt's shepherd, a process on the head node.
        #[serde(flatten)]
        shepherd: ProcessId,
    },
    /// A run has entered a stage.
    Stage {
        /// The run.
        run: RunId,
        /// The stage.
        stage: String,
    },
    /// An attempt has ended, and its directory is complete.
    Finished {
        /// Dispatch of the attempt.
        #[serde(flatten)]
        id: DispatchId,
        /// How the attempt ended, as in the outcome file of its directory.
        #[serde(flatten)]
        file: OutcomeFile,
    },
    /// An attempt was cut off on request, and nothing of it is left.
    Interrupted {
        /// Dispatch of the attempt.
        #[serde(flatten)]
        id: DispatchId,
    },
    /// An attempt was lost because its agent has ended or is ending. The attempt is not counted.
    Lost {
        /// Dispatch of the attempt.
        #[serde(flatten)]
        id: DispatchId,
        /// The reason.
        reason: String,
        /// Whether the agent's Slurm job reached its time limit although the run had the whole job's time.
        time_limit: bool,
    },
    /// A node does not answer, and gets no runs until it answers again.
    NodeLost {
        /// The node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The cloud is about to reclaim a node. The node gets no more runs; its current run continues until the run or the node ends.
    NodeLeaving {
        /// The node.
        node: String,
        /// Time of the reclaim; `None` if the cloud's notice has no readable time.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leaves_at: Option<jiff::Timestamp>,
        /// The cloud's action: `terminate`, `stop` or `hibernate`; [`REHEARSED`] in a rehearsal.
        action: String,
    },
    /// A lost node answers again.
    NodeBack {
        /// The node.
        node: String,
    },
    /// The agent is about to end, and cuts off running attempts.
    Closing {
        /// The reason.
        reason: String,
    },
    /// The agent ends and has left nothing running.
    Closed {
        /// The reason.
        reason: String,
    },
}

impl Event {
    /// Returns the event that reports the end of an attempt.
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
                    kept: None,
                },
            },
        }
    }
}

/// A line of `events.jsonl`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Numbered {
    /// Number of the event, from 1, without gaps except in front of [`Began`](Event::Began).
    pub seq: u64,
    /// Time of the event, by the head node's clock.
    pub at: jiff::Timestamp,
    /// The event.
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
        // an event's fields are at the same level as `seq` and `at`
        let read: Numbered = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(
            matches!(read.event, Event::NodeLeaving { leaves_at: Some(l), .. } if l == at),
            "{read:?}"
        );
    }
}
