//! A site of several machines, as the coordinator uses it.

use super::{
    gate::{Gate, SHORT},
    hub::{Ended, Hub, Ready},
    pump::Pump,
};
use crate::{
    agent::{Orders, PROTOCOL, Request},
    host::{HostError, SshHost, Target, ssh::Notice},
    ids::RunId,
    paths,
    point::PlannedPoint,
    run::{Attempted, Brief, EngineError, News, OutcomeFile, Task, Teller, Wishes, seal, stop_now},
    spec::{Cluster, HostEntry, SshSettings},
    store::{CampaignDir, StoreError},
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_probe::proc::ProcessId;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// An agent that nobody needs goes after so long, seconds.
const IDLE_S: f64 = 3600.0;
/// How long an agent may take from its start to its first word about the nodes.
const READY_LIMIT: Duration = Duration::from_secs(900);
/// How long it may take to end everything.
const CLOSE_LIMIT: Duration = Duration::from_secs(90);
/// How long a host may be away while something is wanted of it.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A site of several machines.
pub(crate) struct Remote {
    pub name: String,
    pub cluster: Cluster,
    gate: Gate,
    root: Utf8PathBuf,
    program: Utf8PathBuf,
    hub: Arc<Hub>,
    pump: JoinHandle<()>,
    dir: CampaignDir,
    notes: mpsc::UnboundedSender<String>,
    ready: Ready,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// What a site is opened with.
pub(crate) struct Opening {
    pub brief: Brief,
    pub points: Vec<PlannedPoint>,
    pub dir: CampaignDir,
    /// `cvc-node` on this machine.
    pub program: Utf8PathBuf,
    pub notes: mpsc::UnboundedSender<String>,
}

fn resolved(ssh: &SshSettings, base: &Utf8Path) -> SshSettings {
    let resolve = |path: &Option<String>| path.as_ref().map(|p| paths::expand_below(base, p).into_string());
    SshSettings { config: resolve(&ssh.config), known_hosts: resolve(&ssh.known_hosts), host_keys: ssh.host_keys }
}

/// The machine where the spool is.
fn gate(name: &str, cluster: &Cluster, base: &Utf8Path, notes: &mpsc::UnboundedSender<String>) -> Gate {
    let entry: Option<&HostEntry> = match &cluster.slurm {
        Some(_) => cluster.head.as_ref(),
        None => cluster.head.as_ref().or(cluster.hosts.first()),
    };
    let Some(entry) = entry else { return Gate::Here };
    let notes = notes.clone();
    let tell = move |notice: Notice| {
        // nobody listens any more when the campaign has ended
        let _ = notes.send(notice.to_string());
    };
    Gate::Ssh(SshHost::with_listener(Target::new(name, entry, &resolved(&cluster.ssh, base)), Arc::new(tell)))
}

impl Remote {
    /// Puts cvc there and starts an agent, or finds the one that is at work for this campaign already; waits until it has its nodes. `None`
    /// when the user wanted to stop meanwhile: then nothing is left there.
    pub async fn open(opening: Opening, mut wishes: Wishes) -> Result<Option<Self>, EngineError> {
        let Opening { brief, points, dir, program, notes } = opening;
        let name = brief.name.clone();
        let broken = |what: &str| EngineError::Site { site: name.clone(), problem: what.to_owned() };
        let cluster = brief.site.cluster.clone().ok_or_else(|| broken("it has no machines"))?;
        let gate = gate(&name, &cluster, &brief.base, &notes);
        let note = |what: String| {
            let _ = notes.send(what);
        };
        note(format!("{name}: connecting to {}", gate.name()));
        if let Gate::Ssh(host) = &gate {
            host.connect().await?;
            host.set_patience(PATIENCE);
        }
        let base = gate.expand(&cluster.base).await?;
        let binary = std::fs::read(&program).map_err(StoreError::io("read", &program))?;
        let there = base.join("bin").join(format!("cvc-node-{}", &blake3::hash(&binary).to_hex()[..16]));
        // two controllers, or two campaigns of one name in different places, must not meet
        let machine = nix::unistd::gethostname().ok().and_then(|h| h.into_string().ok()).unwrap_or_default();
        let identity = blake3::hash(format!("{machine}:{}", dir.root()).as_bytes()).to_hex();
        let root = base.join("spool").join(format!("{}-{}", brief.campaign, &identity[..8])).join(&name);
        let prepare = "mkdir -p \"$1\" \"$2\" && chmod 700 \"$2\" && if [ -x \"$3\" ]; then echo there; fi";
        let bin = base.join("bin");
        let made = gate.run(&["sh", "-c", prepare, "sh", bin.as_str(), root.as_str(), there.as_str()], SHORT).await?;
        if made.code != Some(0) {
            return Err(broken(&format!(
                "cannot make {root} on {}: {}; set `base` to a directory where you may write",
                gate.name(),
                made.stderr.trim()
            )));
        }
        if made.stdout.trim() != "there" {
            note(format!("{name}: cvc-node to {}", gate.name()));
            gate.upload(&program, &there, |what| note(format!("{name}: {what}"))).await?;
        }
        let orders = Orders { protocol: PROTOCOL, brief, points, program: there.clone(), idle_s: IDLE_S };
        let text = serde_json::to_vec(&orders).map_err(|e| broken(&e.to_string()))?;
        let orders_file = root.join("orders.json");
        let mut remote = Self {
            name: name.clone(),
            hub: Arc::new(Hub::new()),
            pump: tokio::spawn(async {}),
            dir,
            notes: notes.clone(),
            ready: Ready::default(),
            cluster,
            gate,
            root,
            program: there,
        };
        let old = remote.gate.get(&orders_file).await?;
        if old.as_deref().is_some_and(|old| old != text) {
            // the campaign was changed: whoever works by the old orders goes first
            note(format!("{name}: the campaign was changed; its old agent is closed"));
            remote.start_pump();
            remote.close().await?;
            remote.hub = Arc::new(Hub::new());
            remote.clean().await?;
        }
        if old.as_deref() != Some(text.as_slice()) {
            remote.gate.run(&["mkdir", "-p", remote.root.as_str()], SHORT).await?;
            remote.gate.put(&text, &orders_file).await?;
        }
        let started = remote.gate.run(&[remote.program.as_str(), "start", remote.root.as_str()], SHORT).await?;
        if started.code != Some(0) {
            return Err(broken(&cannot_start(&started.stderr)));
        }
        remote.start_pump();
        let waiting = remote.hub.wait(|s| s.unable.clone().map(Err).or_else(|| s.ready.clone().map(Ok)));
        let waited = tokio::select! {
            waited = tokio::time::timeout(READY_LIMIT, waiting) => waited,
            () = stop_now(&mut wishes) => {
                remote.close().await?;
                remote.clean().await?;
                return Ok(None);
            }
        };
        match waited {
            Ok(Ok(ready)) => remote.ready = ready,
            Ok(Err(reason)) => {
                remote.clean().await?;
                return Err(broken(&reason));
            }
            Err(_) => return Err(broken(&format!("its nodes were not ready within {} s", READY_LIMIT.as_secs()))),
        }
        note(format!("{name}: {} nodes are ready: {}", remote.ready.nodes.len(), remote.ready.nodes.join(", ")));
        Ok(Some(remote))
    }

    fn start_pump(&mut self) {
        self.pump.abort();
        let pump = Pump {
            gate: self.gate.clone(),
            program: self.program.clone(),
            root: self.root.clone(),
            agent_is_here: self.cluster.slurm.is_none(),
            hub: Arc::clone(&self.hub),
            notes: self.notes.clone(),
        };
        self.pump = tokio::spawn(pump.work());
    }

    /// What the agent found.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Nodes that are heard of, in the order of mappings.
    pub fn nodes(&self) -> Vec<String> {
        let lost = self.hub.state().lost.clone();
        self.ready.nodes.iter().filter(|n| !lost.contains_key(*n)).cloned().collect()
    }

    /// Waits until so many nodes are heard of that are not in use, and gives their names.
    pub fn free_nodes(&self, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        let free: Vec<String> = self.nodes().into_iter().filter(|n| !used.contains(n)).take(wanted).collect();
        (free.len() == wanted).then_some(free)
    }

    /// Waits until nodes were lost or came back.
    pub async fn nodes_changed(&self, before: usize) {
        self.hub.wait(|s| (self.ready.nodes.len() - s.lost.len().min(self.ready.nodes.len()) != before).then_some(())).await;
    }

    /// One attempt there, until its directory is here and has its final name.
    pub async fn attempt(&self, task: &Task, mut wishes: Wishes, teller: &Teller) -> Result<Attempted, EngineError> {
        let (run, lap) = (task.planned.id.clone(), task.lap);
        self.hub.run(task);
        let key = (run.clone(), lap);
        let mut told_start = false;
        let mut told_stage = String::new();
        let ended = loop {
            enum Seen {
                Started(u32, u64),
                Stage(String),
                Ended(Ended),
                Over(String),
            }
            let next = self.hub.wait(|state| {
                if !told_start && let Some((pid, ticks)) = state.started.get(&key) {
                    return Some(Seen::Started(*pid, *ticks));
                }
                if let Some(ended) = state.ended.get(&key) {
                    return Some(Seen::Ended(ended.clone()));
                }
                if let Some(why) = &state.over {
                    return Some(Seen::Over(why.clone()));
                }
                state.stage.get(&run).filter(|s| **s != told_stage).map(|s| Seen::Stage(s.clone()))
            });
            tokio::select! {
                seen = next => match seen {
                    Seen::Started(pid, start_ticks) => {
                        told_start = true;
                        teller.tell(News::Started(ProcessId { pid, start_ticks }));
                    }
                    Seen::Stage(stage) => {
                        teller.stage(&stage);
                        told_stage = stage;
                    }
                    Seen::Ended(ended) => break ended,
                    Seen::Over(reason) => break Ended::Lost(reason),
                },
                () = stop_now(&mut wishes) => {
                    self.hub.ask(format!("stop-{run}-{lap}"), Request::Stop { run: run.clone() });
                    let over = self.hub.wait(|s| s.ended.get(&key).cloned());
                    let over = tokio::time::timeout(CLOSE_LIMIT, over).await;
                    break over.unwrap_or_else(|_| Ended::Lost("it was to be stopped, and did not answer".into()));
                }
            }
        };
        match ended {
            Ended::Interrupted => Ok(Attempted::Interrupted),
            Ended::Lost(reason) => Ok(Attempted::Lost { reason }),
            Ended::Finished(file) => {
                self.fetch(&run, &file).await?;
                Ok(Attempted::Ended(file))
            }
        }
    }

    /// Brings the directory of an attempt here, verifies it, and gives it its final name.
    async fn fetch(&self, run: &RunId, file: &OutcomeFile) -> Result<(), EngineError> {
        let there = CampaignDir::at(&self.root);
        let from = match &file.outcome {
            crate::journal::Outcome::Succeeded => there.run(run),
            crate::journal::Outcome::Failed { .. } => there.failed(run, file.attempt),
        };
        let partial = self.dir.partial(run);
        for attempt in 1.. {
            if partial.exists() {
                std::fs::remove_dir_all(&partial).map_err(StoreError::io("remove", &partial))?;
            }
            std::fs::create_dir_all(&partial).map_err(StoreError::io("make", &partial))?;
            let brought = self.gate.download(&from, &partial, |what| {
                let _ = self.notes.send(format!("{run}: {what}"));
            });
            let wrong = match brought.await {
                Ok(()) => match verify(&partial, file) {
                    Ok(()) => break,
                    Err(wrong) => wrong,
                },
                Err(error @ HostError::File { .. }) => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            if attempt >= 5 {
                return Err(EngineError::Site { site: self.name.clone(), problem: format!("cannot bring {from} here: {wrong}") });
            }
            tokio::time::sleep(Duration::from_secs(attempt)).await;
        }
        seal(&self.dir, run, file)?;
        Ok(())
    }

    /// The controller has written down how an attempt ended: what lies there of it can go.
    pub fn forget(&self, task: &Task) {
        let (run, lap, attempt) = (task.planned.id.clone(), task.lap, task.attempt);
        self.hub.ask(format!("forget-{run}-{lap}"), Request::Forget { run, lap, attempt });
    }

    /// Ends the agent and everything that it started, and waits for that.
    pub async fn close(&self) -> Result<(), EngineError> {
        self.hub.change(|s| s.over = Some("the campaign closes the site".into()));
        self.hub.ask(format!("close-{}", uuid()), Request::Close);
        let closed = self.hub.wait(|s| s.closed.clone());
        let closed = async {
            tokio::select! {
                _ = closed => true,
                () = self.gone() => true,
            }
        };
        match tokio::time::timeout(CLOSE_LIMIT, closed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(EngineError::Leftover {
                site: self.name.clone(),
                what: format!("the agent in {} on {} did not end within {} s", self.root, self.gate.name(), CLOSE_LIMIT.as_secs()),
            }),
        }
    }

    /// Waits until no agent is alive.
    async fn gone(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let asked = self.gate.run(&[self.program.as_str(), "alive", self.root.as_str()], SHORT).await;
            if asked.is_ok_and(|o| o.code == Some(1)) {
                return;
            }
        }
    }

    /// Removes the spool.
    pub async fn clean(&self) -> Result<(), EngineError> {
        let root = self.root.as_str();
        let script = "rm -rf \"$1\" && rmdir \"$(dirname \"$1\")\" 2>/dev/null; [ ! -e \"$1\" ]";
        let removed = self.gate.run(&["sh", "-c", script, "sh", root], SHORT).await?;
        if removed.code == Some(0) {
            return Ok(());
        }
        Err(EngineError::Leftover { site: self.name.clone(), what: format!("{root} on {}: {}", self.gate.name(), removed.stderr.trim()) })
    }
}

fn cannot_start(stderr: &str) -> String {
    let said = stderr.trim();
    if said.contains("GLIBC_") {
        return format!(
            "cvc-node does not start there, because its C library is older than this machine's ({said}); build a static one with \
             RUSTFLAGS='-C target-feature=+crt-static' and --target, and name it in CVC_NODE_PROGRAM"
        );
    }
    if said.contains("Exec format error") {
        return format!(
            "cvc-node does not start there: another kind of processor ({said}); build it for that one and name it in CVC_NODE_PROGRAM"
        );
    }
    format!("the agent cannot be started: {said}")
}

/// Whether a directory is whole and what its agent told.
fn verify(dir: &Utf8Path, file: &OutcomeFile) -> Result<(), String> {
    let text = std::fs::read(dir.join("outcome.json")).map_err(|e| format!("outcome.json: {e}"))?;
    let here: OutcomeFile = serde_json::from_slice(&text).map_err(|e| format!("outcome.json: {e}"))?;
    if here != *file {
        return Err("its outcome is not what the agent told".into());
    }
    if let Some(digest) = &file.records {
        let records = std::fs::read(dir.join("records.jsonl")).map_err(|e| format!("records.jsonl: {e}"))?;
        if blake3::hash(&records).to_hex()[..16] != **digest {
            return Err("records.jsonl has another digest than the agent told".into());
        }
    }
    Ok(())
}

/// Something that no other request is called.
fn uuid() -> String {
    format!("{}-{}", std::process::id(), jiff::Timestamp::now().as_microsecond())
}
