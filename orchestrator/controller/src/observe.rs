//! Progress of an active campaign, for a progress bar, plain lines, or JSON events.

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
pub enum SessionProgress {
    /// A preparation step has begun, for example looking for software or compiling kernels.
    Preparing {
        /// The activity.
        what: String,
    },
    /// A message about a site of several machines: its connections, nodes, jobs.
    Site {
        /// The message.
        what: String,
    },
    /// A run was lost together with its agent or nodes; it is repeated and the attempt does not count.
    RunLost {
        /// The run.
        run: RunId,
        /// The reason.
        reason: String,
    },
    /// Software is being installed on a site.
    Install(InstallEvent),
    /// Points cannot run here, because something is not installed. All runs of these points are skipped.
    Skipped {
        /// The reason and the remedy.
        reason: String,
        /// The points.
        points: Vec<Point>,
        /// Number of runs of these points.
        runs: u64,
    },
    /// The campaign begins or continues.
    Started {
        /// Runs of the plan that can run here.
        runs: u64,
        /// Runs of the whole plan that need no further attempt.
        done: u64,
    },
    /// A run begins.
    RunStarted {
        /// The run.
        run: RunId,
        /// The run's point.
        point: Box<Point>,
        /// Warm-up or counted repeat.
        repeat: Repeat,
        /// Attempt, from 1.
        attempt: u32,
        /// Position in the order of the plan, from 1.
        number: u64,
    },
    /// A run has reached another stage.
    Stage {
        /// The run.
        run: RunId,
        /// The stage: computing, checkpoint, collecting, restart.
        stage: String,
    },
    /// A run ended.
    RunFinished {
        /// The run.
        run: RunId,
        /// The outcome.
        outcome: Outcome,
        /// Wall time of the program and of its restart, seconds.
        wall_s: f64,
        /// Whether the run will be retried.
        retry: bool,
        /// Why the run is not retried, although the campaign allows another attempt; `None` otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        not_again: Option<String>,
        /// The file with the program's output about its failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Utf8PathBuf>,
    },
    /// The first runs of a site failed in the same way, and none has succeeded. The site begins no more runs in this session.
    FailedAlike {
        /// The site.
        site: String,
        /// The cause of the last failure.
        cause: Cause,
        /// The message of the last failure.
        detail: String,
        /// Points at which runs failed in this way.
        points: u64,
        /// Attempts that failed in this way.
        attempts: u64,
        /// Runs that are not begun.
        left: u64,
        /// The last run that failed.
        run: RunId,
        /// The file with the output of its program.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<Utf8PathBuf>,
    },
    /// A run was interrupted together with its controller; it is repeated, or its complete results are kept.
    Recovered {
        /// The run.
        run: RunId,
        /// Processes that were ended.
        ended: u64,
        /// Whether the run's results were complete and are kept.
        kept: bool,
    },
    /// Directories of runs that succeeded are missing. These runs are repeated.
    Missing {
        /// The runs.
        runs: Vec<RunId>,
    },
    /// The journal lacked complete runs that have directories; they have been added to it.
    TakenIn {
        /// The runs.
        runs: Vec<RunId>,
    },
    /// A point failed too often, and is quarantined.
    Quarantined {
        /// The point.
        point: PointId,
        /// Runs that are skipped.
        skipped: u64,
    },
    /// A point needs no further run.
    Decided {
        /// The point.
        point: PointId,
        /// The width of its confidence interval, as text.
        reason: String,
        /// Runs that are not needed.
        not_needed: u64,
    },
    /// The user asked to stop.
    Stopping {
        /// Whether the session stops immediately, instead of after the active runs.
        now: bool,
    },
    /// The session has ended.
    Ended {
        /// Runs that succeeded, earlier ones included.
        succeeded: u64,
        /// Runs that failed, with no attempt left.
        failed: u64,
        /// Runs not tried: quarantined, or their software is missing.
        skipped: u64,
        /// Runs that remain to be done.
        left: u64,
    },
}

/// Receives the progress of a campaign.
pub trait Observer: Send {
    /// Handles an event.
    fn on(&mut self, progress: &SessionProgress);
}

/// Wraps an observer and catches its panics. The first panic is reported and ends the session. After it the observer receives no events, so that it
/// cannot interrupt the closing of sites.
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

    /// Passes an event to the observer, unless it has panicked before.
    pub(crate) fn on(&mut self, progress: &SessionProgress) {
        if self.has_panicked {
            return;
        }
        // stays true if the observer panics
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
    fn on(&mut self, _: &SessionProgress) {}
}
