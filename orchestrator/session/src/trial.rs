//! A trial: a small campaign in its own directory, used by `cvc doctor`, `cvc init` and `cvc try`.

use crate::machine::ask_sites;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, SessionProgress};
use cvc_controller::runner::{Options, run_campaign};
use cvc_core::campaign::Spec;
use cvc_core::ids::RunId;
use cvc_core::outcome::Outcome;
use cvc_core::paths;
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

/// Time limit for opening the site, which includes connections, compiling kernels, and waiting in a queue.
const OPENING: Duration = Duration::from_secs(300);

/// The directory of trials: either a temporary one, which is removed when this value is dropped, or one that the user has chosen and keeps.
#[derive(Debug)]
pub struct Scratch {
    /// The temporary directory; `None` if the directory is kept.
    directory: Option<TempDir>,
    path: Utf8PathBuf,
}

impl Scratch {
    /// Creates a temporary directory whose name begins with `prefix`.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(prefix: &str) -> Result<Self, StoreError> {
        let parent = std::env::temp_dir();
        let made = tempfile::Builder::new().prefix(prefix).tempdir();
        let named = made.and_then(|directory| {
            let path = Utf8PathBuf::try_from(directory.path().to_owned());
            let path = path.map_err(std::io::Error::other)?;
            Ok(Self {
                directory: Some(directory),
                path,
            })
        });
        named.map_err(StoreError::io("make a directory in", parent))
    }

    /// Creates a directory that is kept, or uses an existing one.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn kept(path: &Utf8Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(path).map_err(StoreError::io("make", path))?;
        Ok(Self {
            directory: None,
            path: paths::make_absolute(path.to_owned()),
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Removes the directory, unless it is kept.
    ///
    /// # Errors
    /// A part of the directory is left.
    pub fn close(self) -> Result<(), StoreError> {
        let removed = self.directory.map_or(Ok(()), TempDir::close);
        removed.map_err(StoreError::io("remove", self.path))
    }
}

/// Observations of a trial's run. If the plan has several runs, those of the last one.
#[derive(Debug, Default)]
struct Observed {
    run: Option<RunId>,
    began: Option<Instant>,
    /// Stages, each with its start time.
    stages: Vec<(String, Instant)>,
    ended: Option<(Instant, Outcome)>,
    skipped: Option<String>,
    /// Prefix of messages about the current run; empty if the plan has a single run.
    prefix: String,
}

/// Observes the runs of a trial, and announces when the first run starts, because the time limit begins then.
struct Watcher<'a> {
    observed: Observed,
    report: &'a mut (dyn FnMut(&str) + Send),
    began: watch::Sender<bool>,
    /// Number of runs of the plan.
    runs: usize,
}

impl Watcher<'_> {
    fn report(&mut self, what: &str) {
        (self.report)(&format!("{}{what}", self.observed.prefix));
    }
}

impl Observer for Watcher<'_> {
    fn on(&mut self, progress: &SessionProgress) {
        match progress {
            SessionProgress::Preparing { what } | SessionProgress::Site { what } => {
                (self.report)(what)
            }
            SessionProgress::Skipped { reason, .. } => self.observed.skipped = Some(reason.clone()),
            SessionProgress::RunStarted { run, number, .. } => {
                self.observed.run = Some(run.clone());
                self.observed.began = Some(Instant::now());
                self.observed.prefix = match self.runs {
                    1 => String::new(),
                    runs => format!("run {number} of {runs}: "),
                };
                self.began.send_replace(true);
                self.report("starts");
            }
            SessionProgress::Stage { stage, .. } => {
                self.observed.stages.push((stage.clone(), Instant::now()));
                self.report(stage);
            }
            SessionProgress::RunFinished { outcome, .. } => {
                self.observed.ended = Some((Instant::now(), outcome.clone()))
            }
            SessionProgress::RunLost { reason, .. } => (self.report)(reason),
            _ => {}
        }
    }
}

/// The result of a trial.
#[derive(Debug)]
pub struct Trial {
    observed: Observed,
    dir: CampaignDir,
    /// Why no run was carried out, or why the run was ended; `None` otherwise.
    pub problem: Option<String>,
    /// Description of the time limit that ended the trial; `None` if none did.
    pub late: Option<String>,
    /// Whether the user stopped the trial.
    pub is_interrupted: bool,
}

impl Trial {
    /// Carries out a plan, usually with one run, as a campaign in the directory `scratch`. The time limit begins when the first run starts. `report`
    /// receives a message for each step.
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
        let points = || plan.points.iter().map(|p| &p.point);
        let readiness = |_: &str| Readiness::for_points(&spec.apps, &spec.trace, points());
        let sites = ask_sites(spec, readiness, |what| report(&what)).await;
        let (began, began_seen) = watch::channel(false);
        let mut watcher = Watcher {
            observed: Observed::default(),
            report,
            began,
            runs: plan.runs.len(),
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
            .then(|| format!("not finished within {} s; cvc ended it", limit.as_secs()));
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

    /// Returns the directory of the campaign.
    pub fn campaign(&self) -> &CampaignDir {
        &self.dir
    }

    /// Returns the time at which the run began.
    pub fn began(&self) -> Option<Instant> {
        self.observed.began
    }

    /// Returns the time at which the run ended, and its outcome.
    pub fn ended(&self) -> Option<&(Instant, Outcome)> {
        self.observed.ended.as_ref()
    }

    /// Returns the outcome of the run.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.ended().map(|(_, outcome)| outcome)
    }

    /// Returns the time at which the first stage with this name began; `None` if the run did not reach it.
    pub fn stage(&self, name: &str) -> Option<Instant> {
        let mut stages = self.observed.stages.iter();
        let found = stages.find(|(stage, _)| stage.starts_with(name));
        found.map(|(_, at)| *at)
    }

    /// Returns the final directory of the run; an empty path if there was none.
    pub fn directory(&self) -> Utf8PathBuf {
        match &self.observed.run {
            Some(run) if self.dir.run(run).exists() => self.dir.run(run),
            Some(run) => self.dir.failed(run, 1),
            None => Utf8PathBuf::new(),
        }
    }

    /// Returns the directory in which the program ran; an empty path if there was no run.
    pub fn work(&self) -> Utf8PathBuf {
        let run = self.observed.run.as_ref();
        run.map(|run| self.dir.work(run)).unwrap_or_default()
    }

    /// Returns the text of a file in the directory of the run; empty if there is none.
    pub fn text(&self, name: &str) -> String {
        let bytes = std::fs::read(self.directory().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the records of the run.
    pub fn records(&self) -> TrialRecords {
        let file = self.directory().join("records.jsonl");
        let text = regular::read_text(file.as_std_path()).unwrap_or_default();
        let lines = text.lines();
        TrialRecords(
            lines
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect(),
        )
    }
}

/// The records of a run.
#[derive(Debug)]
pub struct TrialRecords(pub Vec<Record>);

impl TrialRecords {
    /// Returns the first value of a quantity.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|r| r.name == name).map(|r| r.value)
    }
}

/// Stops a run immediately when the user stops the trial or a time limit has passed.
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
    // keep the sender alive: readers of the signal must not find it closed
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::outcome::Cause;
    use cvc_core::point::Repeat;

    /// Returns a trial that has observed these events, and its messages.
    fn watched(scratch: &Scratch, progress: &[SessionProgress]) -> (Trial, Vec<String>) {
        watched_of(1, scratch, progress)
    }

    /// Like [`watched`], for a plan with this number of runs.
    fn watched_of(
        runs: usize,
        scratch: &Scratch,
        progress: &[SessionProgress],
    ) -> (Trial, Vec<String>) {
        let mut reported = Vec::new();
        let mut report = |what: &str| reported.push(what.to_owned());
        let mut watcher = Watcher {
            observed: Observed::default(),
            report: &mut report,
            began: watch::channel(false).0,
            runs,
        };
        progress.iter().for_each(|progress| watcher.on(progress));
        let trial = Trial {
            observed: watcher.observed,
            dir: CampaignDir::at(scratch.path()),
            problem: None,
            late: None,
            is_interrupted: false,
        };
        (trial, reported)
    }

    fn run() -> RunId {
        RunId::from_written("r1")
    }

    fn started() -> SessionProgress {
        SessionProgress::RunStarted {
            run: run(),
            point: Box::default(),
            repeat: Repeat::Measured(1),
            attempt: 1,
            number: 1,
        }
    }

    fn stage(stage: &str) -> SessionProgress {
        SessionProgress::Stage {
            run: run(),
            stage: stage.into(),
        }
    }

    fn finished(outcome: Outcome) -> SessionProgress {
        SessionProgress::RunFinished {
            run: run(),
            outcome,
            wall_s: 1.0,
            retry: false,
            not_again: None,
            output: None,
        }
    }

    #[test]
    fn a_trial_has_the_stages_and_the_end_of_its_run() {
        let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
        let failed = Outcome::Failed {
            cause: Cause::Application,
            detail: "exit code 2".into(),
        };
        let course = [
            started(),
            stage("computing"),
            stage("checkpoint 1 of 2"),
            stage("checkpoint 2 of 2"),
            finished(failed.clone()),
        ];
        let (trial, reported) = watched(&scratch, &course);
        assert_eq!(
            reported,
            [
                "starts",
                "computing",
                "checkpoint 1 of 2",
                "checkpoint 2 of 2"
            ]
        );
        let first = trial.stage("checkpoint").expect("a checkpoint");
        assert!(
            trial
                .stage("checkpoint 2")
                .is_some_and(|second| second >= first)
        );
        assert_eq!(trial.stage("restart"), None);
        assert!(trial.began().is_some_and(|began| began <= first));
        assert_eq!(trial.outcome(), Some(&failed));
    }

    #[test]
    fn each_stage_of_several_runs_names_its_run() {
        let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
        let (_, reported) = watched_of(3, &scratch, &[started(), stage("computing")]);
        assert_eq!(reported, ["run 1 of 3: starts", "run 1 of 3: computing"]);
    }

    #[test]
    fn a_directory_that_is_kept_stays() {
        let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
        let path = scratch.path().join("kept");
        let kept = Scratch::kept(&path).expect("made");
        assert_eq!(kept.path(), path);
        kept.close().expect("closed");
        assert!(path.is_dir());
    }

    #[test]
    fn the_files_of_a_run_are_found_wherever_it_ended() {
        let scratch = Scratch::new("cvc-test-trial-").expect("a directory");
        let (trial, _) = watched(&scratch, &[started()]);
        let write = |directory: &Utf8Path, name: &str, text: &str| {
            std::fs::create_dir_all(directory).expect("makes");
            std::fs::write(directory.join(name), text).expect("writes");
        };
        write(&trial.dir.failed(&run(), 1), "stdout", "failed");
        assert_eq!(trial.text("stdout"), "failed");
        let record = |name: &str, value: f64| {
            format!(
                "{{\"run\":\"r1\",\"name\":\"{name}\",\"value\":{value},\"unit\":\"s\",\"source\":\"clock\"}}\n"
            )
        };
        let records = [record("wall_s", 2.0), record("wall_s", 3.0), "torn".into()];
        let place = trial.dir.run(&run());
        write(&place, "records.jsonl", &records.concat());
        assert_eq!(
            (trial.directory(), trial.text("stdout")),
            (place, String::new())
        );
        let records = trial.records();
        assert_eq!(records.0.len(), 2, "what cannot be read is none");
        assert_eq!(records.value("wall_s"), Some(2.0));
        assert_eq!(records.value("ckpt_latency_s"), None);
        assert_eq!(trial.work(), trial.dir.work(&run()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_is_stopped_when_its_time_is_over_or_when_the_user_asks() {
        let limit = Duration::from_secs(20);
        let begin = tokio::time::Instant::now();
        // the run begins after some time
        let (began, began_seen) = watch::channel(false);
        let (_user, interrupted) = watch::channel(StopRequest::GoOn);
        let (stop, mut asked) = watch::channel(StopRequest::GoOn);
        let late = Arc::new(AtomicBool::new(false));
        let guard = stop_when_late(began_seen, interrupted, stop, Arc::clone(&late), limit);
        let guard = tokio::spawn(guard);
        tokio::time::sleep(Duration::from_secs(100)).await;
        began.send_replace(true);
        asked
            .wait_for(|now| *now == StopRequest::StopNow)
            .await
            .expect("a request");
        assert_eq!(
            (begin.elapsed().as_secs(), late.load(Ordering::Relaxed)),
            (120, true)
        );
        guard.abort();

        let (_began, began_seen) = watch::channel(false);
        let (user, interrupted) = watch::channel(StopRequest::GoOn);
        let (stop, mut asked) = watch::channel(StopRequest::GoOn);
        let late = Arc::new(AtomicBool::new(false));
        let guard = stop_when_late(began_seen, interrupted, stop, Arc::clone(&late), limit);
        let guard = tokio::spawn(guard);
        user.send_replace(StopRequest::Finish);
        asked
            .wait_for(|now| *now == StopRequest::StopNow)
            .await
            .expect("a request");
        assert!(!late.load(Ordering::Relaxed), "it is the user's");
        guard.abort();
    }
}
