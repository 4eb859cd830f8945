//! The agent's main loop: takes requests, carries out attempts, reports events, watches its nodes, and ends when nobody needs it.

use super::{
    error::{AgentError, ReadyError},
    head::{Head, ThisHead, Workplace},
    patience::{Patience, is_missing},
    protocol::{Event, Orders, PROTOCOL, Request, Settled},
    spool::{self, EventLog, OldEvents, Spool},
    spot_interruption::NodeNotice,
    wake::{Arrivals, LastChange, Pace},
};
use camino::Utf8Path;
use cvc_core::campaign::WARNING_S;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::stop::StopRequest;
use cvc_core::store::{OutcomeFile, StoreError, remove_all, sealed_outcome};
use cvc_engine::attempt::{AttemptEvent, AttemptReporter, AttemptResult, RunError, Task};
use cvc_engine::crew;
use cvc_os::proc::ProcessId;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs::{self, File},
    io::{Seek, SeekFrom},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tracing::Instrument;

/// Delay between checks for requests that the kernel does not tell of: those that another machine writes.
const PACE: Pace = Pace {
    shortest: Duration::from_millis(10),
    longest: Duration::from_millis(500),
};
/// Delay between looks at everything else, and at requests where the kernel tells of them: it may have lost one.
const TICK: Duration = Duration::from_secs(1);
/// Delay between heartbeats.
const BEAT: Duration = Duration::from_secs(3);
/// Delay between attempts to reach lost nodes again.
const REVIVE: Duration = Duration::from_secs(5);
/// Time limit of the last of them.
const REVIVE_LAST: Duration = Duration::from_secs(8);
/// Time limit for an agent that ends to be gone.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of runs that are cut off: with all that follows, less than a controller waits for an agent that it closes.
const CUT_LIMIT: Duration = Duration::from_secs(20);

/// An attempt under way.
struct UnderWay {
    dispatch: u32,
    /// Whether no attempt had ended before it began, so that it had the whole job.
    first: bool,
    nodes: Vec<String>,
    stop_request: watch::Sender<StopRequest>,
}

/// Time of the next poll of everything without a notification. Events do not put it off.
struct NextLook(Instant);

impl NextLook {
    fn after(pause: Duration) -> Self {
        Self(Instant::now() + pause)
    }

    /// The time, which is sooner if the agent has less patience by now.
    fn within(&mut self, pause: Duration) -> Instant {
        self.0 = self.0.min(Instant::now() + pause);
        self.0
    }
}

/// Writes down that the agent cannot work, and why, once nothing of earlier agents is left.
fn refuse(
    log: &mut EventLog,
    reason: String,
    ended: Result<(), StoreError>,
) -> Result<AgentError, AgentError> {
    if let Err(error) = ended {
        log.write(Event::Unable {
            reason: format!("{reason}; what an earlier agent left cannot be ended: {error}"),
        })?;
        return Ok(error.into());
    }
    log.write(Event::Unable {
        reason: reason.clone(),
    })?;
    log.write(Event::Closed {
        reason: "it could not work".into(),
    })?;
    Ok(AgentError::Unable(reason))
}

/// What the agents before this one did.
#[derive(Default)]
struct Past {
    /// Attempts whose end was reported.
    settled: HashSet<(RunId, u32)>,
    shepherds: HashMap<(RunId, u32), (u32, u64)>,
    /// Whether the last one that had nodes was killed, so that its attempts without an end may live on.
    has_left_something: bool,
}

impl Past {
    fn of(events: &[Event]) -> Self {
        let mut past = Self::default();
        for event in events {
            match event {
                Event::Finished { run, dispatch, .. }
                | Event::Interrupted { run, dispatch }
                | Event::Lost { run, dispatch, .. } => {
                    past.settled.insert((run.clone(), *dispatch));
                }
                Event::Started {
                    run,
                    dispatch,
                    pid,
                    start_ticks,
                } => {
                    past.shepherds
                        .insert((run.clone(), *dispatch), (*pid, *start_ticks));
                }
                Event::Ready { .. } => past.has_left_something = true,
                // it cut off its own attempts: requests without an end came later and are for this agent
                Event::Closed { .. } => past.has_left_something = false,
                Event::Began { .. }
                | Event::Note { .. }
                | Event::Unable { .. }
                | Event::Stage { .. }
                | Event::NodeLost { .. }
                | Event::NodeLeaving { .. }
                | Event::NodeBack { .. }
                | Event::Closing { .. } => {}
            }
        }
        past
    }

    fn shepherd(&self, task: &Task) -> Option<(u32, u64)> {
        self.shepherds
            .get(&(task.planned.id.clone(), task.dispatch))
            .copied()
    }

    /// Ends what is left of attempts without an end on this machine, without reporting it: those whose directory is whole are reported when
    /// they are asked for.
    fn end_leftovers(
        &self,
        head: &dyn Head,
        spool: &Spool,
        orders: &Orders,
    ) -> Result<(), StoreError> {
        if !self.has_left_something {
            return Ok(());
        }
        for name in spool.names()? {
            // a request that cannot be read was never carried out
            if let Ok(Request::Run(task)) = spool.request(&name)
                && !self
                    .settled
                    .contains(&(task.planned.id.clone(), task.dispatch))
            {
                head.end_leftovers(spool, orders, &task, self.shepherd(&task))?;
            }
        }
        Ok(())
    }
}

/// Ends what agents that were killed left of their attempts on this machine.
///
/// # Errors
/// When an agent works in the spool, or what is left cannot be ended.
pub fn end_leftovers(root: &Utf8Path) -> Result<(), StoreError> {
    let spool = Spool::at(root);
    if !root.exists() {
        return Ok(());
    }
    if let Some(host) = spool.agent_elsewhere() {
        return Err(spool.not_here(&host));
    }
    // an agent that has just said that it ends may still be there
    let begun = Instant::now();
    let _lock = loop {
        match spool.lock() {
            Err(StoreError::Locked { .. }) if begun.elapsed() < LOCK_LIMIT => {
                std::thread::sleep(Duration::from_millis(50))
            }
            taken => break taken?,
        }
    };
    let (_, OldEvents { events, .. }) = EventLog::open(&spool.events())?;
    let past = Past::of(&events.into_iter().map(|e| e.event).collect::<Vec<_>>());
    // without orders there were no attempts
    let Ok(orders) = spool.orders() else {
        return Ok(());
    };
    past.end_leftovers(
        &ThisHead {
            program: orders.program.clone(),
        },
        &spool,
        &orders,
    )
}

struct Agent {
    spool: Spool,
    orders: Orders,
    log: EventLog,
    workplace: Arc<dyn Workplace>,
    /// Requests that were handled, also those that are no longer in the spool.
    taken: HashSet<String>,
    /// Those of attempts under way, which stay in the spool: an agent after this one reads them.
    kept: HashSet<String>,
    /// Tells of requests that this machine writes into the spool.
    arrivals: Arrivals,
    /// The file that a controller touches.
    controller: LastChange,
    under_way: BTreeMap<RunId, UnderWay>,
    attempts: JoinSet<(Box<Task>, Result<AttemptResult, RunError>)>,
    tell: mpsc::UnboundedSender<(RunId, AttemptEvent)>,
    lost: BTreeSet<String>,
    /// Nodes that the cloud is about to reclaim.
    leaving: BTreeSet<String>,
    /// An attempt to reach lost nodes again, and when the last one ended.
    reviving: Option<JoinHandle<()>>,
    revived: Instant,
    /// Time of the last request or end of an attempt.
    active: Instant,
    /// When this agent began.
    begun: Instant,
    /// Time of its last heartbeat.
    beaten: Option<Instant>,
    /// Whether an attempt has ended here.
    worked: bool,
    /// Whether nothing of earlier agents is left.
    has_recovered: bool,
    /// For how long what cannot be read is asked for again.
    patience: Duration,
    /// With the list of requests.
    listing: Patience,
    /// With requests that could not be read yet.
    unread: HashMap<String, Patience>,
    /// Requests whose end is reported, but not written down yet.
    settled: Vec<String>,
}

/// A request that was looked for.
enum Reading {
    Whole(Box<Request>),
    /// It cannot be read at the moment.
    Later,
    /// It is no longer there, or out of the way.
    Gone,
}

/// Works in a spool until it is closed, nobody needs it any more, or a signal ends it.
///
/// # Errors
/// When the spool cannot be used, another agent works in it, or the nodes cannot be gathered.
pub async fn serve(program: &Utf8Path, root: &Utf8Path) -> Result<(), AgentError> {
    // an error means that it already leads a session
    let _ = nix::unistd::setsid();
    serve_on(
        &ThisHead {
            program: program.to_owned(),
        },
        root,
    )
    .await
}

/// The same on any head.
///
/// # Errors
/// Those of [`serve`].
pub async fn serve_on(head: &dyn Head, root: &Utf8Path) -> Result<(), AgentError> {
    let begun = Instant::now();
    let root = root
        .canonicalize_utf8()
        .map_err(StoreError::io("resolve", root))?;
    let spool = Spool::at(&root);
    spool.make()?;
    let _lock = spool.lock()?;
    let me = head.process()?;
    // what comes later is for this agent
    let old_requests = spool.names()?;
    let (mut log, OldEvents { events, damage }) = EventLog::open(&spool.events())?;
    // before others see that it is alive: they read the log from here
    log.write(Event::Began {
        after: events.iter().map(|event| event.seq).max().unwrap_or(0),
    })?;
    if let Some(what) = damage {
        log.write(Event::Note { what })?;
    }
    let protocol = spool.protocol()?;
    let cluster = spool
        .orders()
        .ok()
        .and_then(|orders| orders.context.site.cluster);
    let patience = Duration::from_secs_f64(cluster.map_or_else(
        || crew::Settings::default().lost_after_s,
        |c| c.lost_after_s,
    ));
    log.take_over(&spool, me, patience)?;
    let events: Vec<Event> = events.into_iter().map(|e| e.event).collect();
    if protocol != PROTOCOL {
        let ended = spool.orders().map_or(Ok(()), |orders| {
            Past::of(&events).end_leftovers(head, &spool, &orders)
        });
        return Err(refuse(
            &mut log,
            ReadyError::Protocol {
                controller: protocol,
                agent: PROTOCOL,
            }
            .to_string(),
            ended,
        )?);
    }
    let orders = spool.orders()?;
    let terminated = head.terminated()?;
    // an agent that takes over uses the remaining nodes
    let takes_over = events
        .iter()
        .any(|event| matches!(event, Event::Ready { .. }));
    let ready = tokio::select! {
        biased;
        () = terminated.notified() => Err("it was ended by a signal".to_owned()),
        ready = head.get_ready(&spool, &orders, takes_over, &mut log) => ready,
    };
    let (workplace, ready) = match ready {
        Ok(ready) => ready,
        Err(reason) => {
            let ended = Past::of(&events).end_leftovers(head, &spool, &orders);
            return Err(refuse(&mut log, reason, ended)?);
        }
    };
    let (tell, mut attempt_events) = mpsc::unbounded_channel();
    let arrivals = head.arrivals(&spool);
    let mut agent = Agent {
        spool,
        orders,
        log,
        workplace,
        taken: HashSet::new(),
        kept: HashSet::new(),
        arrivals,
        controller: LastChange::new(Instant::now()),
        under_way: BTreeMap::new(),
        attempts: JoinSet::new(),
        tell,
        lost: BTreeSet::new(),
        leaving: BTreeSet::new(),
        reviving: None,
        revived: Instant::now(),
        active: Instant::now(),
        begun,
        beaten: None,
        worked: false,
        has_recovered: false,
        patience,
        listing: Patience::of(patience),
        unread: HashMap::new(),
        settled: Vec::new(),
    };
    match agent
        .work(
            &events,
            old_requests,
            ready,
            &terminated,
            &mut attempt_events,
        )
        .await
    {
        Ok(reason) => agent.close(reason, &mut attempt_events).await,
        Err(error) => {
            // nothing may be left running in any case; the first error is reported
            let _ = agent
                .close(&format!("it could not go on: {error}"), &mut attempt_events)
                .await;
            Err(error)
        }
    }
}

impl Agent {
    /// Carries out requests until it must end; returns the reason.
    async fn work(
        &mut self,
        events: &[Event],
        old_requests: BTreeSet<String>,
        ready: Event,
        terminated: &Notify,
        attempt_events: &mut mpsc::UnboundedReceiver<(RunId, AttemptEvent)>,
    ) -> Result<&'static str, AgentError> {
        // finish what an earlier agent left before taking new runs
        self.recover(events, old_requests).await?;
        self.has_recovered = true;
        self.log.write(ready)?;
        let mut lost = self.workplace.lost();
        let mut look = NextLook::after(self.pause());
        loop {
            tokio::select! {
                biased;
                // first, because events may come without a pause
                () = tokio::time::sleep_until(look.within(self.pause())) => {
                    if self.look_around()? {
                        return Ok("the controller closed it");
                    }
                    if self.idle() {
                        return Ok("no controller came for a long time");
                    }
                    look = NextLook::after(self.pause());
                }
                Some((run, what)) = attempt_events.recv() => self.on_attempt_event(run, what)?,
                Some(ended) = self.attempts.join_next(), if !self.attempts.is_empty() => {
                    while let Ok((run, what)) = attempt_events.try_recv() {
                        self.on_attempt_event(run, what)?;
                    }
                    let (task, result) = ended.map_err(|e| AgentError::Unable(format!("internal error (please report): {e}")))?;
                    self.ended(&task, result)?;
                }
                () = terminated.notified() => return Ok("it was ended by a signal"),
                Ok(()) = lost.changed() => self.watch_nodes()?,
                () = self.arrivals.next() => {
                    if self.take_requests()? {
                        return Ok("the controller closed it");
                    }
                }
            }
        }
    }

    /// Polls everything without a notification. Returns whether the agent must end.
    fn look_around(&mut self) -> Result<bool, AgentError> {
        if self.take_requests()? {
            return Ok(true);
        }
        self.beat()?;
        self.watch_nodes()?;
        self.on_cloud_notices()?;
        self.revive();
        Ok(false)
    }

    /// Time until the next look at the spool. Without Slurm the relay is on this machine, and the kernel tells of what it writes.
    fn pause(&self) -> Duration {
        let slurm = self
            .orders
            .context
            .site
            .cluster
            .as_ref()
            .is_some_and(|c| c.slurm.is_some());
        let told = self.arrivals.are_told() && !slurm;
        let pause = if told {
            TICK
        } else {
            PACE.delay(self.active.elapsed())
        };
        // a controller must be noticed while it is there
        pause
            .min(Duration::from_secs_f64(self.orders.idle_s / 4.0))
            .max(PACE.shortest)
    }

    /// Ends what an earlier agent left, and reports the results.
    async fn recover(
        &mut self,
        events: &[Event],
        old_requests: BTreeSet<String>,
    ) -> Result<(), AgentError> {
        let past = Past::of(events);
        // also if they are asked for again
        self.taken.extend(
            past.settled
                .iter()
                .map(|(run, dispatch)| request_name(run, *dispatch)),
        );
        let mut reports = Vec::new();
        for name in old_requests {
            let request = loop {
                match self.read_request(&name)? {
                    Reading::Whole(request) => break Some(*request),
                    Reading::Gone => break None,
                    Reading::Later => tokio::time::sleep(TICK).await,
                }
            };
            let Some(request) = request else { continue };
            match request {
                Request::Run(task) => {
                    if self.taken.contains(&name) {
                        self.report_again(&task)?;
                    } else if past.has_left_something {
                        self.recover_run(&task, past.shepherd(&task)).await?;
                        self.taken.insert(name);
                    }
                }
                // they were for an agent that is gone
                Request::Stop { .. } | Request::Close => self.spool.drop_request(&name),
                Request::Report { of } => reports.push((name, of)),
                Request::Forget { .. } => {}
            }
        }
        // the controller knows that this one arrived, and asks no other agent
        for (name, of) in reports {
            self.report_ends(of)?;
            self.spool.drop_request(&name);
        }
        Ok(())
    }

    /// Reads a request. One that cannot be read is in nobody's way: it is put aside, and if it was for an attempt, that is reported as lost.
    fn read_request(&mut self, name: &str) -> Result<Reading, AgentError> {
        let patience = self.patience;
        let read = match self.spool.request(name) {
            // no second attempt makes it whole
            Err(error @ StoreError::Damaged { .. }) => Err(error),
            read => self
                .unread
                .entry(name.to_owned())
                .or_insert_with(|| Patience::of(patience))
                .bear(read),
        };
        let error = match read {
            Ok(None) => return Ok(Reading::Later),
            Ok(Some(request)) => {
                self.unread.remove(name);
                return Ok(Reading::Whole(Box::new(request)));
            }
            Err(error) => error,
        };
        self.unread.remove(name);
        if is_missing(&error) {
            return Ok(Reading::Gone);
        }
        match self.spool.put_request_aside(name) {
            Ok(to) => self.note(format!(
                "a request cannot be read, and was put aside as {to}: {error}"
            ))?,
            Err(in_the_way) => {
                self.taken.insert(name.to_owned());
                self.note(format!(
                    "a request cannot be read ({error}), nor put aside: {in_the_way}"
                ))?;
            }
        }
        let attempt = name
            .strip_prefix("run-")
            .and_then(|rest| rest.rsplit_once('-'));
        if let Some((run, dispatch)) = attempt.and_then(|(run, dispatch)| {
            Some((RunId::from_written(run), dispatch.parse::<u32>().ok()?))
        }) && !self.taken.contains(name)
            && !self.under_way.contains_key(&run)
        {
            let reason = "its request could not be read".to_owned();
            self.log.write(Event::Lost {
                run,
                dispatch,
                reason,
                time_limit: false,
            })?;
            // also if it is asked for again before the controller has heard that
            self.taken.insert(name.to_owned());
        }
        Ok(Reading::Gone)
    }

    async fn recover_run(
        &mut self,
        task: &Task,
        shepherd: Option<(u32, u64)>,
    ) -> Result<(), AgentError> {
        let (run, dispatch) = (task.planned.id.clone(), task.dispatch);
        match self.workplace.recover(task, shepherd).await? {
            Some(file) => self.finished(run, dispatch, file),
            None => {
                let restarts = std::env::var("SLURM_RESTART_COUNT")
                    .ok()
                    .filter(|c| c != "0");
                let reason = match restarts {
                    Some(count) => format!("its job was requeued (restart {count})"),
                    None => "the agent on the head node ended first".to_owned(),
                };
                self.settled(
                    Event::Lost {
                        run: run.clone(),
                        dispatch,
                        reason,
                        time_limit: false,
                    },
                    &run,
                    dispatch,
                )
            }
        }
    }

    fn finished(&mut self, run: RunId, dispatch: u32, file: OutcomeFile) -> Result<(), AgentError> {
        let OutcomeFile {
            attempt,
            outcome,
            records,
            wall_s,
            manifest,
        } = file;
        let end = Event::Finished {
            run: run.clone(),
            dispatch,
            attempt,
            outcome,
            records,
            wall_s,
            manifest,
        };
        self.settled(end, &run, dispatch)
    }

    /// Reports the end of an attempt. Nobody needs its request after that.
    fn settled(&mut self, end: Event, run: &RunId, dispatch: u32) -> Result<(), AgentError> {
        self.log.write(end)?;
        self.settled.push(request_name(run, dispatch));
        self.drop_settled();
        Ok(())
    }

    /// Drops the requests of attempts whose end is written down.
    fn drop_settled(&mut self) {
        if self.log.holds_events() {
            return;
        }
        for name in std::mem::take(&mut self.settled) {
            self.kept.remove(&name);
            self.spool.drop_request(&name);
        }
    }

    /// Writes a heartbeat, unless another agent has taken over, and notes whether a controller does.
    fn beat(&mut self) -> Result<(), AgentError> {
        let touched = fs::metadata(self.spool.controller())
            .and_then(|m| m.modified())
            .ok();
        self.controller.look(touched, Instant::now());
        if self.beaten.is_none_or(|at| at.elapsed() > BEAT) {
            // a short failure of the file system is not a reason to stop; a beat that nobody may write is none
            if self.log.check_fence()? {
                let _ = fs::write(self.spool.beat(), b"");
                self.drop_settled();
            }
            self.beaten = Some(Instant::now());
        }
        Ok(())
    }

    /// Handles new requests. Returns whether the agent must end.
    fn take_requests(&mut self) -> Result<bool, AgentError> {
        let Some(names) = self.listing.bear(self.spool.names())? else {
            return Ok(false);
        };
        for name in &names {
            let name = name.clone();
            if self.taken.contains(&name) {
                // asked for once more after its end, of which the report may have been damaged
                if !self.kept.contains(&name) {
                    match self.read_request(&name)? {
                        Reading::Whole(request) => match *request {
                            Request::Run(task) => self.report_again(&task)?,
                            Request::Stop { .. }
                            | Request::Close
                            | Request::Report { .. }
                            | Request::Forget { .. } => {
                                self.spool.drop_request(&name);
                            }
                        },
                        Reading::Later | Reading::Gone => {}
                    }
                }
                continue;
            }
            self.active = Instant::now();
            let request = match self.read_request(&name)? {
                Reading::Whole(request) => *request,
                Reading::Later | Reading::Gone => continue,
            };
            if let Request::Run(task) = &request
                && let Some(under_way) = self
                    .under_way
                    .get(&task.planned.id)
                    .filter(|under_way| under_way.dispatch < task.dispatch)
            {
                // the controller has given that one up: this one begins when nothing of it is left
                under_way.stop_request.send_replace(StopRequest::StopNow);
                continue;
            }
            self.taken.insert(name.clone());
            match request {
                Request::Run(task) if self.is_superseded(&task, &names) => {
                    let (run, dispatch) = (task.planned.id, task.dispatch);
                    let reason =
                        "a later attempt at the run was asked for before it began".to_owned();
                    self.settled(
                        Event::Lost {
                            run: run.clone(),
                            dispatch,
                            reason,
                            time_limit: false,
                        },
                        &run,
                        dispatch,
                    )?;
                }
                Request::Run(task) => self.begin(task)?,
                Request::Stop { run } => {
                    if let Some(under_way) = self.under_way.get(&run) {
                        under_way.stop_request.send_replace(StopRequest::StopNow);
                    }
                    self.spool.drop_request(&name);
                }
                Request::Forget {
                    run,
                    dispatch: _,
                    attempt,
                } => self.forget(&run, attempt, &name),
                Request::Report { of } => {
                    self.report_ends(of)?;
                    self.spool.drop_request(&name);
                }
                Request::Close => {
                    self.spool.drop_request(&name);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a later attempt at the same run is asked for, or under way. Never two of them live at once.
    fn is_superseded(&self, task: &Task, requests: &BTreeSet<String>) -> bool {
        let run = &task.planned.id;
        let of_run = format!("run-{run}-");
        let asked = requests
            .iter()
            .filter_map(|name| name.strip_prefix(&of_run)?.parse::<u32>().ok());
        let under_way = self.under_way.get(run).map(|under_way| under_way.dispatch);
        asked
            .chain(under_way)
            .any(|dispatch| dispatch > task.dispatch)
    }

    /// Reports once more how an attempt ended that is asked for again, and drops the request.
    fn report_again(&mut self, task: &Task) -> Result<(), AgentError> {
        let (run, dispatch, attempt) = (task.planned.id.clone(), task.dispatch, task.attempt);
        let name = request_name(&run, dispatch);
        self.report_ends(vec![Settled {
            run,
            dispatch,
            attempt,
        }])?;
        self.spool.drop_request(&name);
        Ok(())
    }

    /// Reports once more how these attempts ended, if they have.
    fn report_ends(&mut self, of: Vec<Settled>) -> Result<(), AgentError> {
        for Settled {
            run,
            dispatch,
            attempt,
        } in of
        {
            let name = request_name(&run, dispatch);
            let is_new = !self.taken.contains(&name) && self.spool.has_request(&name);
            if is_new || self.under_way.contains_key(&run) {
                continue;
            }
            match sealed_outcome(&self.spool.campaign(), &run, attempt) {
                Some(file) => self.finished(run, dispatch, file)?,
                None => {
                    let reason = "the report of its end was damaged".to_owned();
                    self.log.write(Event::Lost {
                        run,
                        dispatch,
                        reason,
                        time_limit: false,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, task: Box<Task>) -> Result<(), AgentError> {
        let run = task.planned.id.clone();
        // the report of its end may have been damaged
        if let Some(file) = sealed_outcome(&self.spool.campaign(), &run, task.attempt) {
            return self.finished(run, task.dispatch, file);
        }
        // the controller may not know yet that a node is lost: this does not count as an attempt
        self.watch_nodes()?;
        self.on_cloud_notices()?;
        let lost = task
            .nodes
            .iter()
            .find(|n| self.lost.contains(*n))
            .map(|node| format!("{node} was lost before it began"));
        // an earlier controller chose it, and the site has other nodes now
        let unknown = task
            .nodes
            .iter()
            .find(|n| !self.workplace.nodes().contains(n));
        let lost = lost.or_else(|| unknown.map(|node| format!("its node {node} no longer exists")));
        let on_or_head = task
            .nodes
            .iter()
            .map(String::as_str)
            .chain([self.workplace.head()]);
        let leaving = on_or_head.into_iter().find(|n| self.leaving.contains(*n));
        let leaving = leaving
            .map(|node| format!("the cloud is reclaiming {node}, and the run had not begun"));
        if let Some(reason) = lost.or(leaving) {
            return self.settled(
                Event::Lost {
                    run: run.clone(),
                    dispatch: task.dispatch,
                    reason,
                    time_limit: false,
                },
                &run,
                task.dispatch,
            );
        }
        self.kept.insert(request_name(&run, task.dispatch));
        let (stop_request, stop_signal) = watch::channel(StopRequest::GoOn);
        self.under_way.insert(
            run.clone(),
            UnderWay {
                dispatch: task.dispatch,
                first: !self.worked,
                nodes: task.nodes.clone(),
                stop_request,
            },
        );
        let (workplace, reporter) = (
            Arc::clone(&self.workplace),
            AttemptReporter {
                run: run.clone(),
                to: self.tell.clone(),
            },
        );
        let span = tracing::info_span!("run", run = %run, point = %task.planned.point);
        let (log, before) = (
            self.spool.trace(),
            fs::metadata(self.spool.trace()).map_or(0, |m| m.len()),
        );
        let dir = self.spool.campaign();
        let attempt = async move {
            let result = workplace.attempt(&task, stop_signal, &reporter).await;
            tracing::info!(outcome = ?result, "attempt ended");
            if let Ok(AttemptResult::Ended(file)) = &result {
                let kept = if file.outcome == Outcome::Succeeded {
                    dir.run(&run)
                } else {
                    dir.failed(&run, file.attempt)
                };
                keep_log(&log, before, &kept);
            }
            (task, result)
        };
        self.attempts.spawn(attempt.instrument(span));
        Ok(())
    }

    /// Removes an attempt that the controller has fetched.
    fn forget(&mut self, run: &RunId, attempt: u32, name: &str) {
        let campaign = self.spool.campaign();
        for dir in [campaign.run(run), campaign.failed(run, attempt)] {
            // the directory may belong to a later attempt: its outcome tells
            let of = fs::read(dir.join("outcome.json"))
                .ok()
                .and_then(|text| serde_json::from_slice::<OutcomeFile>(&text).ok());
            if of.is_some_and(|file| file.attempt == attempt) {
                // what cannot be removed now is removed with the spool
                let _ = remove_all(&dir);
            }
        }
        self.spool.drop_request(name);
    }

    fn on_attempt_event(
        &mut self,
        run: RunId,
        attempt_event: AttemptEvent,
    ) -> Result<(), AgentError> {
        let Some(dispatch) = self.under_way.get(&run).map(|u| u.dispatch) else {
            return Ok(());
        };
        let event = match attempt_event {
            AttemptEvent::Started(ProcessId { pid, start_ticks }) => Event::Started {
                run,
                dispatch,
                pid,
                start_ticks,
            },
            AttemptEvent::Stage(stage) => Event::Stage { run, stage },
        };
        Ok(self.log.write(event)?)
    }

    fn ended(
        &mut self,
        task: &Task,
        result: Result<AttemptResult, RunError>,
    ) -> Result<(), AgentError> {
        let (run, dispatch, attempt) = (task.planned.id.clone(), task.dispatch, task.attempt);
        self.under_way.remove(&run);
        self.worked = true;
        self.active = Instant::now();
        // reported before the end that it caused, or the controller would choose the same nodes again
        self.watch_nodes()?;
        match result {
            Ok(AttemptResult::Ended(file)) => self.finished(run, dispatch, file),
            Ok(AttemptResult::Interrupted) => self.settled(
                Event::Interrupted {
                    run: run.clone(),
                    dispatch,
                },
                &run,
                dispatch,
            ),
            Ok(AttemptResult::Lost { reason, time_limit }) => self.settled(
                Event::Lost {
                    run: run.clone(),
                    dispatch,
                    reason,
                    time_limit,
                },
                &run,
                dispatch,
            ),
            Ok(AttemptResult::Failed { cause, detail }) => {
                let outcome = Outcome::Failed { cause, detail };
                self.finished(
                    run,
                    dispatch,
                    OutcomeFile {
                        attempt,
                        outcome,
                        records: None,
                        wall_s: 0.0,
                        manifest: None,
                    },
                )
            }
            // its directory could not be written, which is its failure
            Err(error) => {
                let outcome = Outcome::Failed {
                    cause: Cause::Store,
                    detail: error.to_string(),
                };
                self.finished(
                    run,
                    dispatch,
                    OutcomeFile {
                        attempt,
                        outcome,
                        records: None,
                        wall_s: 0.0,
                        manifest: None,
                    },
                )
            }
        }
    }

    /// Handles notices of nodes that the cloud is about to reclaim.
    fn on_cloud_notices(&mut self) -> Result<(), AgentError> {
        while let Some(heard) = self.workplace.notice() {
            match heard {
                NodeNotice::Leaving(node, notice) => {
                    self.leaving.insert(node.clone());
                    self.log.write(Event::NodeLeaving {
                        node,
                        leaves_at: notice.time.parse().ok(),
                        action: notice.action,
                    })?;
                }
                NodeNotice::Silent(node, why) => {
                    let what =
                        format!("spot interruptions of {node} cannot be seen in advance: {why}");
                    self.log.write(Event::Note { what })?;
                }
            }
        }
        Ok(())
    }

    fn watch_nodes(&mut self) -> Result<(), AgentError> {
        let now = self.workplace.lost().borrow().clone();
        for (node, reason) in &now {
            if self.lost.insert(node.clone()) {
                self.log.write(Event::NodeLost {
                    node: node.clone(),
                    reason: reason.clone(),
                })?;
            }
        }
        if self.reviving.is_some() {
            // leftovers on returned nodes are still being removed
            return Ok(());
        }
        let back: Vec<String> = self
            .lost
            .iter()
            .filter(|n| !now.contains_key(*n))
            .cloned()
            .collect();
        for node in back {
            self.lost.remove(&node);
            self.log.write(Event::NodeBack { node })?;
        }
        Ok(())
    }

    /// Tries now and then to reach lost nodes, except those of running attempts, which are about to fail.
    fn revive(&mut self) {
        if self.reviving.as_ref().is_some_and(JoinHandle::is_finished) {
            self.reviving = None;
            self.revived = Instant::now();
        }
        if self.reviving.is_some() || self.revived.elapsed() < REVIVE {
            return;
        }
        let used: BTreeSet<&String> = self.under_way.values().flat_map(|u| &u.nodes).collect();
        let wanted: BTreeSet<String> = self
            .lost
            .iter()
            .filter(|n| !used.contains(n))
            .cloned()
            .collect();
        if wanted.is_empty() {
            return;
        }
        let workplace = Arc::clone(&self.workplace);
        self.reviving = Some(tokio::spawn(
            async move { workplace.bring_back(wanted).await }.in_current_span(),
        ));
    }

    /// Before the end, removes leftovers on nodes that are back or nearly so.
    async fn last_revival(&mut self) {
        let workplace = Arc::clone(&self.workplace);
        let reviving = self.reviving.take();
        let last = async move {
            if let Some(reviving) = reviving {
                // a failed attempt to reconnect has no result
                let _ = reviving.await;
            }
            let lost: Vec<String> = workplace.lost().borrow().keys().cloned().collect();
            let mut last = JoinSet::new();
            // each by itself: a node that hangs is in the way of no other
            for node in lost {
                let workplace = Arc::clone(&workplace);
                last.spawn(
                    async move { workplace.bring_back([node].into()).await }.in_current_span(),
                );
            }
            while last.join_next().await.is_some() {}
        };
        // a node that does not even answer by then is off
        let _ = tokio::time::timeout(REVIVE_LAST, last).await;
    }

    /// Whether it has been idle for long enough to end.
    fn idle(&self) -> bool {
        let limit = Duration::from_secs_f64(self.orders.idle_s);
        if !self.under_way.is_empty() || self.active.elapsed() < limit {
            return false;
        }
        self.controller.age(Instant::now()) > limit
    }

    /// Whether the agent's job has no more time left than Slurm gives between its warning and the end.
    fn near_time_limit(&self) -> bool {
        let Some(slurm) = self
            .orders
            .context
            .site
            .cluster
            .as_ref()
            .and_then(|c| c.slurm.as_ref())
        else {
            return false;
        };
        let limit = Duration::from_secs_f64((slurm.time_limit_s / 60.0).ceil().max(1.0) * 60.0);
        let end = std::env::var("SLURM_JOB_END_TIME")
            .ok()
            .and_then(|s| s.parse().ok());
        let end = end.and_then(|s| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(s)));
        let left = end.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
        near_end(limit, left, self.begun.elapsed())
    }

    /// Ends everything, even if events cannot be written. The first such failure is returned at the end.
    async fn close(
        mut self,
        reason: &str,
        attempt_events: &mut mpsc::UnboundedReceiver<(RunId, AttemptEvent)>,
    ) -> Result<(), AgentError> {
        let mut written: Result<(), AgentError> = self
            .log
            .write(Event::Closing {
                reason: reason.to_owned(),
            })
            .map_err(AgentError::from);
        let of_job = self.near_time_limit().then(|| {
            let limit_s = self.orders.context.site.cluster.as_ref().and_then(|c| c.slurm.as_ref()).map_or(0.0, |s| s.time_limit_s);
            let (after_s, limit_s) = (self.begun.elapsed().as_secs(), limit_s.ceil());
            format!(
                "cut off {after_s} s after the agent had begun, since the job may take {limit_s} s (slurm.time_limit_s) and Slurm announces \
                 the end {WARNING_S} s before or earlier"
            )
        });
        let first: HashSet<RunId> = self
            .under_way
            .iter()
            .filter(|(_, u)| u.first)
            .map(|(run, _)| run.clone())
            .collect();
        for under_way in self.under_way.values() {
            under_way.stop_request.send_replace(StopRequest::StopNow);
        }
        let begin = Instant::now();
        while let Some(left) = CUT_LIMIT
            .checked_sub(begin.elapsed())
            .filter(|_| !self.attempts.is_empty())
        {
            let Ok(Some(ended)) = tokio::time::timeout(left, self.attempts.join_next()).await
            else {
                break;
            };
            while let Ok((run, what)) = attempt_events.try_recv() {
                written = written.and(self.on_attempt_event(run, what));
            }
            if let Ok((task, result)) = ended {
                let result = match result {
                    Ok(AttemptResult::Interrupted) => Ok(AttemptResult::Lost {
                        reason: of_job.clone().unwrap_or_else(|| reason.to_owned()),
                        time_limit: of_job.is_some() && first.contains(&task.planned.id),
                    }),
                    other => other,
                };
                written = written.and(self.ended(&task, result));
            }
        }
        self.last_revival().await;
        for what in self.workplace.clear().await {
            written = written.and(self.note(what));
        }
        let lost: Vec<String> = self.workplace.lost().borrow().keys().cloned().collect();
        for node in lost {
            let what = format!(
                "{node} is lost: what runs left there in {} and /tmp/cvc-* is not removed",
                self.spool.root()
            );
            written = written.and(self.note(what));
        }
        self.workplace.close().await;
        // the next agent must try again
        let reason = reason.to_owned();
        let last = if self.has_recovered {
            Event::Closed { reason }
        } else {
            Event::Unable { reason }
        };
        let mut last = self.log.write(last).map(|()| !self.log.holds_events());
        // the patience of the fence ends this
        while let Ok(false) = last {
            tokio::time::sleep(TICK).await;
            last = self.log.check_fence();
        }
        self.drop_settled();
        if last.is_ok() {
            // nobody has to wait until its last heartbeat is old
            let _ = fs::remove_file(self.spool.beat());
        }
        written.and(last.map(|_| ()).map_err(AgentError::from))
    }

    fn note(&mut self, what: String) -> Result<(), AgentError> {
        Ok(self.log.write(Event::Note { what })?)
    }
}

/// Puts what the agent has logged since then into the directory of a run, where the controller fetches it from.
fn keep_log(log: &Utf8Path, before: u64, run: &Utf8Path) {
    let copy = || -> std::io::Result<()> {
        let mut from = File::open(log)?;
        from.seek(SeekFrom::Start(before))?;
        std::io::copy(&mut from, &mut File::create(run.join(spool::TRACE))?)?;
        Ok(())
    };
    if let Err(error) = copy() {
        // a run is as whole without it
        tracing::warn!(%error, %run, "the log of the run cannot be kept");
    }
}

/// Whether a job of this time limit that is warned now is so because of that limit: by the time that is left, or if Slurm did not say that,
/// by what has passed. The warning may come up to a minute early, which is not told from a cancellation where the limit itself is short.
fn near_end(limit: Duration, left: Option<Duration>, passed: Duration) -> bool {
    let left = left.unwrap_or_else(|| limit.saturating_sub(passed));
    let early = Duration::from_secs(u64::from(WARNING_S) + 62);
    left < early.min(limit.mul_f64(0.75))
}

/// Name of the request for an attempt.
pub fn request_name(run: &RunId, dispatch: u32) -> String {
    format!("run-{run}-{dispatch}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::LostNodes;
    use async_trait::async_trait;
    use cvc_core::campaign;
    use cvc_core::stop::StopSignal;
    use cvc_engine::attempt::SiteContext;

    /// A head whose nodes do nothing.
    struct Idle(watch::Sender<LostNodes>);

    #[async_trait]
    impl Head for Idle {
        fn process(&self) -> Result<ProcessId, AgentError> {
            Ok(ProcessId::of(std::process::id()).expect("this process"))
        }

        fn terminated(&self) -> Result<Arc<Notify>, AgentError> {
            Ok(Arc::default())
        }

        fn arrivals(&self, spool: &Spool) -> Arrivals {
            ThisHead {
                program: "cvc-node".into(),
            }
            .arrivals(spool)
        }

        async fn get_ready(
            &self,
            _: &Spool,
            _: &Orders,
            _: bool,
            _: &mut EventLog,
        ) -> Result<(Arc<dyn Workplace>, Event), String> {
            let ready = Event::Ready {
                nodes: vec!["n1".into()],
                cores: 1,
                obstacles: BTreeMap::new(),
                found: cvc_engine::attempt::Found::default(),
            };
            Ok((Arc::new(Self(watch::Sender::default())), ready))
        }

        fn end_leftovers(
            &self,
            _: &Spool,
            _: &Orders,
            _: &Task,
            _: Option<(u32, u64)>,
        ) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[async_trait]
    impl Workplace for Idle {
        fn nodes(&self) -> Vec<String> {
            vec!["n1".into()]
        }

        fn head(&self) -> &str {
            "n1"
        }

        fn lost(&self) -> watch::Receiver<LostNodes> {
            self.0.subscribe()
        }

        fn notice(&self) -> Option<NodeNotice> {
            None
        }

        async fn attempt(
            &self,
            _: &Task,
            _: StopSignal,
            _: &AttemptReporter,
        ) -> Result<AttemptResult, RunError> {
            panic!("nothing is to be run")
        }

        async fn recover(
            &self,
            _: &Task,
            _: Option<(u32, u64)>,
        ) -> Result<Option<OutcomeFile>, StoreError> {
            panic!("nothing is to be recovered")
        }

        async fn bring_back(&self, _: BTreeSet<String>) {}

        async fn clear(&self) -> Vec<String> {
            Vec::new()
        }

        async fn close(&self) {}
    }

    /// A spool with orders.
    fn spool_in(dir: &tempfile::TempDir) -> Spool {
        let spool = Spool::at(Utf8Path::from_path(dir.path()).expect("UTF-8"));
        spool.make().expect("makes");
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
        let text = "schema = 1\nname = 't'\n[sites.local]\nkind = 'local'\n[matrix]\napp = 'cube'\nprocesses = 1\n";
        let spec =
            campaign::load_text(std::path::Path::new("t.toml"), text, &[apps]).expect("a campaign");
        let context = SiteContext::of(&spec, "local").expect("the site");
        let orders = Orders {
            protocol: PROTOCOL,
            context,
            points: Vec::new(),
            program: "cvc-node".into(),
            idle_s: 3600.0,
        };
        spool::put_json(&spool.root().join("orders.json"), &orders).expect("writes");
        spool
    }

    /// Waits until the events of a spool have this text.
    async fn told(spool: &Spool, what: &str) -> String {
        loop {
            let events = fs::read_to_string(spool.events()).unwrap_or_default();
            if events.contains(what) {
                return events;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_read_is_put_aside_and_keeps_no_agent_from_its_work() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = spool_in(&dir);
        let at = |name: &str| spool.requests().join(format!("{name}.json"));
        // one that was there before it, and one that comes
        fs::write(at("run-0123456789abcdef-1"), "{\"do\":\"run\"").expect("writes");
        let asking = async {
            told(&spool, "\"ready\"").await;
            fs::write(at("new.tmp"), "\0\0\0")
                .and_then(|()| fs::rename(at("new.tmp"), at("stop-x-1")))
                .expect("writes");
            told(&spool, "stop-x-1").await;
            spool.ask("close-1", &Request::Close).expect("asks");
        };
        let idle = Idle(watch::Sender::default());
        let (served, ()) = tokio::time::timeout(Duration::from_secs(60), async {
            tokio::join!(serve_on(&idle, spool.root()), asking)
        })
        .await
        .expect("in time");
        served.expect("it works");
        let events = fs::read_to_string(spool.events()).expect("events");
        assert_eq!(events.matches("was put aside").count(), 2, "{events}");
        assert!(
            events.contains("\"lost\"") && events.contains("0123456789abcdef"),
            "{events}"
        );
        for name in ["run-0123456789abcdef-1", "stop-x-1"] {
            assert!(
                !at(name).exists()
                    && spool
                        .requests()
                        .join(format!("unreadable/{name}.json"))
                        .exists(),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn a_request_that_cannot_be_read_for_a_moment_is_carried_out_then() {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = spool_in(&dir);
        let asking = async {
            told(&spool, "\"ready\"").await;
            // what cannot be read, and is no damaged request
            let unread = spool.requests().join("close-1.json");
            fs::create_dir(&unread).expect("makes");
            spool
                .ask(
                    "stop-1",
                    &Request::Stop {
                        run: RunId::of(b"r"),
                    },
                )
                .expect("asks");
            while spool.has_request("stop-1") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            fs::remove_dir(&unread).expect("removes");
            spool.ask("close-1", &Request::Close).expect("asks");
        };
        let idle = Idle(watch::Sender::default());
        let (served, ()) = tokio::time::timeout(Duration::from_secs(60), async {
            tokio::join!(serve_on(&idle, spool.root()), asking)
        })
        .await
        .expect("in time");
        served.expect("it is closed as it should be");
        let events = fs::read_to_string(spool.events()).expect("events");
        assert!(
            !events.contains("put aside") && events.contains("\"closed\""),
            "{events}"
        );
    }

    #[test]
    fn events_do_not_put_the_next_look_off() {
        let mut look = NextLook::after(Duration::from_secs(100));
        let due = look.0;
        // an event comes, and the agent waits again
        assert_eq!(look.within(Duration::from_secs(200)), due);
        assert!(
            look.within(Duration::from_secs(1)) < due,
            "there is work, for which it looks more often"
        );
    }

    #[test]
    fn a_warning_is_that_of_the_time_limit_only_near_the_end() {
        let s = Duration::from_secs;
        assert!(near_end(s(3600), Some(s(80)), s(0)) && !near_end(s(3600), Some(s(100)), s(0)));
        assert!(near_end(s(3600), None, s(3540)) && !near_end(s(3600), None, s(3000)));
        // short limits: not at once
        assert!(!near_end(s(60), Some(s(55)), s(5)) && near_end(s(60), Some(s(30)), s(30)));
        assert!(!near_end(s(60), None, s(10)) && near_end(s(60), None, s(30)));
    }
}
