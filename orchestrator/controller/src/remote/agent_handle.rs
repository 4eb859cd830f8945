//! A agent to one agent: started over ssh, or in a Slurm job of its own.

use crate::error::CampaignError;
use crate::{
    cloud::Fleet,
    slurm::{Client, End, Found, JobRequest, SlurmError, Stage},
};
use crate::{
    progress::SiteReporter,
    remote::{
        agent_state::{AgentState, DOUBTFUL, Ended, Over, Ready},
        connection::Connection,
        head_node::{HeadNode, SHORT},
    },
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::Cluster,
    ids::RunId,
    journal::{Event, Lease},
    outcome::{Cause, Outcome},
    stop::{StopRequest, StopSignal, stop_now},
};
use cvc_engine::{
    agent::{Orders, Request},
    attempt::{AttemptEvent, AttemptReporter, OutcomeFile, Task},
};
use cvc_probe::proc::ProcessId;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::task::JoinHandle;

/// How long an agent may take from its start to its first site_event about the nodes.
const READY_LIMIT: Duration = Duration::from_secs(900);
/// How long it may take to end everything.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(150);
/// Removing a spool, with what lies in it on a slow file system.
const CLEAN_LIMIT: Duration = Duration::from_secs(1800);
/// Between questions about a job.
const JOB_TICK: Duration = Duration::from_secs(3);
/// What an agent has written last may come so much later than the news of its job's end.
const FLUSH: Duration = Duration::from_millis(1500);
/// So often a job is submitted again that Slurm has forgotten before it ran.
const MOST_FORGOTTEN: u32 = 2;
/// A job that nobody knows is over when its agent was silent for so long, seconds.
const SILENT_S: f64 = 45.0;

/// What all links of a site have in common.
pub(super) struct Setting {
    pub name: String,
    pub cluster: Cluster,
    pub head_node: HeadNode,
    /// `cvc-node`, there.
    pub program: Utf8PathBuf,
    /// Where spools are.
    pub root: Utf8PathBuf,
    pub orders: Orders,
    pub reporter: SiteReporter,
    pub slurm: Option<Client>,
    pub fleet: Option<Arc<Fleet>>,
}

impl Setting {
    pub fn error(&self, problem: impl Into<String>) -> CampaignError {
        CampaignError::Site { site: self.name.clone(), problem: problem.into() }
    }

    /// Makes a spool with its orders; whether another's orders were there.
    async fn make(&self, root: &Utf8Path) -> Result<bool, CampaignError> {
        let text = serde_json::to_vec(&self.orders).map_err(|e| self.error(e.to_string()))?;
        let file = root.join("orders.json");
        let made = self.head_node.run(&["sh", "-c", "mkdir -p \"$1/in\" && chmod 700 \"$1\"", "sh", root.as_str()], SHORT).await?;
        if made.code != Some(0) {
            let hint = "set `base` to a directory where you may write";
            return Err(self.error(format!("cannot make {root} on {}: {}; {hint}", self.head_node.name(), made.stderr.trim())));
        }
        let old = self.head_node.get(&file).await?;
        if old.as_deref() == Some(text.as_slice()) {
            return Ok(false);
        }
        if old.is_some() {
            return Ok(true);
        }
        self.head_node.put(&text, &file).await?;
        Ok(false)
    }

    /// Ranks on one node at most.
    fn most_on_a_node(&self) -> u32 {
        self.orders.points.iter().flat_map(|p| p.point.mapping.node_loads()).max().unwrap_or(1)
    }

    /// Removes a spool.
    pub async fn clean(&self, root: &Utf8Path) -> Result<(), CampaignError> {
        // the directories above it as far as they are this campaign's and empty
        let script = "rm -rf \"$1\"; up=$(dirname \"$1\"); while [ \"$(basename \"$up\")\" != spool ] && rmdir \"$up\" 2>/dev/null; do \
                      up=$(dirname \"$up\"); done; [ ! -e \"$1\" ]";
        let removed = self.head_node.run(&["sh", "-c", script, "sh", root.as_str()], CLEAN_LIMIT).await?;
        if removed.code == Some(0) {
            return Ok(());
        }
        Err(CampaignError::Leftover {
            site: self.name.clone(),
            what: format!("{root} on {}: {}", self.head_node.name(), removed.stderr.trim()),
        })
    }
}

/// A task that ends with whoever holds it.
pub(crate) struct AbortOnDropHandle(pub JoinHandle<()>);

impl Drop for AbortOnDropHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A agent to one agent.
pub(super) struct AgentHandle {
    setting: Arc<Setting>,
    pub root: Utf8PathBuf,
    pub agent_state: Arc<AgentState>,
    _connection: AbortOnDropHandle,
    _job_monitor: Option<AbortOnDropHandle>,
    /// Name of its job.
    job: Option<String>,
    pub ready: Ready,
}

impl AgentHandle {
    fn connection(setting: &Arc<Setting>, root: &Utf8Path, agent_state: &Arc<AgentState>) -> AbortOnDropHandle {
        let connection = Connection {
            head_node: setting.head_node.clone(),
            program: setting.program.clone(),
            root: root.to_owned(),
            agent_is_here: setting.slurm.is_none(),
            agent_state: Arc::clone(agent_state),
            reporter: setting.reporter.clone(),
            starts: Mutex::default(),
        };
        AbortOnDropHandle(tokio::spawn(connection.work()))
    }

    fn new(setting: &Arc<Setting>, root: &Utf8Path, job: Option<String>) -> Self {
        let agent_state = Arc::new(AgentState::new());
        let job_monitor = setting.slurm.as_ref().zip(job.clone()).map(|(client, job)| {
            let job_monitor =
                JobMonitor { client: client.clone(), job, agent_state: Arc::clone(&agent_state), reporter: setting.reporter.clone() };
            AbortOnDropHandle(tokio::spawn(job_monitor.work()))
        });
        Self {
            _connection: Self::connection(setting, root, &agent_state),
            _job_monitor: job_monitor,
            setting: Arc::clone(setting),
            root: root.to_owned(),
            agent_state,
            job,
            ready: Ready::default(),
        }
    }

    /// Starts an agent over ssh, or finds the one that is at work. `None` when the user wanted to stop: then nothing is left there.
    pub async fn by_ssh(setting: &Arc<Setting>, stop_signal: &mut StopSignal) -> Result<Option<Self>, CampaignError> {
        let root = setting.root.clone();
        if setting.make(&root).await? {
            // the campaign was changed: whoever works by the old orders goes first
            setting.reporter.note(format!("{}: the campaign was changed; its old agent is closed", setting.name));
            let old = Self::new(setting, &root, None);
            old.close().await?;
            setting.clean(&root).await?;
            setting.make(&root).await?;
        }
        let started = setting.head_node.run(&[setting.program.as_str(), "start", root.as_str()], SHORT).await?;
        if started.code != Some(0) {
            return Err(setting.error(cannot_start(&started.stderr)));
        }
        Self::new(setting, &root, None).get_ready(stop_signal).await
    }

    /// Ends what an earlier controller had there, and takes everything away.
    pub async fn end_old(setting: &Arc<Setting>, leases: &[Lease]) -> Result<(), CampaignError> {
        setting.reporter.note(format!("{}: nothing is left to run; what is still there is taken away", setting.name));
        if setting.slurm.is_some() {
            for lease in leases.iter().filter(|l| !l.released) {
                Self::end_job(setting, &lease.name, "nothing was left to run").await?;
            }
        } else if setting.head_node.get(&setting.root.join("orders.json")).await?.is_some() {
            Self::new(setting, &setting.root.clone(), None).close().await?;
        }
        setting.clean(&setting.root).await
    }

    /// Gives a job back that nobody wants any more.
    pub async fn end_job(setting: &Setting, job: &str, how: &str) -> Result<(), CampaignError> {
        if let Some(client) = &setting.slurm {
            client.cancel(job, CLOSE_LIMIT).await?;
            setting.reporter.write(Event::LeaseReleased { lease: job.to_owned(), how: how.to_owned() }).await;
        }
        Ok(())
    }

    /// Submits a job with an agent, or finds the one of this name; waits until it has its nodes and the agent is ready.
    pub async fn by_job(
        setting: &Arc<Setting>,
        root: &Utf8Path,
        job: &str,
        nodes: u32,
        resumed: bool,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Self>, CampaignError> {
        let (Some(client), Some(slurm)) = (&setting.slurm, &setting.cluster.slurm) else {
            return Err(CampaignError::internal("a job without Slurm"));
        };
        let mut resumed = resumed;
        // a job of this name that is over, and does not count
        let mut past = None;
        if setting.make(root).await? {
            setting.reporter.note(format!("{}: the campaign was changed; its old job is cancelled", setting.name));
            client.cancel(job, CLOSE_LIMIT).await?;
            past = client.find(job).await?.map(|info| info.id);
            restart_fresh(setting, root, job, resumed, "the campaign was changed").await?;
            resumed = false;
        }
        let request = JobRequest {
            name: job.to_owned(),
            nodes,
            // where nodes are shared, their cores must be asked for
            tasks_per_node: (!slurm.exclusive).then(|| setting.most_on_a_node()),
            dir: root.to_owned(),
            argv: vec!["bash".into(), "-lc".into(), "exec \"$0\" agent \"$1\"".into(), setting.program.to_string(), root.to_string()],
            settings: slurm.clone(),
        };
        let limit = slurm.queue_limit_s.map(Duration::from_secs_f64);
        let mut forgotten = 0;
        loop {
            if !resumed && forgotten == 0 {
                setting
                    .reporter
                    .write(Event::LeaseIntended { lease: job.to_owned(), site: setting.name.clone(), nodes, order: None })
                    .await;
            }
            let id = client.submit_after(&request, past.as_ref()).await?;
            setting.reporter.write(Event::LeaseAcquired { lease: job.to_owned(), job: id.to_string() }).await;
            setting.reporter.note(format!("{}: job {id} ({job}) asks for {nodes} nodes", setting.name));
            let mut told = String::new();
            let tell = |why: String| {
                if told != why {
                    setting.reporter.note(format!("{}: job {id} waits: {why}", setting.name));
                    told = why;
                }
            };
            let waited = tokio::select! {
                waited = client.wait_running(job, limit, tell) => Some(waited),
                _ = stop_signal.wait_for(|w| *w > StopRequest::GoOn) => None,
            };
            match waited {
                Some(Ok(info)) => {
                    setting.reporter.note(format!("{}: job {id} has {}", setting.name, cvc_engine::nodelist::compress(&info.nodes)));
                    return Self::new(setting, root, Some(job.to_owned())).get_ready(stop_signal).await;
                }
                // it ended while no controller was there: what it has done is in its spool
                Some(Err(SlurmError::Ended { state, .. })) if resumed => {
                    let agent = Self::new(setting, root, Some(job.to_owned()));
                    let over = tokio::time::timeout(CLOSE_LIMIT, agent.agent_state.wait(|s| s.over.clone()));
                    let of_use = over.await.is_ok() && agent.agent_state.state().ended.values().any(|e| matches!(e, Ended::Finished(_)));
                    if of_use {
                        setting.reporter.note(format!("{}: job {id} has ended ({state}); what it has done is fetched", setting.name));
                        return Ok(Some(agent.with_what_was_ready()));
                    }
                    setting.reporter.note(format!("{}: job {id} has ended ({state}); another is asked for", setting.name));
                    past = Some(id);
                    restart_fresh(setting, root, job, true, &state).await?;
                    resumed = false;
                }
                // a controller that crashed has forgotten what was just submitted
                Some(Err(SlurmError::Unknown(_))) if forgotten < MOST_FORGOTTEN => {
                    forgotten += 1;
                    setting.reporter.note(format!("{}: Slurm does not know job {id} any more; it is submitted again", setting.name));
                }
                Some(Err(error)) => {
                    release(setting, client, root, job, "it never ran").await?;
                    return Err(error.into());
                }
                None => {
                    release(setting, client, root, job, "the user stopped").await?;
                    return Ok(None);
                }
            }
        }
    }

    fn with_what_was_ready(mut self) -> Self {
        self.ready = self.agent_state.state().was_ready.clone().unwrap_or_default();
        self
    }

    /// Waits until the agent has its nodes.
    async fn get_ready(mut self, stop_signal: &mut StopSignal) -> Result<Option<Self>, CampaignError> {
        let waiting = self.agent_state.wait(|s| {
            if !s.replayed {
                return None;
            }
            let unable = s.unable.clone().or_else(|| s.over.as_ref().map(|o| o.detail.clone()));
            unable.map(Err).or_else(|| s.ready.clone().map(Ok))
        });
        let waited = tokio::select! {
            waited = tokio::time::timeout(READY_LIMIT, waiting) => Some(waited),
            () = stop_now(stop_signal) => None,
        };
        let problem = match waited {
            Some(Ok(Ok(ready))) => {
                self.setting.reporter.note(format!(
                    "{}: {} nodes are ready, {} cores each: {}",
                    self.setting.name,
                    ready.nodes.len(),
                    ready.cores,
                    ready.nodes.join(", ")
                ));
                self.ready = ready;
                return Ok(Some(self));
            }
            Some(Ok(Err(reason))) => Some(reason),
            Some(Err(_)) => Some(format!("its nodes were not ready within {} s", READY_LIMIT.as_secs())),
            None => None,
        };
        self.close().await?;
        self.setting.clean(&self.root).await?;
        problem.map_or(Ok(None), |problem| Err(self.setting.error(problem)))
    }

    /// Its nodes as they are now: a job that was put back into the queue may have got others.
    pub fn nodes(&self) -> Vec<String> {
        self.agent_state.state().ready.as_ref().map_or_else(|| self.ready.nodes.clone(), |r| r.nodes.clone())
    }

    /// Whether runs can be handed over.
    pub fn alive(&self) -> bool {
        self.agent_state.state().over.is_none()
    }

    /// One attempt there, until its end is known.
    pub async fn attempt(&self, task: &Task, stop_signal: &mut StopSignal, reporter: &AttemptReporter) -> Ended {
        let (run, dispatch) = (task.planned.id.clone(), task.dispatch);
        if !self.knows_end(&run, dispatch) {
            self.agent_state.run(task);
        }
        let key = (run.clone(), dispatch);
        let mut told_start = false;
        let mut told_stage = String::new();
        enum Seen {
            Started(u32, u64),
            Stage(String),
            Ended(Ended),
        }
        let ended = loop {
            let next = self.agent_state.wait(|state| {
                if !told_start && let Some((pid, ticks)) = state.started.get(&key) {
                    return Some(Seen::Started(*pid, *ticks));
                }
                if let Some(ended) = state.ended.get(&key) {
                    return Some(Seen::Ended(ended.clone()));
                }
                if let Some(over) = &state.over {
                    return Some(Seen::Ended(Ended::over(over)));
                }
                if let Some(why) = &state.unable {
                    return Some(Seen::Ended(Ended::Unable(why.clone())));
                }
                state.stage.get(&run).filter(|s| **s != told_stage).map(|s| Seen::Stage(s.clone()))
            });
            tokio::select! {
                seen = next => match seen {
                    Seen::Started(pid, start_ticks) => {
                        told_start = true;
                        reporter.tell(AttemptEvent::Started(ProcessId { pid, start_ticks }));
                    }
                    Seen::Stage(stage) => {
                        reporter.stage(&stage);
                        told_stage = stage;
                    }
                    Seen::Ended(ended) => break ended,
                },
                () = stop_now(stop_signal) => {
                    self.agent_state.ask(format!("stop-{run}-{dispatch}"), Request::Stop { run: run.clone() });
                    let over = self.agent_state.wait(|s| s.ended.get(&key).cloned().or_else(|| s.over.as_ref().map(Ended::over)));
                    let over = tokio::time::timeout(CLOSE_LIMIT, over).await;
                    break over.unwrap_or_else(|_| Ended::lost("it was to be stopped, and did not answer"));
                }
            }
        };
        match ended {
            // a job that is being ended takes its nodes and ranks away before its agent knows why
            Ended::Finished(OutcomeFile { attempt, outcome: Outcome::Failed { cause, .. }, .. })
                if DOUBTFUL.contains(&cause) && self.job_is_ending().await =>
            {
                self.forget(&run, dispatch, attempt);
                self.agent_state.change(|s| s.going |= !s.requeued);
                self.lost_with_job("its job was being ended".into(), false).await
            }
            Ended::Lost { time_limit, reason } if self.job.is_some() => self.lost_with_job(reason, time_limit).await,
            other => other,
        }
    }

    /// An attempt was lost in a job: if the job is ending, its end says what that means.
    async fn lost_with_job(&self, reason: String, time_limit: bool) -> Ended {
        // the agent goes on, or another one in the same job that was put back into the queue, or the job is ending
        let over = self.agent_state.wait(|s| {
            let goes_on = !s.going || s.requeued;
            s.over.clone().map(Some).or(goes_on.then_some(None))
        });
        let over = tokio::time::timeout(CLOSE_LIMIT, over).await.ok().flatten();
        match over {
            Some(Over { cause: Some(cause), detail }) => Ended::Failed(cause, detail),
            // it needs longer than jobs may take; one that had not all of the job is done again in the next one
            _ if time_limit => Ended::Failed(Cause::Timeout, reason),
            _ => Ended::Lost { reason, time_limit },
        }
    }

    /// Whether the job of this agent is being ended or put back into the queue, or has been.
    async fn job_is_ending(&self) -> bool {
        let (Some(client), Some(job)) = (&self.setting.slurm, &self.job) else { return false };
        match client.find(job).await {
            Ok(Some(info)) => match info.stage() {
                Stage::Running => false,
                Stage::Waiting => self.agent_state.change(|s| {
                    s.requeued = true;
                    true
                }),
                Stage::Ending | Stage::Ended(_) => true,
            },
            // then what the agent said is all that is known
            Ok(None) | Err(_) => false,
        }
    }

    /// The directory of an attempt is not fetched: it can go.
    pub fn forget(&self, run: &RunId, dispatch: u32, attempt: u32) {
        self.agent_state.ask(format!("forget-{run}-{dispatch}"), Request::Forget { run: run.clone(), dispatch, attempt });
    }

    /// Whether an attempt's end is known already.
    pub fn knows_end(&self, run: &RunId, dispatch: u32) -> bool {
        self.agent_state.state().ended.contains_key(&(run.clone(), dispatch))
    }

    /// Ends the agent and everything that it started, waits for that, and gives the nodes back.
    pub async fn close(&self) -> Result<(), CampaignError> {
        let setting = &self.setting;
        if self.alive() {
            self.agent_state.change(|s| s.closing = true);
            self.agent_state.ask(format!("close-{}-{}", std::process::id(), jiff::Timestamp::now().as_microsecond()), Request::Close);
            let closed = self.agent_state.wait(|s| s.closed.clone().or_else(|| s.over.as_ref().map(|o| o.detail.clone())));
            let closed = async {
                tokio::select! {
                    _ = closed => {}
                    () = self.gone() => {}
                }
            };
            let ended = tokio::time::timeout(CLOSE_LIMIT, closed).await.is_ok();
            self.agent_state.change(|s| s.over.get_or_insert(Over { cause: None, detail: "the campaign closed it".into() }).cause);
            if !ended && self.job.is_none() {
                return Err(CampaignError::Leftover {
                    site: setting.name.clone(),
                    what: format!(
                        "the agent in {} on {} did not end within {} s",
                        self.root,
                        setting.head_node.name(),
                        CLOSE_LIMIT.as_secs()
                    ),
                });
            }
        }
        if let (Some(client), Some(job)) = (&setting.slurm, &self.job) {
            client.cancel(job, CLOSE_LIMIT).await?;
            let how = self.agent_state.state().over.as_ref().map(|o| o.detail.clone()).unwrap_or_default();
            setting.reporter.write(Event::LeaseReleased { lease: job.clone(), how }).await;
        }
        Ok(())
    }

    /// Waits until no agent is alive, where that can be told.
    async fn gone(&self) {
        if self.job.is_some() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let argv = [self.setting.program.as_str(), "alive", self.root.as_str()];
            if self.setting.head_node.run(&argv, SHORT).await.is_ok_and(|o| o.code == Some(1)) {
                return;
            }
        }
    }
}

/// An old job of this name is over: its spool is made again for a new one.
async fn restart_fresh(setting: &Setting, root: &Utf8Path, job: &str, leased: bool, how: &str) -> Result<(), CampaignError> {
    setting.clean(root).await?;
    if leased {
        setting.reporter.write(Event::LeaseReleased { lease: job.to_owned(), how: how.to_owned() }).await;
    }
    setting.make(root).await?;
    Ok(())
}

/// Gives a job's nodes back before anything was done with them.
async fn release(setting: &Setting, client: &Client, root: &Utf8Path, job: &str, how: &str) -> Result<(), CampaignError> {
    client.cancel(job, CLOSE_LIMIT).await?;
    setting.clean(root).await?;
    setting.reporter.write(Event::LeaseReleased { lease: job.to_owned(), how: how.to_owned() }).await;
    Ok(())
}

/// Watches a job.
struct JobMonitor {
    client: Client,
    job: String,
    agent_state: Arc<AgentState>,
    reporter: SiteReporter,
}

impl JobMonitor {
    async fn work(self) {
        let mut told = String::new();
        loop {
            tokio::time::sleep(JOB_TICK).await;
            let over = match self.client.query(&[&self.job]).await.map(|mut found| found.remove(&self.job)) {
                Ok(Some(Found::Known(info))) => match info.stage() {
                    Stage::Ended(end) => {
                        Some(Over { cause: cause(end), detail: ended(&info.id.to_string(), &info.state.to_string(), end) })
                    }
                    Stage::Waiting => {
                        self.agent_state.change(|s| s.requeued = true);
                        self.tell(
                            &mut told,
                            format!("job {} was put back into the queue: {}", info.id, self.client.why_waiting(&info).await),
                        );
                        None
                    }
                    Stage::Running | Stage::Ending => None,
                },
                // a controller that has crashed may have forgotten a job that runs: its agent's beats tell
                Ok(Some(Found::Unknown) | None) if self.agent_state.state().silent_s < SILENT_S => None,
                Ok(Some(Found::Unknown) | None) => Some(Over {
                    cause: None,
                    detail: format!("Slurm does not know the job {} any more, and its agent is silent", self.job),
                }),
                Err(error) => {
                    self.tell(&mut told, error.to_string());
                    None
                }
            };
            if let Some(over) = over {
                tokio::time::sleep(FLUSH).await;
                self.agent_state.change(|s| s.over = Some(over));
                return;
            }
        }
    }

    /// Tells what is new.
    fn tell(&self, told: &mut String, what: String) {
        if *told != what {
            self.reporter.note(what.clone());
            *told = what;
        }
    }
}

/// What a job's end is for the runs that were under way in it. What was none of their doing is no failure of theirs.
fn cause(end: End) -> Option<Cause> {
    match end {
        // the agent ended by itself
        End::Completed | End::Failed | End::LaunchFailed => None,
        // another job was more important
        End::Preempted => None,
        // the agent told before, unless it could not: whether the run had all of the time is not known then
        End::Timeout => None,
        End::Cancelled | End::OutOfMemory | End::NodeFailed => end.cause(),
    }
}

fn ended(id: &str, state: &str, end: End) -> String {
    let what = match end {
        End::Cancelled => "cancelled by somebody else",
        End::Timeout => "ended at its time limit (slurm.time_limit_s)",
        End::OutOfMemory => "ended for want of memory",
        End::NodeFailed => "ended because a node failed",
        End::Preempted => "preempted by another",
        End::Completed | End::Failed | End::LaunchFailed => "over",
    };
    format!("job {id} was {what} ({state})")
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

impl From<SlurmError> for CampaignError {
    fn from(error: SlurmError) -> Self {
        Self::Slurm(Box::new(error))
    }
}
