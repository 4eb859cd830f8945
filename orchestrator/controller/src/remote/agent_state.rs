//! What is known of an agent: folded from its events, waited for by those who carry out attempts.

use cvc_core::{
    ids::{PointId, RunId},
    outcome::{Cause, Outcome},
};
use cvc_engine::{
    agent::{Event, Named, Numbered, Request, request_name},
    attempt::{Found, OutcomeFile, Task},
};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use tokio::sync::{Notify, watch};

/// Failures that may be the end of the job instead: it takes ranks and nodes away one by one.
pub(super) const DOUBTFUL: [Cause; 3] = [Cause::NodeLost, Cause::Launch, Cause::Application];

/// How an attempt ended, as the agent told.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Finished(OutcomeFile),
    Interrupted,
    Lost {
        reason: String,
        time_limit: bool,
    },
    /// What carried it out has ended in a way that is the run's failure.
    Failed(Cause, String),
    /// The agent that was to take over cannot work.
    Unable(String),
}

impl Ended {
    pub fn lost(reason: &str) -> Self {
        Self::Lost { reason: reason.to_owned(), time_limit: false }
    }

    /// Whether it may be the end of the machines instead of the run's own.
    pub fn is_doubtful(&self) -> bool {
        match self {
            Self::Finished(OutcomeFile { outcome: Outcome::Failed { cause, .. }, .. }) => DOUBTFUL.contains(cause),
            Self::Finished(_) | Self::Interrupted | Self::Unable(_) => false,
            Self::Lost { .. } | Self::Failed(..) => true,
        }
    }

    /// Whether a node went, or what carried it out.
    pub fn is_loss_of_node(&self) -> bool {
        match self {
            Self::Finished(OutcomeFile { outcome: Outcome::Failed { cause, .. }, .. }) | Self::Failed(cause, _) => {
                *cause == Cause::NodeLost
            }
            Self::Finished(_) | Self::Interrupted | Self::Unable(_) => false,
            Self::Lost { .. } => true,
        }
    }

    /// What the end of an agent is for an attempt under way.
    pub fn over(over: &Over) -> Self {
        match over.cause {
            Some(cause) => Self::Failed(cause, over.detail.clone()),
            None => Self::lost(&over.detail),
        }
    }
}

/// An agent has ended for good.
#[derive(Clone, Debug)]
pub(super) struct Over {
    /// What that means for the runs that were under way; `None`: they are to be done again.
    pub cause: Option<Cause>,
    pub detail: String,
}

/// What an agent has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    pub nodes: Vec<String>,
    pub cores: u32,
    pub obstacles: BTreeMap<PointId, String>,
    pub found: Found,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Number of the last event.
    pub seq: u64,
    /// Whether all that there was when the line was made has been heard.
    pub replayed: bool,
    pub ready: Option<Ready>,
    /// The last that was known of an agent that was ready, whatever became of it.
    pub was_ready: Option<Ready>,
    /// Why the agent cannot work.
    pub unable: Option<String>,
    /// The agent is about to go.
    pub going: bool,
    /// Its job was put back into the queue.
    pub requeued: bool,
    /// The agent has gone, and why.
    pub closed: Option<String>,
    /// Process of a run's shepherd on the head, and what the run does.
    pub started: HashMap<(RunId, u32), (u32, u64)>,
    pub stage: HashMap<RunId, String>,
    pub ended: HashMap<(RunId, u32), Ended>,
    /// For how long the agent has given no beat, as the relay sees it, seconds.
    pub silent_s: f64,
    /// Nodes that are lost.
    pub lost: BTreeMap<String, String>,
    /// Nodes that the cloud takes back, and what it said.
    pub leaving: BTreeMap<String, String>,
    /// Requests that must reach the spool, again after a reconnection.
    pub asked: VecDeque<Named>,
    /// How many of them were sent over the present connection.
    pub sent: usize,
    /// It is asked to go: another one is not started.
    pub closing: bool,
    /// Why the agent has ended for good.
    pub over: Option<Over>,
}

/// What is known of an agent.
#[derive(Debug)]
pub(super) struct AgentState {
    state: Mutex<State>,
    version: watch::Sender<u64>,
    /// There is something to send.
    pub outgoing: Notify,
}

impl AgentState {
    pub fn new() -> Self {
        Self { state: Mutex::default(), version: watch::channel(0).0, outgoing: Notify::new() }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes what is known.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.version.send_modify(|v| *v += 1);
        changed
    }

    /// Waits until something is known.
    pub async fn wait<T>(&self, mut look: impl FnMut(&State) -> Option<T>) -> T {
        let mut version = self.version.subscribe();
        loop {
            if let Some(found) = look(&self.state()) {
                return found;
            }
            if version.changed().await.is_err() {
                // the sender lives as long as this
                std::future::pending::<()>().await;
            }
        }
    }

    /// Asks for something; it reaches the spool sooner or later, once.
    pub fn ask(&self, name: String, request: Request) {
        self.change(|state| {
            if !state.asked.iter().any(|n| n.name == name) {
                state.asked.push_back(Named { name, request });
            }
        });
        self.outgoing.notify_one();
    }

    /// Hands an attempt over.
    pub fn run(&self, task: &Task) {
        self.ask(request_name(&task.planned.id, task.dispatch), Request::Run(Box::new(task.clone())));
    }

    /// Takes an event in; what is worth telling people.
    pub fn hear(&self, numbered: Numbered) -> Option<String> {
        self.change(|state| {
            if numbered.seq <= state.seq {
                return None;
            }
            state.seq = numbered.seq;
            let settle = |state: &mut State, run: RunId, dispatch: u32, ended: Ended| {
                // what has an end needs not be asked for again
                let name = request_name(&run, dispatch);
                if let Some(at) = state.asked.iter().position(|n| n.name == name) {
                    state.asked.remove(at);
                    state.sent = state.sent.saturating_sub(usize::from(at < state.sent));
                }
                state.ended.insert((run, dispatch), ended);
            };
            match numbered.event {
                Event::Began => {
                    state.ready = None;
                    state.unable = None;
                    state.closed = None;
                }
                Event::Note { what } => return Some(what),
                Event::Ready { nodes, cores, obstacles, found } => {
                    let ready = Ready { nodes, cores, obstacles, found };
                    state.was_ready = Some(ready.clone());
                    state.ready = Some(ready);
                    state.closed = None;
                    state.going = false;
                    state.requeued = false;
                    state.unable = None;
                    state.lost.clear();
                    state.leaving.clear();
                }
                Event::Unable { reason } => state.unable = Some(reason),
                Event::Started { run, dispatch, pid, start_ticks } => {
                    state.started.insert((run, dispatch), (pid, start_ticks));
                }
                Event::Stage { run, stage } => {
                    state.stage.insert(run, stage);
                }
                Event::Finished { run, dispatch, attempt, outcome, records, wall_s } => {
                    settle(state, run, dispatch, Ended::Finished(OutcomeFile { attempt, outcome, records, wall_s }));
                }
                Event::Interrupted { run, dispatch } => settle(state, run, dispatch, Ended::Interrupted),
                Event::Lost { run, dispatch, reason, time_limit } => settle(state, run, dispatch, Ended::Lost { reason, time_limit }),
                Event::NodeLost { node, reason } => {
                    let told = format!("node {node} is lost: {reason}");
                    state.lost.insert(node, reason);
                    return Some(told);
                }
                Event::NodeLeaving { node, leaves_at, action } => {
                    let when = leaves_at.map_or_else(|| "soon".to_owned(), |at| format!("at {at}"));
                    let what = format!("the cloud takes it back {when} ({action})");
                    let told = format!("node {node}: {what}; no run begins there any more, and what runs there goes on as long as it can");
                    state.leaving.insert(node, what);
                    return Some(told);
                }
                Event::NodeBack { node } => {
                    state.lost.remove(&node);
                    return Some(format!("node {node} is back"));
                }
                Event::Closing { .. } => state.going = true,
                Event::Closed { reason } => {
                    state.closed = Some(reason);
                    state.ready = None;
                }
            }
            None
        })
    }
}
