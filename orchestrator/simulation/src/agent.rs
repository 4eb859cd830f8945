//! Agents: the real code, on simulated nodes.

use crate::world::{AgentProcess, Ended, Live, Machine, World};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::{
    AgentError, Arrivals, Event, EventLog, Head, LostNodes, NodeNotice, Orders, ReadyError, Spool,
    Workplace, serve_on,
};
use cvc_core::clock;
use cvc_core::ids::{RunId, short_digest};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::store::{
    CampaignDir, OUTCOME, OutcomeFile, StoreError, remove_all, sealed_outcome, write_manifest,
};
use cvc_engine::attempt::{
    AttemptEvent, AttemptReporter, AttemptResult, FoundComponents, RunError, Task, seal,
};
use cvc_os::proc::ProcessId;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tokio::sync::{Notify, watch};

/// Decrements a counter; returns false if it is 0 already.
fn take_one(count: &mut u32) -> bool {
    let is_any = *count > 0;
    *count -= u32::from(is_any);
    is_any
}

/// The future of an agent, which runs by its machine's clock.
struct ByClock<F> {
    world: World,
    machine: String,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for ByClock<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let off = self
            .world
            .machine(&self.machine, |machine| machine.clock_off);
        let before = clock::set_off(off);
        let polled = self.work.as_mut().poll(context);
        clock::set_off(before);
        polled
    }
}

/// Starts an agent on a spool, unless one is alive. Returns the agent's message if it does not start.
pub(crate) async fn start(world: &World, name: &str, root: &Utf8Path) -> Result<(), String> {
    let is_alive = |machine: &mut Machine| machine.agents.contains_key(root);
    let bad = world.machine(name, |machine| {
        !is_alive(machine) && take_one(&mut machine.bad_starts)
    });
    if bad {
        return Err("agent.log: the agent ended at once (exit status: 1)".into());
    }
    if world.machine(name, is_alive) {
        return Ok(());
    }
    let pid = world.number();
    let (terminated, arrivals) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let head = OnHead {
        world: world.clone(),
        name: name.to_owned(),
        root: root.to_owned(),
        pid,
        terminated: Arc::clone(&terminated),
        arrivals: Arc::clone(&arrivals),
    };
    let work = {
        let (world, name, root) = (world.clone(), name.to_owned(), root.to_owned());
        async move {
            let ended = serve_on(&head, &root).await;
            world.tell(format!(
                "{name}: agent {pid} ends: {}",
                ended.map_or_else(|e| e.to_string(), |()| "as it should".into())
            ));
            world.machine(&name, |machine| {
                if machine
                    .agents
                    .get(&root)
                    .is_some_and(|agent| agent.pid == pid)
                {
                    machine.agents.remove(&root);
                }
            });
        }
    };
    let task = tokio::spawn(ByClock {
        world: world.clone(),
        machine: name.to_owned(),
        work: Box::pin(work),
    })
    .abort_handle();
    world.tell(format!("{name}: agent {pid} starts"));
    let agent = AgentProcess {
        pid,
        task,
        terminated,
        arrivals,
        nodes: Vec::new(),
        lost: watch::Sender::default(),
    };
    world.machine(name, |machine| {
        machine.agents.insert(root.to_owned(), agent)
    });
    world.pause(20..400).await;
    if world.machine(name, is_alive) {
        Ok(())
    } else {
        Err("agent.log: the agent ended at once".into())
    }
}

/// The simulated machine on which an agent runs.
struct OnHead {
    world: World,
    name: String,
    root: Utf8PathBuf,
    pid: u32,
    terminated: Arc<Notify>,
    arrivals: Arc<Notify>,
}

#[async_trait]
impl Head for OnHead {
    fn process(&self) -> Result<ProcessId, AgentError> {
        Ok(ProcessId {
            pid: self.pid,
            start_ticks: u64::from(self.pid),
        })
    }

    fn terminated(&self) -> Result<Arc<Notify>, AgentError> {
        Ok(Arc::clone(&self.terminated))
    }

    fn arrivals(&self, _: &Spool) -> Arrivals {
        Arrivals::notified_by(Arc::clone(&self.arrivals))
    }

    async fn get_ready(
        &self,
        spool: &Spool,
        orders: &Orders,
        _: bool,
        _: &mut EventLog,
    ) -> Result<(Arc<dyn Workplace>, Event), ReadyError> {
        self.world.pause(100..8_000).await;
        let hosts = orders
            .context
            .site
            .cluster
            .iter()
            .flat_map(|cluster| &cluster.hosts);
        let nodes: Vec<String> = hosts.map(|host| host.name.clone()).collect();
        let down = self.world.down().get();
        let lost: LostNodes = nodes
            .iter()
            .filter(|node| down.contains(*node))
            .map(|node| (node.clone(), "it does not answer".to_owned()))
            .collect();
        // only this agent's channel is used: that of the previous agent is obsolete
        let lost = watch::Sender::new(lost);
        self.world.machine(&self.name, |machine| {
            if let Some(agent) = machine
                .agents
                .get_mut(&self.root)
                .filter(|agent| agent.pid == self.pid)
            {
                agent.nodes.clone_from(&nodes);
                agent.lost = lost.clone();
            }
        });
        let ready = Event::Ready {
            nodes: nodes.clone(),
            cores: 4,
            obstacles: BTreeMap::new(),
            found: FoundComponents::default(),
        };
        let (world, name, root, dir) = (
            self.world.clone(),
            self.name.clone(),
            self.root.clone(),
            spool.campaign(),
        );
        let nodes = OnNodes {
            world,
            name,
            root,
            pid: self.pid,
            nodes,
            lost,
            dir,
            has_failed: AtomicBool::new(false),
        };
        Ok((Arc::new(nodes), ready))
    }

    fn end_leftovers(
        &self,
        _: &Spool,
        _: &Orders,
        task: &Task,
        _: Option<ProcessId>,
    ) -> Result<(), StoreError> {
        end_attempt(&self.world, &self.name, &self.root, &task.planned.id);
        Ok(())
    }
}

/// Ends the processes of an attempt that an agent of this spool began.
fn end_attempt(world: &World, name: &str, root: &Utf8Path, run: &RunId) {
    let mut state = world.lock();
    if state
        .live
        .get(run)
        .is_some_and(|live| live.machine == name && live.root == root)
    {
        state.live.remove(run);
    }
}

struct OnNodes {
    world: World,
    name: String,
    root: Utf8PathBuf,
    pid: u32,
    nodes: Vec<String>,
    lost: watch::Sender<LostNodes>,
    dir: CampaignDir,
    /// Whether an attempt of an earlier agent could not be ended.
    has_failed: AtomicBool,
}

/// How the processes of a simulated attempt end.
enum Course {
    Ends(Outcome),
    CutOff,
}

impl OnNodes {
    /// Simulates the processes of an attempt.
    async fn course(&self, task: &Task, mut stop_signal: StopSignal) -> Course {
        let (length, fails) = {
            let mut state = self.world.lock();
            let seconds = match state.rng.u32(0..10) {
                0 => 0..1,
                1 => 100..600,
                _ => 1..40,
            };
            let ms = state
                .rng
                .u64(seconds.start * 1000 + 30..seconds.end * 1000 + 31);
            (
                std::time::Duration::from_millis(ms),
                state.rng.u32(0..8) == 0,
            )
        };
        let down = self.world.down();
        let is_lost = down.wait_for(|down| task.nodes.iter().any(|node| down.contains(node)));
        let failed = |cause, detail: &str| {
            Course::Ends(Outcome::Failed {
                cause,
                detail: detail.to_owned(),
            })
        };
        tokio::select! {
            biased;
            () = stop_now(&mut stop_signal) => {
                self.world.pause(10..6_000).await;
                Course::CutOff
            }
            () = is_lost => failed(Cause::NodeLost, "a node is lost"),
            () = tokio::time::sleep(length) => {
                if fails { failed(Cause::Application, "exit code 3") } else { Course::Ends(Outcome::Succeeded) }
            }
        }
    }

    /// Writes the directory of an attempt, as the engine does.
    fn write(&self, task: &Task, outcome: Outcome) -> Result<OutcomeFile, StoreError> {
        let (run, attempt) = (&task.planned.id, task.attempt);
        let wall_s = f64::from(self.world.number());
        let partial = self.dir.partial(run);
        remove_all(&partial)?;
        let put = |name: &str, text: &[u8]| {
            fs::write(partial.join(name), text).map_err(StoreError::io("write", partial.join(name)))
        };
        fs::create_dir_all(&partial).map_err(StoreError::io("make", &partial))?;
        let records = format!(
            "{{\"run\":\"{run}\",\"name\":\"wall_s\",\"value\":{wall_s},\"unit\":\"s\",\"source\":\"shepherd\"}}\n"
        );
        put("records.jsonl", records.as_bytes())?;
        let succeeded = outcome == Outcome::Succeeded;
        let manifest = Some(write_manifest(&partial, &[OUTCOME])?);
        let file = OutcomeFile {
            attempt,
            outcome,
            records: succeeded.then(|| short_digest(records.as_bytes())),
            wall_s,
            manifest,
            kept: None,
        };
        put(OUTCOME, &serde_json::to_vec(&file).unwrap_or_default())?;
        seal(&self.dir, run, &file)?;
        self.world
            .lock()
            .ended
            .entry(run.clone())
            .or_default()
            .push(Ended {
                attempt,
                succeeded,
                wall_s,
            });
        Ok(file)
    }
}

#[async_trait]
impl Workplace for OnNodes {
    fn nodes(&self) -> Vec<String> {
        self.nodes.clone()
    }

    fn head(&self) -> &str {
        self.nodes.first().map_or("", String::as_str)
    }

    fn lost(&self) -> watch::Receiver<LostNodes> {
        self.lost.subscribe()
    }

    fn notice(&self) -> Option<NodeNotice> {
        None
    }

    async fn attempt(
        &self,
        task: &Task,
        stop_signal: StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<AttemptResult, RunError> {
        let run = task.planned.id.clone();
        let live = Live {
            machine: self.name.clone(),
            root: self.root.clone(),
            attempt: task.attempt,
            dispatch: task.dispatch,
            nodes: task.nodes.clone(),
        };
        let what = format!(
            "{}: run {run} attempt {} dispatch {}",
            self.name, task.attempt, task.dispatch
        );
        self.world
            .tell(format!("{what} begins on {}", task.nodes.join(" ")));
        let (same, nodes) = {
            let mut state = self.world.lock();
            let shares = |other: &&Live| other.nodes.iter().any(|node| live.nodes.contains(node));
            let nodes = state.live.values().find(shares).cloned();
            (state.live.insert(run.clone(), live), nodes)
        };
        if let Some(other) = same {
            self.world.is_wrong(format!(
                "{what} begins while attempt {} dispatch {} lives",
                other.attempt, other.dispatch
            ));
        } else if let Some(other) = nodes {
            self.world.is_wrong(format!(
                "{what} begins on a node of a run that lives there: {other:?}"
            ));
        }
        self.world.pause(1..300).await;
        reporter.emit(AttemptEvent::Started(ProcessId {
            pid: self.world.number(),
            start_ticks: 1,
        }));
        // events of stages are not synced
        for stage in ["launching", "running", "checkpointing"] {
            reporter.stage(stage);
        }
        let course = self.course(task, stop_signal).await;
        end_attempt(&self.world, &self.name, &self.root, &run);
        match course {
            Course::CutOff => {
                self.world.tell(format!("{what} is cut off"));
                remove_all(&self.dir.partial(&run))?;
                Ok(AttemptResult::Interrupted)
            }
            Course::Ends(outcome) => {
                reporter.stage("collecting");
                self.world.pause(1..2_000).await;
                let file = self.write(task, outcome)?;
                self.world
                    .tell(format!("{what} ends: {:?}, {}", file.outcome, file.wall_s));
                Ok(AttemptResult::Ended(file))
            }
        }
    }

    async fn recover(
        &self,
        task: &Task,
        _: Option<ProcessId>,
    ) -> Result<Option<OutcomeFile>, StoreError> {
        self.world.pause(5..3_000).await;
        let run = &task.planned.id;
        if self
            .world
            .machine(&self.name, |machine| take_one(&mut machine.bad_recoveries))
        {
            self.has_failed.store(true, Ordering::Relaxed);
            let path = self.dir.partial(run);
            return Err(StoreError::Io {
                verb: "write",
                path: path.into(),
                source: io::ErrorKind::StorageFull.into(),
            });
        }
        end_attempt(&self.world, &self.name, &self.root, run);
        let whole = sealed_outcome(&self.dir, run, task.attempt);
        let found = if whole.is_some() { "whole" } else { "cut off" };
        self.world.tell(format!(
            "{}: run {run} attempt {} is recovered: {found}",
            self.name, task.attempt
        ));
        remove_all(&self.dir.partial(run))?;
        Ok(whole)
    }

    async fn bring_back(&self, wanted: BTreeSet<String>) {
        self.world.pause(100..3_000).await;
        let down = self.world.down().get();
        let up: Vec<String> = wanted
            .into_iter()
            .filter(|node| !down.contains(node))
            .collect();
        self.lost.send_if_modified(|lost| {
            up.iter()
                .filter(|node| lost.remove(*node).is_some())
                .count()
                > 0
        });
    }

    async fn clear(&self) -> Vec<String> {
        Vec::new()
    }

    async fn close(&self) {
        self.world.pause(1..500).await;
        // the next agent must end the processes that this one could not
        if self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let live = self.world.lock().live.clone();
        for (run, live) in live
            .iter()
            .filter(|(_, live)| live.machine == self.name && live.root == self.root)
        {
            self.world.is_wrong(format!(
                "{}: agent {} ends while run {run} lives: {live:?}",
                self.name, self.pid
            ));
        }
    }
}
