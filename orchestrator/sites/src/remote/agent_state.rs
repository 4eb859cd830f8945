//! The state of an agent, computed from its events. Tasks that wait for attempts are notified of its changes.

use super::outbox::Outbox;
use cvc_agent::{AwaitedAttempt, DispatchId, Event, Numbered, REHEARSED, Request};
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::OutcomeFile;
use cvc_engine::attempt::{FoundComponents, Task};
use cvc_os::proc::ProcessId;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::Notify;

/// Causes of failure that may be a side effect of the job's end, which removes ranks and nodes one by one.
pub(super) const DOUBTFUL: [Cause; 4] = [
    Cause::NodeLost,
    Cause::Launch,
    Cause::Application,
    Cause::EndedFromOutside,
];

/// How an attempt ended, according to the agent.
#[derive(Clone, Debug)]
pub(super) enum AttemptEnd {
    Finished(OutcomeFile),
    Interrupted,
    Lost {
        reason: String,
        time_limit: bool,
    },
    /// The agent or its job ended in a way that counts as the run's failure.
    Failed(Cause, String),
    /// The agent cannot work, for this reason.
    Unable(String),
}

impl AttemptEnd {
    pub fn lost(reason: &str) -> Self {
        Self::Lost {
            reason: reason.to_owned(),
            time_limit: false,
        }
    }

    /// Returns whether the attempt may have ended because its machines ended, not by its own failure.
    pub fn is_doubtful(&self) -> bool {
        match self {
            Self::Finished(OutcomeFile {
                outcome: Outcome::Failed { cause, .. },
                ..
            }) => DOUBTFUL.contains(cause),
            Self::Finished(_) | Self::Interrupted | Self::Unable(_) => false,
            Self::Lost { .. } | Self::Failed(..) => true,
        }
    }

    /// Returns whether a node, the agent or the job was lost.
    pub fn is_loss_of_node(&self) -> bool {
        match self {
            Self::Finished(OutcomeFile {
                outcome: Outcome::Failed { cause, .. },
                ..
            })
            | Self::Failed(cause, _) => *cause == Cause::NodeLost,
            Self::Finished(_) | Self::Interrupted | Self::Unable(_) => false,
            Self::Lost { .. } => true,
        }
    }

    /// Returns the end of an attempt that was under way when its agent ended.
    pub fn over(over: &AgentEnd) -> Self {
        match over.cause {
            Some(cause) => Self::Failed(cause, over.detail.clone()),
            None => Self::lost(&over.detail),
        }
    }
}

/// How an agent has ended for good.
#[derive(Clone, Debug)]
pub(super) struct AgentEnd {
    /// Cause of failure for the runs that were under way; `None` if these runs must be repeated.
    pub cause: Option<Cause>,
    pub detail: String,
}

/// The nodes and software of an agent.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Number of cores of each node; if nodes differ, of the smallest node.
    pub cores: u32,
    /// Reasons why points cannot run on these nodes.
    pub obstacles: BTreeMap<PointId, String>,
    /// Software found on the nodes.
    pub found: FoundComponents,
}

#[derive(Debug, Default)]
pub(super) struct AgentConnection {
    /// Number of the last event received.
    pub seq: u64,
    /// Whether all events from before the current connection have been received.
    pub replayed: bool,
    pub ready: Option<Ready>,
    /// The nodes and software that the agent reported last; kept after the agent has ended.
    pub was_ready: Option<Ready>,
    /// The reason why the agent cannot work.
    pub unable: Option<String>,
    /// Whether the agent is about to end.
    pub going: bool,
    /// Whether the agent's job was requeued.
    pub requeued: bool,
    /// The reason why the agent has ended, if it has.
    pub closed: Option<String>,
    /// Shepherd process of each attempt on the head node.
    pub started: HashMap<DispatchId, ProcessId>,
    pub stage: HashMap<RunId, String>,
    pub ended: HashMap<DispatchId, AttemptEnd>,
    /// Number of each attempt that was requested and has not ended, by identifier of the dispatch.
    pub awaited: HashMap<DispatchId, u32>,
    /// Whether lost events were skipped.
    pub has_missed: bool,
    /// Time since the agent's last heartbeat, as the relay sees it, seconds.
    pub silent_s: f64,
    /// Lost nodes, with the reason.
    pub lost: BTreeMap<String, String>,
    /// Nodes that the cloud is about to reclaim, with its notice.
    pub leaving: BTreeMap<String, String>,
    /// Requests that are not yet confirmed to be in the spool.
    pub outbox: Outbox,
    /// Whether the agent was asked to end. Then no other agent is started in its place.
    pub closing: bool,
    /// How the agent has ended for good, if it has.
    pub over: Option<AgentEnd>,
}

/// Events of an agent that were not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its events {} to {} did not arrive", after.saturating_add(1), before.saturating_sub(1))]
pub(super) struct MissingEvents {
    /// Number of the last event received before the missing ones.
    after: u64,
    /// Number of the first event after the missing ones.
    before: u64,
}

/// The state of an agent, with notifications of its changes.
#[derive(Debug)]
pub(super) struct AgentState {
    state: Mutex<AgentConnection>,
    changed: Notify,
    /// Notified when a request waits to be sent.
    pub outgoing: Notify,
}

impl AgentState {
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            outgoing: Notify::new(),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, AgentConnection> {
        self.state.lock()
    }

    /// Changes the state, and notifies the tasks that wait for changes.
    pub fn change<T>(&self, change: impl FnOnce(&mut AgentConnection) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_waiters();
        changed
    }

    /// Waits until `probe` returns a value, and returns it.
    pub async fn wait<T>(&self, mut probe: impl FnMut(&AgentConnection) -> Option<T>) -> T {
        loop {
            // subscribe before testing, so that later changes trigger a notification
            let changed = self.changed.notified();
            if let Some(found) = probe(&self.state()) {
                return found;
            }
            changed.await;
        }
    }

    /// Queues a request, which is stored in the spool exactly once.
    pub fn ask(&self, name: String, request: Request) {
        self.change(|state| state.outbox.add(name, request));
        self.outgoing.notify_one();
    }

    /// Requests an attempt from the agent.
    pub fn run(&self, task: &Task) {
        let attempt = AwaitedAttempt::of_task(task);
        let has_missed = self.change(|state| {
            state.awaited.insert(attempt.id.clone(), attempt.attempt);
            state.has_missed
        });
        self.ask(
            attempt.id.request_name(),
            Request::Run(Box::new(task.clone())),
        );
        if has_missed {
            // the attempt may have ended in an event that did not arrive
            self.ask_for_ends(vec![attempt]);
        }
    }

    /// Discards an attempt, and requests that the agent remove its files.
    pub fn forget(&self, AwaitedAttempt { id, attempt }: AwaitedAttempt) {
        self.change(|state| {
            state.started.remove(&id);
            state.ended.remove(&id);
            state.stage.remove(&id.run);
            state.awaited.remove(&id);
        });
        let DispatchId { run, dispatch } = id;
        self.ask(
            format!("forget-{run}-{dispatch}"),
            Request::Forget {
                run,
                dispatch,
                attempt,
            },
        );
    }

    /// Applies an event, unless it was applied before. Returns the message for the user, if the event has one.
    ///
    /// # Errors
    /// Events before this one were not received.
    pub fn apply_event(&self, numbered: Numbered) -> Result<Option<String>, MissingEvents> {
        self.change(|state| {
            if numbered.seq <= state.seq {
                return Ok(None);
            }
            // an agent that starts again continues the numbering from `after`
            let before = if let Event::Began { after } = numbered.event {
                after
            } else {
                numbered.seq - 1
            };
            if before > state.seq {
                return Err(MissingEvents {
                    after: state.seq,
                    before: before.saturating_add(1),
                });
            }
            state.seq = numbered.seq;
            Ok(state.apply(numbered.event))
        })
    }

    /// Requests that the agent report again how these attempts ended. The request's name is unique among all controllers.
    fn ask_for_ends(&self, of: Vec<AwaitedAttempt>) {
        self.ask(
            format!("report-{}", cvc_core::clock::wall().as_nanosecond()),
            Request::Report { of },
        );
    }

    /// Returns whether the directory of a finished attempt is on the site.
    pub fn has_finished(&self) -> bool {
        self.state()
            .ended
            .values()
            .any(|ended| matches!(ended, AttemptEnd::Finished(_)))
    }

    /// Returns the events up to number `last` that were not received.
    pub fn missing_up_to(&self, last: u64) -> Option<MissingEvents> {
        let after = self.state().seq;
        (after < last).then_some(MissingEvents {
            after,
            before: last.saturating_add(1),
        })
    }

    /// Returns a damaged event as a missing one: its number is that of the last event received plus one.
    pub fn damaged(&self) -> MissingEvents {
        let after = self.state().seq;
        MissingEvents {
            after,
            before: after.saturating_add(2),
        }
    }

    /// Skips lost events, and requests that the agent report again how the awaited attempts ended.
    pub fn do_without(&self, missing: MissingEvents) {
        let of = self.change(|state| {
            state.seq = state.seq.max(missing.before - 1);
            state.has_missed = true;
            state
                .awaited
                .iter()
                .map(|(id, attempt)| AwaitedAttempt {
                    id: id.clone(),
                    attempt: *attempt,
                })
                .collect()
        });
        self.ask_for_ends(of);
    }
}

impl AgentConnection {
    /// Applies an event. Returns the message for the user, if the event has one.
    fn apply(&mut self, event: Event) -> Option<String> {
        match event {
            Event::Began { .. } => {
                self.ready = None;
                self.unable = None;
                self.closed = None;
            }
            Event::Note { what } => return Some(what),
            Event::Ready {
                nodes,
                cores,
                obstacles,
                found,
            } => self.begin_anew(Ready {
                nodes,
                cores,
                obstacles,
                found,
            }),
            Event::Unable { reason } => self.unable = Some(reason),
            Event::Started { id, shepherd } => {
                self.started.insert(id, shepherd);
            }
            Event::Stage { run, stage } => {
                self.stage.insert(run, stage);
            }
            Event::Finished { id, file } => self.settle(id, AttemptEnd::Finished(file)),
            Event::Interrupted { id } => self.settle(id, AttemptEnd::Interrupted),
            Event::Lost {
                id,
                reason,
                time_limit,
            } => self.settle(id, AttemptEnd::Lost { reason, time_limit }),
            Event::NodeLost { node, reason } => {
                let message = format!("node {node} is lost: {reason}");
                self.lost.insert(node, reason);
                return Some(message);
            }
            Event::NodeLeaving {
                node,
                leaves_at,
                action,
            } => {
                let when = leaves_at.map_or_else(|| "soon".to_owned(), |at| format!("at {at}"));
                let who = match action == REHEARSED {
                    true => "it will be taken",
                    false => "the cloud will reclaim it",
                };
                let what = format!("{who} {when} ({action})");
                let message = format!(
                    "node {node}: {what}; no further runs start there, and the current one continues as long as possible"
                );
                self.leaving.insert(node, what);
                return Some(message);
            }
            Event::NodeBack { node } => {
                self.lost.remove(&node);
                self.leaving.remove(&node);
                return Some(format!("node {node} is back"));
            }
            Event::Closing { .. } => self.going = true,
            Event::Closed { reason } => {
                self.closed = Some(reason);
                self.ready = None;
            }
        }
        None
    }

    /// Records the nodes of a new agent, and discards reports of the earlier one.
    fn begin_anew(&mut self, ready: Ready) {
        self.was_ready = Some(ready.clone());
        self.ready = Some(ready);
        self.closed = None;
        self.going = false;
        self.requeued = false;
        self.unable = None;
        self.lost.clear();
        self.leaving.clear();
    }

    /// Records the end of an attempt, whose request need not be sent again.
    fn settle(&mut self, id: DispatchId, ended: AttemptEnd) {
        self.outbox.remove(&id.request_name());
        self.awaited.remove(&id);
        self.ended.insert(id, ended);
    }

    /// Returns the next update about an attempt that was not reported yet; `None` if there is none.
    pub fn next_update(&self, id: &DispatchId, reported: &Reported) -> Option<AttemptUpdate> {
        if let Some(shepherd) = self.started.get(id).filter(|_| !reported.start) {
            return Some(AttemptUpdate::Started(*shepherd));
        }
        let ended = self
            .ended
            .get(id)
            .cloned()
            .or_else(|| self.over.as_ref().map(AttemptEnd::over));
        if let Some(ended) = ended.or_else(|| self.unable.clone().map(AttemptEnd::Unable)) {
            return Some(AttemptUpdate::Ended(ended));
        }
        self.stage
            .get(&id.run)
            .filter(|stage| **stage != reported.stage)
            .cloned()
            .map(AttemptUpdate::Stage)
    }
}

/// What was reported about an attempt until now.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Whether its start was reported.
    pub start: bool,
    /// The last stage reported; empty at first.
    pub stage: String,
}

/// News about an attempt.
#[derive(Debug)]
pub(super) enum AttemptUpdate {
    /// The attempt's shepherd has started.
    Started(ProcessId),
    /// The attempt's current stage.
    Stage(String),
    /// The attempt has ended.
    Ended(AttemptEnd),
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::mapping::Mapping;
    use cvc_core::plan::PlannedRun;
    use cvc_core::point::{Point, Repeat};

    #[test]
    fn damage_after_the_largest_number_is_reported() {
        let agent = AgentState::new();
        let at = "2026-01-02T03:04:05Z".parse().expect("a time");
        agent
            .apply_event(Numbered {
                seq: u64::MAX,
                at,
                event: Event::Began { after: 0 },
            })
            .expect("a new life");
        let missing = agent.damaged();
        assert!(missing.to_string().starts_with("its events"), "{missing}");
        agent.do_without(missing);
    }

    fn run() -> RunId {
        RunId::from_written("r")
    }

    fn id(dispatch: u32) -> DispatchId {
        DispatchId {
            run: run(),
            dispatch,
        }
    }

    fn task() -> Task {
        let point = Point {
            site: "s".into(),
            app: "ep".into(),
            class: "S".into(),
            mapping: Mapping::one_node(1),
            mpi: "mpich".into(),
            storage: "disk".into(),
            ..Point::default()
        };
        let planned = PlannedRun {
            id: run(),
            point: PointId::from_written("p"),
            repeat: Repeat::Measured(1),
            block: None,
        };
        Task {
            planned,
            point,
            attempt: 1,
            dispatch: 0,
            nodes: vec!["n1".into()],
            disk_bytes: None,
            resume: None,
        }
    }

    fn apply_event(agent: &AgentState, seq: u64, event: Event) -> Option<String> {
        agent
            .apply_event(Numbered {
                seq,
                at: jiff::Timestamp::UNIX_EPOCH,
                event,
            })
            .expect("no gap")
    }

    fn ready() -> Event {
        Event::Ready {
            nodes: vec!["n1".into()],
            cores: 4,
            obstacles: BTreeMap::new(),
            found: FoundComponents::default(),
        }
    }

    #[test]
    fn an_event_counts_once_even_if_a_new_connection_repeats_it() {
        let agent = AgentState::new();
        let lost = || Event::NodeLost {
            node: "n1".into(),
            reason: "no beat".into(),
        };
        assert_eq!(
            apply_event(&agent, 1, lost()),
            Some("node n1 is lost: no beat".into())
        );
        assert_eq!(
            apply_event(&agent, 2, Event::NodeBack { node: "n1".into() }),
            Some("node n1 is back".into())
        );
        assert_eq!(apply_event(&agent, 1, lost()), None);
        assert!(agent.state().lost.is_empty());
    }

    #[test]
    fn events_that_did_not_arrive_are_noticed_and_ends_asked_for_if_they_cannot_be_had() {
        let agent = AgentState::new();
        apply_event(&agent, 1, Event::Began { after: 0 });
        let late = || Numbered {
            seq: 4,
            at: jiff::Timestamp::UNIX_EPOCH,
            event: ready(),
        };
        let missing = agent.apply_event(late()).expect_err("a gap");
        assert_eq!(missing.to_string(), "its events 2 to 3 did not arrive");
        assert!(
            agent.state().ready.is_none() && agent.state().seq == 1,
            "it is asked for again from the first that is missing"
        );
        agent.run(&task());
        agent.do_without(missing);
        agent.apply_event(late()).expect("it goes on");
        agent.change(|state| {
            let (run, _) = state.outbox.unsent().expect("the attempt");
            state.outbox.sent(run);
            let (_, report) = state.outbox.unsent().expect("a request for its end");
            assert!(matches!(&report.request, Request::Report { of } if of.len() == 1 && of[0].attempt == task().attempt), "{report:?}");
        });
        // another agent numbers its events independently
        apply_event(&agent, 1 << 20, Event::Began { after: 0 });
        assert_eq!(agent.state().seq, 1 << 20);
    }

    #[test]
    fn what_has_an_end_is_not_asked_for_again() {
        let agent = AgentState::new();
        agent.run(&task());
        agent.run(&task());
        agent.ask("later".into(), Request::Close);
        apply_event(&agent, 1, Event::Interrupted { id: id(0) });
        let state = agent.state();
        assert_eq!(
            state.outbox.unsent().map(|(_, named)| named.name.as_str()),
            Some("later")
        );
        drop(state);
        agent.forget(AwaitedAttempt::of_task(&task()));
        assert!(agent.state().ended.is_empty() && agent.state().stage.is_empty());
    }

    #[test]
    fn another_agent_begins_with_all_nodes_and_keeps_what_has_ended() {
        let agent = AgentState::new();
        apply_event(&agent, 1, ready());
        apply_event(&agent, 2, Event::Interrupted { id: id(0) });
        apply_event(
            &agent,
            3,
            Event::NodeLost {
                node: "n1".into(),
                reason: "no beat".into(),
            },
        );
        apply_event(&agent, 4, Event::Closing { reason: "r".into() });
        apply_event(&agent, 5, Event::Closed { reason: "r".into() });
        assert!(agent.state().ready.is_none() && agent.state().was_ready.is_some());
        apply_event(&agent, 6, Event::Began { after: 0 });
        apply_event(&agent, 7, ready());
        let state = agent.state();
        assert!(
            state.ready.is_some()
                && state.closed.is_none()
                && !state.going
                && state.lost.is_empty()
        );
        assert_eq!(state.ended.len(), 1);
    }

    #[test]
    fn a_start_is_reported_before_an_end_and_an_end_before_a_stage() {
        let agent = AgentState::new();
        let mut reported = Reported::default();
        let next = |reported: &Reported| agent.state().next_update(&id(0), reported);
        assert!(next(&reported).is_none());
        apply_event(
            &agent,
            1,
            Event::Stage {
                run: run(),
                stage: "collecting".into(),
            },
        );
        assert!(
            matches!(next(&reported), Some(AttemptUpdate::Stage(stage)) if stage == "collecting")
        );
        apply_event(&agent, 2, Event::Interrupted { id: id(0) });
        apply_event(
            &agent,
            3,
            Event::Started {
                id: id(0),
                shepherd: ProcessId {
                    pid: 7,
                    start_ticks: 8,
                },
            },
        );
        assert!(matches!(
            next(&reported),
            Some(AttemptUpdate::Started(ProcessId {
                pid: 7,
                start_ticks: 8
            }))
        ));
        reported.start = true;
        assert!(matches!(
            next(&reported),
            Some(AttemptUpdate::Ended(AttemptEnd::Interrupted))
        ));
        // another dispatch of the same run shares only the stage
        assert!(matches!(
            agent.state().next_update(&id(1), &reported),
            Some(AttemptUpdate::Stage(_))
        ));
        reported.stage = "collecting".into();
        assert!(agent.state().next_update(&id(1), &reported).is_none());
        agent.change(|s| {
            s.over = Some(AgentEnd {
                cause: None,
                detail: "gone".into(),
            })
        });
        assert!(matches!(
            agent.state().next_update(&id(1), &reported),
            Some(AttemptUpdate::Ended(AttemptEnd::Lost { .. }))
        ));
    }
}
