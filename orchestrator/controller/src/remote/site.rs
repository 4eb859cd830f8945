//! A site of several machines, as the campaign runner uses it.

use crate::error::CampaignError;
use crate::{
    cloud::Fleet,
    slurm::Client,
    ssh::{Notice, SshHost, Target},
};
use crate::{
    progress::{SiteEvent, SiteReporter},
    remote::{
        agent_handle::AgentHandle,
        agent_state::{AgentState, Ended, Over, Ready},
        head_node::{HeadNode, SHORT},
        job_monitor::JobMonitor,
        setting::Setting,
        submission::by_job,
    },
};
use backon::{ExponentialBuilder, Retryable};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::{
    campaign::{Allocation, Cluster},
    hosts::{HostEntry, SshSettings},
    ids::RunId,
    journal::Lease,
    outcome::{Cause, Outcome},
    paths,
    point::PlannedPoint,
    stop::{StopRequest, StopSignal},
    store::{CampaignDir, StoreError},
};
use cvc_engine::{
    agent::{Orders, PROTOCOL, Request},
    attempt::{AttemptReporter, Attempted, OutcomeFile, SiteContext, Task, seal},
    host::HostError,
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Time after which an agent without work ends, seconds.
const IDLE_S: f64 = 3600.0;
/// The same in a job, which holds nodes that others wait for.
const IDLE_IN_JOB_S: f64 = 600.0;
/// How long a host may be away while something is wanted of it.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The same when the campaign is over.
const CLOSE_PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of further attempts to bring a directory here, and the delays between them.
const FETCH_REPEATS: usize = 4;
const FETCH_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_FETCH_PAUSE: Duration = Duration::from_secs(4);
/// Delay between looks at a cloud's instances.
const WATCH_TICK: Duration = Duration::from_secs(10);

/// Why a directory is not here.
enum FetchError {
    /// It did not arrive whole: another attempt may bring it.
    Incomplete(String),
    /// It cannot be written here.
    Here(CampaignError),
}

/// A site of several machines.
pub(crate) struct Remote {
    setting: Arc<Setting>,
    /// Nodes of a job at most: what the points need.
    most_nodes: u32,
    /// The agent that takes runs; with a job for each run there is none.
    agent: Mutex<Option<Arc<AgentHandle>>>,
    /// Held while an agent is made.
    making: tokio::sync::Mutex<()>,
    ready: Ready,
    dir: CampaignDir,
    /// Distinguishes this campaign's jobs from those of any other.
    identity: String,
    jobs: AtomicU32,
    /// Looks at what the cloud takes back.
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Jobs of an earlier controller that have not been taken over yet, where each run has its own.
    old_jobs: Mutex<BTreeSet<String>>,
}

/// What a site is opened with.
pub(crate) struct Opening {
    pub context: SiteContext,
    pub points: Vec<PlannedPoint>,
    pub dir: CampaignDir,
    /// `cvc-node` on this machine.
    pub program: Utf8PathBuf,
    /// Nothing is to be run there: what is still there is ended and taken away.
    pub only_close: bool,
    pub site_events: mpsc::UnboundedSender<SiteEvent>,
    /// Jobs that the campaign had on this site.
    pub leases: Vec<Lease>,
    /// Its machines, if a cloud gave them.
    pub fleet: Option<Arc<Fleet>>,
}

/// Distinguishes campaigns of one name on different machines, or in different directories: they must not meet.
pub(crate) fn identity(dir: &CampaignDir) -> String {
    let machine = paths::host_name().unwrap_or_default();
    cvc_core::ids::digest_prefix(format!("{machine}:{}", dir.root()).as_bytes(), 8)
}

fn resolved(ssh: &SshSettings, base: &Utf8Path) -> SshSettings {
    let resolve = |path: &Option<String>| path.as_ref().map(|p| paths::expand_below(base, p).into_string());
    SshSettings {
        config: resolve(&ssh.config),
        known_hosts: resolve(&ssh.known_hosts),
        host_keys: ssh.host_keys,
        pinned: ssh.pinned.clone(),
    }
}

/// The machine where the spool is.
fn head_node(name: &str, cluster: &Cluster, base: &Utf8Path, reporter: &SiteReporter) -> HeadNode {
    let entry: Option<&HostEntry> = match &cluster.slurm {
        Some(_) => cluster.head.as_ref(),
        None => cluster.head.as_ref().or(cluster.hosts.first()),
    };
    let Some(entry) = entry else { return HeadNode::Here };
    let reporter = reporter.clone();
    let tell = move |notice: Notice| reporter.note(notice.to_string());
    HeadNode::Ssh(SshHost::with_listener(Target::new(name, entry, &resolved(&cluster.ssh, base)), Arc::new(tell)))
}

impl Remote {
    /// Puts cvc there and starts an agent, or finds the one that is at work for this campaign already; waits until it has its nodes. `None`
    /// when the user wanted to stop meanwhile: then nothing is left there.
    #[tracing::instrument(name = "site", skip_all, fields(site = %opening.context.name))]
    pub async fn open(opening: Opening, mut stop_signal: StopSignal) -> Result<Option<Self>, CampaignError> {
        let Opening { context, points, dir, program, only_close, site_events, leases, fleet } = opening;
        let (name, reporter) = (context.name.clone(), SiteReporter(site_events));
        let broken = |what: &str| CampaignError::Site { site: name.clone(), problem: what.to_owned() };
        let cluster = context.site.cluster.clone().ok_or_else(|| broken("it has no machines"))?;
        let head_node = head_node(&name, &cluster, &context.base, &reporter);
        reporter.note(format!("{name}: connecting to {}", head_node.name()));
        if let HeadNode::Ssh(host) = &head_node {
            host.connect().await?;
            host.set_patience(PATIENCE);
        }
        let base = head_node.expand(&cluster.base).await?;
        let binary = std::fs::read(&program).map_err(StoreError::io("read", &program))?;
        let there = base.join("bin").join(format!("cvc-node-{}", &blake3::hash(&binary).to_hex()[..16]));
        drop(binary);
        let identity = identity(&dir);
        let root = base.join("spool").join(format!("{}-{identity}", context.campaign)).join(&name);
        let prepare = "mkdir -p \"$1\" && if [ -x \"$2\" ]; then echo there; fi";
        let bin = base.join("bin");
        let made = head_node.run(&["sh", "-c", prepare, "sh", bin.as_str(), there.as_str()], SHORT).await?;
        if made.code != Some(0) {
            let hint = "set `base` to a directory where you may write";
            return Err(broken(&format!("cannot make {bin} on {}: {}; {hint}", head_node.name(), made.stderr.trim())));
        }
        if made.stdout.trim() != "there" {
            reporter.note(format!("{name}: cvc-node to {}", head_node.name()));
            head_node.upload(&program, &there, |what| reporter.note(format!("{name}: {what}"))).await?;
        }
        let slurm = cluster.slurm.as_ref().map(|_| Client::new(head_node.host()));
        let idle_s = if slurm.is_some() { IDLE_IN_JOB_S } else { IDLE_S };
        let most_nodes = points.iter().map(|p| p.point.mapping.nodes()).max().unwrap_or(1).min(cluster.nodes());
        // side by side they may be more than one point needs
        let most_nodes = if cluster.side_by_side { cluster.nodes() } else { most_nodes };
        let orders = Orders { protocol: PROTOCOL, context, points, program: there.clone(), idle_s };
        let job_monitor = slurm.clone().map(|client| JobMonitor::new(client, reporter.clone()));
        let setting = Arc::new(Setting { name, cluster, head_node, program: there, root, orders, reporter, slurm, job_monitor, fleet });
        let mut remote = Self {
            setting,
            most_nodes,
            agent: Mutex::new(None),
            making: tokio::sync::Mutex::new(()),
            ready: Ready::default(),
            dir,
            identity,
            jobs: AtomicU32::new(u32::try_from(leases.len()).unwrap_or(0)),
            watch: Mutex::default(),
            old_jobs: Mutex::default(),
        };
        if only_close {
            AgentHandle::end_old(&remote.setting, &leases).await?;
            return Ok(None);
        }
        if remote.allocation() == Some(Allocation::Run) {
            // nodes are what the queue may give: their names are not known before
            let nodes = (1..=remote.setting.cluster.nodes()).map(|n| format!("node-{n}")).collect();
            remote.ready = Ready { nodes, ..Ready::default() };
            remote.old_jobs = Mutex::new(leases.iter().filter(|l| !l.released).map(|l| l.name.to_string()).collect());
            return Ok(Some(remote));
        }
        let resumed = leases.iter().rfind(|l| !l.released).map(|l| l.name.to_string());
        match remote.connect_agent(resumed, &mut stop_signal).await? {
            Some(agent) => remote.ready = agent.ready.clone(),
            None => return Ok(None),
        }
        Ok(Some(remote))
    }

    pub fn name(&self) -> &str {
        &self.setting.name
    }

    /// Whether a cloud gave its machines.
    pub fn is_cloud(&self) -> bool {
        self.setting.fleet.is_some()
    }

    /// Nobody waits for its head any more: it is not there, or not for long.
    pub fn abandon(&self) {
        if let Some(agent) = self.current() {
            agent.agent_state.change(|s| {
                s.over.get_or_insert(Over { cause: None, detail: "its instances are replaced".into() });
            });
        }
    }

    pub fn side_by_side(&self) -> bool {
        self.setting.cluster.side_by_side
    }

    fn allocation(&self) -> Option<Allocation> {
        self.setting.cluster.slurm.as_ref().map(|s| s.allocation)
    }

    fn current(&self) -> Option<Arc<AgentHandle>> {
        self.agent.lock().clone()
    }

    /// An agent that takes runs: the one that there is, or a new one.
    async fn connect_agent(
        &self,
        resumed: Option<String>,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<Arc<AgentHandle>>, CampaignError> {
        let _making = self.making.lock().await;
        if let Some(agent) = self.current() {
            if agent.alive() {
                return Ok(Some(agent));
            }
            // its job is over: what lies in its spool has been told, but another attempt may still be fetching (this one and the site hold it too)
            for _ in 0..600 {
                if Arc::strong_count(&agent) <= 2 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            agent.close().await?;
            // its process has ended
            *self.agent.lock() = None;
            self.setting.clean(&agent.root).await?;
        }
        let made = match &self.setting.slurm {
            None => AgentHandle::by_ssh(&self.setting, stop_signal).await?,
            Some(_) => {
                let mut resumed = resumed;
                loop {
                    let again = resumed.is_some();
                    let job = resumed.take().unwrap_or_else(|| {
                        let number = self.jobs.fetch_add(1, Ordering::Relaxed) + 1;
                        format!("cvc-{}-{}-{number}", self.setting.orders.context.campaign, self.identity)
                    });
                    let root = self.setting.root.join(&job);
                    match by_job(&self.setting, &root, &job, self.most_nodes, again, stop_signal).await {
                        // the job of an earlier session has ended meanwhile
                        Err(CampaignError::Slurm(error)) if again => self.setting.reporter.note(format!("{}: {error}", self.name())),
                        other => break other?,
                    }
                }
            }
        };
        let agent = made.map(Arc::new);
        if let (Some(agent), Some(fleet)) = (&agent, &self.setting.fleet) {
            let head = self.setting.cluster.hosts.first().map(|h| h.name.clone()).unwrap_or_default();
            let (fleet, agent_state, head_node) = (Arc::clone(fleet), Arc::clone(&agent.agent_state), self.setting.head_node.clone());
            let watch = AbortOnDropHandle::new(tokio::spawn(watch(fleet, agent_state, head, head_node, self.setting.reporter.clone())));
            *self.watch.lock() = Some(watch);
        }
        *self.agent.lock() = agent.clone();
        Ok(agent)
    }

    /// What the agent found when the site was opened.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Nodes that are heard of, in the order of mappings.
    pub fn nodes(&self) -> Vec<String> {
        let gone = self.setting.fleet.as_ref().map(|f| f.gone()).unwrap_or_default();
        if self.setting.cluster.hosts.first().is_some_and(|head| gone.contains_key(&head.name)) {
            return Vec::new();
        }
        let Some(agent) = self.current().filter(|l| l.alive()) else { return self.ready.nodes.clone() };
        let lost = agent.agent_state.state().lost.clone();
        let leaving = self.leaving();
        // with the head goes what runs on others
        if self.setting.cluster.hosts.first().is_some_and(|head| leaving.contains_key(&head.name)) {
            return Vec::new();
        }
        // a later job may have others: places in the list are what counts
        let pairs = self.ready.nodes.iter().zip(agent.nodes());
        pairs
            .filter(|(name, now)| !lost.contains_key(now) && !gone.contains_key(*name) && !leaving.contains_key(*name))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Nodes that are lost, and why.
    pub fn lost(&self) -> BTreeMap<String, String> {
        self.current().map(|agent| agent.agent_state.state().lost.clone()).unwrap_or_default()
    }

    /// Nodes that the cloud is about to take back, and what it said.
    pub fn leaving(&self) -> BTreeMap<String, String> {
        self.current().map(|agent| agent.agent_state.state().leaving.clone()).unwrap_or_default()
    }

    /// How long it takes to miss a node, seconds.
    pub fn lost_after_s(&self) -> f64 {
        self.setting.cluster.lost_after_s
    }

    /// This many nodes that are heard of and not in use; `None` if there are fewer.
    pub fn free_nodes(&self, wanted: usize, used: &BTreeSet<String>) -> Option<Vec<String>> {
        let free: Vec<String> = self.nodes().into_iter().filter(|n| !used.contains(n)).take(wanted).collect();
        (free.len() == wanted).then_some(free)
    }

    /// Waits until nodes were lost or came back.
    pub async fn nodes_changed(&self, before: usize) {
        loop {
            if self.nodes().len() != before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Carries out one attempt there, until its directory is here and has its final name.
    #[tracing::instrument(name = "attempt", skip_all, fields(run = %task.planned.id, number = task.attempt))]
    pub async fn attempt(&self, task: &Task, mut stop_signal: StopSignal, reporter: &AttemptReporter) -> Result<Attempted, CampaignError> {
        let own_job = self.allocation() == Some(Allocation::Run);
        let agent = match self.agent_for(task, own_job, &mut stop_signal, reporter).await? {
            Ok(agent) => agent,
            Err(attempted) => return Ok(attempted),
        };
        let task = &self.placed(task, &agent, own_job);
        let attempted = match self.await_end(task, &agent, &mut stop_signal, reporter).await {
            // or an earlier controller wanted that, and was killed before it had written it down
            Ended::Interrupted if *stop_signal.borrow() < StopRequest::StopNow => {
                Attempted::Lost { reason: "an earlier controller had it cut off".into(), time_limit: false }
            }
            Ended::Interrupted => Attempted::Interrupted,
            Ended::Unable(problem) => {
                if own_job {
                    self.put_away(&agent).await?;
                }
                return Err(self.setting.error(problem));
            }
            Ended::Lost { reason, time_limit } => Attempted::Lost { reason, time_limit },
            Ended::Failed(cause, detail) => Attempted::Failed { cause, detail },
            // where it cannot be brought here it stays there, with its job's lease, for the next `cvc run`
            Ended::Finished(file) => self.fetch_verified(&agent.root, &task.planned.id, file).await?,
        };
        if own_job {
            self.put_away(&agent).await?;
        }
        Ok(attempted)
    }

    /// The agent that takes an attempt, with its own job if the site has one for each run; or what came of the attempt without one.
    async fn agent_for(
        &self,
        task: &Task,
        own_job: bool,
        stop_signal: &mut StopSignal,
        reporter: &AttemptReporter,
    ) -> Result<Result<Arc<AgentHandle>, Attempted>, CampaignError> {
        if !own_job {
            // its job may have ended, and what it has done is to be fetched
            let agent = match self.current().filter(|l| l.knows_end(&task.planned.id, task.dispatch)) {
                Some(agent) => Some(agent),
                None => self.connect_agent(None, stop_signal).await?,
            };
            return Ok(agent.ok_or(Attempted::Interrupted));
        }
        reporter.stage("waiting for nodes");
        let job = format!("cvc-{}-{}-{}", self.identity, &task.planned.id.as_str()[..8], task.dispatch);
        let root = self.setting.root.join(&job);
        let resumed = self.old_jobs.lock().remove(&job);
        let agent = match by_job(&self.setting, &root, &job, task.point.mapping.nodes(), resumed, stop_signal).await {
            Ok(Some(agent)) => Arc::new(agent),
            Ok(None) => return Ok(Err(Attempted::Interrupted)),
            Err(CampaignError::Slurm(error)) => {
                return Ok(Err(Attempted::Failed { cause: error.run_cause(), detail: error.to_string() }));
            }
            Err(error) => return Err(error),
        };
        if let Some(detail) = agent.ready.obstacles.get(&task.planned.point).cloned() {
            self.put_away(&agent).await?;
            return Ok(Err(Attempted::Failed { cause: Cause::Launch, detail }));
        }
        Ok(Ok(agent))
    }

    /// Hands an attempt over and waits for its end. A node that the cloud took back is no failure of the run's.
    async fn await_end(&self, task: &Task, agent: &AgentHandle, stop_signal: &mut StopSignal, reporter: &AttemptReporter) -> Ended {
        let ended = agent.attempt(task, stop_signal, reporter).await;
        let Some(failure) = self.taken_by_cloud(task, &ended).await else { return ended };
        if let Ended::Finished(file) = &ended {
            agent.forget(&task.planned.id, task.dispatch, file.attempt);
        }
        failure
    }

    /// What the end of an attempt is if the cloud took one of its nodes.
    async fn taken_by_cloud(&self, task: &Task, ended: &Ended) -> Option<Ended> {
        let fleet = self.setting.fleet.as_ref().filter(|_| ended.is_doubtful())?;
        let gone = fleet.look_for_gone().await.unwrap_or_else(|_| fleet.gone());
        if let Some((node, why)) = gone.into_iter().find(|(node, _)| task.nodes.contains(node)) {
            let cause = if why.is_reclaim() { Cause::Reclaimed } else { Cause::NodeLost };
            return Some(Ended::Failed(cause, format!("node {node}: {why}")));
        }
        // the cloud has said so before, even if it does not show it yet
        let (node, why) = self.taken_back(task).filter(|_| ended.is_loss_of_node())?;
        Some(Ended::Failed(Cause::Reclaimed, format!("node {node}: {why}")))
    }

    /// Brings the directory of an attempt here. If the head of a cloud's site is gone, what was to be brought went with it.
    async fn fetch_verified(&self, root: &Utf8Path, run: &RunId, file: OutcomeFile) -> Result<Attempted, CampaignError> {
        match self.fetch(root, run, &file).await {
            Ok(()) => Ok(Attempted::Ended(file)),
            Err(error) => self.head_gone().map(|(cause, detail)| Attempted::Failed { cause, detail }).ok_or(error),
        }
    }

    /// The node of a task that the cloud has said it takes back; or the head, without which nothing goes on.
    fn taken_back(&self, task: &Task) -> Option<(String, String)> {
        let leaving = self.leaving();
        let head = self.setting.cluster.hosts.first().map(|h| &h.name);
        task.nodes.iter().chain(head).find_map(|node| leaving.get_key_value(node)).map(|(node, why)| (node.clone(), why.clone()))
    }

    /// Why the head of a cloud's site is there no more, and what that is for a run.
    fn head_gone(&self) -> Option<(Cause, String)> {
        let fleet = self.setting.fleet.as_ref()?;
        let head = self.setting.cluster.hosts.first()?;
        let why = fleet.gone().remove(&head.name)?;
        let reclaimed = why.is_reclaim() || self.leaving().contains_key(&head.name);
        let cause = if reclaimed { Cause::Reclaimed } else { Cause::NodeLost };
        Some((cause, format!("node {}: {why}", head.name)))
    }

    /// The nodes of a task by the names that they have in this agent.
    fn placed(&self, task: &Task, agent: &AgentHandle, own_job: bool) -> Task {
        let mut task = task.clone();
        if own_job {
            task.nodes = agent.nodes();
        } else {
            let nodes = agent.nodes();
            let now = |name: &String| self.ready.nodes.iter().position(|n| n == name).and_then(|at| nodes.get(at)).cloned();
            task.nodes = task.nodes.iter().map(|name| now(name).unwrap_or_else(|| name.clone())).collect();
        }
        task
    }

    async fn put_away(&self, agent: &AgentHandle) -> Result<(), CampaignError> {
        agent.close().await?;
        self.setting.clean(&agent.root).await
    }

    /// Brings the directory of an attempt here, verifies it, and gives it its final name.
    async fn fetch(&self, root: &Utf8Path, run: &RunId, file: &OutcomeFile) -> Result<(), CampaignError> {
        let there = CampaignDir::at(root);
        let from = match &file.outcome {
            Outcome::Succeeded => there.run(run),
            Outcome::Failed { .. } => there.failed(run, file.attempt),
        };
        let again = ExponentialBuilder::new().with_min_delay(FETCH_PAUSE).with_max_delay(LONGEST_FETCH_PAUSE).with_max_times(FETCH_REPEATS);
        let fetched = (|| self.fetch_once(&from, run, file)).retry(again).when(|e| matches!(e, FetchError::Incomplete(_))).await;
        match fetched {
            Ok(()) => {
                seal(&self.dir, run, file)?;
                Ok(())
            }
            Err(FetchError::Incomplete(why)) => Err(self.setting.error(format!("cannot bring {from} here: {why}"))),
            Err(FetchError::Here(error)) => Err(error),
        }
    }

    async fn fetch_once(&self, from: &Utf8Path, run: &RunId, file: &OutcomeFile) -> Result<(), FetchError> {
        let partial = self.dir.partial(run);
        let here = |error: StoreError| FetchError::Here(error.into());
        if partial.exists() {
            std::fs::remove_dir_all(&partial).map_err(StoreError::io("remove", &partial)).map_err(here)?;
        }
        std::fs::create_dir_all(&partial).map_err(StoreError::io("make", &partial)).map_err(here)?;
        let tell = |what: String| self.setting.reporter.note(format!("{run}: {what}"));
        match self.setting.head_node.download(from, &partial, tell).await {
            Ok(()) => verify(&partial, file).map_err(FetchError::Incomplete),
            Err(error @ HostError::File { .. }) => Err(FetchError::Here(error.into())),
            Err(error) => Err(FetchError::Incomplete(error.to_string())),
        }
    }

    /// The controller has written down how an attempt ended: what lies there of it can go.
    pub fn forget(&self, task: &Task) {
        if let Some(agent) = self.current().filter(|l| l.alive()) {
            let (run, dispatch, attempt) = (task.planned.id.clone(), task.dispatch, task.attempt);
            agent.agent_state.ask(format!("forget-{run}-{dispatch}"), Request::Forget { run, dispatch, attempt });
        }
    }

    /// Ends the agent and everything that it started, gives nodes back, and removes what is there of the campaign.
    pub async fn close(&self) -> Result<(), CampaignError> {
        if let HeadNode::Ssh(host) = &self.setting.head_node {
            // the end is not worth a day's wait
            host.set_patience(CLOSE_PATIENCE);
        }
        if let Some(agent) = self.current() {
            agent.close().await?;
        }
        let old_jobs = std::mem::take(&mut *self.old_jobs.lock());
        for job in old_jobs {
            // its run is not wanted any more
            AgentHandle::end_job(&self.setting, &job, "its run is not wanted any more").await?;
        }
        self.setting.clean(&self.setting.root).await
    }
}

/// Looks at the instances of a fleet, and ends the agent to a head that is there no more.
async fn watch(fleet: Arc<Fleet>, agent_state: Arc<AgentState>, head: String, head_node: HeadNode, reporter: SiteReporter) {
    let mut told = BTreeMap::new();
    let mut extend_at = Instant::now() + fleet.extend_after();
    loop {
        tokio::time::sleep(WATCH_TICK).await;
        if Instant::now() > extend_at {
            extend_at = Instant::now() + fleet.extend_after();
            if let Err(error) = fleet.extend().await {
                reporter.note(format!("{}: a deadline could not be moved on: {error}", fleet.name()));
                extend_at = Instant::now() + Duration::from_secs(60);
            }
        }
        // nothing is given up because a cloud does not answer for a while
        let Ok(gone) = fleet.look_for_gone().await else { continue };
        for (node, why) in &gone {
            if told.insert(node.clone(), why.clone()).is_none() {
                reporter.note(format!("node {node}: {why}"));
            }
        }
        if let Some(why) = gone.get(&head) {
            let reclaimed = why.is_reclaim() || agent_state.state().leaving.contains_key(&head);
            let cause = reclaimed.then_some(Cause::Reclaimed);
            agent_state.change(|s| {
                s.over.get_or_insert(Over { cause, detail: format!("node {head}: {why}") });
            });
            if let HeadNode::Ssh(host) = &head_node {
                // it is not waited for
                host.set_patience(Duration::ZERO);
                host.disconnect().await;
            }
            return;
        }
    }
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
