//! The agent's work: takes requests, carries out attempts, tells what happened, watches its nodes, and goes when nobody needs it.

use super::{
    nodes::{self, Way},
    protocol::{Event, Orders, PROTOCOL, Request},
    spool::{EventLog, Spool, put_json},
};
use crate::{
    ids::{PointId, RunId},
    install::Found,
    journal::Outcome,
    point::{CheckpointerKind, PlannedPoint, Point},
    run::{Attempted, Bench, Debts, News, Nodes, OutcomeFile, Readiness, ReadySite, SOON, Task, Teller, Ways, Wish},
    slurm::WARNING_S,
    spec::StorageKind,
    store::StoreError,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_probe::proc::ProcessId;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
};

/// Between looks for requests.
const TICK: Duration = Duration::from_millis(10);
/// Between signs of life.
const BEAT: Duration = Duration::from_secs(3);
/// Between attempts to reach lost nodes again.
const REVIVE: Duration = Duration::from_secs(5);
/// How long runs that are cut off may take.
const CUT_LIMIT: Duration = Duration::from_secs(60);

/// Why an agent could not work. It is in the event log as well.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The spool.
    #[error(transparent)]
    Spool(#[from] StoreError),
    /// Something that it needs.
    #[error("{0}")]
    Unable(String),
}

/// An attempt under way.
struct UnderWay {
    lap: u32,
    nodes: Vec<String>,
    wish: watch::Sender<Wish>,
}

struct Agent {
    spool: Spool,
    orders: Orders,
    log: EventLog,
    bench: Arc<Bench>,
    /// Requests that were taken in.
    taken: HashSet<String>,
    under_way: HashMap<RunId, UnderWay>,
    attempts: JoinSet<(Box<Task>, Result<Attempted, String>)>,
    tell: mpsc::UnboundedSender<(RunId, News)>,
    lost: BTreeSet<String>,
    /// An attempt to reach lost nodes again, and when the last one ended.
    reviving: Option<JoinHandle<()>>,
    revived: Instant,
    /// When something was last asked for or ended.
    active: Instant,
    /// When this agent began.
    begun: Instant,
    /// When it last said that it is alive.
    beaten: Option<Instant>,
}

/// Works in a spool until it is closed, nobody needs it any more, or a signal ends it.
///
/// # Errors
/// When the spool cannot be used, another agent works in it, or the nodes cannot be gathered.
pub async fn serve(program: &Utf8Path, root: &Utf8Path) -> Result<(), AgentError> {
    let begun = Instant::now();
    // an error means that it leads a session already
    let _ = nix::unistd::setsid();
    let root = root.canonicalize_utf8().map_err(StoreError::io("resolve", root))?;
    let spool = Spool::at(&root);
    spool.make()?;
    let _lock = spool.lock()?;
    let me = ProcessId::of(std::process::id()).ok_or_else(|| AgentError::Unable("/proc does not list this process".into()))?;
    put_json(&spool.agent_file(), &me)?;
    let (mut log, events) = EventLog::open(&spool.events())?;
    let orders = spool.orders()?;
    let mut terminate = signal(SignalKind::terminate()).map_err(StoreError::io("wait for signals in", &root))?;
    // one that takes over works with the nodes that are left
    let takes_over = events.iter().any(|e| matches!(e.event, Event::Ready { .. }));
    let ready = tokio::select! {
        ready = get_ready(&spool, &orders, takes_over, program, &mut log) => ready,
        _ = terminate.recv() => Err("it was ended by a signal".to_owned()),
    };
    let (bench, ready) = match ready {
        Ok(ready) => ready,
        Err(reason) => {
            log.write(Event::Unable { reason: reason.clone() })?;
            log.write(Event::Closed { reason: "it could not work".into() })?;
            return Err(AgentError::Unable(reason));
        }
    };
    let (tell, mut news) = mpsc::unbounded_channel();
    let mut agent = Agent {
        spool,
        orders,
        log,
        bench: Arc::new(bench),
        taken: HashSet::new(),
        under_way: HashMap::new(),
        attempts: JoinSet::new(),
        tell,
        lost: BTreeSet::new(),
        reviving: None,
        revived: Instant::now(),
        active: Instant::now(),
        begun,
        beaten: None,
    };
    // what an earlier agent was at comes before it takes new runs
    agent.recover(&events.into_iter().map(|e| e.event).collect::<Vec<_>>()).await?;
    agent.log.write(ready)?;
    let reason = loop {
        tokio::select! {
            biased;
            Some((run, what)) = news.recv() => agent.hear(run, what)?,
            Some(ended) = agent.attempts.join_next(), if !agent.attempts.is_empty() => {
                while let Ok((run, what)) = news.try_recv() {
                    agent.hear(run, what)?;
                }
                let (task, result) = ended.map_err(|e| AgentError::Unable(format!("this is an error of cvc: {e}")))?;
                agent.ended(&task, result)?;
            }
            _ = terminate.recv() => break "it was ended by a signal",
            () = tokio::time::sleep(TICK) => {
                if agent.take_requests()? {
                    break "the controller closed it";
                }
                agent.beat();
                agent.watch_nodes()?;
                agent.revive();
                if agent.idle() {
                    break "no controller came for a long time";
                }
            }
        }
    };
    agent.close(reason, &mut news).await
}

/// Everything before the first run; the event that says what there is.
async fn get_ready(
    spool: &Spool,
    orders: &Orders,
    takes_over: bool,
    program: &Utf8Path,
    log: &mut EventLog,
) -> Result<(Bench, Event), String> {
    if orders.protocol != PROTOCOL {
        return Err(format!("its controller speaks protocol {}, and it {PROTOCOL}: use the same version of cvc", orders.protocol));
    }
    let cluster = orders.brief.site.cluster.clone().ok_or("the site has no machines")?;
    let mut noted = Vec::new();
    let gathered = nodes::gather(orders, &cluster, takes_over, |what| noted.push(what)).await;
    for what in noted.drain(..) {
        log.write(Event::Note { what }).map_err(|e| e.to_string())?;
    }
    let (mut gathered, ways) = gathered?;
    let mut brief = orders.brief.clone();
    brief.base = spool.root().to_owned();
    let mut area_problems: BTreeMap<String, String> = BTreeMap::new();
    let areas = nodes::areas(orders, spool.root());
    nodes::ask_places(&mut gathered, areas.values()).await?;
    for (name, directory) in areas {
        let found = nodes::storage_kind(&gathered, &directory).await;
        let Some(area) = brief.site.storage.get_mut(&name) else { continue };
        match found {
            Err(problem) => {
                area_problems.insert(name, problem);
            }
            Ok(found) if !gathered.others().is_empty() && found != area.kind => {
                if area.path.is_none() {
                    // nobody said what it is
                    area.kind = found;
                } else {
                    let (said, is) = match area.kind {
                        StorageKind::Shared => ("shared", "each node sees files of its own there"),
                        StorageKind::NodeLocal => ("node-local", "all nodes see the same files there"),
                    };
                    area_problems
                        .insert(name.clone(), format!("storage area {name} ({directory}) is called {said}, but {is}: correct its `kind`"));
                }
            }
            Ok(_) => {}
        }
    }
    let mut site = ReadySite::ask(Arc::new(brief), Readiness::Build, |what| noted.push(what)).await;
    for what in noted {
        log.write(Event::Note { what }).map_err(|e| e.to_string())?;
    }
    let smallest = gathered.all.iter().filter_map(|n| gathered.facts.get(&n.name)).map(|f| f.cpu.usable).min();
    site.cores = cluster.cores.or(smallest).unwrap_or(site.cores);
    for directory in site.kernels.values().filter_map(|k| k.as_ref().ok()) {
        spread_kernels(&gathered, &ways, directory).await?;
    }
    let mut obstacles = obstacles(&site, &gathered, &orders.points, &area_problems).await?;
    if matches!(gathered.ways, Ways::Slurm(_)) {
        for (id, reason) in unreachable_by_ssh(&gathered, &orders.points).await {
            obstacles.entry(id).or_insert(reason);
        }
    }
    let found = Found::of(&site);
    let ready = Event::Ready { nodes: gathered.all.iter().map(|n| n.name.clone()).collect(), cores: site.cores, obstacles, found };
    let shepherd = vec![program.to_string(), "shepherd".into()];
    let bench = Bench { site: Arc::new(site), nodes: Arc::new(gathered), dir: spool.campaign(), shepherd, debts: Debts::default() };
    Ok((bench, ready))
}

/// The kernels that were compiled here go to the nodes that do not see them.
async fn spread_kernels(nodes: &Nodes, ways: &[Way], directory: &Utf8Path) -> Result<(), String> {
    let programs: Vec<Utf8PathBuf> =
        directory.read_dir_utf8().map(|d| d.flatten().map(|e| e.into_path()).filter(|p| p.is_file()).collect()).unwrap_or_default();
    let differing = nodes::differing(nodes, &programs).await?;
    let lacking: BTreeSet<&str> = differing.values().flatten().map(|(node, _)| node.as_str()).collect();
    for way in ways.iter().filter(|w| lacking.contains(w.node.name.as_str())) {
        nodes::spread_directory(way, directory).await?;
    }
    Ok(())
}

/// Points that cannot run here, with the reason: what is missing on this machine, or is not the same on all nodes.
async fn obstacles(
    site: &ReadySite,
    nodes: &Nodes,
    points: &[PlannedPoint],
    area_problems: &BTreeMap<String, String>,
) -> Result<BTreeMap<PointId, String>, String> {
    let mut obstacles = BTreeMap::new();
    let mut needed: Vec<(PointId, Vec<Utf8PathBuf>)> = Vec::new();
    let mut files: BTreeSet<Utf8PathBuf> = BTreeSet::new();
    for PlannedPoint { id, point } in points {
        if let Some(reason) = site.obstacle(point).or_else(|| area_problems.get(&point.storage).cloned()) {
            obstacles.insert(id.clone(), reason);
        } else if point.mapping.nodes() as usize > nodes.all.len() {
            obstacles
                .insert(id.clone(), format!("{} needs {} nodes, and {} are there", point.mapping, point.mapping.nodes(), nodes.all.len()));
        } else {
            let of_point = programs(site, point);
            files.extend(of_point.iter().cloned());
            needed.push((id.clone(), of_point));
        }
    }
    let files: Vec<Utf8PathBuf> = files.into_iter().collect();
    let differing = nodes::differing(nodes, &files).await?;
    for (id, of_point) in needed {
        let wrong: Vec<String> = of_point
            .iter()
            .filter_map(|file| Some((file, differing.get(file)?)))
            .map(|(file, nodes)| {
                let nodes: Vec<String> = nodes.iter().map(|(node, what)| format!("{node} {what}")).collect();
                format!("{file} is not the same on all nodes: {}", nodes.join(", "))
            })
            .collect();
        if !wrong.is_empty() {
            obstacles.insert(id, format!("{}; `cvc install` makes nodes equal", wrong.join("; ")));
        }
    }
    Ok(obstacles)
}

/// Points under DMTCP of several nodes inside a Slurm job whose nodes do not reach each other by ssh: what srun starts is Slurm's, and cannot be
/// restarted.
async fn unreachable_by_ssh(nodes: &Nodes, points: &[PlannedPoint]) -> BTreeMap<PointId, String> {
    let needs = |p: &&PlannedPoint| p.point.checkpointer == CheckpointerKind::Dmtcp && p.point.mapping.nodes() > 1;
    if !points.iter().any(|p| needs(&p)) {
        return BTreeMap::new();
    }
    let problems = nodes::not_by_ssh(nodes).await;
    if problems.is_empty() {
        return BTreeMap::new();
    }
    let reason = format!(
        "under DMTCP the ranks of other nodes are started by ssh, not by srun, and from {} that does not work: {}; let the nodes of a job reach \
         each other by ssh (keys, pam_slurm_adopt), or keep to one node",
        nodes.head.name,
        problems.join("; ")
    );
    points.iter().filter(needs).map(|p| (p.id.clone(), reason.clone())).collect()
}

/// Programs that every node must have for a point.
fn programs(site: &ReadySite, point: &Point) -> Vec<Utf8PathBuf> {
    let mut files = Vec::new();
    if let Some(app) = site.brief.apps.get(&point.app)
        && let Ok(program) = site.program(&app.descriptor, point)
    {
        files.push(program);
    }
    if let Some(Ok(install)) = site.mpi.get(&point.mpi) {
        files.push(install.mpiexec.clone());
    }
    if let (CheckpointerKind::Dmtcp, Ok(dmtcp)) = (point.checkpointer, &site.dmtcp) {
        files.push(Utf8PathBuf::from(dmtcp.program("dmtcp_launch")));
    }
    files
}

impl Agent {
    /// Ends what an earlier agent was at, and tells what became of it.
    async fn recover(&mut self, events: &[Event]) -> Result<(), AgentError> {
        let mut settled: HashSet<(RunId, u32)> = HashSet::new();
        let mut started: HashMap<(RunId, u32), (u32, u64)> = HashMap::new();
        let mut worked_before = false;
        for event in events {
            match event {
                Event::Finished { run, lap, .. } | Event::Interrupted { run, lap } | Event::Lost { run, lap, .. } => {
                    settled.insert((run.clone(), *lap));
                }
                Event::Started { run, lap, pid, start_ticks } => {
                    started.insert((run.clone(), *lap), (*pid, *start_ticks));
                }
                Event::Ready { .. } => worked_before = true,
                Event::Note { .. }
                | Event::Unable { .. }
                | Event::Stage { .. }
                | Event::NodeLost { .. }
                | Event::NodeBack { .. }
                | Event::Closed { .. } => {}
            }
        }
        for name in self.spool.names()? {
            match self.spool.request(&name)? {
                Request::Run(task) => {
                    let key = (task.planned.id.clone(), task.lap);
                    if settled.contains(&key) {
                        self.taken.insert(name);
                    } else if worked_before {
                        self.recover_run(&task, started.get(&key).copied()).await?;
                        self.taken.insert(name);
                    }
                }
                // they were for an agent that is gone
                Request::Stop { .. } | Request::Close => self.spool.drop_request(&name),
                Request::Forget { .. } => {}
            }
        }
        Ok(())
    }

    async fn recover_run(&mut self, task: &Task, shepherd: Option<(u32, u64)>) -> Result<(), AgentError> {
        let (run, lap) = (task.planned.id.clone(), task.lap);
        let (_, whole) = self.bench.recover(task, shepherd).await?;
        match whole {
            Some(file) => self.finished(run, lap, file),
            None => {
                let restarts = std::env::var("SLURM_RESTART_COUNT").ok().filter(|c| c != "0");
                let reason = match restarts {
                    Some(count) => format!("its job was put back into the queue (restart {count})"),
                    None => "the agent on the head ended before it did".to_owned(),
                };
                self.log.write(Event::Lost { run, lap, reason, time_limit: false }).map_err(AgentError::from)
            }
        }
    }

    fn finished(&mut self, run: RunId, lap: u32, file: OutcomeFile) -> Result<(), AgentError> {
        let OutcomeFile { attempt, outcome, records, wall_s } = file;
        Ok(self.log.write(Event::Finished { run, lap, attempt, outcome, records, wall_s })?)
    }

    /// Says that it is alive.
    fn beat(&mut self) {
        if self.beaten.is_none_or(|at| at.elapsed() > BEAT) {
            // a file system that is away for a moment is no reason to stop
            let _ = fs::write(self.spool.beat(), b"");
            self.beaten = Some(Instant::now());
        }
    }

    /// Takes in what is new. Whether the agent is to go.
    fn take_requests(&mut self) -> Result<bool, AgentError> {
        for name in self.spool.names()? {
            if self.taken.contains(&name) {
                continue;
            }
            self.active = Instant::now();
            let request = self.spool.request(&name)?;
            self.taken.insert(name.clone());
            match request {
                Request::Run(task) => self.begin(task)?,
                Request::Stop { run } => {
                    if let Some(under_way) = self.under_way.get(&run) {
                        under_way.wish.send_replace(Wish::StopNow);
                    }
                    self.spool.drop_request(&name);
                }
                Request::Forget { run, lap, attempt } => self.forget(&run, lap, attempt, &name),
                Request::Close => {
                    self.spool.drop_request(&name);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn begin(&mut self, task: Box<Task>) -> Result<(), AgentError> {
        let run = task.planned.id.clone();
        // the controller may not have heard yet that a node is lost: that is no attempt
        self.watch_nodes()?;
        if let Some(node) = task.nodes.iter().find(|n| self.lost.contains(*n)) {
            let reason = format!("{node} was lost before it began");
            return Ok(self.log.write(Event::Lost { run, lap: task.lap, reason, time_limit: false })?);
        }
        let (wish, wishes) = watch::channel(Wish::GoOn);
        self.under_way.insert(run.clone(), UnderWay { lap: task.lap, nodes: task.nodes.clone(), wish });
        let (bench, teller) = (Arc::clone(&self.bench), Teller { run: run.clone(), to: self.tell.clone() });
        self.attempts.spawn(async move {
            let result = bench.attempt(&task, wishes, &teller).await;
            (task, result.map_err(|e| e.to_string()))
        });
        Ok(())
    }

    /// The controller has everything of an attempt.
    fn forget(&mut self, run: &RunId, lap: u32, attempt: u32, name: &str) {
        let campaign = self.spool.campaign();
        for dir in [campaign.run(run), campaign.failed(run, attempt)] {
            // a later attempt may stand under the run's own name: its outcome says which it is
            let of = fs::read(dir.join("outcome.json")).ok().and_then(|text| serde_json::from_slice::<OutcomeFile>(&text).ok());
            if of.is_some_and(|file| file.attempt == attempt) {
                // what cannot be removed now goes with the spool
                let _ = fs::remove_dir_all(&dir);
            }
        }
        self.spool.drop_request(&request_name(run, lap));
        self.spool.drop_request(name);
    }

    fn hear(&mut self, run: RunId, news: News) -> Result<(), AgentError> {
        let Some(lap) = self.under_way.get(&run).map(|u| u.lap) else { return Ok(()) };
        let event = match news {
            News::Started(ProcessId { pid, start_ticks }) => Event::Started { run, lap, pid, start_ticks },
            News::Stage(stage) => Event::Stage { run, stage },
        };
        Ok(self.log.write(event)?)
    }

    fn ended(&mut self, task: &Task, result: Result<Attempted, String>) -> Result<(), AgentError> {
        let (run, lap, attempt) = (task.planned.id.clone(), task.lap, task.attempt);
        self.under_way.remove(&run);
        self.active = Instant::now();
        // before the end that it has caused, or the controller would take the same nodes again
        self.watch_nodes()?;
        match result {
            Ok(Attempted::Ended(file)) => self.finished(run, lap, file),
            Ok(Attempted::Interrupted) => Ok(self.log.write(Event::Interrupted { run, lap })?),
            Ok(Attempted::Lost { reason, time_limit }) => Ok(self.log.write(Event::Lost { run, lap, reason, time_limit })?),
            Ok(Attempted::Failed { cause, detail }) => {
                let outcome = Outcome::Failed { cause, detail };
                Ok(self.log.write(Event::Finished { run, lap, attempt, outcome, records: None, wall_s: 0.0 })?)
            }
            // its directory could not be written: that is its failure
            Err(detail) => {
                let outcome = Outcome::Failed { cause: crate::journal::Cause::Store, detail };
                Ok(self.log.write(Event::Finished { run, lap, attempt, outcome, records: None, wall_s: 0.0 })?)
            }
        }
    }

    fn watch_nodes(&mut self) -> Result<(), AgentError> {
        let now = self.bench.nodes.crew.lost().borrow().clone();
        for (node, reason) in &now {
            if self.lost.insert(node.clone()) {
                self.log.write(Event::NodeLost { node: node.clone(), reason: reason.clone() })?;
            }
        }
        if self.reviving.is_some() {
            // what was left on those that are back is still being removed
            return Ok(());
        }
        let back: Vec<String> = self.lost.iter().filter(|n| !now.contains_key(*n)).cloned().collect();
        for node in back {
            self.lost.remove(&node);
            self.log.write(Event::NodeBack { node })?;
        }
        Ok(())
    }

    /// Tries now and then to reach lost nodes, but those of runs under way, which are about to fail by their loss.
    fn revive(&mut self) {
        if self.reviving.as_ref().is_some_and(JoinHandle::is_finished) {
            self.reviving = None;
            self.revived = Instant::now();
        }
        if self.reviving.is_some() || self.revived.elapsed() < REVIVE {
            return;
        }
        let used: BTreeSet<&String> = self.under_way.values().flat_map(|u| &u.nodes).collect();
        let wanted: BTreeSet<String> = self.lost.iter().filter(|n| !used.contains(n)).cloned().collect();
        if wanted.is_empty() {
            return;
        }
        let bench = Arc::clone(&self.bench);
        self.reviving = Some(tokio::spawn(async move {
            let (back, _) = bench.nodes.crew.revive_of(|name| wanted.contains(name)).await;
            bench.settle_debts(&back).await;
        }));
    }

    /// Whether nobody has needed it for long.
    fn idle(&self) -> bool {
        let limit = Duration::from_secs_f64(self.orders.idle_s);
        if !self.under_way.is_empty() || self.active.elapsed() < limit {
            return false;
        }
        let seen = fs::metadata(self.spool.controller()).and_then(|m| m.modified()).ok();
        seen.and_then(|at| SystemTime::now().duration_since(at).ok()).is_none_or(|since| since > limit)
    }

    /// Whether the job that this agent is in has no more time than Slurm gives between its warning and the end.
    fn near_time_limit(&self) -> bool {
        let slurm = self.orders.brief.site.cluster.as_ref().and_then(|c| c.slurm.as_ref());
        let limit = slurm.map(|s| Duration::from_secs_f64((s.time_limit_s / 60.0).ceil().max(1.0) * 60.0));
        // the warning may come up to a minute early
        limit.is_some_and(|l| self.begun.elapsed() + Duration::from_secs(u64::from(WARNING_S) + 62) > l)
    }

    /// Removes what the campaign's directories are on the other nodes; on this one the controller does, or they are the same.
    async fn clear_others(&self) {
        let nodes = &self.bench.nodes;
        let others = nodes.others();
        let mut dirs: Vec<PathBuf> = Vec::new();
        if matches!(nodes::storage_kind(nodes, self.spool.root()).await, Ok(StorageKind::NodeLocal)) {
            dirs.push(self.spool.root().into());
        }
        let brief = &self.bench.site.brief;
        let kept = brief.run.keep_images || brief.run.keep_outputs;
        for (name, directory) in nodes::areas(&self.orders, self.spool.root()) {
            let area = brief.site.storage.get(&name).filter(|a| a.path.is_some() && a.kind == StorageKind::NodeLocal);
            if area.is_some() && !kept {
                dirs.push(directory.join(&brief.campaign).into());
            }
        }
        // a node that is lost keeps them, with what was cut off there
        let _ = nodes.crew.remove(&others, &dirs, &[], SOON).await;
    }

    async fn close(mut self, reason: &str, news: &mut mpsc::UnboundedReceiver<(RunId, News)>) -> Result<(), AgentError> {
        let time_limit = self.near_time_limit();
        for under_way in self.under_way.values() {
            under_way.wish.send_replace(Wish::StopNow);
        }
        let begin = Instant::now();
        while !self.attempts.is_empty() && begin.elapsed() < CUT_LIMIT {
            let Ok(Some(ended)) = tokio::time::timeout(CUT_LIMIT, self.attempts.join_next()).await else { break };
            while let Ok((run, what)) = news.try_recv() {
                self.hear(run, what)?;
            }
            if let Ok((task, result)) = ended {
                let result = match result {
                    Ok(Attempted::Interrupted) => Ok(Attempted::Lost { reason: reason.to_owned(), time_limit }),
                    other => other,
                };
                self.ended(&task, result)?;
            }
        }
        self.clear_others().await;
        self.bench.nodes.crew.close().await;
        self.log.write(Event::Closed { reason: reason.to_owned() })?;
        Ok(())
    }
}

/// Name of the request for an attempt.
pub(crate) fn request_name(run: &RunId, lap: u32) -> String {
    format!("run-{run}-{lap}")
}
