//! A running run, and how its programs end.

use super::{
    noise::{self, Noise},
    notice::ReceivedNotice,
    prepare::Prepared,
};
use crate::{
    ckpt::{CheckpointRun, Course},
    run::{AttemptReporter, RunContext, RunFailure, Shepherd, Shepherds, SiteContext},
    stage::Stages,
};
use cvc_core::outcome::Cause;
use cvc_core::stop::{StopSignal, stop_now};
use cvc_probe::shepherd::Exit;
use std::future::Future;

/// How a program under a shepherd ended.
pub(super) enum Ending {
    /// The program ended by itself, or was ended after its checkpoint as planned.
    Exited(Option<Exit>),
    /// The program was ended early.
    CutOff {
        failure: RunFailure,
        exit: Option<Exit>,
    },
    /// The user has requested an immediate stop.
    Interrupted,
}

/// Facts about a program that has ended.
pub(super) struct EndedProgram {
    /// Why no more checkpoints were taken.
    pub halted: Option<RunFailure>,
    pub exit: Option<Exit>,
    pub noise: Noise,
    /// Reason why the run failed whatever its exit: a node was lost, or ranks were misplaced.
    pub cut_off: Option<RunFailure>,
    /// The smallest number of cores that a rank may use, if ranks have threads.
    pub allowed_cores: Option<u32>,
}

impl EndedProgram {
    /// Returns the facts about a program that was not started, for this reason.
    pub fn not_started(failure: RunFailure, before: noise::Moment) -> Self {
        Self {
            halted: None,
            exit: None,
            noise: Noise {
                before,
                after: noise::Moment::new(),
                operations: None,
            },
            cut_off: Some(failure),
            allowed_cores: None,
        }
    }
}

/// One running run.
pub(super) struct Execution<'a> {
    pub context: &'a SiteContext,
    pub prepared: &'a Prepared,
    pub course: Course,
    pub session: Box<dyn CheckpointRun + 'a>,
    pub stages: Stages<'a>,
    pub shepherds: &'a Shepherds,
    pub stop_signal: &'a mut StopSignal,
    pub reporter: &'a AttemptReporter,
    /// The notice that a node will be reclaimed, with what the run did because of it; `None` before a checkpoint was attempted.
    pub notice: Option<ReceivedNotice>,
}

/// Waits for the end of a program under a shepherd. Ends the program if a node is lost, the user requests it, or `failed` returns a failure.
pub(super) async fn watch(
    run: &RunContext,
    shepherd: &mut Shepherd,
    stop_signal: &mut StopSignal,
    failed: impl Future<Output = RunFailure>,
) -> Ending {
    let used = &run.used;
    let everywhere = used.everywhere();
    let why = tokio::select! {
        exit = shepherd.exit() => return Ending::Exited(exit),
        (node, reason) = used.crew.wait_lost(&everywhere) => Some(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}"))),
        problem = used.wait_lost_files() => Some(RunFailure::new(Cause::NodeLost, problem)),
        failure = failed => Some(failure),
        () = stop_now(stop_signal) => None,
    };
    // launchers may wait forever for a lost node: end the ranks everywhere together with the launcher
    let (_, exit) = tokio::join!(used.end_others(), shepherd.end());
    match why {
        Some(failure) => Ending::CutOff { failure, exit },
        None => Ending::Interrupted,
    }
}
