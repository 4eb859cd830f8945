//! What a schedule happens to: machines with agents, attempts, relays and connections, and chance. Everything else is the real cvc.

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

/// Something that several tasks wait for. They are woken in the order in which they began to wait; those of a watch channel of tokio are woken
/// in any order, and a schedule would not follow from its seed.
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

    /// Waits until it is so.
    pub async fn wait_for(&self, is_so: impl Fn(&T) -> bool) {
        loop {
            let changed = self.0.1.notified();
            if is_so(&self.get()) {
                return;
            }
            changed.await;
        }
    }

    /// Whether nobody else has it.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Fine,
    /// Nothing arrives any more, and nobody is told.
    Silent,
    Closed,
}

/// A process of an agent.
pub(crate) struct AgentProcess {
    pub pid: u32,
    pub task: AbortHandle,
    pub terminated: Arc<Notify>,
    pub arrivals: Arc<Notify>,
    /// Its nodes, once it has them.
    pub nodes: Vec<String>,
    /// Those that it has lost.
    pub lost: watch::Sender<LostNodes>,
}

/// An attempt whose processes live, whether or not its agent does.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// The head node and the spool of the agent that began it.
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
    /// Different for each: tells whose result something is.
    pub wall_s: f64,
}

/// A head node with what is on it.
pub(crate) struct Machine {
    /// Whether the head node can be reached.
    pub reachable: Shared<bool>,
    /// Agents by their spools: one for each place where a campaign was opened.
    pub agents: BTreeMap<Utf8PathBuf, AgentProcess>,
    pub connections: Vec<Shared<Line>>,
    pub relays: Vec<AbortHandle>,
    /// How many of the next lines to the controller are damaged.
    pub damage: u32,
    /// How many of the next starts of an agent fail.
    pub bad_starts: u32,
    /// How many of the next attempts that an agent left cannot be ended, because the disk is full.
    pub bad_recoveries: u32,
    /// How far its clock is set off.
    pub clock_off: SignedDuration,
}

pub(crate) struct State {
    pub rng: Rng,
    /// Of what was added later, so that a seed keeps its earlier troubles.
    pub chance: Rng,
    pub machines: BTreeMap<String, Machine>,
    /// Nodes that are down.
    pub down: Shared<BTreeSet<String>>,
    /// Attempts whose processes live, wherever.
    pub live: BTreeMap<RunId, Live>,
    /// Whether the user asked to stop, so that what was not fetched may have been given up.
    pub was_stopped: bool,
    /// Sites whose place was edited, so that their results may have been given up.
    pub moved: BTreeSet<String>,
    pub ended: BTreeMap<RunId, Vec<Ended>>,
    story: Vec<String>,
    wrong: Vec<String>,
    numbers: u32,
}

/// The machines of a schedule.
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

    /// Simulated time since the beginning.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The same as a time of files of a machine, by its clock.
    pub fn file_time(&self, name: &str) -> SystemTime {
        // long after the beginning of time, so that a clock can be set back
        let now = Duration::from_secs(1_000_000_000) + self.now();
        let off = self.machine(name, |machine| machine.clock_off);
        let at = SystemTime::UNIX_EPOCH + now;
        if off.is_negative() {
            at - off.unsigned_abs()
        } else {
            at + off.unsigned_abs()
        }
    }

    /// Adds a line to the story.
    pub fn tell(&self, what: impl AsRef<str>) {
        let line = format!("{:10.3} {}", self.now().as_secs_f64(), what.as_ref());
        self.lock().story.push(line);
    }

    /// Notes that something must never be so.
    pub fn is_wrong(&self, what: impl AsRef<str>) {
        self.tell(format!("WRONG: {}", what.as_ref()));
        self.lock().wrong.push(what.as_ref().to_owned());
    }

    pub fn story(&self) -> (Vec<String>, Vec<String>) {
        let state = self.lock();
        (state.story.clone(), state.wrong.clone())
    }

    /// A number that nothing else has.
    pub fn number(&self) -> u32 {
        let mut state = self.lock();
        state.numbers += 1;
        state.numbers
    }

    /// Whether something with this probability happens now.
    pub fn happens(&self, probability: f64) -> bool {
        self.lock().rng.f64() < probability
    }

    /// A duration within these milliseconds.
    pub fn ms(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.lock().rng.u64(range))
    }

    /// Lets a time within these milliseconds pass.
    pub async fn pause(&self, range: Range<u64>) {
        tokio::time::sleep(self.ms(range)).await;
    }

    /// Something of a machine, which exists.
    pub fn machine<T>(&self, name: &str, of: impl FnOnce(&mut Machine) -> T) -> T {
        let mut state = self.lock();
        let machine = state
            .machines
            .entry(name.to_owned())
            .or_insert_with(Machine::new);
        of(machine)
    }

    /// Nodes that are down, as they change.
    pub fn down(&self) -> Shared<BTreeSet<String>> {
        self.lock().down.clone()
    }

    /// Ends the agents of a machine as `kill -9` does: their attempts' processes live on.
    pub fn kill_agents(&self, name: &str) {
        let agents = self.machine(name, |machine| std::mem::take(&mut machine.agents));
        for agent in agents.values() {
            agent.task.abort();
            self.tell(format!("{name}: agent {} is killed", agent.pid));
        }
    }

    /// Takes the power of a head node: what runs on it ends, and nobody is told.
    pub fn reboot(&self, name: &str) {
        self.kill_agents(name);
        self.machine(name, |machine| {
            machine.relays.drain(..).for_each(|relay| relay.abort());
            machine.set_lines(Line::Silent);
            machine.reachable.set(false);
        });
        self.lock().live.retain(|_, live| live.machine != name);
    }

    /// Whether a node is down; the agents that have it notice.
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

    /// Changes all connections.
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
