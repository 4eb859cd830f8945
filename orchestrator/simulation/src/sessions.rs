//! Starts `cvc run` repeatedly until the campaign is done: one controller after another, or several at once without a common lock.

use crate::{
    campaigns::Campaign,
    faults::{self, Ending, Fault, ToController},
    locks, power,
    world::World,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_controller::runner::{Options, Summary, run_campaign_on};
use cvc_core::stop::StopRequest;
use cvc_core::store::{CampaignDir, StoreError};
use cvc_engine::attempt::RunError;
use cvc_sites::error::CampaignError;
use std::{collections::HashMap, future::poll_fn, pin::Pin, task::Poll, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

/// Number of sessions after the last fault within which the campaign must be done.
pub(crate) const SESSIONS: u32 = 6;
/// Delay before the user starts `cvc run` again after an error.
const AGAIN: Duration = Duration::from_secs(60);
/// Time within which a controller must notice that another controller has taken over its campaign.
const FENCED_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of controllers at once.
const MOST: usize = 3;

/// Records the messages of a controller.
struct Telling {
    world: World,
    number: u32,
}

impl Observer for Telling {
    fn on(&mut self, progress: &SessionProgress) {
        let number = self.number;
        match progress {
            SessionProgress::Site { what } => self
                .world
                .tell(format!("cvc {number}: {}", without_sizes(what))),
            SessionProgress::RunLost { run, reason } => self
                .world
                .tell(format!("cvc {number}: run {run} is lost: {reason}")),
            SessionProgress::RunStarted { run, attempt, .. } => self
                .world
                .tell(format!("cvc {number}: run {run} attempt {attempt} starts")),
            SessionProgress::RunFinished {
                run,
                outcome,
                wall_s,
                ..
            } => {
                self.world.tell(format!(
                    "cvc {number}: run {run} ended: {outcome:?}, {wall_s}"
                ));
            }
            SessionProgress::Skipped { reason, runs, .. } => {
                self.world.tell(format!(
                    "cvc {number}: {runs} runs are skipped: {}",
                    without_sizes(reason)
                ));
            }
            _ => {}
        }
    }
}

/// Returns a message without file sizes, which depend on the length of real times in the files.
fn without_sizes(what: &str) -> &str {
    what.split(" bytes")
        .next()
        .unwrap_or_default()
        .trim_end_matches(|c: char| c.is_ascii_digit())
}

type Ended = Result<Summary, CampaignError>;

/// A controller, from its start to its end.
struct Session<'a> {
    number: u32,
    work: Pin<Box<dyn Future<Output = Ended> + 'a>>,
    stop: watch::Sender<StopRequest>,
    /// Time by which this controller must have ended, because another controller has begun.
    must_end: Option<Instant>,
}

/// The controllers of a schedule, and the user who starts them.
pub(crate) struct Sessions<'a> {
    world: &'a World,
    /// Versions of the campaign file, in the order in which the user's edits produce them.
    files: &'a [Campaign],
    file: usize,
    /// Index in `files` of the version that the last session used.
    has_begun: usize,
    options: &'a Options,
    dir: Utf8PathBuf,
    running: Vec<Session<'a>>,
    begun: u32,
    /// The result of the last session, if it has ended.
    summary: Option<Summary>,
    /// Delay before the user starts the next session.
    away: Duration,
    /// Whether several controllers ran at once.
    has_met: bool,
}

impl<'a> Sessions<'a> {
    pub fn new(world: &'a World, files: &'a [Campaign], options: &'a Options) -> Self {
        let dir = CampaignDir::new(&options.campaigns, &files[0].plan.campaign)
            .root()
            .to_owned();
        Self {
            world,
            files,
            file: 0,
            has_begun: 0,
            options,
            dir,
            running: Vec::new(),
            begun: 0,
            summary: None,
            away: AGAIN,
            has_met: false,
        }
    }

    /// Returns the current version of the campaign file.
    pub fn file(&self) -> &'a Campaign {
        &self.files[self.file]
    }

    /// Starts `cvc run` until the campaign is done; returns `None` if it does not become done.
    pub async fn until_done(
        &mut self,
        faults: Vec<(Duration, Fault)>,
        dir: &Utf8Path,
    ) -> Option<Summary> {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let (over, is_over) = watch::channel(false);
        let _faults = AbortOnDropHandle::new(tokio::spawn(faults::happen(
            self.world.clone(),
            dir.to_owned(),
            faults,
            sender,
            over,
        )));
        let mut left = SESSIONS;
        while left > 0 {
            // discard messages from the time without a controller
            while let Ok(what) = messages.try_recv() {
                if let ToController::Edit(..) = what {
                    self.edit();
                }
            }
            self.away = AGAIN;
            self.begin().await;
            while !self.running.is_empty() {
                let overdue = self
                    .running
                    .iter()
                    .filter_map(|session| session.must_end)
                    .min();
                tokio::select! {
                    biased;
                    Some(what) = messages.recv() => self.happens(what).await,
                    (at, ended) = next(&mut self.running) => self.ended(at, ended),
                    () = tokio::time::sleep_until(overdue.unwrap_or_else(Instant::now)), if overdue.is_some() => {
                        for session in &mut self.running {
                            if session.must_end.take_if(|end| *end <= Instant::now()).is_some() {
                                let within_s = FENCED_WITHIN.as_secs();
                                self.world.is_wrong(format!("cvc {} goes on {within_s} s after another one has begun", session.number));
                            }
                        }
                    }
                }
            }
            // skipped runs are attempted again, unless they failed too often
            if let Some(summary) = self
                .summary
                .take()
                .filter(|s| s.left == 0 && (s.skipped == 0 || left == 1))
            {
                // a further session is needed to remove remains after several controllers, and to carry out edits made meanwhile
                if !std::mem::take(&mut self.has_met) && self.has_begun == self.file {
                    return Some(summary);
                }
                continue;
            }
            left -= u32::from(*is_over.borrow());
            tokio::time::sleep(self.away).await;
        }
        None
    }

    /// Starts a controller.
    async fn begin(&mut self) {
        self.begun += 1;
        self.has_begun = self.file;
        let (number, file, options) = (self.begun, self.file(), self.options);
        self.world.tell(format!("cvc run, number {number}"));
        let (stop, stop_signal) = watch::channel(StopRequest::GoOn);
        let mut observer = Telling {
            world: self.world.clone(),
            number,
        };
        let work = Box::pin(async move {
            run_campaign_on(
                &file.spec,
                &file.plan,
                |_, _| HashMap::new(),
                options,
                stop_signal,
                &mut observer,
            )
            .await
        });
        let before = Instant::now() + FENCED_WITHIN;
        self.running.push(Session {
            number,
            work,
            stop,
            must_end: None,
        });
        self.summary = None;
        // the controller writes into the journal before it waits for anything
        let at = self.running.len() - 1;
        let polled =
            poll_fn(|context| Poll::Ready(self.running[at].work.as_mut().poll(context))).await;
        for session in &mut self.running[..at] {
            session.must_end.get_or_insert(before);
        }
        if let Poll::Ready(ended) = polled {
            self.ended(at, ended);
        }
    }

    fn ended(&mut self, at: usize, ended: Ended) {
        let number = self.running.remove(at).number;
        match ended {
            Err(CampaignError::Run(RunError::Store(StoreError::Fenced { .. }))) => self
                .world
                .tell(format!("cvc {number} ends: another one has the journal")),
            Err(error) => self.world.tell(format!(
                "cvc {number} ends: {}",
                without_sizes(&error.to_string())
            )),
            Ok(summary) => {
                self.world.tell(format!("cvc {number} ends: {summary:?}"));
                if number == self.begun {
                    self.summary = Some(summary);
                }
            }
        }
    }

    fn kill(&mut self, at: usize) {
        let killed = self.running.remove(at);
        self.world.tell(format!("cvc {} is killed", killed.number));
    }

    async fn happens(&mut self, what: ToController) {
        match what {
            ToController::Kill(away) => {
                self.away = away;
                let at = self.world.lock().chance.usize(0..self.running.len());
                self.kill(at);
            }
            ToController::Stop(request, away) => {
                self.away = away;
                self.stop(request);
            }
            ToController::Second if self.running.len() < MOST => {
                locks::forget(&self.dir);
                self.has_met = true;
                self.begin().await;
            }
            ToController::Second => {}
            ToController::Edit(ending, away) => {
                self.away = away;
                self.edit();
                match ending {
                    Ending::Kill => self.kill_all(),
                    Ending::Stop(request) => self.stop(request),
                }
            }
            ToController::PowerLoss(away) => {
                self.away = away;
                self.kill_all();
                power::lose_lines(self.world, &self.dir.join("journal.jsonl"));
            }
        }
    }

    fn kill_all(&mut self) {
        while !self.running.is_empty() {
            self.kill(0);
        }
    }

    fn stop(&self, request: StopRequest) {
        self.world.lock().was_stopped = true;
        for session in &self.running {
            session.stop.send_modify(|now| *now = (*now).max(request));
        }
    }

    /// Replaces the campaign file by its next version, as if the user had edited it.
    fn edit(&mut self) {
        self.file += 1;
        let Campaign { edit, moved, .. } = self.file();
        self.world
            .tell(format!("the campaign file is edited: {edit}"));
        self.world.lock().moved.clone_from(moved);
    }
}

/// Returns the next of these sessions that ends, by its index.
async fn next(running: &mut [Session<'_>]) -> (usize, Ended) {
    poll_fn(|context| {
        for (at, session) in running.iter_mut().enumerate() {
            if let Poll::Ready(ended) = session.work.as_mut().poll(context) {
                return Poll::Ready((at, ended));
            }
        }
        Poll::Pending
    })
    .await
}
