//! One run from its start to its outcome.

use super::{
    collect,
    context::SiteContext,
    dmtcp::{self, Driven},
    error::RunError,
    evidence,
    executed::{Executed, interrupted},
    judge::Evidence,
    noise::{self, Noise},
    outputs, placement,
    prepare::Prepared,
    reporter::{AttemptEvent, AttemptReporter},
    restart::{self, Restarted},
    restart_watch,
    run_failure::RunFailure,
    session_files,
    shepherd::{Shepherd, Shepherds},
};
use crate::{
    ckpt::{Course, Restart},
    transport::Transport,
};
use cvc_core::{
    outcome::Cause,
    stop::{StopSignal, stop_now},
};
use cvc_probe::shepherd::{Exit, Job};
use nix::sys::signal::Signal;
use std::future::{Future, pending};

/// How a program under a shepherd ended.
enum Ending {
    /// It ended by itself, or after its checkpoint as intended.
    Exited(Option<Exit>),
    /// It was ended early.
    CutOff { failure: RunFailure, exit: Option<Exit> },
    /// The user wants to stop at once.
    Interrupted,
}

/// What is known about a program that has ended.
struct EndedProgram {
    driven: Driven,
    exit: Option<Exit>,
    noise: Noise,
    /// The reason why it failed in any case: a node was lost, ranks were misplaced.
    cut_off: Option<RunFailure>,
}

/// One run under way.
struct Execution<'a> {
    context: &'a SiteContext,
    prepared: &'a Prepared,
    course: Course,
    shepherds: &'a Shepherds,
    stop_signal: &'a mut StopSignal,
    reporter: &'a AttemptReporter,
}

/// Starts the run, takes its checkpoints, waits for its end, restarts it if required, and gathers the evidence. Reports its shepherd as
/// soon as it is known.
///
/// # Errors
/// When the run cannot be carried out. Anything else is its outcome.
pub(super) async fn execute(
    context: &SiteContext,
    prepared: &Prepared,
    shepherds: &Shepherds,
    stop_signal: &mut StopSignal,
    reporter: &AttemptReporter,
) -> Result<Executed, RunError> {
    let course = prepared.checkpointer.course(&context.checkpoint.of(&prepared.point));
    let mut execution = Execution { context, prepared, course, shepherds, stop_signal, reporter };
    let Some(mut ran) = execution.run().await? else { return Ok(interrupted()) };
    if ran.cut_off.is_none() {
        ran.cut_off = execution.explain_end(&ran).await;
    }
    let restarted = match execution.restart_job(&mut ran)? {
        None => None,
        Some(job) => match execution.restart(&job, &mut ran).await? {
            Some(restarted) => Some(restarted),
            None => return Ok(interrupted()),
        },
    };
    execution.collect(ran, restarted.as_ref()).await
}

impl Execution<'_> {
    /// Runs the program to its end; `None` when the user has interrupted it.
    async fn run(&mut self) -> Result<Option<EndedProgram>, RunError> {
        let prepared = self.prepared;
        let before = noise::conditions(&prepared.used).await;
        let mut shepherd = self.shepherds.start(&prepared.job, &prepared.dir.join("job.json")).await?;
        self.reporter.tell(AttemptEvent::Started(shepherd.id));
        let driven = if self.course.on_request {
            dmtcp::drive(prepared, &self.context.checkpoint.of(&prepared.point), &mut shepherd, self.stop_signal, self.reporter).await
        } else {
            Driven::default()
        };
        let ending = if driven.interrupted {
            tokio::join!(prepared.used.end_others(), shepherd.end());
            Ending::Interrupted
        } else if self.course.killed || driven.failure.is_some() || driven.error.is_some() {
            Ending::Exited(self.kill(&driven, &mut shepherd).await)
        } else {
            let misplaced = async { RunFailure::new(Cause::Misplaced, placement::watch(prepared).await.to_string()) };
            watch(prepared, &mut shepherd, self.stop_signal, misplaced).await
        };
        let (exit, cut_off) = match ending {
            Ending::Interrupted => return Ok(None),
            Ending::Exited(exit) => (exit, None),
            Ending::CutOff { failure, exit } => (exit, Some(failure)),
        };
        let noise = Noise { before, after: noise::conditions(&prepared.used).await };
        // not while the program ran, which is measured
        self.shepherds.prepare();
        prepared.used.end_others().await;
        if let Some(error) = driven.error {
            return Err(error);
        }
        Ok(Some(EndedProgram { driven, exit, noise, cut_off }))
    }

    /// Ends the run after its checkpoints.
    async fn kill(&self, driven: &Driven, shepherd: &mut Shepherd) -> Option<Exit> {
        dmtcp::kill(self.prepared).await;
        // the exit of a program that already ended by itself explains the missing checkpoint: keep it
        let exit = shepherd.end().await;
        let restarts = self.course.restart == Restart::Images && driven.failure.is_none() && driven.error.is_none();
        if let (true, Some(last)) = (restarts, driven.checkpoints.last()) {
            restart::forget_saved_files(self.prepared, last).await;
        }
        exit
    }

    /// Returns a cause of failure that the run itself cannot know: an unreachable node, misplaced ranks.
    async fn explain_end(&self, ran: &EndedProgram) -> Option<RunFailure> {
        let used = &self.prepared.used;
        // ranks may not have come to a node because no new connection to it is possible, though its sentinel is still heard
        let failed_by_itself = ran.exit.as_ref().is_some_and(|e| e.ended_by.is_none() && e.code != Some(0));
        if failed_by_itself
            && used.transport == Transport::Ssh
            && let Some(refused) = used.crew.probe_starts(&used.others()).await.first()
        {
            let detail = format!("{} cannot be reached from {}: {}", refused.host, used.head.name, refused.reason());
            return Some(RunFailure::new(Cause::NodeLost, detail));
        }
        placement::check(self.prepared).await.err()
    }

    /// Returns what is to be started again, if anything is.
    fn restart_job(&self, ran: &mut EndedProgram) -> Result<Option<Job>, RunError> {
        match self.course.restart {
            Restart::Nothing => Ok(None),
            Restart::OwnFiles if ran.exit.as_ref().is_some_and(|e| e.code == Some(0)) => self.prepared.own_restart_job(),
            Restart::OwnFiles => Ok(None),
            Restart::Images => {
                let (None, Some(last)) = (&ran.driven.failure, ran.driven.checkpoints.last()) else { return Ok(None) };
                match restart::by_node(self.prepared, last) {
                    Ok(nodes) => self.prepared.dmtcp_restart_job(nodes).map(Some),
                    Err(failure) => {
                        ran.driven.failure = Some(failure);
                        Ok(None)
                    }
                }
            }
        }
    }

    /// Restarts the program; `None` when the user has interrupted it.
    async fn restart(&mut self, job: &Job, ran: &mut EndedProgram) -> Result<Option<Restarted>, RunError> {
        let prepared = self.prepared;
        self.reporter.stage("restart");
        session_files::restore_session_files(prepared).await?;
        let before = noise::conditions(&prepared.used).await;
        let mut shepherd = self.shepherds.start(job, &prepared.dir.join("restart.job.json")).await?;
        let from_images = self.course.restart == Restart::Images;
        let peers = ran.driven.checkpoints.last().map(|checkpoint| checkpoint.peers).filter(|_| from_images);
        let hopeless = async {
            match peers {
                Some(peers) => restart_watch::watch(prepared, peers).await,
                None => pending().await,
            }
        };
        // the placement of its ranks was checked before
        let exit = match watch(prepared, &mut shepherd, self.stop_signal, hopeless).await {
            Ending::Interrupted => return Ok(None),
            Ending::Exited(exit) => exit,
            Ending::CutOff { failure, exit } => {
                ran.cut_off.get_or_insert(failure);
                exit
            }
        };
        let noise = Noise { before, after: noise::conditions(&prepared.used).await };
        self.shepherds.prepare();
        prepared.used.end_others().await;
        let text = |name: &str| evidence::text(&prepared.dir.join(name));
        let assertion = if from_images { restart_watch::find_assertion(prepared) } else { None };
        Ok(Some(Restarted { exit, noise, stdout: text("restart.stdout"), stderr: text("restart.stderr"), assertion }))
    }

    /// Gathers the evidence and judges it.
    async fn collect(&self, ran: EndedProgram, restarted: Option<&Restarted>) -> Result<Executed, RunError> {
        let EndedProgram { mut driven, exit, noise, cut_off } = ran;
        let prepared = self.prepared;
        self.reporter.stage("collecting");
        dmtcp::read_rest(prepared, &mut driven).await;
        let of_restart = restarted.and_then(|r| r.exit.as_ref());
        let wall_s = exit.iter().chain(of_restart).map(|e| e.wall_s).sum();
        let shepherd_lost = exit.is_none() || restarted.is_some_and(|r| r.exit.is_none());
        let told_to_end = exit.iter().chain(of_restart).any(was_told_to_end);
        let own = collect::own_files(prepared).await?;
        let outputs = outputs::find_outputs(prepared).await?;
        let (context, course) = (self.context, self.course);
        let evidence = Evidence { prepared, context, course, exit, driven: &driven, noise: &noise, restarted, cut_off, own, outputs };
        let (outcome, records, facts) = collect::collect(&evidence)?;
        Ok(Executed { outcome, records, facts, wall_s, interrupted: false, shepherd_lost, told_to_end })
    }
}

/// Whether something asked for the end of a program or of its shepherd, as by a signal that went to everything. A launcher tells of the signal
/// that ended it by its exit code, as a shell does.
fn was_told_to_end(exit: &Exit) -> bool {
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let ended_by = |signal: &Signal| exit.signal.as_deref() == Some(signal.as_str()) || exit.code == Some(128 + *signal as i32);
    exit.ended_by.is_none() && (exit.told_to_end || signals.iter().any(ended_by))
}

/// Waits for the end of a program under a shepherd, or ends it because of a lost node, the user, or what `failed` says.
async fn watch(
    prepared: &Prepared,
    shepherd: &mut Shepherd,
    stop_signal: &mut StopSignal,
    failed: impl Future<Output = RunFailure>,
) -> Ending {
    let used = &prepared.used;
    let everywhere = used.everywhere();
    let why = tokio::select! {
        exit = shepherd.exit() => return Ending::Exited(exit),
        (node, reason) = used.crew.wait_lost(&everywhere) => Some(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}"))),
        failure = failed => Some(failure),
        () = stop_now(stop_signal) => None,
    };
    // launchers may wait forever for a node that is gone: end the ranks everywhere, and the launcher with them
    let (_, exit) = tokio::join!(used.end_others(), shepherd.end());
    match why {
        Some(failure) => Ending::CutOff { failure, exit },
        None => Ending::Interrupted,
    }
}
