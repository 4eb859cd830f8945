//! Carries out a plan: resumes it, runs and retries its runs, quarantines points, stops on request.

mod attempts;
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
mod options;
mod plan_index;
mod queues;
mod record;
mod recovery;
mod rehearsal;
mod resources;
mod retries;
mod scheduler;
#[cfg(test)]
mod scheduler_model;
mod session_limit;
mod sharing;
mod sites;
mod under_way;
mod waiting;

use super::observe::{Guarded, Observer, SessionProgress};
use budget::BudgetWatch;
use camino::Utf8Path;
use campaign_lock::take_campaign_lock;
use closing_clouds::{ClosedCloud, ClosedClouds, ClosingClouds};
use clouds::SiteChange;
use cvc_core::campaign::{Spec, keep_hosts};
use cvc_core::ids::RunId;
use cvc_core::panics::catch_panic;
use cvc_core::plan::Plan;
use cvc_core::stop::{StopRequest, StopRequests, StopSignal};
use cvc_core::store::{CampaignDir, OUTCOME, StoreError, claim, remove_half_written, write_whole};
use cvc_core::units::counted;
use cvc_engine::attempt::{
    AttemptEvent, AttemptResult, LocalExecutor, Nodes, PendingCleanup, ReadySite, Shepherds, Steps,
};
use cvc_journal::{CampaignState, Event, Lineage};
use cvc_sites::error::CampaignError;
use cvc_sites::progress::SiteEvent;
use fail_fast::FailFast;
use indexmap::IndexMap;
use journaled::Journaled;
use openings::{EndOfOpening, Openings};
use record::CampaignRecord;
use resources::{FailureCounts, Phase, Problems, ResourceExtent, Resources, Stops};
use scheduler::{RunTally, Scheduler};
use session_limit::SessionLimit;
use sites::Sites;
use std::{collections::HashMap, fs, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::task::AbortOnDropHandle;

pub use blocks::{NextBlock, next_block};
pub use closing::close_campaign;
pub use enough::means_of;
pub use options::Options;
pub use rehearsal::{InterruptAnswer, InterruptRequest, PendingInterrupt};
pub use sites::SiteExecutor;

/// Interval at which waits check that the campaign still belongs to this controller.
const OWNER_CHECK: Duration = Duration::from_secs(5);

/// The state of the campaign after this session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs that succeeded, earlier ones included.
    pub succeeded: u64,
    /// Runs that failed, with no attempt left.
    pub failed: u64,
    /// Failed runs whose points were expected to fail; included in `failed`.
    pub failed_as_expected: u64,
    /// Successful runs whose points were expected to fail; included in `succeeded`.
    pub succeeded_unexpectedly: u64,
    /// Runs that are not tried: their point is quarantined, or their software is missing.
    pub skipped: u64,
    /// Runs that remain because the user stopped the session, or limited it to some points or some time.
    pub left: u64,
    /// Whether the user stopped the session.
    pub interrupted: bool,
    /// Whether runs were not begun, or were ended, so that the budget is not exceeded.
    pub over_budget: bool,
    /// Whether a site stopped beginning runs because its first runs all failed in the same way.
    pub failed_alike: bool,
}

impl Summary {
    /// Runs that failed although they were not expected to.
    pub fn failed_unexpectedly(&self) -> u64 {
        self.failed - self.failed_as_expected
    }
}

/// One session that carries out a plan.
struct CampaignRunner<'a> {
    resources: Resources<'a>,
    /// The points and the time that this session is limited to.
    limit: SessionLimit,
    /// Detects repeated failures of the same kind.
    fail_fast: FailFast,
    /// Time of the next check that the campaign still belongs to this controller.
    owner_check: Instant,
    /// Sites that are being opened, while runs of other sites continue.
    openings: Openings,
    /// Receiver of the results of giving fleets back.
    closed_clouds: ClosedClouds,
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

/// Whether the session continues after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepEffect {
    Continues,
    /// The user interrupted an attempt.
    CutOff,
}

/// Next event to handle while the plan is carried out.
enum Step {
    /// Lost nodes returned, or waiting for them was abandoned.
    Changed,
    /// It is time to check for requests to interrupt a node.
    LookedForInterrupts,
    /// An attempt reports an event.
    AttemptReported(RunId, AttemptEvent),
    /// A site reports an event.
    Site(SiteEvent),
    /// The budget is used up.
    OutOfMoney,
    /// A fleet was given back or kept, or giving it back failed.
    Closed(ClosedCloud),
    /// A site is open, or could not be opened.
    Opened(EndOfOpening),
    /// The user asks for a stop.
    StopAsked,
    /// An attempt ended.
    Ended(RunId, Result<AttemptResult, CampaignError>),
}

/// Carries out the runs of a plan that remain. `sites` are the sites on this machine; other sites are opened when their runs are due.
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

/// Returns the executor of a site on this machine.
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

/// Carries out the runs of a plan that remain. `executors` receives the campaign's directory and lineage, and returns the executors of the sites that
/// are open from the beginning. The other sites are opened when their runs are due.
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
        runner.resources.record.forget_failures()?;
    }
    runner.leave_out();
    runner.resources.record.journal.write(Event::Started {
        plan: cvc_core::ids::short_digest(&plan_json),
        runs: plan.runs.len() as u64,
        pid: std::process::id(),
        cvc: env!("CARGO_PKG_VERSION").to_owned(),
    })?;
    // before sites are opened: the runs of earlier sessions may be sufficient
    for planned in &plan.points {
        runner.resources.record.decide(&planned.id)?;
    }
    let walked = match catch_panic(runner.carry_out()).await {
        Ok(walked) => walked,
        Err(panic) => {
            // the panic may have interrupted a wait for fleets that are being given back: closing starts over
            runner.resources.closing.abort().await;
            (runner.resources.closing, runner.closed_clouds) = ClosingClouds::new();
            Err(CampaignError::internal(panic.to_string()))
        }
    };
    let extent = if walked.as_ref().is_err_and(CampaignError::leaves_results) {
        ResourceExtent::AllButResults
    } else {
        ResourceExtent::Everything
    };
    let closed = runner.close_everything(extent).await;
    let left = closed.err().or(runner.resources.problems.leftover);
    match (walked, left) {
        // the leftover matters more than the original error, but both are reported
        (Err(error), Some(CampaignError::Leftover { site, what })) => {
            Err(CampaignError::Leftover {
                site,
                what: format!("{what} (after: {error})"),
            })
        }
        (Err(error), _) | (Ok(_), Some(error)) => Err(error),
        (Ok(summary), None) => Ok(summary),
    }
}

/// Refuses to begin in a directory that has results but no journal: those runs would be repeated and their results overwritten.
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

/// Checks before a campaign begins that `cvc-node` exists on this machine if a site needs it. Otherwise instances would be paid and places in a queue
/// awaited before the missing program is noticed. A campaign that has already begun may have resources to give back, so it is not checked.
///
/// # Errors
/// A site of several machines needs the program, and it does not exist.
pub fn find_node_program(spec: &Spec, plan: &Plan, options: &Options) -> Result<(), CampaignError> {
    if CampaignDir::new(&options.campaigns, &plan.campaign)
        .journal()
        .exists()
        || options.node_program.is_file()
    {
        return Ok(());
    }
    // instances that this build of cvc cannot launch are reported when they are needed
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
    /// Reads the journal, without side effects. The caller holds the campaign's lock.
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
            observer.on(&SessionProgress::Site { what });
        }
        let (closing, closed_clouds) = ClosingClouds::new();
        let sites = Sites::new(executors(&dir, &lineage), spec);
        let record = CampaignRecord {
            spec,
            plan,
            options,
            journal,
            scheduler: Scheduler::new(plan, &spec.run),
            dir,
            observer: Guarded::new(observer),
        };
        let stops = Stops {
            user: stop_signal,
            runs: Arc::default(),
            paid_runs: Arc::default(),
        };
        Ok(Self {
            resources: Resources {
                record,
                budget: BudgetWatch::new(spec, plan, &options.expected_s),
                sites,
                closing,
                stops,
                phase: Phase::Running,
                problems: Problems::default(),
            },
            limit: SessionLimit::new(options.only.clone(), options.last_block, options.until),
            fail_fast: FailFast::new(options.keep_going),
            owner_check: Instant::now() + OWNER_CHECK,
            openings: Openings::default(),
            closed_clouds,
        })
    }
}

/// Forwards the user's stop requests until the returned handle is dropped.
fn forward_stop_requests(
    mut from: StopSignal,
    to: Vec<Arc<StopRequests>>,
) -> AbortOnDropHandle<()> {
    let pass_on = move |now: StopRequest| to.iter().for_each(|to| to.request(now));
    pass_on(*from.borrow_and_update());
    AbortOnDropHandle::new(tokio::spawn(async move {
        // without a sender no further request can arrive
        while from.changed().await.is_ok() {
            let now = *from.borrow_and_update();
            pass_on(now);
        }
    }))
}

impl CampaignRunner<'_> {
    async fn carry_out(&mut self) -> Result<Summary, CampaignError> {
        // boxed: the compiler limits the nesting of futures
        Box::pin(self.open_sites()).await?;
        self.resources.find_obstacles(None)?;
        Box::pin(self.walk()).await
    }

    /// Removes everything that the campaign has on other machines. Resources that cost money are removed even if the removal cannot be journaled or
    /// cvc panics.
    async fn close_everything(&mut self, extent: ResourceExtent) -> Result<(), CampaignError> {
        self.resources.phase = Phase::Closing(extent);
        let closed = if self.resources.record.journal.is_mute() {
            Ok(Ok(()))
        } else {
            catch_panic(self.close_sites(extent)).await
        };
        let panicked = closed.is_err();
        let closed = closed.unwrap_or_else(|panic| Err(CampaignError::internal(panic.to_string())));
        if self.resources.record.journal.is_fenced() {
            // agents and instances belong to the controller that now has the campaign
            return closed;
        }
        // writing to the journal may have failed meanwhile
        if panicked || self.resources.record.journal.is_mute() {
            closed.and(self.resources.end_clouds_unwritten().await)
        } else {
            closed
        }
    }

    /// Recovers the open runs and the requests that earlier controllers left behind.
    fn recover(&mut self) -> Result<(), CampaignError> {
        self.resources.record.forget_interrupts();
        self.resources.record.recover(&self.resources.sites)
    }

    /// Ends everything that the campaign has on other machines. If that fails on a site, the other sites are closed nevertheless; returns the first
    /// failure.
    async fn close_sites(&mut self, extent: ResourceExtent) -> Result<(), CampaignError> {
        let mut failures = FailureCounts::default();
        let opened = self.end_openings().await;
        let remotes = self.resources.sites.remotes();
        let remotes: Vec<_> = remotes.filter(|r| !r.is_temporary()).collect();
        // first, because instances cost as long as they exist
        self.close_clouds(&mut failures).await?;
        if let Err(error) = opened {
            failures.add(error, &mut self.resources.record);
        }
        for remote in remotes {
            let site = remote.name().to_owned();
            if extent == ResourceExtent::AllButResults {
                self.resources.record.say(format!(
                    "{site}: runs there continue, and results stay there; the next `cvc run` fetches them"
                ));
                continue;
            }
            let closing = async move { remote.close().await };
            let closed = match self.resources.while_listening(closing).await {
                Ok(Ok(())) => self.resources.record.site_closed(&site),
                Ok(Err(error)) | Err(error) => Err(error),
            };
            if let Err(error) = closed {
                failures.add(error, &mut self.resources.record);
            }
            // what is still open belongs to the other controller
            if self.resources.record.journal.is_fenced() {
                break;
            }
        }
        failures.0.map_or(Ok(()), Err)
    }

    /// Determines the runs that this session leaves for later sessions, before sites are opened. Runs that an earlier controller submitted to an
    /// agent are never left.
    fn leave_out(&mut self) {
        let excluded = self.limit.excluded(
            self.resources.record.plan,
            &self.resources.record.options.expected_s,
        );
        self.resources.record.leave_out(excluded);
    }

    /// Carries out the pending runs, until none is left or the user wants to stop.
    async fn walk(&mut self) -> Result<Summary, CampaignError> {
        let (runs, done) = self
            .resources
            .record
            .scheduler
            .progress(self.resources.record.state());
        self.resources
            .record
            .observer
            .on(&SessionProgress::Started { runs, done });
        let mut attempts = Attempts::new();
        let _forward = forward_stop_requests(
            self.resources.stops.user.clone(),
            vec![
                Arc::clone(&self.resources.stops.runs),
                Arc::clone(&self.resources.stops.paid_runs),
            ],
        );
        let mut cut_off = false;
        while let Some(step) = self.step(&mut attempts).await? {
            cut_off |= self.apply(step, &mut attempts)? == StepEffect::CutOff;
        }
        let interrupted = cut_off
            || (!self.resources.continues()
                && !self.resources.record.scheduler.is_done()
                && !self.limit.is_over());
        if let Some(error) = self.resources.problems.failure.take() {
            return Err(error);
        }
        self.conclude(interrupted)
    }

    /// Starts the runs that may start, and waits for the next event. `None` if no run is active and none can start.
    async fn step(&mut self, attempts: &mut Attempts) -> Result<Option<Step>, CampaignError> {
        self.resources.record.advance();
        self.resources.close_idle_clouds();
        // boxed: the compiler limits the nesting of futures
        Box::pin(self.begin_next_cloud()).await?;
        if self.resources.continues() {
            self.start_all(attempts)?;
        }
        self.resources.record.journal.sync()?;
        if attempts.tasks.is_empty() {
            // runs that were given up in the meantime are settled
            self.resources.record.advance();
            if !self.openings.is_empty() {
                return Ok(Box::pin(self.next_opened()).await?.map(Step::Opened));
            }
            let changed = self.resources.continues()
                && !self.resources.record.scheduler.is_done()
                && self.resources.wait_for_nodes().await? == SiteChange::Changed;
            return if changed {
                Ok(Some(Step::Changed))
            } else {
                Ok(self.next_closed().await?.map(Step::Closed))
            };
        }
        let view = self.resources.budget_view();
        let lasts = self
            .resources
            .budget
            .lasts(&view)
            .filter(|_| self.resources.stops.paid_runs.now() < StopRequest::StopNow);
        drop(view);
        self.resources.share_budget();
        // a fixed time, so that frequent other events do not postpone the check
        let owner_check = self.owner_check;
        let interrupts = self.resources.record.dir.clone();
        let mut stop_signal = self.resources.stops.user.clone();
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
            Some(event) = self.resources.sites.events.recv() => Ok(Some(Step::Site(event))),
            true = stop_asked, if !self.resources.record.state().stop_asked => Ok(Some(Step::StopAsked)),
            () = tokio::time::sleep(lasts.unwrap_or_default()), if lasts.is_some() => Ok(Some(Step::OutOfMoney)),
            Some(closed) = self.closed_clouds.recv() => Ok(Some(Step::Closed(closed))),
            Some(ended) = self.openings.next(), if !self.openings.is_empty() => Ok(Some(Step::Opened(ended))),
            () = rehearsal::wait_for_requests(&interrupts) => Ok(Some(Step::LookedForInterrupts)),
            // runs may take hours without a write to the journal that would reveal another owner
            () = tokio::time::sleep_until(owner_check) => {
                self.owner_check = Instant::now() + OWNER_CHECK;
                self.resources.record.journal.check_owner().map(|()| Some(Step::Changed))
            }
            Some(ended) = attempts.tasks.join_next() => {
                let (run, result) = ended.map_err(CampaignError::of_task)?;
                Ok(Some(Step::Ended(run, result)))
            }
        }
    }

    /// Handles an event.
    fn apply(&mut self, step: Step, attempts: &mut Attempts) -> Result<StepEffect, CampaignError> {
        match step {
            Step::Changed => {}
            Step::LookedForInterrupts => self.resources.look_for_interrupts(),
            Step::AttemptReported(run, event) => {
                self.resources.record.on_attempt_event(&run, event)?
            }
            Step::Site(event) => self.resources.listen(event)?,
            Step::OutOfMoney => self.resources.budget_exhausted()?,
            // journaled: if cvc ends later, as in a shutdown that does not wait, no run is the cause
            Step::StopAsked => self
                .resources
                .record
                .journal
                .write(Event::Interrupted { now: false })?,
            Step::Opened(ended) => self.settle_opening(ended)?,
            Step::Closed(closed) => {
                let mut failures = FailureCounts::default();
                self.resources.settle_closed(closed, &mut failures)?;
                // the end of the campaign tries again, and reports leftovers
                if let Some(error) = failures.0 {
                    self.resources.record.say(&error);
                }
            }
            Step::Ended(run, result) => {
                while let Ok((run, event)) = attempts.events.try_recv() {
                    self.resources.record.on_attempt_event(&run, event)?;
                }
                match result {
                    Ok(attempted) => return self.ended(&run, attempted),
                    Err(error) => self.resources.site_failed(&run, error)?,
                }
            }
        }
        Ok(StepEffect::Continues)
    }

    /// Journals and reports the end of the session.
    fn conclude(&mut self, interrupted: bool) -> Result<Summary, CampaignError> {
        let RunTally {
            succeeded,
            failed,
            failed_as_expected,
            succeeded_unexpectedly,
            skipped,
            left,
        } = self
            .resources
            .record
            .scheduler
            .tally(self.resources.record.state());
        let now = *self.resources.stops.user.borrow() == StopRequest::StopNow;
        if !interrupted && left == 0 {
            self.resources
                .record
                .journal
                .write(Event::Completed { succeeded, failed })?;
        } else if now || !self.resources.record.state().stop_asked {
            self.resources
                .record
                .journal
                .write(Event::Interrupted { now })?;
        }
        self.resources.record.observer.on(&SessionProgress::Ended {
            succeeded,
            failed,
            skipped,
            left,
        });
        Ok(Summary {
            succeeded,
            failed,
            failed_as_expected,
            succeeded_unexpectedly,
            skipped,
            left,
            interrupted,
            over_budget: self.resources.budget.is_exceeded(),
            failed_alike: self.fail_fast.has_stopped(),
        })
    }
}
