//! A site of several machines, as the campaign runner uses it.

use crate::error::CampaignError;

use crate::progress::{SiteEvent, SiteReporter};

use crate::remote::{
    agent_handle::{AgentHandle, AgentUse},
    agent_state::{AgentEnd, AgentState, Ready},
    head_node::{HeadNode, SHORT},
    job_monitor::JobMonitor,
    machines::RemoteMachines,
    reach::NodeReach,
    setting::{RemoteSetting, inputs_dir},
    submission::by_job,
};

use crate::slurm::Client;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::DispatchId;
use cvc_agent::{Orders, PROTOCOL, Request};
use cvc_core::campaign::{Allocation, Cluster};
use cvc_core::ids::{RunId, below};
use cvc_core::outcome::Cause;
use cvc_core::point::PlannedPoint;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::{CampaignDir, StoreError};
use cvc_engine::attempt::SiteContext;
use cvc_journal::{Lease, Lineage};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Time after which an agent without work ends by itself, seconds.
const IDLE_S: f64 = 3600.0;
/// Time after which an agent in a job ends by itself without work, seconds. It is shorter, because other users may wait for the job's nodes.
const IDLE_IN_JOB_S: f64 = 600.0;
/// Time during a campaign for which operations wait for a host that does not answer.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Time after the end of a campaign for which operations wait for a host that does not answer.
const CLOSE_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for waiting until this machine has space for the results of a run.
pub(super) const ROOM_LIMIT: Duration = Duration::from_secs(600);
/// Time limit for fetching the results of attempts after their agent has ended. It includes waits for space on this machine.
const FETCH_LIMIT: Duration = ROOM_LIMIT.saturating_add(Duration::from_secs(300));
/// Creates the directory of programs. Prints `there` if `cvc-node` exists in it with its full length: a file sent before a crash of the head node may
/// be empty. Arguments: the directory, the program, and its length.
pub const PREPARE_PROGRAM: &str = "mkdir -p \"$1\" && if [ -x \"$2\" ] && [ \"$(wc -c <\"$2\")\" -eq \"$3\" ]; then echo there; fi";
/// Interval between checks of machines that exist for this campaign only.
const WATCH_TICK: Duration = Duration::from_secs(10);

/// A site of several machines.
pub struct Remote {
    pub(super) setting: Arc<RemoteSetting>,
    /// Maximum number of nodes of a job, computed from the points.
    most_nodes: u32,
    /// The agent that accepts runs; `None` if each run has its own job.
    agent: Mutex<Option<Arc<AgentHandle>>>,
    /// Held while an agent is being started.
    making: tokio::sync::Mutex<()>,
    /// Held by the attempt whose results will be fetched first when this machine has space again.
    pub(super) room: tokio::sync::Mutex<()>,
    pub(super) ready: Ready,
    pub(super) dir: CampaignDir,
    /// Distinguishes this campaign's jobs from those of other campaigns.
    pub(super) lineage: Lineage,
    jobs: AtomicU32,
    /// Task that checks for lost machines, if the machines exist for this campaign only.
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
    /// If each run has its own job: jobs that an earlier controller submitted and that no attempt uses yet.
    pub(super) old_jobs: Mutex<BTreeSet<String>>,
    /// Runs that an earlier controller requested and that no attempt continues yet.
    pub(super) handed_over: Mutex<BTreeSet<RunId>>,
}

/// Parameters for opening a site.
pub struct Opening {
    /// Facts about the campaign that attempts need.
    pub context: SiteContext,
    /// Runs that an earlier controller requested on this site and that are still needed.
    pub handed_over: BTreeSet<RunId>,
    /// The points of the campaign on this site.
    pub points: Vec<PlannedPoint>,
    /// Directory of the results.
    pub dir: CampaignDir,
    /// Path of `cvc-node` on this machine.
    pub program: Utf8PathBuf,
    /// Whether to run nothing, and only end and remove the remains of earlier sessions.
    pub only_close: bool,
    /// Receiver of the site's events.
    pub site_events: mpsc::UnboundedSender<SiteEvent>,
    /// Leases of the campaign on this site, including released ones.
    pub leases: Vec<Lease>,
    /// Provider of the site's machines.
    pub machines: Arc<dyn RemoteMachines>,
    /// How the site's head node is reached.
    pub reach: Arc<dyn NodeReach>,
}

/// Returns the maximum number of nodes that a job needs: the largest number of one point or, if points run concurrently, all nodes of the site.
fn most_nodes(points: &[PlannedPoint], cluster: &Cluster) -> u32 {
    if cluster.side_by_side {
        return cluster.nodes();
    }
    points
        .iter()
        .map(|p| p.point.mapping.nodes())
        .max()
        .unwrap_or(1)
        .min(cluster.nodes())
}

/// Copies `cvc-node` to the head node, unless the same version is there. The name of the copy contains the program's digest, so that a running agent
/// of another version keeps its own program.
async fn put_program(
    site: &str,
    head_node: &dyn HeadNode,
    program: &Utf8Path,
    bin: &Utf8Path,
    reporter: &SiteReporter,
) -> Result<Utf8PathBuf, CampaignError> {
    let read = match std::fs::read(program) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return Err(CampaignError::no_node_program(site, program));
        }
        read => read.map_err(StoreError::io("read", program))?,
    };
    let digest = blake3::hash(&read).to_hex();
    let there = bin.join(format!("cvc-node-{}", &digest[..16]));
    let sent = Sent {
        from: program,
        bytes: read.len() as u64,
        called: "cvc-node",
    };
    put_file(site, head_node, &sent, &there, reporter).await?;
    Ok(there)
}

/// A file to copy to the head node.
struct Sent<'a> {
    /// Path on this machine.
    from: &'a Utf8Path,
    /// Length, bytes.
    bytes: u64,
    /// Name in messages.
    called: &'a str,
}

/// Copies a file to the head node, unless a file with the same name and length is there. The file name is the digest of the content. Creates the
/// directory of the file.
async fn put_file(
    site: &str,
    head_node: &dyn HeadNode,
    file: &Sent<'_>,
    there: &Utf8Path,
    reporter: &SiteReporter,
) -> Result<(), CampaignError> {
    let directory = there.parent().unwrap_or(there);
    let made = head_node
        .run(
            &[
                "sh",
                "-c",
                PREPARE_PROGRAM,
                "sh",
                directory.as_str(),
                there.as_str(),
                &file.bytes.to_string(),
            ],
            SHORT,
        )
        .await?;
    if made.code != Some(0) {
        let hint = "set `base` to a directory where you may write";
        let problem = format!(
            "cannot make {directory} on {}: {}; {hint}",
            head_node.name(),
            made.stderr.trim()
        );
        return Err(CampaignError::Site {
            site: site.to_owned(),
            problem,
        });
    }
    if made.stdout.trim() != "there" {
        reporter.note(format!(
            "{site}: copying {} to {}",
            file.called,
            head_node.name()
        ));
        head_node
            .upload(file.from, there, &mut |what| {
                reporter.note(format!("{site}: {what}"))
            })
            .await?;
    }
    Ok(())
}

/// Copies the input files of these points to the head node, each once, and replaces the paths in the context by those on the head node.
async fn put_sources(
    context: &mut SiteContext,
    points: &[PlannedPoint],
    head_node: &dyn HeadNode,
    directory: &Utf8Path,
    reporter: &SiteReporter,
) -> Result<(), CampaignError> {
    for (name, app) in &mut context.apps {
        let is_used = points.iter().any(|planned| planned.point.app == *name);
        for source in &mut app.sources {
            let digest = source.blake3.get(..16).unwrap_or(&source.blake3);
            let there = directory.join(digest);
            if is_used {
                let sent = Sent {
                    from: &source.source,
                    bytes: source.bytes,
                    called: &source.path,
                };
                put_file(&context.name, head_node, &sent, &there, reporter).await?;
            }
            source.source = there;
        }
    }
    Ok(())
}

impl Remote {
    /// Copies cvc to the head node and starts an agent, or finds this campaign's running agent. Waits until the agent has its nodes. Returns `None`
    /// if the site is only closed, or if the user stops the campaign meanwhile; then nothing remains on the site.
    #[tracing::instrument(name = "site", skip_all, fields(site = %opening.context.name))]
    pub async fn open(
        opening: Opening,
        mut stop_signal: StopSignal,
    ) -> Result<Option<Self>, CampaignError> {
        let (only_close, leases) = (opening.only_close, opening.leases.clone());
        let mut remote = Self::reach(opening).await?;
        if only_close {
            AgentHandle::end_old(&remote.setting, &leases).await?;
            return Ok(None);
        }
        let mut unreleased = leases
            .iter()
            .filter(|l| !l.released)
            .map(|l| l.name.to_string());
        if remote.allocation() == Some(Allocation::Run) {
            // the queue allocates nodes, whose names are not known before
            let nodes = (1..=remote.setting.cluster.nodes())
                .map(|n| format!("node-{n}"))
                .collect();
            remote.ready = Ready {
                nodes,
                ..Ready::default()
            };
            remote.old_jobs = Mutex::new(unreleased.collect());
            return Ok(Some(remote));
        }
        match remote
            .connect_agent(unreleased.next_back(), true, &mut stop_signal)
            .await?
        {
            Some(agent) => {
                remote.ready = agent.ready.clone();
                if agent.has_old_orders {
                    // create no agent yet: the next run creates it
                    remote.ready.nodes = remote.nodes_of_orders();
                }
            }
            None => return Ok(None),
        }
        Ok(Some(remote))
    }

    /// Connects to the head node and copies cvc to it. No agent is started yet.
    async fn reach(opening: Opening) -> Result<Self, CampaignError> {
        let Opening {
            mut context,
            handed_over,
            points,
            dir,
            program,
            only_close,
            site_events,
            leases,
            machines,
            reach,
        } = opening;
        let (name, reporter) = (context.name.clone(), SiteReporter(site_events));
        let cluster = context.site.cluster.clone();
        let cluster = cluster.ok_or_else(|| CampaignError::Site {
            site: name.clone(),
            problem: "it has no machines".into(),
        })?;
        let notes = reporter.clone();
        let head_node = reach.head_node(
            &name,
            &cluster,
            &context.base,
            Arc::new(move |what| notes.note(what)),
        );
        reporter.note(format!("{name}: connecting to {}", head_node.name()));
        head_node.connect().await?;
        head_node.set_patience(PATIENCE);
        let base = head_node.expand(&cluster.base).await?;
        let Some(lineage) = context.lineage.clone() else {
            return Err(CampaignError::internal(
                "a site without its campaign's lineage",
            ));
        };
        let root = below(
            &below(
                &base.join("spool"),
                &format!("{}-{lineage}", context.campaign),
            ),
            &name,
        );
        let there = put_program(&name, &*head_node, &program, &base.join("bin"), &reporter).await?;
        let inputs = inputs_dir(&root);
        if !only_close {
            put_sources(&mut context, &points, &*head_node, &inputs, &reporter).await?;
        }
        let slurm = cluster
            .slurm
            .as_ref()
            .map(|_| Client::new(head_node.host()));
        let idle_s = if slurm.is_some() {
            IDLE_IN_JOB_S
        } else {
            IDLE_S
        };
        let most_nodes = most_nodes(&points, &cluster);
        let orders = Orders {
            protocol: PROTOCOL,
            context,
            points,
            program: there.clone(),
            idle_s,
        };
        let job_monitor = slurm
            .clone()
            .map(|client| JobMonitor::new(client, reporter.clone()));
        Ok(Self {
            setting: Arc::new(RemoteSetting {
                name,
                cluster,
                head_node,
                program: there,
                root,
                orders,
                reporter,
                slurm,
                job_monitor,
                machines,
            }),
            most_nodes,
            agent: Mutex::new(None),
            making: tokio::sync::Mutex::new(()),
            room: tokio::sync::Mutex::new(()),
            ready: Ready::default(),
            dir,
            lineage,
            jobs: AtomicU32::new(u32::try_from(leases.len()).unwrap_or(0)),
            watch: Mutex::default(),
            old_jobs: Mutex::default(),
            handed_over: Mutex::new(handed_over),
        })
    }

    /// Returns the name of the site.
    pub fn name(&self) -> &str {
        &self.setting.name
    }

    /// Returns whether the machines exist for this campaign only, as those of a cloud do.
    pub fn is_temporary(&self) -> bool {
        self.setting.machines.are_temporary()
    }

    /// Stops waiting for the site's head node, which is lost or will soon be lost.
    pub fn abandon(&self) {
        if let Some(agent) = self.current() {
            agent.agent_state.change(|s| {
                s.over.get_or_insert(AgentEnd {
                    cause: None,
                    detail: "its instances are replaced".into(),
                });
            });
        }
    }

    pub(super) fn allocation(&self) -> Option<Allocation> {
        self.setting.cluster.slurm.as_ref().map(|s| s.allocation)
    }

    pub(super) fn current(&self) -> Option<Arc<AgentHandle>> {
        self.agent.lock().clone()
    }

    /// Returns the current agent, if it has reported the end of this attempt.
    pub(super) fn agent_that_knows(&self, id: &DispatchId) -> Option<AgentUse> {
        let agent = self.agent.lock();
        agent
            .as_ref()
            .filter(|agent| agent.knows_end(id))
            .cloned()
            .map(AgentUse::begin)
    }

    /// Returns whether there are runs that an earlier controller requested and that no attempt continues yet.
    fn wants_old(&self) -> bool {
        !self.handed_over.lock().is_empty()
    }

    /// Returns an agent that accepts runs: the current one, or a new one. An agent that was started before a change of the campaign file accepts only
    /// runs that were requested before the change (`takes_old`). It is replaced when these runs have ended. Returns `None` if the user stops the
    /// campaign meanwhile.
    pub(super) async fn connect_agent(
        &self,
        resumed: Option<String>,
        takes_old: bool,
        stop_signal: &mut StopSignal,
    ) -> Result<Option<AgentUse>, CampaignError> {
        let _making = self.making.lock().await;
        if let Some(agent) = self.current() {
            if agent.alive() && (takes_old || !agent.has_old_orders) {
                return Ok(Some(AgentUse::begin(agent)));
            }
            if agent.has_old_orders {
                tokio::select! {
                    biased;
                    () = agent.unused() => {}
                    () = asked_to_stop(stop_signal) => return Ok(None),
                }
            }
            // the agent's job has ended: wait for attempts that may still be fetching from its spool
            let is_unused = agent.wait_until_unused(FETCH_LIMIT).await;
            agent.close().await?;
            // the agent's process has ended
            *self.agent.lock() = None;
            // keep a spool that is still being read until the site is closed; but with ssh all agents use the same spool
            if is_unused || self.setting.slurm.is_none() {
                self.setting.clean(&agent.root).await?;
            }
        }
        let made = match &self.setting.slurm {
            None => AgentHandle::by_ssh(&self.setting, self.wants_old(), stop_signal).await?,
            Some(_) => {
                let mut resumed = resumed;
                loop {
                    let again = resumed.is_some();
                    let job = resumed.take().unwrap_or_else(|| {
                        let number = self.jobs.fetch_add(1, Ordering::Relaxed) + 1;
                        // the name contains the site: sites count independently, and two sites may use the same Slurm
                        format!(
                            "cvc-{}-{}-{}-{number}",
                            self.setting.orders.context.campaign,
                            self.lineage,
                            self.name()
                        )
                    });
                    let root = below(&self.setting.root, &job);
                    let wants_old = self.wants_old();
                    match by_job(
                        &self.setting,
                        &root,
                        &job,
                        self.most_nodes,
                        again,
                        wants_old,
                        stop_signal,
                    )
                    .await
                    {
                        // the job of an earlier session has ended meanwhile: submit a new one
                        Err(CampaignError::Slurm(error)) if again => self
                            .setting
                            .reporter
                            .note(format!("{}: {error}", self.name())),
                        other => break other?,
                    }
                }
            }
        };
        let agent = made.map(Arc::new);
        if let Some(agent) = agent
            .as_ref()
            .filter(|_| self.setting.machines.are_temporary())
        {
            let watch = watch(Arc::clone(&self.setting), Arc::clone(&agent.agent_state));
            let watch = self.setting.reporter.spawn(watch);
            *self.watch.lock() = Some(watch);
        }
        *self.agent.lock() = agent.clone();
        Ok(agent.map(AgentUse::begin))
    }

    /// Returns names for the nodes of the next agent: the names of the hosts or, with Slurm, `node-1`, `node-2`, ...
    fn nodes_of_orders(&self) -> Vec<String> {
        match &self.setting.slurm {
            Some(_) => (1..=self.most_nodes).map(|n| format!("node-{n}")).collect(),
            None => self
                .setting
                .cluster
                .hosts
                .iter()
                .map(|host| host.name.clone())
                .collect(),
        }
    }

    /// Returns the facts that the agent reported when the site was opened.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Returns the nodes that answer, in the order in which mappings use them.
    pub fn nodes(&self) -> Vec<String> {
        let gone = self.setting.machines.gone();
        if self
            .setting
            .cluster
            .hosts
            .first()
            .is_some_and(|head| gone.contains_key(&head.name))
        {
            return Vec::new();
        }
        let Some(agent) = self.current().filter(|l| l.alive()) else {
            return self.ready.nodes.clone();
        };
        let lost = agent.agent_state.state().lost.clone();
        let leaving = self.leaving();
        // if the head node is lost, runs on the other nodes are lost too
        if self
            .setting
            .cluster
            .hosts
            .first()
            .is_some_and(|head| leaving.contains_key(&head.name))
        {
            return Vec::new();
        }
        // a later job may have other nodes: they are identified by their positions in the list
        let now = if agent.has_old_orders {
            self.ready.nodes.clone()
        } else {
            agent.nodes()
        };
        let pairs = self.ready.nodes.iter().zip(now);
        pairs
            .filter(|(name, now)| {
                !lost.contains_key(now) && !gone.contains_key(*name) && !leaving.contains_key(*name)
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns the lost nodes, with the reasons.
    pub fn lost(&self) -> BTreeMap<String, String> {
        self.current()
            .map(|agent| agent.agent_state.state().lost.clone())
            .unwrap_or_default()
    }

    /// Returns the nodes that the cloud is about to reclaim, with its notices.
    pub fn leaving(&self) -> BTreeMap<String, String> {
        self.current()
            .map(|agent| agent.agent_state.state().leaving.clone())
            .unwrap_or_default()
    }

    /// Sends the agent a simulated notice that a node will be reclaimed after this time. With `by_agent`, the agent afterwards also takes the node
    /// away itself, because the cloud does not reclaim it.
    ///
    /// # Errors
    /// The reason why no notice can be simulated, as a message.
    pub fn rehearse_notice(&self, node: &str, notice_s: f64, by_agent: bool) -> Result<(), String> {
        let Some(agent) = self.current().filter(|agent| agent.alive()) else {
            return Err(format!("no agent of the site `{}` is alive", self.name()));
        };
        let nodes = agent.nodes();
        if !nodes.iter().any(|name| name == node) {
            return Err(format!(
                "the site `{}` has no node `{node}`, but {}",
                self.name(),
                nodes.join(", ")
            ));
        }
        let name = format!(
            "announce-{node}-{}",
            cvc_core::clock::wall().as_microsecond()
        );
        let request = Request::Announce {
            node: node.to_owned(),
            notice_s,
            is_taken_by_agent: by_agent,
        };
        agent.agent_state.ask(name, request);
        Ok(())
    }

    /// Returns the time without an answer after which a node counts as lost, seconds.
    pub fn lost_after_s(&self) -> f64 {
        self.setting.cluster.lost_after_s
    }

    /// Waits until the number of nodes that answer differs from `before`, because nodes were lost or have returned.
    pub async fn nodes_changed(&self, before: usize) {
        loop {
            if self.nodes().len() != before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Ends the agent and all processes that it started, releases nodes, and removes the campaign's files on the site.
    #[tracing::instrument(name = "site", skip_all, fields(site = %self.name()))]
    pub async fn close(&self) -> Result<(), CampaignError> {
        // for closing, do not wait a day for a silent host
        self.setting.head_node.set_patience(CLOSE_PATIENCE);
        if let Some(agent) = self.current() {
            agent.close().await?;
        }
        let old_jobs = std::mem::take(&mut *self.old_jobs.lock());
        for job in old_jobs {
            // no attempt uses this job any more
            AgentHandle::end_job(&self.setting, &job, "its run is no longer needed").await?;
        }
        self.setting.clean_all().await
    }
}

/// Waits until the user requests that the campaign stop.
async fn asked_to_stop(stop_signal: &mut StopSignal) {
    let asked = stop_signal
        .wait_for(|w| *w > StopRequest::GoOn)
        .await
        .is_ok();
    if !asked {
        // the sender is gone: no request can arrive any more
        std::future::pending().await
    }
}

/// Checks machines that exist for this campaign only. If the head node is lost, stops waiting for its agent.
async fn watch(setting: Arc<RemoteSetting>, agent_state: Arc<AgentState>) {
    let RemoteSetting {
        machines,
        head_node,
        reporter,
        ..
    } = &*setting;
    let head = setting
        .cluster
        .hosts
        .first()
        .map(|h| h.name.clone())
        .unwrap_or_default();
    let mut reported = BTreeMap::new();
    loop {
        tokio::time::sleep(WATCH_TICK).await;
        machines.keep_up().await;
        // ignore errors: the cloud may answer again later
        let Ok(gone) = machines.look_for_gone().await else {
            continue;
        };
        for (node, why) in &gone {
            if reported.insert(node.clone(), why.clone()).is_none() {
                reporter.note(format!("node {node}: {why}"));
            }
        }
        if let Some(why) = gone.get(&head) {
            let reclaimed = why.is_reclaim || agent_state.state().leaving.contains_key(&head);
            let cause = reclaimed.then_some(Cause::Reclaimed);
            agent_state.change(|s| {
                s.over.get_or_insert(AgentEnd {
                    cause,
                    detail: format!("node {head}: {why}"),
                });
            });
            // do not wait for the lost head node
            head_node.set_patience(Duration::ZERO);
            head_node.disconnect().await;
            return;
        }
    }
}
