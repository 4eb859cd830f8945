//! A site of several machines, as the campaign runner uses it.

use crate::error::CampaignError;

use crate::progress::{SiteEvent, SiteReporter};

use crate::remote::{
    agent_handle::{AgentHandle, AgentUse},
    agent_state::{AgentEnd, AgentState, Ready},
    head_node::{HeadNode, SHORT},
    job_monitor::JobMonitor,
    machines::Machines,
    reach::Reach,
    setting::{Setting, inputs_beside},
    submission::by_job,
};

use crate::slurm::Client;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_agent::DispatchId;
use cvc_agent::{Orders, PROTOCOL};
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

/// Time after which an agent without work ends, seconds.
const IDLE_S: f64 = 3600.0;
/// The same in a job, which holds nodes that others wait for.
const IDLE_IN_JOB_S: f64 = 600.0;
/// Time limit for a host that does not answer while it is needed.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The same when the campaign is over.
const CLOSE_PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for room on this machine for the results of a run.
pub(super) const ROOM_LIMIT: Duration = Duration::from_secs(600);
/// Time limit for attempts to fetch their results from an agent that has ended, also where they wait for room.
const FETCH_LIMIT: Duration = ROOM_LIMIT.saturating_add(Duration::from_secs(300));
/// Makes the directory of programs, and says whether `cvc-node` is there with its whole length: after a crash of the head, a file that was sent
/// before may be empty. The directory, the program and its length follow.
pub const PREPARE_PROGRAM: &str = "mkdir -p \"$1\" && if [ -x \"$2\" ] && [ \"$(wc -c <\"$2\")\" -eq \"$3\" ]; then echo there; fi";
/// Delay between looks at machines that are there for the campaign alone.
const WATCH_TICK: Duration = Duration::from_secs(10);

/// A site of several machines.
pub struct Remote {
    pub(super) setting: Arc<Setting>,
    /// Maximum number of nodes of a job: what the points need.
    most_nodes: u32,
    /// The agent that takes runs; `None` with one job for each run.
    agent: Mutex<Option<Arc<AgentHandle>>>,
    /// Held while an agent is made.
    making: tokio::sync::Mutex<()>,
    /// Held by the attempt whose results are the next to be fetched when there is room for them.
    pub(super) room: tokio::sync::Mutex<()>,
    pub(super) ready: Ready,
    pub(super) dir: CampaignDir,
    /// Distinguishes this campaign's jobs from those of any other.
    pub(super) lineage: Lineage,
    jobs: AtomicU32,
    /// Watches for machines that are gone, where they are there for the campaign alone.
    watch: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Jobs of an earlier controller that have not been taken over yet, where each run has its own.
    pub(super) old_jobs: Mutex<BTreeSet<String>>,
    /// Runs that an earlier controller handed over, until they are taken up.
    pub(super) handed_over: Mutex<BTreeSet<RunId>>,
}

/// What is needed to open a site.
pub struct Opening {
    /// What its attempts need to know of the campaign.
    pub context: SiteContext,
    /// Runs that an earlier controller handed over there and that are still wanted.
    pub handed_over: BTreeSet<RunId>,
    /// The points of the campaign that run there.
    pub points: Vec<PlannedPoint>,
    /// Where results are written.
    pub dir: CampaignDir,
    /// `cvc-node` on this machine.
    pub program: Utf8PathBuf,
    /// Whether nothing is to run there: what is still there is ended and removed.
    pub only_close: bool,
    /// Who hears what happens there.
    pub site_events: mpsc::UnboundedSender<SiteEvent>,
    /// Jobs that the campaign had on this site.
    pub leases: Vec<Lease>,
    /// Who provides its machines.
    pub machines: Arc<dyn Machines>,
    /// How its head node is reached.
    pub reach: Arc<dyn Reach>,
}

/// Nodes that a job needs at most: as many as one point, or where points run side by side all that the site has.
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

/// Puts `cvc-node` on the head node, unless it is there. It is called by its digest: an agent that works with another one keeps its own.
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

/// A file that is put on the head node.
struct Sent<'a> {
    /// Where it is here.
    from: &'a Utf8Path,
    /// Its length.
    bytes: u64,
    /// What messages call it.
    called: &'a str,
}

/// Puts a file on the head node, in a directory that is made, unless one of its length is there. It is called by its digest.
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
        reporter.note(format!("{site}: {} to {}", file.called, head_node.name()));
        head_node
            .upload(file.from, there, &mut |what| {
                reporter.note(format!("{site}: {what}"))
            })
            .await?;
    }
    Ok(())
}

/// Puts the files there that input files of these points are copies of, each once; the context then names them by where they are there.
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
    /// Copies cvc there and starts an agent, or finds this campaign's running one; waits until it has its nodes. `None` if the user wanted
    /// to stop meanwhile: then nothing is left there.
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
            // the queue gives nodes, whose names are not known before
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
                    // runs that only the next agent can carry out are to be handed over, which makes that agent
                    remote.ready.nodes = remote.nodes_of_orders();
                }
            }
            None => return Ok(None),
        }
        Ok(Some(remote))
    }

    /// Connects to the head node and puts cvc there; no agent is started yet.
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
        let inputs = inputs_beside(&root);
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
            setting: Arc::new(Setting {
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

    /// Name of the site.
    pub fn name(&self) -> &str {
        &self.setting.name
    }

    /// Whether a cloud gave its machines.
    pub fn is_temporary(&self) -> bool {
        self.setting.machines.are_temporary()
    }

    /// Stops waiting for its head node, which is gone or soon will be.
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

    /// The agent of now, for an attempt whose end it knows.
    pub(super) fn agent_that_knows(&self, id: &DispatchId) -> Option<AgentUse> {
        let agent = self.agent.lock();
        agent
            .as_ref()
            .filter(|agent| agent.knows_end(id))
            .cloned()
            .map(AgentUse::begin)
    }

    /// Whether runs that an earlier controller handed over have not been taken up yet.
    fn wants_old(&self) -> bool {
        !self.handed_over.lock().is_empty()
    }

    /// An agent that takes runs: the one that there is, or a new one. One with the orders of before the campaign was changed takes none but those
    /// that it was handed then (`takes_old`); it is replaced when these have ended.
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
            // its job is over: what lies in its spool has been told, but another attempt may still be fetching
            let is_unused = agent.wait_until_unused(FETCH_LIMIT).await;
            agent.close().await?;
            // its process has ended
            *self.agent.lock() = None;
            // what is still being fetched stays until the site is closed; by ssh all agents have the same spool
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
                        // sites count by themselves, and two may be of one Slurm
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
                        // the job of an earlier session has ended meanwhile
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

    /// Names for the nodes of an agent with the present orders, before there is one.
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

    /// What the agent found when the site was opened.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Nodes that answer, in the order of mappings.
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
        // without the head, runs on the other nodes are lost too
        if self
            .setting
            .cluster
            .hosts
            .first()
            .is_some_and(|head| leaving.contains_key(&head.name))
        {
            return Vec::new();
        }
        // a later job may have other nodes: only their positions in the list count
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

    /// Nodes that are lost, with the reason.
    pub fn lost(&self) -> BTreeMap<String, String> {
        self.current()
            .map(|agent| agent.agent_state.state().lost.clone())
            .unwrap_or_default()
    }

    /// Nodes that the cloud is about to take back, and what it said.
    pub fn leaving(&self) -> BTreeMap<String, String> {
        self.current()
            .map(|agent| agent.agent_state.state().leaving.clone())
            .unwrap_or_default()
    }

    /// Silence after which a node counts as lost, seconds.
    pub fn lost_after_s(&self) -> f64 {
        self.setting.cluster.lost_after_s
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

    /// Ends the agent and everything that it started, gives nodes back, and removes the campaign's files there.
    #[tracing::instrument(name = "site", skip_all, fields(site = %self.name()))]
    pub async fn close(&self) -> Result<(), CampaignError> {
        // do not wait a day for the end
        self.setting.head_node.set_patience(CLOSE_PATIENCE);
        if let Some(agent) = self.current() {
            agent.close().await?;
        }
        let old_jobs = std::mem::take(&mut *self.old_jobs.lock());
        for job in old_jobs {
            // its run is no longer needed
            AgentHandle::end_job(&self.setting, &job, "its run is no longer needed").await?;
        }
        self.setting.clean_all().await
    }
}

/// Waits until the user wants to stop.
async fn asked_to_stop(stop_signal: &mut StopSignal) {
    let asked = stop_signal
        .wait_for(|w| *w > StopRequest::GoOn)
        .await
        .is_ok();
    if !asked {
        // nobody can ask any more
        std::future::pending().await
    }
}

/// Watches machines that are there for the campaign alone, and gives up the agent of a head node that is gone.
async fn watch(setting: Arc<Setting>, agent_state: Arc<AgentState>) {
    let Setting {
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
    let mut told = BTreeMap::new();
    loop {
        tokio::time::sleep(WATCH_TICK).await;
        machines.keep_up().await;
        // do not give up because a cloud does not answer for a while
        let Ok(gone) = machines.look_for_gone().await else {
            continue;
        };
        for (node, why) in &gone {
            if told.insert(node.clone(), why.clone()).is_none() {
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
            // it is not waited for
            head_node.set_patience(Duration::ZERO);
            head_node.disconnect().await;
            return;
        }
    }
}
