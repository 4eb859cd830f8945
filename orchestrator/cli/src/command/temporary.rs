//! A campaign of one run in a temporary directory: what `cvc doctor` tries.

use crate::output;
use camino::{Utf8Path, Utf8PathBuf};
use cvc_controller::observe::{Observer, Progress};
use cvc_controller::runner::{Options, run_campaign};
use cvc_core::campaign::Spec;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::Plan;
use cvc_core::record::Record;
use cvc_core::stop::{StopRequest, StopSignal};
use cvc_core::store::{CampaignDir, regular};
use cvc_engine::attempt::Readiness;
use cvc_session::ask_sites;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Time limit for opening the site: connections, compiling kernels, a place in a queue.
pub(super) const OPENING: Duration = Duration::from_secs(300);

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Until it begins.
    pub(super) opening: Duration,
    /// From there until it is over.
    pub(super) run: Duration,
}

/// What was observed of the run.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) run: Option<RunId>,
    pub(super) began: Option<Instant>,
    /// Stages, with their beginnings.
    stages: Vec<(String, Instant)>,
    pub(super) ended: Option<(Instant, Outcome)>,
    pub(super) skipped: Option<String>,
}

impl Seen {
    /// The directory of the run, wherever it ended; empty if there was none.
    pub(super) fn directory(&self, dir: &CampaignDir) -> Utf8PathBuf {
        let run = self.run.as_ref();
        run.map(|run| {
            if dir.run(run).exists() {
                dir.run(run)
            } else {
                dir.failed(run, 1)
            }
        })
        .unwrap_or_default()
    }

    /// When the first stage of this name began.
    pub(super) fn stage(&self, name: &str) -> Option<Instant> {
        self.stages
            .iter()
            .find(|(stage, _)| stage.starts_with(name))
            .map(|(_, at)| *at)
    }
}

/// Watches a run, shows its progress, and tells when its run began.
struct Watcher {
    seen: Seen,
    name: String,
    bar: output::Bar,
    began: watch::Sender<bool>,
}

impl Watcher {
    fn tell(&self, what: &str) {
        if output::is_stderr_terminal() {
            self.bar.set_message(&format!("{}: {what}", self.name));
        } else {
            output::note(format_args!("{}: {what}", self.name));
        }
    }
}

impl Observer for Watcher {
    fn on(&mut self, progress: &Progress) {
        match progress {
            Progress::Preparing { what } | Progress::Site { what } => self.tell(what),
            Progress::Skipped { reason, .. } => self.seen.skipped = Some(reason.clone()),
            Progress::RunStarted { run, .. } => {
                self.seen.run = Some(run.clone());
                self.seen.began = Some(Instant::now());
                self.began.send_replace(true);
                self.tell("starts");
            }
            Progress::Stage { stage, .. } => {
                self.seen.stages.push((stage.clone(), Instant::now()));
                self.tell(stage);
            }
            Progress::RunFinished { outcome, .. } => {
                self.seen.ended = Some((Instant::now(), outcome.clone()))
            }
            Progress::RunLost { reason, .. } => self.tell(reason),
            _ => {}
        }
    }
}

/// What came of a run.
pub(super) struct Carried {
    pub(super) seen: Seen,
    /// The campaign.
    pub(super) dir: CampaignDir,
    /// Why the campaign ended early.
    pub(super) error: Option<String>,
    /// That it took too long, if it did.
    pub(super) late: Option<String>,
    /// Whether the user stopped it.
    pub(super) is_interrupted: bool,
}

/// Carries out the only run of a plan in a campaign below `directory`; `name` stands in messages.
pub(super) async fn carry_out(
    spec: &Spec,
    plan: &Plan,
    directory: &Utf8Path,
    name: String,
    base: &Options,
    limits: Limits,
    interrupted: &mut StopSignal,
) -> Carried {
    let options = Options {
        campaigns: directory.join("campaigns"),
        state: directory.join("state"),
        ..base.clone()
    };
    let (began, began_seen) = watch::channel(false);
    let bar = output::bar();
    bar.set_template("{spinner} {msg}");
    bar.tick_every(Duration::from_millis(100));
    let mut watcher = Watcher {
        seen: Seen::default(),
        name,
        bar,
        began,
    };
    let readiness =
        |_: &str| Readiness::for_points(&spec.apps, plan.points.iter().map(|p| &p.point));
    let sites = ask_sites(spec, readiness, |what| watcher.tell(&what)).await;
    let (stop, stop_signal) = watch::channel(StopRequest::GoOn);
    let late = Arc::new(AtomicBool::new(false));
    let guard = tokio::spawn(stop_when_late(
        began_seen,
        interrupted.clone(),
        stop,
        Arc::clone(&late),
        limits,
    ));
    let result = run_campaign(spec, plan, sites, &options, stop_signal, &mut watcher).await;
    guard.abort();
    watcher.bar.finish_and_clear();
    let seen = watcher.seen;
    let limit = if seen.began.is_some() {
        limits.run
    } else {
        limits.opening
    };
    Carried {
        dir: CampaignDir::new(&options.campaigns, &plan.campaign),
        error: result.err().map(|error| error.to_string()),
        late: late
            .load(Ordering::Relaxed)
            .then(|| format!("not over within {} s; cvc ended it", limit.as_secs())),
        is_interrupted: *interrupted.borrow() != StopRequest::GoOn,
        seen,
    }
}

/// The cause as it is called in reports.
pub(super) fn name_of(cause: Cause) -> String {
    serde_json::to_value(cause)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The records in the directory of a run.
pub(super) fn read_records(directory: &Utf8Path) -> Vec<Record> {
    let text =
        regular::read_text(directory.join("records.jsonl").as_std_path()).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// A name as a quoted key or string of TOML.
pub(super) fn toml_key(name: &str) -> String {
    serde_json::to_string(name).unwrap_or_default()
}

/// Stops a run at once when the user does, or when it takes too long.
async fn stop_when_late(
    mut began: watch::Receiver<bool>,
    mut interrupted: StopSignal,
    stop: watch::Sender<StopRequest>,
    late: Arc<AtomicBool>,
    limits: Limits,
) {
    let limit = async {
        if tokio::time::timeout(limits.opening, began.wait_for(|began| *began))
            .await
            .is_ok_and(|b| b.is_ok())
        {
            tokio::time::sleep(limits.run).await;
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

/// Listens to the user's requests to stop: the first one stops at once.
pub(super) fn listen() -> StopSignal {
    let (stop, stop_signal) = watch::channel(StopRequest::GoOn);
    tokio::spawn(async move {
        let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => output::speak_to_nobody(),
            }
            stop.send_replace(StopRequest::StopNow);
        }
    });
    stop_signal
}
