//! The agent's main loop: takes requests, carries out attempts, reports events, watches its nodes, and ends when it is no longer needed.

use super::{
    attempts::{AttemptNews, Attempts, EndedAttempt},
    error::{AgentError, ReadyError},
    head::{Head, ThisHead, Workplace},
    history::History,
    inbox::{Inbox, Listed, Reading},
    node_watch::NodeWatch,
    protocol::{AwaitedAttempt, Event, Orders, PROTOCOL, Request},
    spool::{EventLog, Spool},
    wake::{Arrivals, LastChange, Pace},
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

/// Delay between checks for requests that the kernel does not announce: those that another machine writes.
const PACE: Pace = Pace {
    shortest: Duration::from_millis(10),
    longest: Duration::from_millis(500),
};
/// Delay between looks at everything else, and at requests where the kernel announces them: it may have lost one.
const TICK: Duration = Duration::from_secs(1);
/// Delay between heartbeats.
const BEAT: Duration = Duration::from_secs(3);
/// Time limit of runs that are cut off: with all that follows, less than a controller waits for an agent that it closes.
const CUT_LIMIT: Duration = Duration::from_secs(20);

/// Time of the next poll of everything without a notification. Events do not put it off.
struct NextLook(Instant);

impl NextLook {
    fn after(pause: Duration) -> Self {
        Self(Instant::now() + pause)
    }

    /// The time, which is sooner if the agent polls more often by now.
    fn within(&mut self, pause: Duration) -> Instant {
        self.0 = self.0.min(Instant::now() + pause);
        self.0
    }
}

/// Why an agent ends as it should.
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
            Self::Idle => "no controller came for a long time",
            Self::Terminated => "it was ended by a signal",
        })
    }
}

/// Whether the agent continues.
type Flow = ControlFlow<Ending>;

/// Works in a spool until it is closed, is no longer needed, or a signal ends it.
///
/// # Errors
/// When the spool cannot be used, another agent works in it, or the nodes cannot be gathered.
pub async fn serve(program: &Utf8Path, root: &Utf8Path) -> Result<(), AgentError> {
    // an error means that it already leads a session
    let _ = nix::unistd::setsid();
    let program = program.to_owned();
    serve_on(&ThisHead { program }, root).await
}

/// The same on any head.
///
/// # Errors
/// Those of [`serve`].
pub async fn serve_on(head: &dyn Head, root: &Utf8Path) -> Result<(), AgentError> {
    let mut held = HeldSpool::take(head, root)?;
    let (orders, terminated, workplace, ready) = match held.get_ready(head).await? {
        Ok(ready) => ready,
        Err(reason) => return Err(held.refuse(head, reason.to_string())),
    };
    let begun = held.begun;
    let mut agent = Agent {
        arrivals: head.arrivals(&held.spool),
        inbox: Inbox::new(held.spool, held.patience),
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
    // finish what an earlier agent left before taking new runs
    let recovered = agent.recover(&held.history, held.old_requests).await;
    let has_recovered = recovered.is_ok();
    let worked = match recovered {
        Ok(()) => agent.work(ready, &terminated).await,
        Err(error) => Err(error),
    };
    let reason = match &worked {
        Ok(ending) => ending.to_string(),
        Err(error) => format!("it could not go on: {error}"),
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
    // nothing may be left running in any case; the first error is reported
    let closed = agent.close(&reason, last).await;
    worked.and_then(|_| closed)
}

/// A spool that this agent has, before it has nodes.
struct HeldSpool {
    spool: Spool,
    _lock: CampaignLock,
    begun: Instant,
    log: EventLog,
    history: History,
    /// What comes later is for this agent.
    old_requests: BTreeSet<String>,
    /// The controller's protocol.
    protocol: u32,
    /// Time for which what cannot be read is read again.
    patience: Duration,
}

/// What an agent works with: its orders, the notice of a signal, its nodes, and the event that reports them.
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
        // before others see that it is alive: they read the log from here
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
        let patience = Duration::from_secs_f64(cluster.map_or_else(
            || crew::Settings::default().lost_after_s,
            |c| c.lost_after_s,
        ));
        let protocol = spool.protocol()?;
        log.take_over(&spool, me, patience)?;
        Ok(Self {
            spool,
            _lock: lock,
            begun,
            log,
            history: History::from_events(old),
            old_requests,
            protocol,
            patience,
        })
    }

    /// Gathers the nodes; otherwise the reason why the agent cannot work.
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
        // an agent that takes over uses the remaining nodes
        let takes_over = self.history.had_nodes;
        let ready = tokio::select! {
            biased;
            () = terminated.notified() => Err(ReadyError::Terminated),
            ready = head.get_ready(&self.spool, &orders, takes_over, &mut self.log) => ready,
        };
        Ok(ready.map(|(workplace, ready)| (orders, terminated, workplace, ready)))
    }

    /// Writes down that the agent cannot work, and why, once nothing of earlier agents is left.
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
                    format!("{reason}; what an earlier agent left cannot be ended: {error}");
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
    /// Announces requests that this machine writes into the spool.
    arrivals: Arrivals,
    /// The file that a controller touches.
    controller: LastChange,
    /// Time of the last request or end of an attempt.
    active: Instant,
    /// When this agent began.
    begun: Instant,
    /// Time of its last heartbeat.
    beaten: Option<Instant>,
    /// Requests whose end is reported, but not written down yet.
    settled: Vec<String>,
}

impl Agent {
    /// Carries out requests until it must end.
    async fn work(&mut self, ready: Event, terminated: &Notify) -> Result<Ending, AgentError> {
        self.log.write(ready)?;
        let mut lost = self.nodes.workplace.lost();
        let mut look = NextLook::after(self.pause());
        loop {
            let flow = tokio::select! {
                biased;
                // first, because events may come without a pause
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

    /// Polls everything without a notification.
    fn look_around(&mut self) -> Result<Flow, AgentError> {
        let flow = self.take_requests()?;
        if flow.is_break() {
            return Ok(flow);
        }
        self.beat()?;
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

    /// Time until the next look at the spool. Without Slurm the relay is on this machine, and the kernel announces what it writes.
    fn pause(&self) -> Duration {
        let pause = if self.arrivals.are_told() && self.slurm().is_none() {
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
        history: &History,
        old_requests: BTreeSet<String>,
    ) -> Result<(), AgentError> {
        // also if they are requested again
        for name in history.ended_requests() {
            self.inbox.note_done(name);
        }
        let mut reports = Vec::new();
        for name in old_requests {
            let request = loop {
                match self.inbox.read(&name) {
                    Reading::Later => tokio::time::sleep(TICK).await,
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
                // they were for an agent that is gone
                Request::Stop { .. } | Request::Close => self.inbox.remove(&name),
                Request::Report { of } => reports.push((name, of)),
                Request::Forget { .. } => {}
            }
        }
        // the controller knows that this one arrived, and asks no other agent
        for (name, of) in reports {
            self.report_ends(of)?;
            self.inbox.remove(&name);
        }
        Ok(())
    }

    /// Returns a request that was read. The attempt of one that cannot be read is reported as lost.
    fn accept(
        &mut self,
        name: String,
        reading: Reading,
    ) -> Result<Option<Box<Request>>, AgentError> {
        match reading {
            Reading::Whole(request) => return Ok(Some(request)),
            Reading::Later | Reading::Gone => {}
            Reading::Unreadable { note, lost } => {
                self.log.write(Event::Note { what: note })?;
                if let Some(id) = lost.filter(|id| self.attempts.dispatch(&id.run).is_none()) {
                    self.log.write(Event::Lost {
                        id,
                        reason: "its request could not be read".to_owned(),
                        time_limit: false,
                    })?;
                    // also if it is requested again before the controller has heard that
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

    /// Reports the end of an attempt, whose request is not needed after that.
    fn settle(&mut self, attempt: AwaitedAttempt, result: AttemptResult) -> Result<(), AgentError> {
        let name = attempt.id.request_name();
        self.log.write(Event::end_of(attempt, result))?;
        self.settled.push(name);
        self.drop_settled();
        Ok(())
    }

    /// Drops the requests of attempts whose end is written down.
    fn drop_settled(&mut self) {
        if !self.log.holds_events() {
            for name in std::mem::take(&mut self.settled) {
                self.inbox.remove(&name);
            }
        }
    }

    /// Writes a heartbeat, unless another agent has taken over, and notes whether a controller does.
    fn beat(&mut self) -> Result<(), AgentError> {
        let touched = fs::metadata(self.inbox.spool.controller())
            .and_then(|m| m.modified())
            .ok();
        self.controller.look(touched, Instant::now());
        if self.beaten.is_none_or(|at| at.elapsed() > BEAT) {
            // a short failure of the file system is not a reason to stop; without permission to write there is no beat
            if self.log.check_fence()? {
                let _ = fs::write(self.inbox.spool.beat(), b"");
                self.drop_settled();
            }
            self.beaten = Some(Instant::now());
        }
        Ok(())
    }

    /// Handles new requests.
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

    /// Carries out a new request; `requests` are all that are there.
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
            Request::Close => {
                self.inbox.remove(name);
                return Ok(Flow::Break(Ending::Closed));
            }
        }
        Ok(Flow::Continue(()))
    }

    /// Reports once more how an attempt ended that is requested again, and drops the request.
    fn report_again(&mut self, task: &Task) -> Result<(), AgentError> {
        let attempt = AwaitedAttempt::of_task(task);
        let name = attempt.id.request_name();
        self.report_ends(vec![attempt])?;
        self.inbox.remove(&name);
        Ok(())
    }

    /// Reports once more how these attempts ended, if they have.
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

    /// Begins an attempt, unless another one at its run is under way or requested, or its nodes are not there.
    fn begin(&mut self, task: Box<Task>, requests: &BTreeSet<String>) -> Result<(), AgentError> {
        let attempt = AwaitedAttempt::of_task(&task);
        let id = &attempt.id;
        let under_way = self.attempts.dispatch(&id.run);
        if under_way.is_some_and(|dispatch| dispatch < id.dispatch) {
            // the controller has given that one up: this one begins when nothing of it is left
            self.attempts.stop(&id.run);
            return Ok(());
        }
        self.inbox.note_done(id.request_name());
        // never two of them live at once
        let is_superseded = under_way.is_some_and(|dispatch| dispatch > id.dispatch)
            || Inbox::has_later(requests, id);
        if is_superseded {
            let reason = "a later attempt at the run was asked for before it began";
            return self.settle(attempt, lost(reason.to_owned()));
        }
        // the report of its end may have been damaged
        let campaign = self.inbox.spool.campaign();
        if let Some(file) = sealed_outcome(&campaign, &id.run, task.attempt) {
            return self.settle(attempt, AttemptResult::Ended(file));
        }
        // the controller may not know yet that a node is lost: this does not count as an attempt
        self.report_all_nodes()?;
        if let Some(reason) = self.nodes.obstacle(&task.nodes) {
            return self.settle(attempt, lost(reason));
        }
        self.inbox.note_begun(id);
        let workplace = Arc::clone(&self.nodes.workplace);
        self.attempts.begin(task, workplace, &self.inbox.spool);
        Ok(())
    }

    /// Removes an attempt that the controller has fetched.
    fn forget(&mut self, run: &RunId, attempt: u32) {
        let campaign = self.inbox.spool.campaign();
        for dir in [campaign.run(run), campaign.failed(run, attempt)] {
            // the directory may belong to a later attempt: its outcome says
            if read_outcome(&dir).is_ok_and(|file| file.attempt == attempt) {
                // what cannot be removed now is removed with the spool
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
        // reported before the end that it caused, or the controller would choose the same nodes again
        let nodes = self.report_nodes();
        let settled = self.settle(ended.attempt, ended.result);
        reported.map_err(AgentError::from).and(nodes).and(settled)
    }

    /// Reports which nodes are lost or back.
    fn report_nodes(&mut self) -> Result<Flow, AgentError> {
        for event in self.nodes.lost_and_back() {
            self.log.write(event)?;
        }
        Ok(Flow::Continue(()))
    }

    /// The same, and which nodes the cloud is about to reclaim.
    fn report_all_nodes(&mut self) -> Result<(), AgentError> {
        let mut events = self.nodes.lost_and_back();
        events.extend(self.nodes.cloud_notices());
        Ok(events.into_iter().try_for_each(|e| self.log.write(e))?)
    }

    /// Whether it has been idle for long enough to end.
    fn is_idle(&self) -> bool {
        let limit = Duration::from_secs_f64(self.orders.idle_s);
        self.attempts.is_empty()
            && self.active.elapsed() >= limit
            && self.controller.age(Instant::now()) > limit
    }

    /// The reason why runs are cut off, if the agent's job has no more time left than Slurm gives between its warning and the end.
    fn time_limit_reason(&self) -> Option<String> {
        let limit_s = self.slurm()?.time_limit_s;
        let limit = Duration::from_secs_f64((limit_s / 60.0).ceil().max(1.0) * 60.0);
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

    /// Ends everything, even if events cannot be written. The first such failure is returned at the end.
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
        let mut ended = self.log.write(last).map(|()| !self.log.holds_events());
        // the patience of the fence ends this
        while let Ok(false) = ended {
            tokio::time::sleep(TICK).await;
            ended = self.log.check_fence();
        }
        self.drop_settled();
        if ended.is_ok() {
            // others need not wait until its last heartbeat is old
            let _ = fs::remove_file(self.inbox.spool.beat());
        }
        written.and(ended.map(drop).map_err(AgentError::from))
    }
}

/// The end of an attempt that does not count.
fn lost(reason: String) -> AttemptResult {
    AttemptResult::Lost {
        reason,
        time_limit: false,
    }
}

/// Whether a job of this time limit that is warned now is so because of that limit: by the time that is left, or if Slurm did not say that,
/// by what has passed. The warning may come up to a minute early, which is indistinguishable from a cancellation where the limit itself is short.
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
