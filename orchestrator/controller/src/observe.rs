//! Progress of a campaign under way, for a progress bar, plain lines, or JSON events.

use camino::Utf8PathBuf;
use cvc_core::ids::{PointId, RunId};

use cvc_core::outcome::{Cause, Outcome};

use cvc_core::panics::panic_if_asked;

use cvc_core::point::{Point, Repeat};
use cvc_sites::install::InstallEvent;
use serde::Serialize;

/// An event of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Progress {
    /// A preparation step (looking for software, compiling kernels).
    Preparing {
        /// What is being done.
        what: String,
    },
    /// Something about a site of several machines: connections, nodes, jobs.
    Site {
        /// What happened.
        what: String,
    },
    /// A run was lost together with its agent or nodes; it is repeated and the attempt does not count.
    RunLost {
        /// Which.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// Software is being installed on a site.
    Install(InstallEvent),
    /// Points cannot run here: something is not installed. Their runs are skipped.
    Skipped {
        /// Why, and how to fix it.
        reason: String,
        /// Which points.
        points: Vec<Point>,
        /// Their runs.
        runs: u64,
    },
    /// The campaign begins or goes on.
    Started {
        /// Runs of the plan that can run here.
        runs: u64,
        /// Of these, finished before.
        done: u64,
    },
    /// A run begins.
    RunStarted {
        /// Which.
        run: RunId,
        /// Its point.
        point: Box<Point>,
        /// Warm-up or counted repeat.
        repeat: Repeat,
        /// Attempt, from 1.
        attempt: u32,
        /// Number in the order of the plan, from 1.
        number: u64,
    },
    /// What a run is doing now.
    Stage {
        /// Which run.
        run: RunId,
        /// The stage: computing, checkpoint, collecting, restart.
        stage: String,
    },
    /// A run ended.
    RunFinished {
        /// Which.
        run: RunId,
        /// How.
        outcome: Outcome,
        /// Wall time of the program and of its restart, seconds.
        wall_s: f64,
        /// Whether it will be tried again.
        retry: bool,
        /// Why not, although the campaign allows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_again: Option<String>,
        /// The file with what the program said of its failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Utf8PathBuf>,
    },
    /// The first runs of a site failed in the same way, and none has succeeded: the site begins no more in this session.
    FailedAlike {
        /// Which site.
        site: String,
        /// The cause of the last one.
        cause: Cause,
        /// What was seen of it.
        detail: String,
        /// Points at which runs failed in this way.
        points: u64,
        /// Attempts that failed in this way.
        attempts: u64,
        /// Runs that are not begun.
        left: u64,
        /// The last run that failed.
        run: RunId,
        /// The file with what its program said.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Utf8PathBuf>,
    },
    /// A run was cut off together with its controller; it is repeated.
    Recovered {
        /// Which.
        run: RunId,
        /// Processes that were ended.
        ended: u64,
        /// Whether its results were complete and are kept.
        kept: bool,
    },
    /// Directories of runs that succeeded are missing; these runs are repeated.
    Missing {
        /// Which runs.
        runs: Vec<RunId>,
    },
    /// Directories of whole runs were here that the journal did not know; it knows them now.
    TakenIn {
        /// Which runs.
        runs: Vec<RunId>,
    },
    /// A point failed too often.
    Quarantined {
        /// Which point.
        point: PointId,
        /// Runs that are skipped.
        skipped: u64,
    },
    /// A point needs no further run.
    Decided {
        /// Which point.
        point: PointId,
        /// How wide its interval is.
        reason: String,
        /// Runs that are not needed.
        not_needed: u64,
    },
    /// The user asked to stop.
    Stopping {
        /// Whether at once, or after the run under way.
        now: bool,
    },
    /// The end.
    Ended {
        /// Runs that succeeded, earlier ones included.
        succeeded: u64,
        /// Runs that failed for good.
        failed: u64,
        /// Runs not tried: quarantined, or their software is missing.
        skipped: u64,
        /// Runs that remain to be done.
        left: u64,
    },
}

/// Watches a campaign.
pub trait Observer: Send {
    /// Handles an event.
    fn on(&mut self, progress: &Progress);
}

/// An observer of which a panic is heard once: it ends the walk, but what follows must not be interrupted by the next one.
pub(crate) struct Guarded<'a> {
    observer: &'a mut dyn Observer,
    has_panicked: bool,
}

impl<'a> Guarded<'a> {
    pub(crate) fn new(observer: &'a mut dyn Observer) -> Self {
        Self {
            observer,
            has_panicked: false,
        }
    }

    /// Tells the observer, unless it has panicked before.
    pub(crate) fn on(&mut self, progress: &Progress) {
        if self.has_panicked {
            return;
        }
        // stays so if it does not return
        self.has_panicked = true;
        panic_if_asked("observer");
        self.observer.on(progress);
        self.has_panicked = false;
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Observer for Quiet {
    fn on(&mut self, _: &Progress) {}
}
