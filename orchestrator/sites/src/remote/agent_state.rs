//! The known state of an agent, folded from its events; tasks that carry out attempts wait for its changes.

use super::outbox::Outbox;
use cvc_agent::{AwaitedAttempt, DispatchId, Event, Numbered, Request};
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::OutcomeFile;
use cvc_engine::attempt::{Found, Task};
use cvc_os::proc::ProcessId;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use tokio::sync::Notify;

/// Failures that may really be the end of the job, which takes ranks and nodes away one by one.
pub(super) const DOUBTFUL: [Cause; 4] = [
    Cause::NodeLost,
    Cause::Launch,
    Cause::Application,
    Cause::EndedFromOutside,
];

/// How an attempt ended, from the agent.
#[derive(Clone, Debug)]
pub(super) enum AttemptEnd {
    Finished(OutcomeFile),
    Interrupted,
    Lost {
        reason: String,
        time_limit: bool,
    },
    /// Its agent or job ended in a way that is the run's failure.
    Failed(Cause, String),
    /// The next agent cannot work.
    Unable(String),
}

impl AttemptEnd {
    pub fn lost(reason: &str) -> Self {
        Self::Lost {
            reason: reason.to_owned(),
            time_limit: false,
        }
    }

    /// Whether it may be the end of the machines instead of the run's own.
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

    /// Whether a node, the agent or the job was lost.
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

    /// The meaning of an agent's end for an attempt under way.
    pub fn over(over: &AgentEnd) -> Self {
        match over.cause {
            Some(cause) => Self::Failed(cause, over.detail.clone()),
            None => Self::lost(&over.detail),
        }
    }
}

/// An agent has ended for good.
#[derive(Clone, Debug)]
pub(super) struct AgentEnd {
    /// The failure of the runs under way; `None` if they must be repeated.
    pub cause: Option<Cause>,
    pub detail: String,
}

/// The nodes and software that an agent has.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// Their names.
    pub nodes: Vec<String>,
    /// Cores of each node: those of the smallest.
    pub cores: u32,
    /// Why a point cannot run there.
    pub obstacles: BTreeMap<PointId, String>,
    /// The software that was found.
    pub found: Found,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Number of the last event.
    pub seq: u64,
    /// Whether all events from before the connection have been received.
    pub replayed: bool,
    pub ready: Option<Ready>,
    /// The last report of an agent that was ready.
    pub was_ready: Option<Ready>,
    /// The reason why the agent cannot work.
    pub unable: Option<String>,
    /// Whether the agent is about to end.
    pub going: bool,
    /// Whether its job was requeued.
    pub requeued: bool,
    /// The reason why the agent has ended, if it has.
    pub closed: Option<String>,
    /// Process of a run's shepherd on the head node, and the stage of the run.
    pub started: HashMap<DispatchId, ProcessId>,
    pub stage: HashMap<RunId, String>,
    pub ended: HashMap<DispatchId, AttemptEnd>,
    /// Attempts that were handed over and have no end, with their numbers.
    pub awaited: HashMap<DispatchId, u32>,
    /// Whether events were done without.
    pub has_missed: bool,
    /// Time since the agent's last heartbeat, as the relay sees it, seconds.
    pub silent_s: f64,
    /// Nodes that are lost.
    pub lost: BTreeMap<String, String>,
    /// Nodes that the cloud is about to reclaim, and its notice.
    pub leaving: BTreeMap<String, String>,
    /// Requests that must reach the spool.
    pub outbox: Outbox,
    /// Whether it was asked to end: then no other is started.
    pub closing: bool,
    /// How the agent has ended for good, if it has.
    pub over: Option<AgentEnd>,
}

/// Events of an agent that were not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its events {} to {} did not arrive", after.saturating_add(1), before.saturating_sub(1))]
pub(super) struct MissingEvents {
    /// The last that was heard before them.
    after: u64,
    /// The first that was heard after them.
    before: u64,
}

/// The known state of an agent.
#[derive(Debug)]
pub(super) struct AgentState {
    state: Mutex<State>,
    changed: Notify,
    /// Notified when there is something to send.
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

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes the state.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_waiters();
        changed
    }

    /// Waits until a condition holds.
    pub async fn wait<T>(&self, mut probe: impl FnMut(&State) -> Option<T>) -> T {
        loop {
            // what changes after the question is heard of
            let changed = self.changed.notified();
            if let Some(found) = probe(&self.state()) {
                return found;
            }
            changed.await;
        }
    }

    /// Queues a request, which reaches the spool exactly once.
    pub fn ask(&self, name: String, request: Request) {
        self.change(|state| state.outbox.add(name, request));
        self.outgoing.notify_one();
    }

    /// Hands an attempt over.
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
            // it may have ended in an event that did not arrive
            self.ask_for_ends(vec![attempt]);
        }
    }

    /// Forgets an attempt, and has the agent remove what it keeps of it.
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

    /// Takes an event in, unless it was heard before; what is worth telling people.
    ///
    /// # Errors
    /// When events before it were not heard.
    pub fn apply_event(&self, numbered: Numbered) -> Result<Option<String>, MissingEvents> {
        self.change(|state| {
            if numbered.seq <= state.seq {
                return Ok(None);
            }
            // a new life of the agent begins with numbers of its own
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
            Ok(state.take_in(numbered.event))
        })
    }

    /// Asks the agent to report once more how these attempts ended. The name of a request is used once, by whichever controller.
    fn ask_for_ends(&self, of: Vec<AwaitedAttempt>) {
        self.ask(
            format!("report-{}", cvc_core::clock::wall().as_nanosecond()),
            Request::Report { of },
        );
    }

    /// Whether the directory of a finished attempt lies there.
    pub fn has_finished(&self) -> bool {
        self.state()
            .ended
            .values()
            .any(|ended| matches!(ended, AttemptEnd::Finished(_)))
    }

    /// The events up to this one that were not heard.
    pub fn missing_up_to(&self, last: u64) -> Option<MissingEvents> {
        let after = self.state().seq;
        (after < last).then_some(MissingEvents {
            after,
            before: last.saturating_add(1),
        })
    }

    /// The event behind the last one, which arrived damaged.
    pub fn damaged(&self) -> MissingEvents {
        let after = self.state().seq;
        MissingEvents {
            after,
            before: after.saturating_add(2),
        }
    }

    /// Does without events that cannot be had; asks the agent to report the ends of attempts once more.
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

impl State {
    /// What follows from an event; what is worth telling people.
    fn take_in(&mut self, event: Event) -> Option<String> {
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
                let told = format!("node {node} is lost: {reason}");
                self.lost.insert(node, reason);
                return Some(told);
            }
            Event::NodeLeaving {
                node,
                leaves_at,
                action,
            } => {
                let when = leaves_at.map_or_else(|| "soon".to_owned(), |at| format!("at {at}"));
                let what = format!("the cloud will reclaim it {when} ({action})");
                let told = format!(
                    "node {node}: {what}; no more runs begin there, and the present one goes on as long as it can"
                );
                self.leaving.insert(node, what);
                return Some(told);
            }
            Event::NodeBack { node } => {
                self.lost.remove(&node);
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

    /// An agent has its nodes: what an earlier one said of itself does not hold any more.
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

    /// An attempt has an end, and needs not be asked for again.
    fn settle(&mut self, id: DispatchId, ended: AttemptEnd) {
        self.outbox.remove(&id.request_name());
        self.awaited.remove(&id);
        self.ended.insert(id, ended);
    }

    /// The next event of an attempt to report, after those that were reported.
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

/// What was reported of an attempt.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Its start.
    pub start: bool,
    /// The last stage; empty at first.
    pub stage: String,
}

/// Something new of an attempt.
#[derive(Debug)]
pub(super) enum AttemptUpdate {
    /// Its shepherd is alive.
    Started(ProcessId),
    /// What it does now.
    Stage(String),
    /// It has an end.
    Ended(AttemptEnd),
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::mapping::Mapping;
    use cvc_core::plan::PlannedRun;
    use cvc_core::point::{Point, Repeat};

    #[test]
    fn damage_behind_the_largest_number_is_told() {
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
            found: Found::default(),
        }
    }

    #[test]
    fn an_event_counts_once_also_when_a_new_line_tells_it_again() {
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
        // another agent has numbers of its own
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
    fn a_start_is_told_before_an_end_and_an_end_before_a_stage() {
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
        // another dispatch of the same run knows only what it does
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
