//! Walks through a plan: resumes, runs, retries, sets points aside, stops when asked.

mod blocks;
mod budget;
mod campaign_lock;
mod closing;
mod closing_clouds;
mod clouds;
mod enough;
mod fail_fast;
mod fleet_end;
mod giving_back;
mod journaled;
mod ledger;
mod left_behind;
mod opening;
mod openings;
mod queues;
mod scheduler;
#[cfg(test)]
mod scheduler_model;
mod session_limit;
mod sharing;
mod sites;
mod waiting;

use super::observe::{Guarded, Observer, Progress};
use budget::{Budget, BudgetView};
use camino::{Utf8Path, Utf8PathBuf};
use campaign_lock::take_campaign_lock;
use closing_clouds::{ClosedCloud, ClosingClouds};
use cvc_cloud::provider::Clouds;
use cvc_core::campaign::{SiteKind, Spec, keep_hosts};
use cvc_core::ids::{NodeName, PointId, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::panics::{catch_panic, panic_if_asked};
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::stop::{StopRequest, StopRequests, StopSignal};
use cvc_core::store::{
    CampaignDir, OUTCOME, OutcomeFile, StoreError, claim, read_outcome, remove_all,
    remove_half_written, remove_torn, sealed_outcome, write_whole,
};
use cvc_core::units::counted;
use cvc_engine::attempt::{
    AttemptEvent, AttemptReporter, AttemptResult, LocalExecutor, Nodes, PendingCleanup, ReadySite,
    Shepherds, Steps, Task, conclude_failed, recover_run,
};
use cvc_journal::{CampaignState, Event, Lineage, RunState};
use cvc_sites::error::{CampaignError, OverBudget};
use cvc_sites::progress::SiteEvent;
use cvc_sites::remote::Reach;
use fail_fast::FailFast;
use indexmap::IndexMap;
use journaled::Journaled;
use openings::{EndOfOpening, Openings};
use scheduler::{Loss, Scheduler, Tally};
use session_limit::SessionLimit;
use sites::Sites;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fs,
    io::ErrorKind,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

pub use blocks::{NextBlock, next_block};
pub use closing::close_campaign;
pub use enough::means_of;
pub use sites::SiteExecutor;

/// Time between two looks at whether the campaign is still this controller's, while something is waited for.
const OWNER_CHECK: Duration = Duration::from_secs(5);

/// Options for running a campaign.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of all campaigns.
    pub campaigns: Utf8PathBuf,
    /// Directory of what cvc remembers of this machine.
    pub state: Utf8PathBuf,
    /// Program and arguments that start a shepherd.
    pub shepherd: Vec<String>,
    /// The program that cvc puts on nodes.
    pub node_program: Utf8PathBuf,
    /// Whether to retry runs that failed for good, and points that were set aside.
    pub retry_failed: bool,
    /// Whether to go on, and to try again, whatever fails in the same way.
    pub keep_going: bool,
    /// Maximum bytes that a run of a point needs in its storage area, if known.
    pub disk_bytes: HashMap<PointId, u64>,
    /// The clouds; `None` in a cvc that was built without any.
    pub clouds: Option<Arc<dyn Clouds>>,
    /// How the head nodes of sites are reached.
    pub reach: Arc<dyn Reach>,
    /// Expected duration of a run of a point, seconds, if known.
    pub expected_s: HashMap<PointId, f64>,
    /// The points that the session is limited to; `None`: all. Runs of the others are left for later sessions.
    pub only: Option<HashSet<PointId>>,
    /// The last block of runs that the session carries out; `None`: all.
    pub last_block: Option<u32>,
    /// The end of the session: no run is begun that would probably end later. The caller asks for a stop then.
    pub until: Option<Instant>,
    /// Whether to record the software of sites with several machines in the lock file, instead of comparing it.
    pub update_lock: bool,
}

/// The state of the campaign after this session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs that succeeded, earlier ones included.
    pub succeeded: u64,
    /// Runs that failed for good.
    pub failed: u64,
    /// Runs that are not tried: set aside, or their software is missing.
    pub skipped: u64,
    /// Runs that remain because the user stopped, or limited the session to some points or some time.
    pub left: u64,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether runs were not begun, or were ended, to keep the budget.
    pub over_budget: bool,
    /// Whether a site began no more runs, because its first ones failed in the same way.
    pub failed_alike: bool,
}

/// One campaign under way.
struct CampaignRunner<'a> {
    spec: &'a Spec,
    plan: &'a Plan,
    options: &'a Options,
    dir: CampaignDir,
    journal: Journaled<'a>,
    scheduler: Scheduler<'a>,
    budget: Budget<'a>,
    /// The points and the time that this session is limited to.
    limit: SessionLimit,
    /// What fails in the same way.
    fail_fast: FailFast,
    sites: Sites,
    /// When to look next whether the campaign is still this controller's.
    owner_check: Instant,
    /// Sites that are being opened, beside runs of others.
    openings: Openings,
    /// Fleets that are being given back, beside everything else.
    closing: ClosingClouds,
    observer: Guarded<'a>,
    /// The user's request to stop.
    stop_signal: StopSignal,
    /// Stops attempts: the user's request.
    stops: Arc<StopRequests>,
    /// Stops attempts that cost money: the same, or the end of the budget.
    cut: Arc<StopRequests>,
    /// Whether everything is being closed, so that no failure of a site's task may interrupt that.
    is_closing: bool,
    /// Whether kept machines are given back, too.
    ends_kept: bool,
    /// Whether clusters keep what they have, because this machine has no room for the results that are only there.
    keeps_results: bool,
    /// Sites of earlier sessions that could not be cleared, or an attempt's end that left something.
    leftover: Option<CampaignError>,
    /// The reason why the only site no longer works.
    failure: Option<CampaignError>,
}

/// Attempts under way, and their events.
struct Attempts {
    tasks: JoinSet<(RunId, Result<AttemptResult, CampaignError>)>,
    events: mpsc::UnboundedReceiver<(RunId, AttemptEvent)>,
    event_sender: mpsc::UnboundedSender<(RunId, AttemptEvent)>,
}

impl Attempts {
    fn new() -> Self {
        let (event_sender, events) = mpsc::unbounded_channel();
        Self {
            tasks: JoinSet::new(),
            events,
            event_sender,
        }
    }
}

/// What happens next in a walk through the plan.
enum Step {
    /// Nodes came back, or the wait for them was given up.
    Changed,
    /// An attempt reports an event.
    AttemptReported(RunId, AttemptEvent),
    /// A site reports an event.
    Site(SiteEvent),
    /// The budget is used up.
    OutOfMoney,
    /// A fleet was given back or kept, or could not be.
    Closed(ClosedCloud),
    /// A site is open, or could not be opened.
    Opened(EndOfOpening),
    /// The user asks for a stop.
    StopAsked,
    /// An attempt ended.
    Ended(RunId, Result<AttemptResult, CampaignError>),
}

/// Runs what remains of a plan; `sites` are those of this machine.
pub async fn run_campaign(
    spec: &Spec,
    plan: &Plan,
    sites: IndexMap<String, ReadySite>,
    options: &Options,
    stop_signal: StopSignal,
    observer: &mut dyn Observer,
) -> Result<Summary, CampaignError> {
    let executors = |dir: &CampaignDir, lineage: &Lineage| {
        sites
            .into_iter()
            .map(|(name, site)| (name, execute_here(site, dir, lineage, options)))
            .collect()
    };
    run_campaign_on(spec, plan, executors, options, stop_signal, observer).await
}

/// The executor of a site of this machine.
fn execute_here(
    mut site: ReadySite,
    dir: &CampaignDir,
    lineage: &Lineage,
    options: &Options,
) -> SiteExecutor {
    Arc::make_mut(&mut site.context).lineage = Some(lineage.clone());
    Arc::new(LocalExecutor {
        site: Arc::new(site),
        nodes: Arc::new(Nodes::here()),
        dir: dir.clone(),
        shepherds: Shepherds::new(options.shepherd.clone()),
        pending_cleanup: PendingCleanup::default(),
        steps: Steps::default(),
    })
}

/// Runs what remains of a plan, on sites that are open from the first: `executors` makes what carries out their attempts, for the
/// campaign's directory. The other sites are opened when they are needed.
pub async fn run_campaign_on(
    spec: &Spec,
    plan: &Plan,
    executors: impl FnOnce(&CampaignDir, &Lineage) -> HashMap<String, SiteExecutor>,
    options: &Options,
    stop_signal: StopSignal,
    observer: &mut dyn Observer,
) -> Result<Summary, CampaignError> {
    let dir = CampaignDir::new(&options.campaigns, &plan.campaign);
    fs::create_dir_all(dir.runs()).map_err(StoreError::io("make", dir.runs()))?;
    let root = dir
        .root()
        .canonicalize_utf8()
        .map_err(StoreError::io("resolve", dir.root()))?;
    let dir = CampaignDir::at(&root);
    let _lock = take_campaign_lock(&dir, "cvc run", &stop_signal, observer).await?;
    refuse_without_journal(&dir)?;
    for file in [dir.campaign_file(), dir.plan(), dir.hosts()] {
        remove_half_written(&file)?;
    }
    write_whole(&dir.campaign_file(), spec.text.as_bytes())?;
    let plan_json = serde_json::to_vec_pretty(plan)
        .map_err(|e| StoreError::damaged(dir.plan(), 0, e.to_string()))?;
    write_whole(&dir.plan(), &plan_json)?;
    keep_hosts(&dir, spec)?;
    let mut runner =
        CampaignRunner::begin(spec, plan, executors, dir, options, stop_signal, observer)?;
    runner.recover()?;
    if options.retry_failed {
        runner.forget_failures()?;
    }
    runner.leave_out();
    let digest = cvc_core::ids::short_digest(&plan_json);
    runner.journal.write(Event::Started {
        plan: digest,
        runs: plan.runs.len() as u64,
        pid: std::process::id(),
        cvc: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    // before sites are opened: what earlier sessions ran may be enough
    for planned in &plan.points {
        runner.decide(&planned.id)?;
    }
    let walked = match catch_panic(runner.carry_out()).await {
        Ok(walked) => walked,
        Err(panic) => {
            // it may have been waiting for fleets that are being given back: all of that begins anew
            runner.closing.abort().await;
            runner.closing = ClosingClouds::default();
            Err(CampaignError::internal(panic))
        }
    };
    runner.keeps_results = walked.as_ref().is_err_and(CampaignError::leaves_results);
    let closed = runner.close_everything().await;
    match (walked, closed.err().or(runner.leftover)) {
        (Err(error), Some(CampaignError::Leftover { site, what })) => {
            // what is left matters more than why, but both are told
            Err(CampaignError::Leftover {
                site,
                what: format!("{what} (after: {error})"),
            })
        }
        (Err(error), _) | (Ok(_), Some(error)) => Err(error),
        (Ok(summary), None) => Ok(summary),
    }
}

/// Refuses to begin beside results that no journal tells of: their runs would be made again in their places.
fn refuse_without_journal(dir: &CampaignDir) -> Result<(), CampaignError> {
    let journal = dir.journal();
    if fs::metadata(&journal).is_ok_and(|metadata| metadata.len() > 0) {
        return Ok(());
    }
    let entries = dir
        .runs()
        .read_dir_utf8()
        .map_err(StoreError::io("list", dir.runs()))?;
    let whole = entries
        .flatten()
        .filter(|entry| entry.path().join(OUTCOME).exists())
        .count();
    if whole == 0 {
        return Ok(());
    }
    let what = if journal.exists() { "empty" } else { "missing" };
    let detail = format!(
        "it is {what}, and {} holds the results of {}, which would be overwritten",
        dir.runs(),
        counted(whole, "run")
    );
    Err(StoreError::damaged(journal, 0, detail).into())
}

/// Checks before a campaign begins that `cvc-node` is here if a site needs it, so that its absence costs no instance and no place in a queue. A
/// campaign that has begun may have something to give back, and goes on without.
///
/// # Errors
/// When a site of several machines needs the program and it does not exist.
pub fn find_node_program(spec: &Spec, plan: &Plan, options: &Options) -> Result<(), CampaignError> {
    if CampaignDir::new(&options.campaigns, &plan.campaign)
        .journal()
        .exists()
        || options.node_program.is_file()
    {
        return Ok(());
    }
    // instances that this cvc cannot launch are told as such, when they are wanted
    let needs = |name: &&String| {
        spec.sites
            .get(name.as_str())
            .is_some_and(|s| s.cluster.is_some() || s.ec2.is_some() && options.clouds.is_some())
    };
    match plan.points.iter().map(|p| &p.point.site).find(needs) {
        Some(site) => Err(CampaignError::no_node_program(site, &options.node_program)),
        None => Ok(()),
    }
}

impl<'a> CampaignRunner<'a> {
    /// Reads the journal, without doing anything. The caller holds the campaign's lock.
    fn begin(
        spec: &'a Spec,
        plan: &'a Plan,
        executors: impl FnOnce(&CampaignDir, &Lineage) -> HashMap<String, SiteExecutor>,
        dir: CampaignDir,
        options: &'a Options,
        stop_signal: StopSignal,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, CampaignError> {
        let journal = Journaled::open(&dir.journal(), plan)?;
        let lineage = journal.lineage()?.clone();
        let lineage_of = |root: &Utf8Path| {
            Some(
                CampaignState::read(&CampaignDir::at(root).journal())
                    .ok()?
                    .lineage?
                    .to_string(),
            )
        };
        if let Some(what) = claim(&options.state, lineage.as_str(), dir.root(), lineage_of)? {
            observer.on(&Progress::Site { what });
        }
        Ok(Self {
            spec,
            plan,
            options,
            journal,
            scheduler: Scheduler::new(plan, &spec.run),
            budget: Budget::new(spec, plan, &options.expected_s),
            limit: SessionLimit::new(options.only.clone(), options.last_block, options.until),
            fail_fast: FailFast::new(options.keep_going),
            sites: Sites::new(executors(&dir, &lineage), spec),
            owner_check: Instant::now() + OWNER_CHECK,
            openings: Openings::default(),
            closing: ClosingClouds::default(),
            dir,
            observer: Guarded::new(observer),
            stop_signal,
            stops: Arc::default(),
            cut: Arc::default(),
            is_closing: false,
            keeps_results: false,
            ends_kept: false,
            leftover: None,
            failure: None,
        })
    }
}

/// Passes on the user's stop requests until the returned handle is dropped.
fn forward_stop_requests(
    mut from: StopSignal,
    to: Vec<Arc<StopRequests>>,
) -> AbortOnDropHandle<()> {
    let pass_on = move |now: StopRequest| to.iter().for_each(|to| to.request(now));
    pass_on(*from.borrow_and_update());
    AbortOnDropHandle::new(tokio::spawn(async move {
        // without a sender there can be no further request
        while from.changed().await.is_ok() {
            let now = *from.borrow_and_update();
            pass_on(now);
        }
    }))
}

impl CampaignRunner<'_> {
    async fn carry_out(&mut self) -> Result<Summary, CampaignError> {
        // the compiler limits how deep futures may lie in one another
        Box::pin(self.open_sites()).await?;
        self.look_for_obstacles(None)?;
        Box::pin(self.walk()).await
    }

    /// Leaves nothing on other machines, and nothing that costs even if it cannot be journaled or cvc has a bug.
    async fn close_everything(&mut self) -> Result<(), CampaignError> {
        self.is_closing = true;
        let closed = if self.journal.is_mute() {
            Ok(Ok(()))
        } else {
            catch_panic(self.close_sites()).await
        };
        let panicked = closed.is_err();
        let closed = closed.unwrap_or_else(|panic| Err(CampaignError::internal(panic)));
        if self.journal.is_fenced() {
            // agents and instances are the other controller's, or of the next one where the campaign is now
            return closed;
        }
        // the journal may have become so meanwhile
        if panicked || self.journal.is_mute() {
            closed.and(self.end_clouds_unwritten().await)
        } else {
            closed
        }
    }

    /// The spending until now.
    fn budget_view(&self) -> BudgetView<'_> {
        BudgetView {
            state: self.journal.state(),
            ledger: self.journal.ledger(),
            scheduler: &self.scheduler,
            by_use: self.budget.billed_by_use(|site| self.sites.cores(site)),
        }
    }

    /// Ends what a killed controller left, keeps complete results, and marks the rest to be repeated.
    fn recover(&mut self) -> Result<(), CampaignError> {
        let open: Vec<(RunId, u32, _)> = self
            .journal
            .state()
            .runs
            .iter()
            .filter_map(|(run, history)| match &history.state {
                RunState::Open { attempt, shepherd } => Some((run.clone(), *attempt, *shepherd)),
                RunState::Abandoned { .. } | RunState::Finished { .. } => None,
            })
            .collect();
        // once: there may be a hundred thousand
        let names = self.run_names()?;
        self.repeat_what_is_missing(&names)?;
        self.take_in_whole_runs(&names)?;
        self.remove_partial_runs(&names)?;
        for (run, attempt, shepherd) in open {
            if self.is_remote(&run) {
                // it may still be running there: its agent is asked when the site is opened
                match sealed_outcome(&self.dir, &run, attempt) {
                    Some(file) => self.journal.write(Event::finished(run, file))?,
                    None => {
                        remove_all(&self.dir.partial(&run))?;
                        remove_torn(&self.dir, &run, attempt)?;
                        self.scheduler.adopt(&run);
                    }
                }
                continue;
            }
            let context_of = |site: &str| self.sites.executor(site)?.local_context();
            let (ended, whole) = recover_run(&self.dir, context_of, &run, attempt, shepherd)?;
            self.observer.on(&Progress::Recovered {
                run: run.clone(),
                ended: ended.len() as u64,
                kept: whole.is_some(),
            });
            match whole {
                Some(file) => self.journal.write(Event::finished(run, file))?,
                None => self.abandon_with_controller(run, attempt, ended)?,
            }
        }
        Ok(())
    }

    /// Names below `runs/`; none if that is not there, as before the first session.
    fn run_names(&self) -> Result<BTreeSet<String>, CampaignError> {
        let runs = self.dir.runs();
        match runs.read_dir_utf8() {
            Ok(entries) => Ok(entries
                .flatten()
                .map(|entry| entry.file_name().to_owned())
                .collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(StoreError::io("list", &runs)(error).into()),
        }
    }

    /// Records that a run was cut off as its controller was killed or lost its power: it is repeated, unless it is the run that ends controllers.
    fn abandon_with_controller(
        &mut self,
        run: RunId,
        attempt: u32,
        ended: Vec<u32>,
    ) -> Result<(), CampaignError> {
        let state = self.journal.state();
        let with_controller = !state.stop_asked;
        let times = match self.scheduler.judge_end_of_controller(state, &run) {
            Loss::TooOften(times) if with_controller => times,
            Loss::TooOften(_) | Loss::Again => {
                return self.journal.write(Event::RunAbandoned {
                    run,
                    attempt,
                    ended,
                    lost: false,
                    with_controller,
                });
            }
        };
        let detail = format!(
            "cvc was ended {times} times while this run was under way: by KILL, for want of memory, or with its machine; see what the run does to \
             the machine, then `cvc run --retry-failed` tries it again"
        );
        let file = conclude_failed(&self.dir, &run, attempt, Cause::EndedFromOutside, detail)?;
        let (outcome, wall_s) = (file.outcome.clone(), file.wall_s);
        self.journal.write(Event::finished(run.clone(), file))?;
        let retry = !self.scheduler.used_up(self.journal.state(), &run, attempt);
        let point = self
            .plan
            .runs
            .iter()
            .find(|planned| planned.id == run)
            .map(|planned| planned.point.clone());
        // how a run of an earlier plan ended is of no interest any more
        let Some(point) = point else { return Ok(()) };
        self.observer.on(&Progress::RunFinished {
            output: self.output_of(&run, attempt, &outcome),
            run,
            outcome,
            wall_s,
            retry,
            not_again: None,
        });
        if retry {
            Ok(())
        } else {
            self.set_aside(&point)
        }
    }

    /// Takes runs back whose directories were deleted since they succeeded.
    fn repeat_what_is_missing(&mut self, there: &BTreeSet<String>) -> Result<(), CampaignError> {
        let succeeded =
            self.journal
                .state()
                .runs
                .iter()
                .filter_map(|(run, history)| match &history.state {
                    RunState::Finished {
                        attempt,
                        outcome: Outcome::Succeeded,
                        ..
                    } => Some((run, *attempt)),
                    RunState::Finished { .. }
                    | RunState::Open { .. }
                    | RunState::Abandoned { .. } => None,
                });
        let missing: Vec<(RunId, u32)> = succeeded
            .filter(|(run, _)| !there.contains(run.as_str()))
            .map(|(run, attempt)| (run.clone(), attempt))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        for (run, attempt) in &missing {
            let reason = "its directory is missing".to_owned();
            self.journal.write(Event::RunDiscarded {
                run: run.clone(),
                attempt: *attempt,
                reason,
            })?;
        }
        self.observer.on(&Progress::Missing {
            runs: missing.into_iter().map(|(run, _)| run).collect(),
        });
        Ok(())
    }

    /// Writes runs into the journal that are whole and that it does not know: it was restored from an older copy, or its end is lost. They would
    /// be made again, and their directories replaced.
    fn take_in_whole_runs(&mut self, names: &BTreeSet<String>) -> Result<(), CampaignError> {
        let mut taken_in = Vec::new();
        for name in names {
            let Ok(run) = RunId::try_from(name.clone()) else {
                continue;
            };
            match self.journal.state().run(&run) {
                // what is open is recovered
                Some(
                    RunState::Open { .. }
                    | RunState::Finished {
                        outcome: Outcome::Succeeded,
                        ..
                    },
                ) => continue,
                Some(RunState::Abandoned { .. } | RunState::Finished { .. }) | None => {}
            }
            let file = read_outcome(&self.dir.run(&run))
                .ok()
                .filter(|file| file.outcome == Outcome::Succeeded);
            let Some(file) = file.and_then(|file| sealed_outcome(&self.dir, &run, file.attempt))
            else {
                continue;
            };
            self.journal.write(Event::RunIntended {
                run: run.clone(),
                attempt: file.attempt,
                nodes: Default::default(),
            })?;
            self.journal.write(Event::finished(run.clone(), file))?;
            taken_in.push(run);
        }
        if !taken_in.is_empty() {
            self.observer.on(&Progress::TakenIn { runs: taken_in });
        }
        Ok(())
    }

    /// Removes what a controller left that was fetching a run as another one took the campaign over, and recorded its end: no attempt follows that
    /// would remove it.
    fn remove_partial_runs(&self, names: &BTreeSet<String>) -> Result<(), CampaignError> {
        for name in names {
            let Some(Ok(run)) = name
                .strip_suffix(".partial")
                .map(|run| RunId::try_from(run.to_owned()))
            else {
                continue;
            };
            if !matches!(self.journal.state().run(&run), Some(RunState::Open { .. })) {
                remove_all(&self.dir.partial(&run))?;
            }
        }
        Ok(())
    }

    /// Whether a run of the plan is carried out on other machines.
    fn is_remote(&self, run: &RunId) -> bool {
        let site = self
            .scheduler
            .point_of(run)
            .and_then(|p| self.spec.sites.get(&p.site));
        site.is_some_and(|s| s.kind != SiteKind::Local)
    }

    /// Gives failed runs their attempts again.
    fn forget_failures(&mut self) -> Result<(), CampaignError> {
        for (run, attempts) in self.journal.reopen_failed() {
            self.scheduler.forgive(run, attempts);
        }
        // journaled, because after a crash the points would otherwise be set aside again
        for point in self.journal.state().quarantined.clone() {
            self.journal.write(Event::PointReleased { point })?;
        }
        Ok(())
    }

    /// Leaves out what is not for this session, before sites are opened for it. What an earlier controller began is taken up all the same.
    fn leave_out(&mut self) {
        let excluded = self.limit.excluded(self.plan, &self.options.expected_s);
        self.scheduler.leave_out(self.journal.state(), excluded);
    }

    /// Finds points that cannot run, because something is not installed or their site is not open, and reports them by reason.
    fn look_for_obstacles(&mut self, of_site: Option<&str>) -> Result<(), CampaignError> {
        let runs: HashMap<&PointId, u64> =
            self.scheduler
                .runs_of_session()
                .fold(HashMap::new(), |mut runs, r| {
                    *runs.entry(&r.point).or_default() += 1;
                    runs
                });
        let mut reasons: IndexMap<String, (Vec<PointId>, Vec<_>, u64)> = IndexMap::new();
        let is_meant = |site: &str| of_site.is_none_or(|of_site| of_site == site);
        for planned in self
            .plan
            .points
            .iter()
            .filter(|p| runs.contains_key(&p.id) && is_meant(&p.point.site))
        {
            let obstacle = match self.sites.executor(&planned.point.site) {
                Some(executor) => executor.obstacle(planned),
                // it is not needed, or could not be opened
                None => self.scheduler.obstacle(&planned.id).cloned(),
            };
            if let Some(reason) = obstacle {
                let (ids, points, of_reason) = reasons.entry(reason).or_default();
                ids.push(planned.id.clone());
                points.push(planned.point.clone());
                *of_reason += runs.get(&planned.id).copied().unwrap_or(0);
            }
        }
        for (reason, (ids, points, runs)) in reasons {
            self.scheduler.obstruct(ids.iter().cloned(), &reason);
            self.journal.write(Event::PointsSkipped {
                points: ids,
                reason: reason.clone(),
            })?;
            self.observer.on(&Progress::Skipped {
                reason,
                points,
                runs,
            });
        }
        Ok(())
    }

    /// Carries out what remains to be done, until nothing is left or the user wants to stop.
    async fn walk(&mut self) -> Result<Summary, CampaignError> {
        let (runs, done) = self.scheduler.progress(self.journal.state());
        self.observer.on(&Progress::Started { runs, done });
        let mut attempts = Attempts::new();
        let _forward = forward_stop_requests(
            self.stop_signal.clone(),
            vec![Arc::clone(&self.stops), Arc::clone(&self.cut)],
        );
        let mut cut_off = false;
        while let Some(step) = self.step(&mut attempts).await? {
            cut_off |= self.take_in(step, &mut attempts)?;
        }
        let interrupted =
            cut_off || (!self.goes_on() && !self.scheduler.is_done() && !self.limit.is_over());
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.conclude(interrupted)
    }

    fn goes_on(&self) -> bool {
        *self.stop_signal.borrow() == StopRequest::GoOn
    }

    /// Starts what may start, and waits for the next thing to happen; `None` when nothing is under way and nothing can start.
    async fn step(&mut self, attempts: &mut Attempts) -> Result<Option<Step>, CampaignError> {
        self.scheduler.advance(self.journal.state());
        self.close_idle_clouds();
        // the compiler limits how deep futures may lie in one another
        Box::pin(self.begin_next_cloud()).await?;
        if self.goes_on() {
            self.start_all(attempts)?;
        }
        self.journal.sync()?;
        if attempts.tasks.is_empty() {
            // what was given up meanwhile is settled
            self.scheduler.advance(self.journal.state());
            if !self.openings.is_empty() {
                return Box::pin(self.next_opened()).await;
            }
            let changed =
                self.goes_on() && !self.scheduler.is_done() && self.wait_for_nodes().await?;
            return if changed {
                Ok(Some(Step::Changed))
            } else {
                self.next_closed().await
            };
        }
        let view = self.budget_view();
        let lasts = self
            .budget
            .lasts(&view)
            .filter(|_| self.cut.now() < StopRequest::StopNow);
        drop(view);
        self.share_budget();
        // however often something else happens meanwhile
        let owner_check = self.owner_check;
        let mut stop_signal = self.stop_signal.clone();
        let stop_asked = async {
            stop_signal
                .wait_for(|now| *now >= StopRequest::Finish)
                .await
                .is_ok()
        };
        tokio::select! {
            // handle a run's events before its end
            biased;
            Some((run, event)) = attempts.events.recv() => Ok(Some(Step::AttemptReported(run, event))),
            Some(event) = self.sites.events.recv() => Ok(Some(Step::Site(event))),
            true = stop_asked, if !self.journal.state().stop_asked => Ok(Some(Step::StopAsked)),
            () = tokio::time::sleep(lasts.unwrap_or_default()), if lasts.is_some() => Ok(Some(Step::OutOfMoney)),
            Some(closed) = self.closing.next(), if !self.closing.is_empty() => Ok(Some(Step::Closed(closed))),
            Some(ended) = self.openings.next(), if !self.openings.is_empty() => Ok(Some(Step::Opened(ended))),
            // runs may take hours: nothing is written meanwhile that would tell
            () = tokio::time::sleep_until(owner_check) => {
                self.owner_check = Instant::now() + OWNER_CHECK;
                self.journal.check_owner().map(|()| Some(Step::Changed))
            }
            Some(ended) = attempts.tasks.join_next() => {
                let (run, result) = ended.map_err(CampaignError::of_task)?;
                Ok(Some(Step::Ended(run, result)))
            }
        }
    }

    /// The run that tells more than the next one where the first runs of a site failed, if it may start now.
    fn preferred(&self, next: usize) -> Option<usize> {
        if self.scheduler.is_adopted(next) {
            return None;
        }
        let (state, scheduler) = (self.journal.state(), &self.scheduler);
        let site = scheduler.point(&self.plan.runs[next].point)?.site.as_str();
        let open = || scheduler.open_numbers(state, site);
        let number = self.fail_fast.preferred(site, open)?;
        let planned = &self.plan.runs[number];
        let may_start = scheduler.nodes_for(planned, &self.sites).is_some()
            && !self.limit.excludes(planned, &self.options.expected_s);
        may_start.then_some(number)
    }

    /// Starts all runs that may start now; points that the budget does not pay for are given up.
    fn start_all(&mut self, attempts: &mut Attempts) -> Result<(), CampaignError> {
        while let Some(number) = self.scheduler.next(self.journal.state(), &self.sites) {
            let number = self.preferred(number).unwrap_or(number);
            let planned = &self.plan.runs[number];
            if self.limit.excludes(planned, &self.options.expected_s)
                && !self.scheduler.is_adopted(number)
            {
                let of_point: Vec<&RunId> = self
                    .scheduler
                    .open_runs_of(self.journal.state(), &planned.point)
                    .into_iter()
                    .map(|r| &r.id)
                    .collect();
                self.scheduler.leave_out(self.journal.state(), of_point);
                continue;
            }
            match self.budget.unaffordable(&self.budget_view(), planned) {
                None => self.start(planned, number as u64 + 1, attempts)?,
                Some(over) => {
                    self.budget.note_exceeded();
                    let of_point = self
                        .scheduler
                        .open_runs_of(self.journal.state(), &planned.point);
                    self.give_up(
                        &of_point,
                        format!("{over}; {}", OverBudget::hint("cvc run")),
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Handles an event. Returns whether the user cut an attempt off.
    fn take_in(&mut self, step: Step, attempts: &mut Attempts) -> Result<bool, CampaignError> {
        match step {
            Step::Changed => {}
            Step::AttemptReported(run, event) => self.on_attempt_event(&run, event)?,
            Step::Site(event) => self.listen(event)?,
            Step::OutOfMoney => self.out_of_money()?,
            // what ends cvc after this, as a shutdown that does not wait, is not the work of a run
            Step::StopAsked => self.journal.write(Event::Interrupted { now: false })?,
            Step::Opened(ended) => self.settle_opening(ended)?,
            Step::Closed(closed) => {
                if let Err(error) = self.settle_closed(closed)? {
                    // the end of the campaign tries again, and reports what stays
                    self.observer.on(&Progress::Site {
                        what: error.to_string(),
                    });
                }
            }
            Step::Ended(run, result) => {
                while let Ok((run, event)) = attempts.events.try_recv() {
                    self.on_attempt_event(&run, event)?;
                }
                match result {
                    Ok(attempted) => return self.ended(&run, attempted),
                    Err(error) => self.site_failed(&run, error)?,
                }
            }
        }
        Ok(false)
    }

    /// Journals and reports the end.
    fn conclude(&mut self, interrupted: bool) -> Result<Summary, CampaignError> {
        let Tally {
            succeeded,
            failed,
            skipped,
            left,
        } = self.scheduler.tally(self.journal.state());
        let now = *self.stop_signal.borrow() == StopRequest::StopNow;
        if !interrupted && left == 0 {
            self.journal.write(Event::Completed { succeeded, failed })?;
        } else if now || !self.journal.state().stop_asked {
            self.journal.write(Event::Interrupted { now })?;
        }
        self.observer.on(&Progress::Ended {
            succeeded,
            failed,
            skipped,
            left,
        });
        Ok(Summary {
            succeeded,
            failed,
            skipped,
            left,
            interrupted,
            over_budget: self.budget.is_exceeded(),
            failed_alike: self.fail_fast.has_stopped(),
        })
    }

    /// Begins no more runs that cost money, and ends those under way.
    fn out_of_money(&mut self) -> Result<(), CampaignError> {
        let Some(limit) = self.budget.limit().map(|b| b.usd) else {
            return Ok(());
        };
        self.budget.note_exceeded();
        let used_up = format!("the budget of ${limit:.2} is used up");
        self.observer.on(&Progress::Site {
            what: format!("{used_up}: ending runs and giving machines back"),
        });
        self.cut.request(StopRequest::StopNow);
        let view = self.budget_view();
        let waiting = self
            .scheduler
            .open_runs(self.journal.state(), |site| self.budget.costs(&view, site));
        drop(view);
        self.give_up(
            &waiting,
            format!("{used_up}; {}", OverBudget::hint("cvc run")),
        )?;
        // those on which nothing runs; the others follow when their runs have ended
        self.close_idle_clouds();
        Ok(())
    }

    /// The result of a run that was ended because the budget is used up; it does not count as an attempt.
    fn ended_by_budget(&self) -> Option<(Cause, String)> {
        let limit = self
            .budget
            .limit()
            .filter(|_| self.budget.is_exceeded())?
            .usd;
        let detail = format!(
            "ended because the budget of ${limit:.2} would have been exceeded; {}",
            OverBudget::hint("cvc run")
        );
        Some((Cause::Budget, detail))
    }

    /// Sets a point aside when too many of its runs have failed for good.
    fn set_aside(&mut self, point: &PointId) -> Result<(), CampaignError> {
        let Some((failures, skipped)) = self.scheduler.to_quarantine(self.journal.state(), point)
        else {
            return Ok(());
        };
        self.journal.write(Event::PointQuarantined {
            point: point.clone(),
            failures,
        })?;
        self.observer.on(&Progress::Quarantined {
            point: point.clone(),
            skipped,
        });
        Ok(())
    }

    /// Notes that a point needs no further run, if the campaign says when that is.
    fn decide(&mut self, point: &PointId) -> Result<(), CampaignError> {
        let Some(until) = self.spec.run.until.clone() else {
            return Ok(());
        };
        let state = self.journal.state();
        if state.decided.contains_key(point) || state.quarantined.contains(point) {
            return Ok(());
        }
        let (runs, open) = self.scheduler.counted_runs(state, point);
        let Some(decision) = enough::decide(&until, &self.dir, &runs, open) else {
            return Ok(());
        };
        self.journal.write(Event::PointDecided {
            point: point.clone(),
            repeats: decision.repeats,
            is_narrow: decision.is_narrow,
            reason: decision.reason.clone(),
        })?;
        self.observer.on(&Progress::Decided {
            point: point.clone(),
            reason: decision.reason,
            not_needed: open,
        });
        Ok(())
    }

    /// Begins one attempt.
    fn start(
        &mut self,
        planned: &PlannedRun,
        number: u64,
        attempts: &mut Attempts,
    ) -> Result<(), CampaignError> {
        let run = planned.id.clone();
        let Some(point) = self.scheduler.point(&planned.point).cloned() else {
            return Err(StoreError::damaged(
                self.dir.plan(),
                0,
                format!("run {run} names a point that is not in the plan"),
            )
            .into());
        };
        let state = self.journal.state();
        let attempt = self.scheduler.attempts_before(state, &run).unwrap_or(0) + 1;
        let nodes = self.scheduler.nodes_for(planned, &self.sites);
        let (Some(executor), Some(mut nodes)) = (self.sites.executor(&point.site).cloned(), nodes)
        else {
            return Err(CampaignError::internal(format!(
                "site {} is not open",
                point.site
            )));
        };
        self.observer.on(&Progress::RunStarted {
            run: run.clone(),
            point: Box::new(point.clone()),
            repeat: planned.repeat,
            attempt,
            number,
        });
        let history = state.runs.get(&run);
        let dispatches = history.map_or(0, |history| history.attempts.len());
        // an earlier controller handed it over: only wait for it
        let resumed = matches!(state.run(&run), Some(RunState::Open { .. }));
        if resumed {
            // it is where the earlier controller had it, unless that was of a version that did not say so
            let before = history
                .and_then(|history| history.attempts.last())
                .map(|a| a.nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
            nodes = before.filter(|n| !n.is_empty()).unwrap_or(nodes);
        } else {
            let elsewhere = if executor.local_context().is_none() {
                nodes.clone()
            } else {
                Vec::new()
            };
            let elsewhere: Vec<NodeName> = elsewhere.into_iter().map(Into::into).collect();
            let nodes = self.journal.state().node_sets.write(&elsewhere);
            self.journal.write(Event::RunIntended {
                run: run.clone(),
                attempt,
                nodes,
            })?;
        }
        let dispatch = u32::try_from(if resumed {
            dispatches.saturating_sub(1)
        } else {
            dispatches
        })
        .unwrap_or(u32::MAX);
        let task = Task {
            planned: planned.clone(),
            disk_bytes: self.options.disk_bytes.get(&planned.point).copied(),
            nodes,
            point,
            attempt,
            dispatch,
        };
        self.limit.begin(&task.planned.id);
        self.scheduler.begin(task.clone());
        let costs = self.budget.costs(&self.budget_view(), &task.point.site);
        let stop_signal = if costs {
            self.cut.subscribe()
        } else {
            self.stops.subscribe()
        };
        let reporter = AttemptReporter {
            run: run.clone(),
            to: attempts.event_sender.clone(),
        };
        let span = tracing::info_span!("run", run = %run, site = %task.point.site, point = %task.planned.point);
        attempts.tasks.spawn(
            async move {
                panic_if_asked("attempt");
                let result = executor.attempt(&task, stop_signal, &reporter).await;
                (run, result)
            }
            .instrument(span),
        );
        Ok(())
    }

    /// Handles an event of a run.
    fn on_attempt_event(&mut self, run: &RunId, event: AttemptEvent) -> Result<(), CampaignError> {
        match event {
            AttemptEvent::Started(shepherd) => {
                panic_if_asked("walk");
                let Some(attempt) = self.scheduler.under_way().get(run).map(|t| t.attempt) else {
                    return Ok(());
                };
                self.journal.write(Event::RunStarted {
                    run: run.clone(),
                    attempt,
                    pid: shepherd.pid,
                    start_ticks: shepherd.start_ticks,
                })
            }
            AttemptEvent::Stage(stage) => {
                self.observer.on(&Progress::Stage {
                    run: run.clone(),
                    stage,
                });
                Ok(())
            }
        }
    }

    /// Handles the end of an attempt. Returns whether the user cut it off.
    fn ended(&mut self, run: &RunId, attempted: AttemptResult) -> Result<bool, CampaignError> {
        let Some(task) = self.scheduler.end(run) else {
            return Ok(false);
        };
        self.limit.finish(run, &task.planned.point);
        let (run, attempt) = (run.clone(), task.attempt);
        let (cause, detail) = match attempted {
            AttemptResult::Ended(file) => return self.ended_with(&task, file).map(|()| false),
            AttemptResult::Failed { cause, detail } => (cause, detail),
            AttemptResult::Interrupted => match self.ended_by_budget() {
                Some(failure) => failure,
                None => {
                    self.journal.write(Event::RunAbandoned {
                        run,
                        attempt,
                        ended: Vec::new(),
                        lost: false,
                        with_controller: false,
                    })?;
                    return Ok(true);
                }
            },
            AttemptResult::Lost { reason, time_limit } => {
                match self.scheduler.judge_loss(self.journal.state(), &run) {
                    Loss::Again => {
                        self.journal.write(Event::RunAbandoned {
                            run: run.clone(),
                            attempt,
                            ended: Vec::new(),
                            lost: true,
                            with_controller: false,
                        })?;
                        self.observer.on(&Progress::RunLost { run, reason });
                        return Ok(false);
                    }
                    Loss::TooOften(losses) => {
                        let cause = if time_limit {
                            Cause::Timeout
                        } else {
                            Cause::NodeLost
                        };
                        (
                            cause,
                            format!("lost {losses} times with its agent or nodes: {reason}"),
                        )
                    }
                }
            }
        };
        let file = conclude_failed(&self.dir, &run, attempt, cause, detail)?;
        self.ended_with(&task, file).map(|()| false)
    }

    fn ended_with(&mut self, task: &Task, file: OutcomeFile) -> Result<(), CampaignError> {
        let (run, attempt) = (task.planned.id.clone(), task.attempt);
        let (outcome, wall_s) = (file.outcome.clone(), file.wall_s);
        let not_again = self
            .fail_fast
            .judge_retry(&run, &task.planned.point, &outcome, wall_s)
            .filter(|_| !self.scheduler.is_last(self.journal.state(), &run, attempt));
        let mut finished = Event::finished(run.clone(), file);
        if let Event::RunFinished { not_again: why, .. } = &mut finished {
            why.clone_from(&not_again);
        }
        match self.sites.executor(&task.point.site) {
            // its sealed directory tells the same: it may go to disk with the beginning of the next run
            Some(here) if here.local_context().is_some() => {
                self.journal.write_unsynced(finished)?
            }
            Some(executor) => {
                self.journal.write(finished)?;
                executor.forget(task);
            }
            None => self.journal.write(finished)?,
        }
        let retry = outcome != Outcome::Succeeded
            && !self.scheduler.used_up(self.journal.state(), &run, attempt);
        self.fail_fast
            .note(&task.planned.point, &task.point, &outcome);
        self.observer.on(&Progress::RunFinished {
            output: self.output_of(&run, attempt, &outcome),
            run: run.clone(),
            outcome: outcome.clone(),
            wall_s,
            retry,
            not_again,
        });
        if !retry {
            self.set_aside(&task.planned.point)?;
            self.decide(&task.planned.point)?;
        }
        self.stop_if_alike(task, &outcome);
        Ok(())
    }

    /// The file with the program's own words about a failure.
    fn output_of(&self, run: &RunId, attempt: u32, outcome: &Outcome) -> Option<Utf8PathBuf> {
        match outcome {
            Outcome::Succeeded => None,
            Outcome::Failed { cause, .. } => self.dir.output_of(run, attempt, *cause),
        }
    }

    /// Leaves the other runs of a site for later sessions, if its first ones failed in the same way and none has succeeded.
    fn stop_if_alike(&mut self, task: &Task, outcome: &Outcome) {
        let Outcome::Failed { cause, detail } = outcome else {
            return;
        };
        let (site, state, scheduler) = (
            task.point.site.as_str(),
            self.journal.state(),
            &self.scheduler,
        );
        let open = || scheduler.open_points(state, site);
        let has_succeeded = || scheduler.has_succeeded(state, site);
        let Some(alike) = self.fail_fast.stops(site, outcome, open, has_succeeded) else {
            return;
        };
        let waiting: Vec<RunId> = scheduler
            .open_runs(state, |s| s == site)
            .into_iter()
            .map(|planned| planned.id.clone())
            .collect();
        self.scheduler.leave_out(self.journal.state(), &waiting);
        let run = task.planned.id.clone();
        self.observer.on(&Progress::FailedAlike {
            site: site.to_owned(),
            cause: *cause,
            detail: detail.clone(),
            points: alike.points as u64,
            attempts: alike.attempts as u64,
            left: waiting.len() as u64,
            output: self.output_of(&run, task.attempt, outcome),
            run,
        });
    }
}
