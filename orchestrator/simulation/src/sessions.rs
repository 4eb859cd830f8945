//! Calls `cvc run` again and again until the campaign is done: one controller after another, or several at once that no lock keeps apart.

use crate::{
    campaigns::Campaign,
    faults::{self, Ending, Fault, ToController},
    locks, power,
    world::World,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, Progress};
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

/// Number of sessions after the faults in which it must be done.
pub(crate) const SESSIONS: u32 = 6;
/// Delay before a user starts `cvc run` again after an error.
const AGAIN: Duration = Duration::from_secs(60);
/// Time in which a controller notices that another one has its campaign.
const FENCED_WITHIN: Duration = Duration::from_secs(30);
/// Controllers at once.
const MOST: usize = 3;

/// Tells what a controller says.
struct Telling {
    world: World,
    number: u32,
}

impl Observer for Telling {
    fn on(&mut self, progress: &Progress) {
        let number = self.number;
        match progress {
            Progress::Site { what } => self
                .world
                .tell(format!("cvc {number}: {}", without_sizes(what))),
            Progress::RunLost { run, reason } => self
                .world
                .tell(format!("cvc {number}: run {run} is lost: {reason}")),
            Progress::RunStarted { run, attempt, .. } => self
                .world
                .tell(format!("cvc {number}: run {run} attempt {attempt} starts")),
            Progress::RunFinished {
                run,
                outcome,
                wall_s,
                ..
            } => {
                self.world.tell(format!(
                    "cvc {number}: run {run} ended: {outcome:?}, {wall_s}"
                ));
            }
            Progress::Skipped { reason, runs, .. } => {
                self.world.tell(format!(
                    "cvc {number}: {runs} runs are skipped: {}",
                    without_sizes(reason)
                ));
            }
            _ => {}
        }
    }
}

/// A message without sizes of files, which have the length of real times in them.
fn without_sizes(what: &str) -> &str {
    what.split(" bytes")
        .next()
        .unwrap_or_default()
        .trim_end_matches(|c: char| c.is_ascii_digit())
}

type Ended = Result<Summary, CampaignError>;

/// A controller.
struct Session<'a> {
    number: u32,
    work: Pin<Box<dyn Future<Output = Ended> + 'a>>,
    stop: watch::Sender<StopRequest>,
    /// When it must have ended, because another one has begun.
    must_end: Option<Instant>,
}

/// The controllers of a schedule.
pub(crate) struct Sessions<'a> {
    world: &'a World,
    /// Campaign files; the user edits one into the next.
    files: &'a [Campaign],
    file: usize,
    /// The one of the youngest session.
    has_begun: usize,
    options: &'a Options,
    dir: Utf8PathBuf,
    running: Vec<Session<'a>>,
    begun: u32,
    /// How the youngest one ended, if it has.
    summary: Option<Summary>,
    /// Time until the user begins another one.
    away: Duration,
    /// Whether there were several at once.
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

    /// The campaign file of now.
    pub fn file(&self) -> &'a Campaign {
        &self.files[self.file]
    }

    /// Calls `cvc run` until the campaign is done; `None` if it is not after all.
    pub async fn until_done(
        &mut self,
        faults: Vec<(Duration, Fault)>,
        dir: &Utf8Path,
    ) -> Option<Summary> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let (over, is_over) = watch::channel(false);
        let _faults = AbortOnDropHandle::new(tokio::spawn(faults::happen(
            self.world.clone(),
            dir.to_owned(),
            faults,
            tell,
            over,
        )));
        let mut left = SESSIONS;
        while left > 0 {
            // of the time in which no controller was there
            while let Ok(what) = told.try_recv() {
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
                    Some(what) = told.recv() => self.happens(what).await,
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
            // what was skipped is tried again, unless it failed too often
            if let Some(summary) = self
                .summary
                .take()
                .filter(|s| s.left == 0 && (s.skipped == 0 || left == 1))
            {
                // what one of several left is removed by the next session, and what was edited meanwhile is carried out by it
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

    /// Begins a controller.
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
        // it writes into the journal before it waits for anything
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

    /// The user edits the campaign file, for the next session.
    fn edit(&mut self) {
        self.file += 1;
        let Campaign { edit, moved, .. } = self.file();
        self.world
            .tell(format!("the campaign file is edited: {edit}"));
        self.world.lock().moved.clone_from(moved);
    }
}

/// The next of these that ends.
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
