//! The agent's main loop: reads requests, carries out attempts, reports events and watches nodes, until the agent is no longer needed.

use super::{
    attempts::{AttemptNews, Attempts, EndedAttempt},
    error::{AgentError, ReadyError},
    head::{Head, ThisHead, Workplace},
    history::History,
    inbox::{Inbox, InboxReading, Listed},
    node_watch::NodeWatch,
    protocol::{AwaitedAttempt, Event, Orders, PROTOCOL, Request},
    spool::{EventLog, HeldEvents, Spool},
    wake::{Arrivals, LastChange, PollInterval},
};
use camino::Utf8Path;
use cvc_core::campaign::{SlurmSettings, WARNING_S};
use cvc_core::ids::RunId;
use cvc_core::store::{CampaignLock, StoreError, read_outcome, remove_all, sealed_outcome};
use cvc_engine::attempt::{AttemptResult, Task};
use cvc_engine::crew;
use std::{
    collections::BTreeSet,
    fmt, fs,
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::Notify, time::Instant};

/// Delay between checks for requests that the kernel does not announce because another machine writes them.
const POLL_INTERVAL: PollInterval = PollInterval {
    shortest: Duration::from_millis(10),
    longest: Duration::from_millis(500),
};
/// Delay between checks of everything else. It also applies to requests that the kernel announces, because the kernel may lose an announcement.
const TICK: Duration = Duration::from_secs(1);
/// Delay between heartbeats.
const BEAT: Duration = Duration::from_secs(3);
/// Time limit for ending all running attempts when the agent ends. It is shorter than the time for which a controller waits for an agent that it
/// closes.
const CUT_LIMIT: Duration = Duration::from_secs(20);

/// Time of the next poll of everything that has no notification. Notifications in between do not postpone the poll.
struct NextLook(Instant);

impl NextLook {
    fn after(pause: Duration) -> Self {
        Self(Instant::now() + pause)
    }

    /// Returns the time of the next poll. If it is more than `pause` from now, sets it to `pause` from now, because the agent now polls more often.
    fn within(&mut self, pause: Duration) -> Instant {
        self.0 = self.0.min(Instant::now() + pause);
        self.0
    }
}

/// Why an agent ends without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Closed,
    Idle,
    Terminated,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the controller closed it",
            Self::Idle => "no controller has connected for a long time",
            Self::Terminated => "it was ended by a signal",
        })
    }
}

/// Whether the agent continues, or the reason for its end.
type Flow = ControlFlow<Ending>;

/// Runs an agent in a spool until a controller closes it, it has been idle for too long, or a signal ends it.
///
/// # Errors
/// The spool cannot be used, another agent works in it, or no nodes can be set up.
pub async fn serve(program: &Utf8Path, root: &Utf8Path) -> Result<(), AgentError> {
    // this fails only if the process already leads a session
    let _ = nix::unistd::setsid();
    let program = program.to_owned();
    serve_on(&ThisHead { program }, root).await
}

/// Like [`serve`], on any [`Head`].
///
/// # Errors
/// See [`serve`].
pub async fn serve_on(head: &dyn Head, root: &Utf8Path) -> Result<(), AgentError> {
    let mut held = HeldSpool::take(head, root)?;
    let (orders, terminated, workplace, ready) = match held.get_ready(head).await? {
        Ok(ready) => ready,
        Err(reason) => return Err(held.refuse(head, reason.to_string())),
    };
    let begun = held.begun;
    let mut agent = Agent {
        arrivals: head.arrivals(&held.spool),
        inbox: Inbox::new(held.spool, held.tolerance),
        log: held.log,
        orders,
        nodes: NodeWatch::new(workplace),
        attempts: Attempts::new(),
        controller: LastChange::new(Instant::now()),
        active: Instant::now(),
        begun,
        beaten: None,
        settled: Vec::new(),
    };
    // finish the work of an earlier agent before accepting new runs
    let recovered = agent.recover(&held.history, held.old_requests).await;
    let has_recovered = recovered.is_ok();
    let worked = match recovered {
        Ok(()) => agent.work(ready, &terminated).await,
        Err(error) => Err(error),
    };
    let reason = match &worked {
        Ok(ending) => ending.to_string(),
        Err(error) => format!("it could not continue: {error}"),
    };
    let last = if has_recovered {
        Event::Closed {
            reason: reason.clone(),
        }
    } else {
        // the next agent must try again
        Event::Unable {
            reason: reason.clone(),
        }
    };
    // no process may stay running in any case; the first error is reported
    let closed = agent.close(&reason, last).await;
    worked.and(closed)
}

/// A spool that this agent owns, before the agent has nodes.
struct HeldSpool {
    spool: Spool,
    _lock: CampaignLock,
    begun: Instant,
    log: EventLog,
    history: History,
    /// Names of requests that were in the spool before this agent took it over. Later requests are for this agent.
    old_requests: BTreeSet<String>,
    /// Protocol version of the controller.
    protocol: u32,
    /// Time during which reading an unreadable file is retried.
    tolerance: Duration,
}

/// What an agent needs to work: its orders, the notification of a signal, its nodes, and the event that reports the nodes.
type Equipment = (Orders, Arc<Notify>, Arc<dyn Workplace>, Event);

impl HeldSpool {
    fn take(head: &dyn Head, root: &Utf8Path) -> Result<Self, AgentError> {
        let begun = Instant::now();
        let root = root
            .canonicalize_utf8()
            .map_err(StoreError::io("resolve", root))?;
        let spool = Spool::at(&root);
        spool.make()?;
        let lock = spool.lock()?;
        let me = head.process()?;
        let old_requests = spool.names()?;
        let (mut log, mut old) = EventLog::open(&spool.events())?;
        // written before others see this agent as alive: they then read the log from this event on
        log.write(Event::Began {
            after: old.events.iter().map(|event| event.seq).max().unwrap_or(0),
        })?;
        if let Some(what) = old.damage.take() {
            log.write(Event::Note { what })?;
        }
        let cluster = spool
            .orders()
            .ok()
            .and_then(|orders| orders.context.site.cluster);
        let tolerance = Duration::from_secs_f64(cluster.map_or_else(
            || crew::CrewSettings::default().lost_after_s,
            |c| c.lost_after_s,
        ));
        let protocol = spool.protocol()?;
        log.take_over(&spool, me, tolerance)?;
        Ok(Self {
            spool,
            _lock: lock,
            begun,
            log,
            history: History::from_events(old),
            old_requests,
            protocol,
            tolerance,
        })
    }

    /// Sets up the nodes; returns the reason if the agent cannot work.
    async fn get_ready(
        &mut self,
        head: &dyn Head,
    ) -> Result<Result<Equipment, ReadyError>, AgentError> {
        if self.protocol != PROTOCOL {
            return Ok(Err(ReadyError::Protocol {
                controller: self.protocol,
                agent: PROTOCOL,
            }));
        }
        let orders = self.spool.orders()?;
        let terminated = head.terminated()?;
        // an agent that takes over from another uses the remaining nodes
        let takes_over = self.history.had_nodes;
        let ready = tokio::select! {
            biased;
            () = terminated.notified() => Err(ReadyError::Terminated),
            ready = head.get_ready(&self.spool, &orders, takes_over, &mut self.log) => ready,
        };
        Ok(ready.map(|(workplace, ready)| (orders, terminated, workplace, ready)))
    }

    /// Reports that the agent cannot work, with the reason, once nothing of earlier agents is left.
    fn refuse(mut self, head: &dyn Head, reason: String) -> AgentError {
        let ended = match self.spool.orders() {
            Ok(orders) => self.history.end_leftovers(head, &self.spool, &orders),
            Err(_) => Ok(()),
        };
        let (events, error) = match ended {
            Ok(()) => {
                let unable = Event::Unable {
                    reason: reason.clone(),
                };
                let closed = Event::Closed {
                    reason: "it could not work".into(),
                };
                (vec![unable, closed], AgentError::Unable(reason))
            }
            Err(error) => {
                let reason =
                    format!("{reason}; processes of an earlier agent cannot be ended: {error}");
                (vec![Event::Unable { reason }], error.into())
            }
        };
        let written = events.into_iter().try_for_each(|e| self.log.write(e));
        written.err().map_or(error, AgentError::from)
    }
}

struct Agent {
    inbox: Inbox,
    log: EventLog,
    orders: Orders,
    nodes: NodeWatch,
    attempts: Attempts,
    /// Notifications of requests that a process of this machine writes into the spool.
    arrivals: Arrivals,
    /// Last change of the file that a controller touches.
    controller: LastChange,
    /// Time of the last request or end of an attempt.
    active: Instant,
    /// Start of this agent.
    begun: Instant,
    /// Time of the agent's last heartbeat.
    beaten: Option<Instant>,
    /// Names of requests whose attempts have ended. The requests are removed once the events that report the ends are synced to disk.
    settled: Vec<String>,
}

impl Agent {
    /// Carries out requests until the agent must end.
    async fn work(&mut self, ready: Event, terminated: &Notify) -> Result<Ending, AgentError> {
        self.log.write(ready)?;
        let mut lost = self.nodes.workplace.lost();
        let mut look = NextLook::after(self.pause());
        loop {
            let flow = tokio::select! {
                biased;
                // first, because events may arrive without a pause and would starve it
                () = tokio::time::sleep_until(look.within(self.pause())) => {
                    let flow = self.look_around()?;
                    look = NextLook::after(self.pause());
                    flow
                }
                news = self.attempts.next() => self.on_attempt_news(news?)?,
                () = terminated.notified() => Flow::Break(Ending::Terminated),
                Ok(()) = lost.changed() => self.report_nodes()?,
                () = self.arrivals.next() => self.take_requests()?,
            };
            if let Flow::Break(ending) = flow {
                return Ok(ending);
            }
        }
    }

    /// Polls everything that has no notification.
    fn look_around(&mut self) -> Result<Flow, AgentError> {
        let flow = self.take_requests()?;
        if flow.is_break() {
            return Ok(flow);
        }
        self.beat()?;
        self.nodes.take_rehearsed(&self.attempts.nodes());
        self.report_all_nodes()?;
        self.nodes.revive(&self.attempts.nodes());
        Ok(if self.is_idle() {
            Flow::Break(Ending::Idle)
        } else {
            flow
        })
    }

    fn slurm(&self) -> Option<&SlurmSettings> {
        self.orders.context.site.cluster.as_ref()?.slurm.as_ref()
    }

    /// Returns the time until the next look at the spool. Without Slurm the relay is on this machine, so the kernel announces its writes.
    fn pause(&self) -> Duration {
        let pause = if self.arrivals.are_notified() && self.slurm().is_none() {
            TICK
        } else {
            POLL_INTERVAL.delay(self.active.elapsed())
        };
        // a controller's presence must be noticed before the controller leaves
        pause
            .min(Duration::from_secs_f64(self.orders.idle_s / 4.0))
            .max(POLL_INTERVAL.shortest)
    }

    /// Ends the attempts of an earlier agent, and reports the results.
    async fn recover(
        &mut self,
        history: &History,
        old_requests: BTreeSet<String>,
    ) -> Result<(), AgentError> {
        // the controller may request finished attempts again
        for name in history.ended_requests() {
            self.inbox.note_done(name);
        }
        let mut reports = Vec::new();
        for name in old_requests {
            let request = loop {
                match self.inbox.read(&name) {
                    InboxReading::Later => tokio::time::sleep(TICK).await,
                    read => break self.accept(name.clone(), read)?,
                }
            };
            let Some(request) = request else { continue };
            match *request {
                Request::Run(task) => {
                    if self.inbox.is_handled(&name) {
                        self.report_again(&task)?;
                    } else if history.has_left_something {
                        self.recover_run(history, &task).await?;
                        self.inbox.note_done(name);
                    }
                }
                // these requests were for an agent that has ended
                Request::Stop { .. } | Request::Announce { .. } | Request::Close => {
                    self.inbox.remove(&name)
                }
                Request::Report { of } => reports.push((name, of)),
                Request::Forget { .. } => {}
            }
        }
        // the controller then knows that the request arrived, and sends it to no other agent
        for (name, of) in reports {
            self.report_ends(of)?;
            self.inbox.remove(&name);
        }
        Ok(())
    }

    /// Returns the request that was read; `None` if it could not be read. If the request can never be read, reports its attempt as lost.
    fn accept(
        &mut self,
        name: String,
        reading: InboxReading,
    ) -> Result<Option<Box<Request>>, AgentError> {
        match reading {
            InboxReading::Whole(request) => return Ok(Some(request)),
            InboxReading::Later | InboxReading::Gone => {}
            InboxReading::Unreadable { note, lost } => {
                self.log.write(Event::Note { what: note })?;
                if let Some(id) = lost.filter(|id| self.attempts.dispatch(&id.run).is_none()) {
                    self.log.write(Event::Lost {
                        id,
                        reason: "its request could not be read".to_owned(),
                        time_limit: false,
                    })?;
                    // the controller may repeat the request before it receives this event
                    self.inbox.note_done(name);
                }
            }
        }
        Ok(None)
    }

    async fn recover_run(&mut self, history: &History, task: &Task) -> Result<(), AgentError> {
        let attempt = AwaitedAttempt::of_task(task);
        let shepherd = history.shepherd(&attempt.id);
        let recovered = self.nodes.workplace.recover(task, shepherd).await?;
        let result = recovered.map_or_else(
            || {
                let restarts = std::env::var("SLURM_RESTART_COUNT");
                lost(match restarts.ok().filter(|count| count != "0") {
                    Some(count) => format!("its job was requeued (restart {count})"),
                    None => "the agent on the head node ended first".to_owned(),
                })
            },
            AttemptResult::Ended,
        );
        self.settle(attempt, result)
    }

    /// Reports the end of an attempt; afterwards its request is no longer needed.
    fn settle(&mut self, attempt: AwaitedAttempt, result: AttemptResult) -> Result<(), AgentError> {
        let name = attempt.id.request_name();
        self.log.write(Event::end_of(attempt, result))?;
        self.settled.push(name);
        self.drop_settled();
        Ok(())
    }

    /// Removes the requests of attempts whose end is synced to disk.
    fn drop_settled(&mut self) {
        if !self.log.holds_events() {
            for name in std::mem::take(&mut self.settled) {
                self.inbox.remove(&name);
            }
        }
    }

    /// Writes a heartbeat, unless another agent has taken over the spool, and updates whether a controller is present.
    fn beat(&mut self) -> Result<(), AgentError> {
        let touched = fs::metadata(self.inbox.spool.controller())
            .and_then(|m| m.modified())
            .ok();
        self.controller.look(touched, Instant::now());
        if self.beaten.is_none_or(|at| at.elapsed() > BEAT) {
            // a short failure of the file system is not a reason to stop; while it is unknown whether the agent may write, there is no heartbeat
            if self.log.check_fence()? == HeldEvents::Written {
                let _ = fs::write(self.inbox.spool.beat(), b"");
                self.drop_settled();
            }
            self.beaten = Some(Instant::now());
        }
        Ok(())
    }

    /// Reads new requests and carries them out.
    fn take_requests(&mut self) -> Result<Flow, AgentError> {
        let Some(names) = self.inbox.list()? else {
            return Ok(Flow::Continue(()));
        };
        for name in &names {
            let Some(listed) = self.inbox.classify(name) else {
                continue;
            };
            let reading = self.inbox.read(name);
            let request = self.accept(name.clone(), reading)?;
            let flow = match (listed, request) {
                (Listed::New, request) => {
                    self.active = Instant::now();
                    match request {
                        Some(request) => self.carry_out(name, *request, &names)?,
                        None => continue,
                    }
                }
                (Listed::Repeated, Some(request)) => {
                    match *request {
                        Request::Run(task) => self.report_again(&task)?,
                        Request::Stop { .. }
                        | Request::Announce { .. }
                        | Request::Close
                        | Request::Report { .. }
                        | Request::Forget { .. } => self.inbox.remove(name),
                    }
                    continue;
                }
                (Listed::Repeated, None) => continue,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(Flow::Continue(()))
    }

    /// Carries out a new request; `requests` are the names of all requests in the spool.
    fn carry_out(
        &mut self,
        name: &str,
        request: Request,
        requests: &BTreeSet<String>,
    ) -> Result<Flow, AgentError> {
        match request {
            Request::Run(task) => self.begin(task, requests)?,
            Request::Stop { run } => {
                self.attempts.stop(&run);
                self.inbox.note_done(name.to_owned());
                self.inbox.remove(name);
            }
            Request::Forget {
                run,
                dispatch: _,
                attempt,
            } => {
                self.forget(&run, attempt);
                self.inbox.note_done(name.to_owned());
                self.inbox.remove(name);
            }
            Request::Report { of } => {
                self.inbox.note_done(name.to_owned());
                self.report_ends(of)?;
                self.inbox.remove(name);
            }
            Request::Announce {
                node,
                notice_s,
                is_taken_by_agent,
            } => {
                self.inbox.note_done(name.to_owned());
                let notice = Duration::try_from_secs_f64(notice_s).unwrap_or_default();
                let event = self.nodes.rehearse(&node, notice, is_taken_by_agent);
                self.log.write(event)?;
                self.inbox.remove(name);
            }
            Request::Close => {
                self.inbox.remove(name);
                return Ok(Flow::Break(Ending::Closed));
            }
        }
        Ok(Flow::Continue(()))
    }

    /// Reports again the end of an attempt that was requested a second time, and removes the request.
    fn report_again(&mut self, task: &Task) -> Result<(), AgentError> {
        let attempt = AwaitedAttempt::of_task(task);
        let name = attempt.id.request_name();
        self.report_ends(vec![attempt])?;
        self.inbox.remove(&name);
        Ok(())
    }

    /// For each of these attempts that has ended, reports the end again.
    fn report_ends(&mut self, of: Vec<AwaitedAttempt>) -> Result<(), AgentError> {
        for attempt in of {
            let name = attempt.id.request_name();
            let is_new = !self.inbox.is_handled(&name) && self.inbox.spool.has_request(&name);
            if is_new || self.attempts.dispatch(&attempt.id.run).is_some() {
                continue;
            }
            let campaign = self.inbox.spool.campaign();
            match sealed_outcome(&campaign, &attempt.id.run, attempt.attempt) {
                Some(file) => self.settle(attempt, AttemptResult::Ended(file))?,
                None => {
                    let lost = lost("the report of its end was damaged".to_owned());
                    self.log.write(Event::end_of(attempt, lost))?;
                }
            }
        }
        Ok(())
    }

    /// Begins an attempt, unless another attempt of its run is running or requested, or its nodes are not available.
    fn begin(&mut self, task: Box<Task>, requests: &BTreeSet<String>) -> Result<(), AgentError> {
        let attempt = AwaitedAttempt::of_task(&task);
        let id = &attempt.id;
        let under_way = self.attempts.dispatch(&id.run);
        if under_way.is_some_and(|dispatch| dispatch < id.dispatch) {
            // the controller has given up the other attempt: this one begins when nothing of the other is left
            self.attempts.stop(&id.run);
            return Ok(());
        }
        self.inbox.note_done(id.request_name());
        // two attempts of a run never run at the same time
        let is_superseded = under_way.is_some_and(|dispatch| dispatch > id.dispatch)
            || Inbox::has_later(requests, id);
        if is_superseded {
            let reason = "a later attempt at the run was requested before it began";
            return self.settle(attempt, lost(reason.to_owned()));
        }
        // the event that reported the end may have been damaged
        let campaign = self.inbox.spool.campaign();
        if let Some(file) = sealed_outcome(&campaign, &id.run, task.attempt) {
            return self.settle(attempt, AttemptResult::Ended(file));
        }
        // the controller may not have received yet that a node is lost: this does not count as an attempt
        self.report_all_nodes()?;
        if let Some(reason) = self.nodes.obstacle(&task.nodes) {
            return self.settle(attempt, lost(reason));
        }
        self.inbox.note_begun(id);
        let workplace = Arc::clone(&self.nodes.workplace);
        self.attempts.begin(task, workplace, &self.inbox.spool);
        Ok(())
    }

    /// Removes the directory of an attempt that the controller has fetched.
    fn forget(&mut self, run: &RunId, attempt: u32) {
        let campaign = self.inbox.spool.campaign();
        for dir in [campaign.run(run), campaign.failed(run, attempt)] {
            // the directory may belong to a later attempt: check its outcome file
            if read_outcome(&dir).is_ok_and(|file| file.attempt == attempt) {
                // files that cannot be removed now are removed with the spool
                let _ = remove_all(&dir);
            }
        }
    }

    fn on_attempt_news(&mut self, news: AttemptNews) -> Result<Flow, AgentError> {
        match news {
            AttemptNews::Reported(run, report) => {
                if let Some(event) = self.attempts.event_of(run, report) {
                    self.log.write(event)?;
                }
            }
            AttemptNews::Ended(ended) => self.on_end(ended)?,
        }
        Ok(Flow::Continue(()))
    }

    fn on_end(&mut self, ended: EndedAttempt) -> Result<(), AgentError> {
        let mut reported = Ok(());
        while let Some((run, report)) = self.attempts.take_report() {
            if let Some(event) = self.attempts.event_of(run, report) {
                reported = reported.and(self.log.write(event));
            }
        }
        self.attempts.note_ended(&ended.attempt.id.run);
        self.active = Instant::now();
        // report a lost node before the end that it caused, or the controller would choose the same nodes again
        let nodes = self.report_nodes();
        let settled = self.settle(ended.attempt, ended.result);
        reported.map_err(AgentError::from).and(nodes).and(settled)
    }

    /// Reports the nodes that were lost or came back.
    fn report_nodes(&mut self) -> Result<Flow, AgentError> {
        for event in self.nodes.lost_and_back() {
            self.log.write(event)?;
        }
        Ok(Flow::Continue(()))
    }

    /// Reports the nodes that were lost or came back, and the nodes that the cloud is about to reclaim.
    fn report_all_nodes(&mut self) -> Result<(), AgentError> {
        let mut events = self.nodes.lost_and_back();
        events.extend(self.nodes.cloud_notices());
        Ok(events.into_iter().try_for_each(|e| self.log.write(e))?)
    }

    /// Returns whether the agent has been idle for long enough to end.
    fn is_idle(&self) -> bool {
        let limit = Duration::from_secs_f64(self.orders.idle_s);
        self.attempts.is_empty()
            && self.active.elapsed() >= limit
            && self.controller.age(Instant::now()) > limit
    }

    /// Returns the reason why running attempts are ended, if it is the time limit of the agent's Slurm job; otherwise `None`.
    fn time_limit_reason(&self) -> Option<String> {
        let slurm = self.slurm()?;
        let limit_s = slurm.time_limit_s;
        let limit = Duration::from_secs(60 * slurm.time_limit_min());
        let end = std::env::var("SLURM_JOB_END_TIME")
            .ok()
            .and_then(|s| s.parse().ok());
        let end = end.and_then(|s| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(s)));
        let left = end.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
        near_end(limit, left, self.begun.elapsed()).then(|| {
            let (after_s, limit_s) = (self.begun.elapsed().as_secs(), limit_s.ceil());
            format!(
                "cut off {after_s} s after the agent had begun, since the job may take {limit_s} s (slurm.time_limit_s) and Slurm announces \
                 the end {WARNING_S} s before or earlier"
            )
        })
    }

    /// Ends all runs and closes the nodes, even if events cannot be written. Returns the first failed write as the error, after everything is closed.
    async fn close(mut self, reason: &str, last: Event) -> Result<(), AgentError> {
        let closing = Event::Closing {
            reason: reason.to_owned(),
        };
        let mut written = self.log.write(closing).map_err(AgentError::from);
        let of_job = self.time_limit_reason();
        let had_whole_job = self.attempts.stop_all();
        let limit = Instant::now() + CUT_LIMIT;
        while self.attempts.has_tasks() {
            let news = match tokio::time::timeout_at(limit, self.attempts.next()).await {
                Ok(Ok(AttemptNews::Ended(mut ended))) => {
                    if matches!(ended.result, AttemptResult::Interrupted) {
                        ended.result = AttemptResult::Lost {
                            reason: of_job.clone().unwrap_or_else(|| reason.to_owned()),
                            time_limit: of_job.is_some()
                                && had_whole_job.contains(&ended.attempt.id.run),
                        };
                    }
                    AttemptNews::Ended(ended)
                }
                Ok(Ok(news)) => news,
                Ok(Err(_)) => continue,
                Err(_) => break,
            };
            written = written.and(self.on_attempt_news(news).map(drop));
        }
        for what in self.nodes.close(self.inbox.spool.root()).await {
            written = written.and(
                self.log
                    .write(Event::Note { what })
                    .map_err(AgentError::from),
            );
        }
        let mut ended = self.log.write(last);
        // this ends at the latest when the fence's tolerance is over
        while ended.is_ok() && self.log.holds_events() {
            tokio::time::sleep(TICK).await;
            ended = self.log.check_fence().map(drop);
        }
        self.drop_settled();
        if ended.is_ok() {
            // without the heartbeat file others need not wait until it is old
            let _ = fs::remove_file(self.inbox.spool.beat());
        }
        written.and(ended.map_err(AgentError::from))
    }
}

/// Returns the result of an attempt that was lost for this reason.
fn lost(reason: String) -> AttemptResult {
    AttemptResult::Lost {
        reason,
        time_limit: false,
    }
}

/// Returns whether Slurm's warning is due to the job's time limit, not to a cancellation. Decides by the time left or, if Slurm did not report that,
/// by the elapsed time. The warning may come up to a minute early, so with a short limit it is indistinguishable from a cancellation.
fn near_end(limit: Duration, left: Option<Duration>, passed: Duration) -> bool {
    let left = left.unwrap_or_else(|| limit.saturating_sub(passed));
    let early = Duration::from_secs(u64::from(WARNING_S) + 62);
    left < early.min(limit.mul_f64(0.75))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_do_not_put_the_next_look_off() {
        let mut look = NextLook::after(Duration::from_secs(100));
        let due = look.0;
        // an event arrives, and the agent waits again
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
        // with a short limit, a warning at the beginning is a cancellation
        assert!(!near_end(s(60), Some(s(55)), s(5)) && near_end(s(60), Some(s(30)), s(30)));
        assert!(!near_end(s(60), None, s(10)) && near_end(s(60), None, s(30)));
    }
}
