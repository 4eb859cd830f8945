//! A trial: a campaign of one run in a temporary directory, from which `cvc doctor` and `cvc init` learn.

use crate::machine::ask_sites;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, Progress};
use cvc_controller::runner::{Options, run_campaign};
use cvc_core::campaign::Spec;
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::plan::Plan;
use cvc_core::record::Record;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::{CampaignDir, StoreError, regular};
use cvc_engine::attempt::Readiness;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::sync::watch;

/// Time limit for opening the site: connections, compiling kernels, a place in a queue.
const OPENING: Duration = Duration::from_secs(300);

/// A temporary directory, removed with the value.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    path: Utf8PathBuf,
}

impl Scratch {
    /// Makes one whose name begins with `prefix`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(prefix: &str) -> Result<Self, StoreError> {
        let parent = std::env::temp_dir();
        let made = tempfile::Builder::new().prefix(prefix).tempdir();
        let named = made.and_then(|directory| {
            let path = Utf8PathBuf::try_from(directory.path().to_owned());
            let path = path.map_err(std::io::Error::other)?;
            Ok(Self { directory, path })
        });
        named.map_err(StoreError::io("make a directory in", parent))
    }

    /// Its path.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Removes it.
    ///
    /// # Errors
    /// When something of it is left.
    pub fn close(self) -> Result<(), StoreError> {
        let removed = self.directory.close();
        removed.map_err(StoreError::io("remove", self.path))
    }
}

/// What was observed of the run.
#[derive(Debug, Default)]
struct Observed {
    run: Option<RunId>,
    began: Option<Instant>,
    /// Stages, with their beginnings.
    stages: Vec<(String, Instant)>,
    ended: Option<(Instant, Outcome)>,
    skipped: Option<String>,
}

/// Watches the run, and tells its limit when it began.
struct Watcher<'a> {
    observed: Observed,
    report: &'a mut (dyn FnMut(&str) + Send),
    began: watch::Sender<bool>,
}

impl Observer for Watcher<'_> {
    fn on(&mut self, progress: &Progress) {
        match progress {
            Progress::Preparing { what } | Progress::Site { what } => (self.report)(what),
            Progress::Skipped { reason, .. } => self.observed.skipped = Some(reason.clone()),
            Progress::RunStarted { run, .. } => {
                self.observed.run = Some(run.clone());
                self.observed.began = Some(Instant::now());
                self.began.send_replace(true);
                (self.report)("starts");
            }
            Progress::Stage { stage, .. } => {
                self.observed.stages.push((stage.clone(), Instant::now()));
                (self.report)(stage);
            }
            Progress::RunFinished { outcome, .. } => {
                self.observed.ended = Some((Instant::now(), outcome.clone()))
            }
            Progress::RunLost { reason, .. } => (self.report)(reason),
            _ => {}
        }
    }
}

/// The result of a trial.
#[derive(Debug)]
pub struct Trial {
    observed: Observed,
    dir: CampaignDir,
    /// Why there is no run, or why it was ended.
    pub problem: Option<String>,
    /// The time limit that ended it.
    pub late: Option<String>,
    /// Whether the user stopped it.
    pub is_interrupted: bool,
}

impl Trial {
    /// Carries out the only run of a plan in a campaign below `scratch`, for at most `limit` once it has begun. `report` gets each step.
    pub async fn carry_out(
        (spec, plan): (&Spec, &Plan),
        scratch: &Scratch,
        base: &Options,
        limit: Duration,
        interrupted: &StopSignal,
        report: &mut (dyn FnMut(&str) + Send),
    ) -> Self {
        let options = Options {
            campaigns: scratch.path.join("campaigns"),
            state: scratch.path.join("state"),
            ..base.clone()
        };
        let readiness =
            |_: &str| Readiness::for_points(&spec.apps, plan.points.iter().map(|p| &p.point));
        let sites = ask_sites(spec, readiness, |what| report(&what)).await;
        let (began, began_seen) = watch::channel(false);
        let mut watcher = Watcher {
            observed: Observed::default(),
            report,
            began,
        };
        let (stop, stop_signal) = watch::channel(StopRequest::GoOn);
        let late = Arc::new(AtomicBool::new(false));
        let guard = tokio::spawn(stop_when_late(
            began_seen,
            interrupted.clone(),
            stop,
            Arc::clone(&late),
            limit,
        ));
        let result = run_campaign(spec, plan, sites, &options, stop_signal, &mut watcher).await;
        guard.abort();
        let observed = watcher.observed;
        let limit = if observed.began.is_some() {
            limit
        } else {
            OPENING
        };
        let late = late
            .load(Ordering::Relaxed)
            .then(|| format!("not over within {} s; cvc ended it", limit.as_secs()));
        let problem = match (result, &observed) {
            (Err(error), _) => Some(error.to_string()),
            (Ok(_), Observed { skipped, .. }) if skipped.is_some() => skipped.clone(),
            (Ok(_), Observed { run: None, .. }) => {
                Some(late.clone().unwrap_or_else(|| "the run never began".into()))
            }
            (Ok(_), _) => None,
        };
        Self {
            dir: CampaignDir::new(&options.campaigns, &plan.campaign),
            problem,
            late,
            is_interrupted: *interrupted.borrow() != StopRequest::GoOn,
            observed,
        }
    }

    /// When the run began.
    pub fn began(&self) -> Option<Instant> {
        self.observed.began
    }

    /// When the run ended, and how.
    pub fn ended(&self) -> Option<&(Instant, Outcome)> {
        self.observed.ended.as_ref()
    }

    /// How the run ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.ended().map(|(_, outcome)| outcome)
    }

    /// When the first stage of this name began.
    pub fn stage(&self, name: &str) -> Option<Instant> {
        let mut stages = self.observed.stages.iter();
        let found = stages.find(|(stage, _)| stage.starts_with(name));
        found.map(|(_, at)| *at)
    }

    /// The directory of the run, wherever it ended; empty if there was none.
    pub fn directory(&self) -> Utf8PathBuf {
        match &self.observed.run {
            Some(run) if self.dir.run(run).exists() => self.dir.run(run),
            Some(run) => self.dir.failed(run, 1),
            None => Utf8PathBuf::new(),
        }
    }

    /// The directory in which the program ran; empty if there was no run.
    pub fn work(&self) -> Utf8PathBuf {
        let run = self.observed.run.as_ref();
        run.map(|run| self.dir.work(run)).unwrap_or_default()
    }

    /// A text in the directory of the run; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        let bytes = std::fs::read(self.directory().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What the run recorded.
    pub fn records(&self) -> Records {
        let file = self.directory().join("records.jsonl");
        let text = regular::read_text(file.as_std_path()).unwrap_or_default();
        let lines = text.lines();
        Records(
            lines
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect(),
        )
    }
}

/// The records of a run.
#[derive(Debug)]
pub struct Records(pub Vec<Record>);

impl Records {
    /// The first value of a quantity.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|r| r.name == name).map(|r| r.value)
    }
}

/// Stops a run at once when the user does, or when it takes too long.
async fn stop_when_late(
    mut began: watch::Receiver<bool>,
    mut interrupted: StopSignal,
    stop: watch::Sender<StopRequest>,
    late: Arc<AtomicBool>,
    limit: Duration,
) {
    let limit = async {
        if tokio::time::timeout(OPENING, began.wait_for(|began| *began))
            .await
            .is_ok_and(|b| b.is_ok())
        {
            tokio::time::sleep(limit).await;
        }
        late.store(true, Ordering::Relaxed);
    };
    let by_user = async {
        if interrupted
            .wait_for(|now| *now != StopRequest::GoOn)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = limit => {}
        () = by_user => {}
    }
    stop.send_replace(StopRequest::StopNow);
    // whoever reads the signal must not find it closed
    std::future::pending::<()>().await;
}
