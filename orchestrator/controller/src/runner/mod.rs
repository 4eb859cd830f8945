//! Walks through a plan: resumes, runs, retries, sets points aside, stops when asked.

mod budget;
mod closing;
mod clouds;
mod sites;

use super::observe::{Observer, Progress};
use crate::error::CampaignError;
use crate::{
    cloud::Fleet,
    progress::SiteEvent,
    provider::Clouds,
    remote::{AbortOnDropHandle, Remote},
};
use camino::Utf8PathBuf;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::{
    campaign::{SiteKind, Spec},
    ids::{PointId, RunId},
    journal::{CampaignState, Event, Journal, RunState},
    outcome::{Cause, Outcome},
    plan::{Plan, PlannedRun},
    point::Point,
    store::{CampaignDir, CampaignLock, StoreError, remove_all, write_whole},
};
use cvc_engine::attempt::{
    self, AttemptEvent, AttemptReporter, Attempted, LocalExecutor, Nodes, OutcomeFile, PendingCleanup, ReadySite, Steps, Task,
    conclude_failed, recover_run,
};
use indexmap::IndexMap;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::Instrument;

pub use closing::close_campaign;

/// How long lost nodes are waited for when nothing else can run: so many times what it takes to miss one.
const NODES_PATIENCE: f64 = 8.0;
/// So often an attempt may be lost with what carried it out before that is its failure.
const MOST_LOST: u32 = 3;
/// So often an attempt that was lost to a reclaimed node does not count.
const MOST_RECLAIMED: u32 = 8;

/// How a campaign is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of all campaigns.
    pub campaigns: Utf8PathBuf,
    /// Program and arguments that start a shepherd; the job file follows.
    pub shepherd: Vec<String>,
    /// The program that cvc puts on nodes.
    pub node_program: Utf8PathBuf,
    /// Try runs again that failed for good, and points that were set aside.
    pub retry_failed: bool,
    /// Bytes that a run of a point needs in its storage area at most, where that is known.
    pub disk_bytes: HashMap<PointId, u64>,
    /// What launches instances; `None` in a cvc that was built without.
    pub clouds: Option<Arc<dyn Clouds>>,
    /// How long a run of a point is expected to take, seconds, where that is known.
    pub expected_s: HashMap<PointId, f64>,
    /// Take what is installed on sites of several machines into the lock file, instead of holding it against that.
    pub update_lock: bool,
}

/// Where the campaign stands after this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs that succeeded, earlier ones included.
    pub succeeded: u64,
    /// Runs that failed for good.
    pub failed: u64,
    /// Runs that are not tried: set aside, or something is not installed.
    pub skipped: u64,
    /// Runs that are still to be done: the user stopped.
    pub left: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether runs were not begun, or were ended, because the budget would have been exceeded.
    pub over_budget: bool,
}

/// Where the runs of a site are carried out.
#[derive(Clone)]
enum Place {
    /// On this machine.
    Here(Arc<LocalExecutor>),
    /// On others.
    Remote(Arc<Remote>),
}

impl Place {
    fn side_by_side(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Remote(remote) => remote.side_by_side(),
        }
    }
}

/// One campaign under way.
struct CampaignRunner<'a> {
    spec: &'a Spec,
    options: &'a Options,
    dir: CampaignDir,
    journal: Journal,
    state: CampaignState,
    points: HashMap<PointId, Point>,
    places: HashMap<String, Place>,
    /// Machines of clouds, of the sites that are open.
    fleets: HashMap<String, Arc<Fleet>>,
    stop_signal: StopSignal,
    observer: &'a mut dyn Observer,
    /// Points that cannot run here.
    obstacles: BTreeMap<PointId, String>,
    /// Attempts that do not count, because the user has asked for further ones.
    forgiven: HashMap<RunId, u32>,
    /// Attempts under way.
    under_way: HashMap<RunId, Task>,
    /// Runs that an earlier controller handed over to an agent, which may be at them.
    adopted: BTreeSet<RunId>,
    /// How often attempts were lost with what carried them out.
    losses: HashMap<RunId, u32>,
    /// Nothing can be written down any more, so that nothing may be done any more.
    mute: bool,
    /// Runs were not begun, or were ended, for want of money.
    over_budget: bool,
    /// The point of each run of the plan.
    run_points: HashMap<RunId, PointId>,
    /// What attempts hear: the user's stop_request, or that the money is at its end.
    cut: Arc<watch::Sender<StopRequest>>,
    /// Machines that are kept for a next campaign are given back, too.
    ends_kept: bool,
    /// Sites of earlier sessions that could not be cleared, and an attempt's end that left something.
    leftover: Option<CampaignError>,
    /// Why the only site cannot work any more.
    failure: Option<CampaignError>,
    /// What sites tell.
    site_events: mpsc::UnboundedReceiver<SiteEvent>,
    site_event_sender: mpsc::UnboundedSender<SiteEvent>,
}

/// Runs what of a plan is still to be done.
pub async fn run_campaign(
    spec: &Spec,
    plan: &Plan,
    sites: IndexMap<String, ReadySite>,
    options: &Options,
    stop_signal: StopSignal,
    observer: &mut dyn Observer,
) -> Result<Summary, CampaignError> {
    let dir = CampaignDir::new(&options.campaigns, &plan.campaign);
    fs::create_dir_all(dir.runs()).map_err(StoreError::io("make", dir.runs()))?;
    let root = dir.root().canonicalize_utf8().map_err(StoreError::io("resolve", dir.root()))?;
    let dir = CampaignDir::at(&root);
    let _lock = CampaignLock::take(&dir.lock())?;
    write_whole(&dir.campaign_file(), spec.text.as_bytes())?;
    let plan_json = serde_json::to_vec_pretty(plan).map_err(|e| StoreError::damaged(dir.plan(), 0, e.to_string()))?;
    write_whole(&dir.plan(), &plan_json)?;
    let mut coordinator = CampaignRunner::begin(spec, plan, sites, dir, options, stop_signal, observer)?;
    coordinator.recover(plan)?;
    if options.retry_failed {
        coordinator.forget_failures()?;
    }
    let digest = blake3::hash(&plan_json).to_hex()[..16].to_owned();
    coordinator.write(Event::Started { plan: digest, runs: plan.runs.len() as u64, pid: std::process::id() })?;
    let walked = coordinator.carry_out(plan).await;
    // whatever went wrong, nothing is left on other machines; what costs also if that cannot be written down
    let closed = if coordinator.mute { coordinator.end_clouds_unwritten().await } else { coordinator.close_sites().await };
    match (walked, closed.err().or(coordinator.leftover)) {
        (Err(error), Some(CampaignError::Leftover { site, what })) => {
            // what is left matters more than why, but both are told
            Err(CampaignError::Leftover { site, what: format!("{what} (after: {error})") })
        }
        (Err(error), _) | (Ok(_), Some(error)) => Err(error),
        (Ok(summary), None) => Ok(summary),
    }
}

impl<'a> CampaignRunner<'a> {
    /// Reads the journal; nothing has happened yet. The caller holds the campaign's lock.
    fn begin(
        spec: &'a Spec,
        plan: &Plan,
        sites: IndexMap<String, ReadySite>,
        dir: CampaignDir,
        options: &'a Options,
        stop_signal: StopSignal,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, CampaignError> {
        let (journal, entries) = Journal::open(&dir.journal(), &plan.campaign)?;
        let (site_event_sender, site_events) = mpsc::unbounded_channel();
        let place = |site| {
            let (nodes, shepherd) = (Arc::new(Nodes::here()), options.shepherd.clone());
            Place::Here(Arc::new(LocalExecutor {
                site: Arc::new(site),
                nodes,
                dir: dir.clone(),
                shepherd,
                pending_cleanup: PendingCleanup::default(),
                steps: Steps::default(),
            }))
        };
        Ok(Self {
            spec,
            options,
            journal,
            state: CampaignState::of(&entries),
            points: plan.points.iter().map(|p| (p.id.clone(), p.point.clone())).collect(),
            places: sites.into_iter().map(|(name, site)| (name, place(site))).collect(),
            fleets: HashMap::new(),
            dir,
            stop_signal,
            observer,
            obstacles: BTreeMap::new(),
            forgiven: HashMap::new(),
            under_way: HashMap::new(),
            adopted: BTreeSet::new(),
            losses: HashMap::new(),
            mute: false,
            over_budget: false,
            run_points: plan.runs.iter().map(|r| (r.id.clone(), r.point.clone())).collect(),
            cut: Arc::new(watch::channel(StopRequest::GoOn).0),
            ends_kept: false,
            leftover: None,
            failure: None,
            site_events,
            site_event_sender,
        })
    }
}

impl CampaignRunner<'_> {
    fn write(&mut self, event: Event) -> Result<(), CampaignError> {
        match self.journal.append(event) {
            Ok(entry) => {
                self.state.apply(&entry);
                Ok(())
            }
            Err(error) => {
                self.mute = true;
                Err(error.into())
            }
        }
    }

    async fn carry_out(&mut self, plan: &Plan) -> Result<Summary, CampaignError> {
        self.open_sites(plan).await?;
        self.look_for_obstacles(plan)?;
        self.walk(plan).await
    }

    /// Ends what a killed controller left, keeps what was whole, and marks the rest to be done again.
    fn recover(&mut self, plan: &Plan) -> Result<(), CampaignError> {
        let open: Vec<(RunId, u32, _)> = self
            .state
            .runs
            .iter()
            .filter_map(|(run, history)| match &history.state {
                RunState::Open { attempt, shepherd } => Some((run.clone(), *attempt, *shepherd)),
                RunState::Abandoned { .. } | RunState::Finished { .. } => None,
            })
            .collect();
        for (run, attempt, shepherd) in open {
            if self.remote_run(plan, &run) {
                // it may still be under way there: whoever carries it out is asked when the site is opened
                match attempt::sealed_outcome(&self.dir, &run, attempt) {
                    Some(file) => self.write(Event::RunFinished { run, attempt, outcome: file.outcome, records: file.records })?,
                    None => {
                        remove_all(&self.dir.partial(&run))?;
                        self.adopted.insert(run);
                    }
                }
                continue;
            }
            let context_of = |site: &str| match self.places.get(site) {
                Some(Place::Here(executor)) => Some(&*executor.site.context),
                Some(Place::Remote(_)) | None => None,
            };
            let (ended, whole) = recover_run(&self.dir, context_of, &run, attempt, shepherd)?;
            self.observer.on(&Progress::Recovered { run: run.clone(), ended: ended.len() as u64, kept: whole.is_some() });
            match whole {
                Some(file) => self.write(Event::RunFinished { run, attempt, outcome: file.outcome, records: file.records })?,
                None => self.write(Event::RunAbandoned { run, attempt, ended })?,
            }
        }
        Ok(())
    }

    /// Whether a run of the plan is carried out on other machines.
    fn remote_run(&self, plan: &Plan, run: &RunId) -> bool {
        let point = plan.runs.iter().find(|r| r.id == *run).and_then(|r| self.points.get(&r.point));
        point.and_then(|p| self.spec.sites.get(&p.site)).is_some_and(|s| s.kind != SiteKind::Local)
    }

    /// Failed runs get their attempts again. They go on counting where they were: directories of earlier attempts keep their names.
    fn forget_failures(&mut self) -> Result<(), CampaignError> {
        for (run, history) in &mut self.state.runs {
            if let RunState::Finished { attempt, outcome: Outcome::Failed { .. }, .. } = history.state {
                self.forgiven.insert(run.clone(), attempt);
                history.state = RunState::Abandoned { attempts: attempt };
            }
        }
        // in the journal, or a controller that is killed now would find the points still set aside
        for point in self.state.quarantined.clone() {
            self.write(Event::PointReleased { point })?;
        }
        Ok(())
    }

    /// Whether a failed run has no attempt left.
    fn used_up(&self, run: &RunId, attempt: u32) -> bool {
        let counted = attempt.saturating_sub(self.forgiven.get(run).copied().unwrap_or(0)).saturating_sub(self.blameless(run));
        counted > self.spec.run.retries
    }

    fn look_for_obstacles(&mut self, plan: &Plan) -> Result<(), CampaignError> {
        let runs: HashMap<&PointId, u64> = plan.runs.iter().fold(HashMap::new(), |mut runs, r| {
            *runs.entry(&r.point).or_default() += 1;
            runs
        });
        let mut reasons: IndexMap<String, (Vec<PointId>, Vec<Point>, u64)> = IndexMap::new();
        for planned in &plan.points {
            let obstacle = match self.places.get(&planned.point.site) {
                Some(Place::Here(executor)) => executor.site.obstacle(&planned.point),
                Some(Place::Remote(remote)) => remote.ready().obstacles.get(&planned.id).cloned(),
                // nothing is wanted of it, or it could not be opened
                None => self.obstacles.get(&planned.id).cloned(),
            };
            if let Some(reason) = obstacle {
                let (ids, points, of_reason) = reasons.entry(reason.clone()).or_default();
                ids.push(planned.id.clone());
                points.push(planned.point.clone());
                *of_reason += runs.get(&planned.id).copied().unwrap_or(0);
                self.obstacles.insert(planned.id.clone(), reason);
            }
        }
        for (reason, (ids, points, runs)) in reasons {
            self.write(Event::PointsSkipped { points: ids, reason: reason.clone() })?;
            self.observer.on(&Progress::Skipped { reason, points, runs });
        }
        Ok(())
    }

    /// Attempts that a run has behind it, or `None` if it needs none any more.
    fn attempts_before(&self, run: &RunId) -> Option<u32> {
        match self.state.run(run) {
            None => Some(0),
            Some(RunState::Abandoned { attempts }) => Some(*attempts),
            Some(RunState::Finished { outcome: Outcome::Succeeded, .. }) => None,
            Some(RunState::Finished { attempt, outcome: Outcome::Failed { .. }, .. }) => (!self.used_up(run, *attempt)).then_some(*attempt),
            // recovery has closed all that were open
            Some(RunState::Open { attempt, .. }) => Some(attempt.saturating_sub(1)),
        }
    }

    /// Whether a run is not to be tried, or needs no further attempt.
    fn settled(&self, planned: &PlannedRun) -> bool {
        self.obstacles.contains_key(&planned.point)
            || self.state.quarantined.contains(&planned.point)
            || self.attempts_before(&planned.id).is_none()
    }

    async fn walk(&mut self, plan: &Plan) -> Result<Summary, CampaignError> {
        let can_run: u64 = plan.runs.iter().filter(|r| !self.obstacles.contains_key(&r.point)).count() as u64;
        let done = plan.runs.iter().filter(|r| self.attempts_before(&r.id).is_none()).count() as u64;
        self.observer.on(&Progress::Started { runs: can_run, done });
        let of_points = plan.runs.iter().fold(HashMap::<PointId, Vec<RunId>>::new(), |mut of, run| {
            of.entry(run.point.clone()).or_default().push(run.id.clone());
            of
        });
        let (tell, mut news) = mpsc::unbounded_channel();
        let mut attempts: JoinSet<(RunId, Result<Attempted, CampaignError>)> = JoinSet::new();
        // all runs before this one are settled
        let mut settled = 0;
        let mut interrupted = false;
        let _forward = self.forward_stop_requests();
        loop {
            while plan.runs.get(settled).is_some_and(|r| self.settled(r) && !self.under_way.contains_key(&r.id)) {
                settled += 1;
            }
            self.close_idle_clouds(plan, settled).await?;
            if *self.stop_signal.borrow() == StopRequest::GoOn {
                while let Some(number) = self.next(plan, settled) {
                    if let Some(reason) = self.unaffordable(&plan.runs[number]) {
                        self.over_budget = true;
                        let point = plan.runs[number].point.clone();
                        let open = |r: &&PlannedRun| r.point == point && !self.settled(r);
                        let runs = plan.runs.iter().filter(open).count() as u64;
                        self.give_up(BTreeSet::from([point]), runs, format!("{reason}; raise `budget.usd`, and `cvc run` goes on"))?;
                        continue;
                    }
                    self.start(&plan.runs[number], number as u64 + 1, &tell, &mut attempts)?;
                }
            }
            if attempts.is_empty()
                && *self.stop_signal.borrow() == StopRequest::GoOn
                && settled < plan.runs.len()
                && self.wait_for_nodes(plan, settled).await?
            {
                continue;
            }
            if attempts.is_empty() {
                interrupted |= *self.stop_signal.borrow() > StopRequest::GoOn && settled < plan.runs.len();
                break;
            }
            let broke = self.money_lasts().filter(|_| *self.cut.borrow() < StopRequest::StopNow);
            let allowance = self.allowance();
            // without cvc each ends by what it can have alone
            let fleets = self.fleets.len().max(1) as f64;
            self.fleets.values().for_each(|f| f.set_allowance(allowance.map(|usd| usd / fleets)));
            tokio::select! {
                // what a run tells comes before its end
                biased;
                Some((run, what)) = news.recv() => self.hear(&run, what)?,
                Some(site_event) = self.site_events.recv() => self.listen(site_event)?,
                () = tokio::time::sleep(broke.unwrap_or_default()), if broke.is_some() => self.out_of_money(plan)?,
                Some(ended) = attempts.join_next() => {
                    let (run, result) = ended.map_err(|e| CampaignError::internal(e.to_string()))?;
                    while let Ok((run, what)) = news.try_recv() {
                        self.hear(&run, what)?;
                    }
                    match result {
                        Ok(attempted) => interrupted |= !self.ended(&run, attempted, &of_points)?,
                        Err(error) => self.site_failed(plan, &run, error)?,
                    }
                }
            }
        }
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let summary = self.summary(plan, interrupted);
        if interrupted {
            let now = *self.stop_signal.borrow() == StopRequest::StopNow;
            self.write(Event::Interrupted { now })?;
        } else {
            self.write(Event::Completed { succeeded: summary.succeeded, failed: summary.failed })?;
        }
        self.observer.on(&Progress::Ended {
            succeeded: summary.succeeded,
            failed: summary.failed,
            skipped: summary.skipped,
            left: summary.left,
        });
        Ok(summary)
    }

    /// The next run that may start beside those under way. What an earlier controller has begun comes first, and nothing else beside it: on
    /// which nodes it is, only its agent knows.
    fn next(&self, plan: &Plan, from: usize) -> Option<usize> {
        let open = |planned: &PlannedRun| !self.settled(planned) && !self.under_way.contains_key(&planned.id);
        let adopted = |planned: &PlannedRun| self.adopted.contains(&planned.id);
        let only_adopted =
            self.under_way.keys().any(|run| self.adopted.contains(run)) || plan.runs[from..].iter().any(|r| adopted(r) && open(r));
        (from..plan.runs.len()).find(|at| {
            let planned = &plan.runs[*at];
            open(planned) && (adopted(planned) || !only_adopted) && self.nodes_for(planned).is_some()
        })
    }

    /// Nodes that a run may have now: neighbours disturb measurements, so that it is alone unless its site allows others beside it.
    fn nodes_for(&self, planned: &PlannedRun) -> Option<Vec<String>> {
        let point = self.points.get(&planned.point)?;
        let place = self.places.get(&point.site)?;
        let beside = |task: &Task| self.places.get(&task.point.site).is_some_and(Place::side_by_side);
        let alone = self.under_way.is_empty();
        let may_be_beside = place.side_by_side() && self.under_way.values().all(beside);
        if !alone && !may_be_beside {
            return None;
        }
        match place {
            Place::Here(executor) => Some(executor.nodes.all.iter().map(|n| n.name.clone()).collect()),
            Place::Remote(remote) => {
                let of_site = self.under_way.values().filter(|t| t.point.site == point.site);
                let used: BTreeSet<String> = of_site.flat_map(|t| t.nodes.iter().cloned()).collect();
                remote.free_nodes(point.mapping.nodes() as usize, &used)
            }
        }
    }

    fn summary(&self, plan: &Plan, interrupted: bool) -> Summary {
        let mut summary = Summary { interrupted, over_budget: self.over_budget, ..Summary::default() };
        for planned in &plan.runs {
            match self.state.run(&planned.id) {
                Some(RunState::Finished { outcome: Outcome::Succeeded, .. }) => summary.succeeded += 1,
                Some(RunState::Finished { .. }) if self.attempts_before(&planned.id).is_none() => summary.failed += 1,
                _ if self.obstacles.contains_key(&planned.point) || self.state.quarantined.contains(&planned.point) => summary.skipped += 1,
                _ => summary.left += 1,
            }
        }
        summary
    }

    /// Sets a point aside when too many of its runs have failed for good.
    fn set_aside(&mut self, point: &PointId, of_point: &[RunId]) -> Result<(), CampaignError> {
        let failed = of_point
            .iter()
            .filter(|r| matches!(self.state.run(r), Some(RunState::Finished { outcome: Outcome::Failed { .. }, .. })))
            .count();
        let failures = u32::try_from(failed).unwrap_or(u32::MAX);
        if failures < self.spec.run.quarantine_after || self.state.quarantined.contains(point) {
            return Ok(());
        }
        let skipped = of_point.iter().filter(|r| self.attempts_before(r).is_some()).count() as u64;
        if skipped == 0 {
            return Ok(());
        }
        self.write(Event::PointQuarantined { point: point.clone(), failures })?;
        self.observer.on(&Progress::Quarantined { point: point.clone(), skipped });
        Ok(())
    }

    /// Begins one attempt.
    fn start(
        &mut self,
        planned: &PlannedRun,
        number: u64,
        tell: &mpsc::UnboundedSender<(RunId, AttemptEvent)>,
        attempts: &mut JoinSet<(RunId, Result<Attempted, CampaignError>)>,
    ) -> Result<(), CampaignError> {
        let run = planned.id.clone();
        let Some(point) = self.points.get(&planned.point).cloned() else {
            return Err(StoreError::damaged(self.dir.plan(), 0, format!("run {run} names a point that is not in the plan")).into());
        };
        let attempt = self.attempts_before(&run).unwrap_or(0) + 1;
        let (Some(place), Some(mut nodes)) = (self.places.get(&point.site).cloned(), self.nodes_for(planned)) else {
            return Err(CampaignError::internal(format!("site {} was not asked", point.site)));
        };
        self.observer.on(&Progress::RunStarted {
            run: run.clone(),
            point: Box::new(point.clone()),
            repeat: planned.repeat,
            attempt,
            number,
        });
        let dispatches = self.state.runs.get(&run).map_or(0, |history| history.attempts.len());
        // it was handed over by an earlier controller, and is only waited for
        let resumed = matches!(self.state.run(&run), Some(RunState::Open { .. }));
        if resumed {
            // it is where the earlier controller had it, unless that was of a version that did not say so
            let before = self.state.runs.get(&run).and_then(|history| history.attempts.last()).map(|a| a.nodes.clone());
            nodes = before.filter(|n| !n.is_empty()).unwrap_or(nodes);
        } else {
            let elsewhere = if matches!(place, Place::Remote(_)) { nodes.clone() } else { Vec::new() };
            self.write(Event::RunIntended { run: run.clone(), attempt, nodes: elsewhere })?;
        }
        let dispatch = u32::try_from(if resumed { dispatches.saturating_sub(1) } else { dispatches }).unwrap_or(u32::MAX);
        let task = Task {
            planned: planned.clone(),
            disk_bytes: self.options.disk_bytes.get(&planned.point).copied(),
            nodes,
            point,
            attempt,
            dispatch,
        };
        self.under_way.insert(run.clone(), task.clone());
        let hears = if self.costs(&task.point.site) { self.cut.subscribe() } else { self.stop_signal.clone() };
        let (stop_signal, reporter) = (hears, AttemptReporter { run: run.clone(), to: tell.clone() });
        let span = tracing::info_span!("run", run = %run, site = %task.point.site, point = %task.planned.point);
        attempts.spawn(
            async move {
                let result = match place {
                    Place::Here(executor) => executor.attempt(&task, stop_signal, &reporter).await.map_err(Into::into),
                    Place::Remote(remote) => remote.attempt(&task, stop_signal, &reporter).await,
                };
                (run, result)
            }
            .instrument(span),
        );
        Ok(())
    }

    /// Attempts hear what the user stop_signal; the returned task goes with the walk.
    fn forward_stop_requests(&self) -> AbortOnDropHandle {
        let (cut, mut stop_signal) = (Arc::clone(&self.cut), self.stop_signal.clone());
        cut.send_modify(|stop_request| *stop_request = (*stop_request).max(*stop_signal.borrow()));
        AbortOnDropHandle(tokio::spawn(async move {
            while stop_signal.changed().await.is_ok() {
                let now = *stop_signal.borrow_and_update();
                cut.send_modify(|stop_request| *stop_request = (*stop_request).max(now));
            }
            // without a sender nobody can want anything more
        }))
    }

    /// Takes in what a run tells.
    fn hear(&mut self, run: &RunId, news: AttemptEvent) -> Result<(), CampaignError> {
        match news {
            AttemptEvent::Started(shepherd) => {
                let Some(attempt) = self.under_way.get(run).map(|t| t.attempt) else { return Ok(()) };
                self.write(Event::RunStarted { run: run.clone(), attempt, pid: shepherd.pid, start_ticks: shepherd.start_ticks })
            }
            AttemptEvent::Stage(stage) => {
                self.observer.on(&Progress::Stage { run: run.clone(), stage });
                Ok(())
            }
        }
    }

    /// Takes in the end of an attempt. `false` when the user has cut it off.
    fn ended(&mut self, run: &RunId, attempted: Attempted, of_points: &HashMap<PointId, Vec<RunId>>) -> Result<bool, CampaignError> {
        let Some(task) = self.under_way.remove(run) else { return Ok(true) };
        self.adopted.remove(run);
        let (run, attempt) = (run.clone(), task.attempt);
        match attempted {
            Attempted::Interrupted => {
                if let Some((cause, detail)) = self.ended_by_budget() {
                    let file = conclude_failed(&self.dir, &run, attempt, cause, detail)?;
                    return self.ended_with(&task, file, of_points);
                }
                self.write(Event::RunAbandoned { run, attempt, ended: Vec::new() })?;
                Ok(false)
            }
            Attempted::Failed { cause, detail } => {
                let file = conclude_failed(&self.dir, &run, attempt, cause, detail)?;
                self.ended_with(&task, file, of_points)
            }
            Attempted::Lost { reason, time_limit } => {
                let losses = self.losses.entry(run.clone()).or_default();
                *losses += 1;
                if *losses <= MOST_LOST {
                    self.write(Event::RunAbandoned { run: run.clone(), attempt, ended: Vec::new() })?;
                    self.observer.on(&Progress::RunLost { run, reason });
                    return Ok(true);
                }
                let detail = format!("lost {losses} times with what carried it out: {reason}");
                let cause = if time_limit { Cause::Timeout } else { Cause::NodeLost };
                let file = conclude_failed(&self.dir, &run, attempt, cause, detail)?;
                self.ended_with(&task, file, of_points)
            }
            Attempted::Ended(file) => self.ended_with(&task, file, of_points),
        }
    }

    fn ended_with(&mut self, task: &Task, file: OutcomeFile, of_points: &HashMap<PointId, Vec<RunId>>) -> Result<bool, CampaignError> {
        let (run, attempt) = (task.planned.id.clone(), task.attempt);
        let OutcomeFile { outcome, records, wall_s, .. } = file;
        let succeeded = outcome == Outcome::Succeeded;
        self.write(Event::RunFinished { run: run.clone(), attempt, outcome: outcome.clone(), records })?;
        if let Some(Place::Remote(remote)) = self.places.get(&task.point.site) {
            remote.forget(task);
        }
        let retry = !succeeded && !self.used_up(&run, attempt);
        self.observer.on(&Progress::RunFinished { run, outcome, wall_s, retry });
        if retry {
            return Ok(true);
        }
        self.set_aside(&task.planned.point, of_points.get(&task.planned.point).map_or(&[], Vec::as_slice))?;
        Ok(true)
    }
}
