//! The simulated world of a schedule: machines with agents, attempts, relays and connections, and random events. All other code is that of cvc.

use camino::Utf8PathBuf;
use cvc_agent::LostNodes;
use cvc_core::ids::RunId;
use fastrand::Rng;
use jiff::SignedDuration;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Notify, watch},
    task::AbortHandle,
    time::Instant,
};

/// A value whose changes several tasks wait for. The tasks are woken in the order in which they began to wait. With tokio's watch channel, which
/// wakes tasks in any order, a schedule would not be reproducible from its seed.
#[derive(Clone)]
pub(crate) struct Shared<T>(Arc<(Mutex<T>, Notify)>);

impl<T: Clone + PartialEq> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new((Mutex::new(value), Notify::new())))
    }

    pub fn get(&self) -> T {
        self.0.0.lock().clone()
    }

    pub fn set(&self, value: T) {
        *self.0.0.lock() = value;
        self.0.1.notify_waiters();
    }

    /// Waits until the value satisfies a condition.
    pub async fn wait_for(&self, is_so: impl Fn(&T) -> bool) {
        loop {
            let changed = self.0.1.notified();
            if is_so(&self.get()) {
                return;
            }
            changed.await;
        }
    }

    /// Returns whether no other owner of the value exists.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Fine,
    /// No data arrive, and neither side is notified.
    Silent,
    Closed,
}

/// A process of an agent.
pub(crate) struct AgentProcess {
    pub pid: u32,
    pub task: AbortHandle,
    pub terminated: Arc<Notify>,
    pub arrivals: Arc<Notify>,
    /// Nodes of the agent, once it has them.
    pub nodes: Vec<String>,
    /// The nodes that the agent has lost.
    pub lost: watch::Sender<LostNodes>,
}

/// An attempt whose processes are alive, whether or not its agent is.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// The head node of the agent that began the attempt, and the agent's spool.
    pub machine: String,
    pub root: Utf8PathBuf,
    pub attempt: u32,
    pub dispatch: u32,
    pub nodes: Vec<String>,
}

/// How an attempt really ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub attempt: u32,
    pub succeeded: bool,
    /// Wall time, seconds. It differs for each attempt, so that a result identifies its attempt.
    pub wall_s: f64,
}

/// A head node and its state.
pub(crate) struct Machine {
    /// Whether the head node can be reached.
    pub reachable: Shared<bool>,
    /// Agents by their spools: one for each directory in which a campaign was opened.
    pub agents: BTreeMap<Utf8PathBuf, AgentProcess>,
    pub connections: Vec<Shared<Line>>,
    pub relays: Vec<AbortHandle>,
    /// Number of lines to the controller that will be damaged.
    pub damage: u32,
    /// Number of starts of an agent that will fail.
    pub bad_starts: u32,
    /// Number of attempts of a killed agent that its successors will still fail to end, because the disk is full.
    pub bad_recoveries: u32,
    /// Offset of the machine's clock.
    pub clock_off: SignedDuration,
}

pub(crate) struct State {
    pub rng: Rng,
    /// Random generator for the kinds of faults that were added later. With a separate generator, each seed keeps the faults it had before.
    pub chance: Rng,
    pub machines: BTreeMap<String, Machine>,
    /// Nodes that are down.
    pub down: Shared<BTreeSet<String>>,
    /// Attempts whose processes are alive, on any machine.
    pub live: BTreeMap<RunId, Live>,
    /// Whether the user has stopped a session, so that results which were not fetched may have been given up.
    pub was_stopped: bool,
    /// Sites whose directory or machine was changed by an edit of the campaign file, so that results there may have been given up.
    pub moved: BTreeSet<String>,
    pub ended: BTreeMap<RunId, Vec<Ended>>,
    story: Vec<String>,
    wrong: Vec<String>,
    numbers: u32,
}

/// The simulated world of a schedule.
#[derive(Clone)]
pub(crate) struct World {
    state: Arc<Mutex<State>>,
    begun: Instant,
}

impl World {
    pub fn new(rng: Rng, chance: Rng) -> Self {
        let state = State {
            rng,
            chance,
            machines: BTreeMap::new(),
            down: Shared::new(BTreeSet::new()),
            live: BTreeMap::new(),
            was_stopped: false,
            moved: BTreeSet::new(),
            ended: BTreeMap::new(),
            story: Vec::new(),
            wrong: Vec::new(),
            numbers: 100,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            begun: Instant::now(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the simulated time since the beginning.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the current time for files of a machine, by the machine's clock.
    pub fn file_time(&self, name: &str) -> SystemTime {
        // start at a large time, so that a clock can be set back
        let now = Duration::from_secs(1_000_000_000) + self.now();
        let off = self.machine(name, |machine| machine.clock_off);
        let at = SystemTime::UNIX_EPOCH + now;
        if off.is_negative() {
            at - off.unsigned_abs()
        } else {
            at + off.unsigned_abs()
        }
    }

    /// Adds a line to the story of the schedule.
    pub fn tell(&self, what: impl AsRef<str>) {
        let line = format!("{:10.3} {}", self.now().as_secs_f64(), what.as_ref());
        self.lock().story.push(line);
    }

    /// Records a violation of a condition that must always hold.
    pub fn is_wrong(&self, what: impl AsRef<str>) {
        self.tell(format!("WRONG: {}", what.as_ref()));
        self.lock().wrong.push(what.as_ref().to_owned());
    }

    pub fn story(&self) -> (Vec<String>, Vec<String>) {
        let state = self.lock();
        (state.story.clone(), state.wrong.clone())
    }

    /// Returns a unique number.
    pub fn number(&self) -> u32 {
        let mut state = self.lock();
        state.numbers += 1;
        state.numbers
    }

    /// Decides at random, with this probability, whether something happens.
    pub fn happens(&self, probability: f64) -> bool {
        self.lock().rng.f64() < probability
    }

    /// Returns a random duration in this range of milliseconds.
    pub fn ms(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.lock().rng.u64(range))
    }

    /// Sleeps for a random duration in this range of milliseconds.
    pub async fn pause(&self, range: Range<u64>) {
        tokio::time::sleep(self.ms(range)).await;
    }

    /// Calls `of` with an existing machine, and returns its result.
    pub fn machine<T>(&self, name: &str, of: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.lock();
        let machine = state
            .machines
            .entry(name.to_owned())
            .or_insert_with(Machine::new);
        of(machine)
    }

    /// Returns the set of nodes that are down, which can be watched.
    pub fn down(&self) -> Shared<BTreeSet<String>> {
        self.lock().down.clone()
    }

    /// Ends the agents of a machine like `kill -9`: the processes of their attempts stay alive.
    pub fn kill_agents(&self, name: &str) {
        let agents = self.machine(name, |machine| std::mem::take(&mut machine.agents));
        for agent in agents.values() {
            agent.task.abort();
            self.tell(format!("{name}: agent {} is killed", agent.pid));
        }
    }

    /// Cuts the power of a head node: its processes end without notice.
    pub fn reboot(&self, name: &str) {
        self.kill_agents(name);
        self.machine(name, |machine| {
            machine.relays.drain(..).for_each(|relay| relay.abort());
            machine.set_lines(Line::Silent);
            machine.reachable.set(false);
        });
        self.lock().live.retain(|_, live| live.machine != name);
    }

    /// Sets whether a node is down; agents that use the node notice.
    pub fn set_down(&self, node: &str, is_down: bool) {
        let down = self.down();
        let mut now = down.get();
        if is_down {
            now.insert(node.to_owned())
        } else {
            now.remove(node)
        };
        down.set(now);
        if !is_down {
            return;
        }
        for machine in self.lock().machines.values() {
            for agent in machine
                .agents
                .values()
                .filter(|agent| agent.nodes.iter().any(|of| of == node))
            {
                let lose = |lost: &mut LostNodes| {
                    drop(lost.insert(node.to_owned(), "nothing was heard of it".to_owned()))
                };
                agent.lost.send_modify(lose);
            }
        }
    }
}

impl Machine {
    fn new() -> Self {
        Self {
            reachable: Shared::new(true),
            agents: BTreeMap::new(),
            connections: Vec::new(),
            relays: Vec::new(),
            damage: 0,
            bad_starts: 0,
            bad_recoveries: 0,
            clock_off: SignedDuration::ZERO,
        }
    }

    /// Sets the state of all connections.
    pub fn set_lines(&mut self, line: Line) {
        self.connections.retain(|connection| !connection.is_alone());
        for connection in self
            .connections
            .iter()
            .filter(|connection| connection.get() != Line::Closed)
        {
            connection.set(line);
        }
    }
}
