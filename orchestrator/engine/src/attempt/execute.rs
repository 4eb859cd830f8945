//! One run from its start to its outcome.

use super::{
    collect,
    executed::{Executed, interrupted},
    judge::Evidence,
    noise::{self, Noise},
    outputs, placement,
    prepare::Prepared,
    restarted::Restarted,
};
use crate::{
    ckpt::{CheckpointRun, Course, Halt},
    run::{
        AttemptEvent, AttemptReporter, RunContext, RunError, RunFailure, Shepherd, Shepherds,
        SiteContext, text,
    },
    stage::Stages,
    transport::Transport,
};
use cvc_core::outcome::Cause;
use cvc_core::stop::{StopSignal, stop_now};
use cvc_probe::shepherd::{EndedBy, Exit, Job};
use nix::sys::signal::Signal;
use std::{
    future::Future,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

/// How a program under a shepherd ended.
enum Ending {
    /// It ended by itself, or after its checkpoint as intended.
    Exited(Option<Exit>),
    /// It was ended early.
    CutOff {
        failure: RunFailure,
        exit: Option<Exit>,
    },
    /// The user wants to stop at once.
    Interrupted,
}

/// What is known about a program that has ended.
struct EndedProgram {
    /// Why no more checkpoints were taken.
    halted: Option<RunFailure>,
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
    session: Box<dyn CheckpointRun + 'a>,
    stages: Stages<'a>,
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
    let course = prepared.checkpointer.course(&prepared.run.checkpoint);
    let session = prepared.session();
    let mut execution = Execution {
        context,
        prepared,
        course,
        session,
        stages: Stages::of(&prepared.run),
        shepherds,
        stop_signal,
        reporter,
    };
    let executed = execution.carry_out().await;
    // what the run wrote may be removed next
    execution.stages.settle().await;
    executed
}

impl Execution<'_> {
    /// The run from its start to its judgement.
    async fn carry_out(&mut self) -> Result<Executed, RunError> {
        let Some(mut ran) = self.run().await? else {
            return Ok(interrupted());
        };
        if ran.cut_off.is_none() {
            ran.cut_off = self.explain_end(&ran).await;
        }
        let mut not_restarted = None;
        let restarted = match self.restart_job(&ran) {
            Ok(None) => None,
            Ok(Some(job)) => match self.restart(&job, &mut ran).await {
                Ok(Some(restarted)) => Some(restarted),
                Ok(None) => return Ok(interrupted()),
                Err(Halt::Failure(failure)) => {
                    not_restarted = Some(failure);
                    None
                }
                Err(Halt::Error(error)) => return Err(error),
            },
            Err(Halt::Failure(failure)) => {
                not_restarted = Some(failure);
                None
            }
            Err(Halt::Error(error)) => return Err(error),
        };
        let over = Instant::now();
        let mut not_evaluated = None;
        // it may take hours: not for a run that is none
        if not_restarted.is_none() && self.is_good(&ran, restarted.as_ref()) {
            match self.evaluate().await {
                None => return Ok(interrupted()),
                Some(Ok(())) => {}
                Some(Err(failure)) => not_evaluated = Some(failure),
            }
        }
        let executed = self
            .collect(ran, restarted.as_ref(), not_restarted, not_evaluated)
            .await?;
        Ok(Executed {
            over: Some(over),
            ..executed
        })
    }

    /// Whether nothing has failed so far, of the program and of its restart.
    fn is_good(&self, ran: &EndedProgram, restarted: Option<&Restarted>) -> bool {
        let exit_codes = &self.prepared.run.app.success.exit_codes;
        let ended_well = |exit: Option<&Exit>| exit.is_some_and(|exit| is_well(exit, exit_codes));
        ran.halted.is_none()
            && ran.cut_off.is_none()
            && if self.course.killed {
                // what cvc has ended has no exit code of its own
                let is_late = |exit: &Exit| exit.ended_by == Some(EndedBy::Timeout);
                !ran.exit.as_ref().is_none_or(is_late)
            } else {
                ended_well(ran.exit.as_ref())
            }
            && restarted.is_none_or(|restarted| ended_well(restarted.exit.as_ref()))
    }

    /// Runs the program to its end; `None` when the user has interrupted it.
    async fn run(&mut self) -> Result<Option<EndedProgram>, RunError> {
        let prepared = self.prepared;
        let before = noise::conditions(&prepared.run.used).await;
        let mut shepherd = self
            .shepherds
            .start(&prepared.job, &prepared.run.dir.join("job.json"))
            .await?;
        self.reporter.tell(AttemptEvent::Started(shepherd.id));
        let taken = if self.course.on_request {
            self.take(&mut shepherd).await
        } else {
            Some(Ok(()))
        };
        let ending = match &taken {
            None => {
                tokio::join!(prepared.run.used.end_others(), shepherd.end());
                Ending::Interrupted
            }
            Some(taken) if self.course.killed || taken.is_err() => {
                self.session.stop().await;
                // the exit of a program that already ended by itself explains the missing checkpoint: keep it
                Ending::Exited(shepherd.end().await)
            }
            Some(_) => {
                let misplaced = async {
                    RunFailure::new(
                        Cause::Misplaced,
                        placement::watch(&prepared.run).await.to_string(),
                    )
                };
                let (session, stages) = (&mut self.session, &mut self.stages);
                let failed = async {
                    tokio::select! {
                        failure = misplaced => failure,
                        failure = session.accompany(stages) => failure,
                    }
                };
                watch(&prepared.run, &mut shepherd, self.stop_signal, failed).await
            }
        };
        let (exit, mut cut_off) = match ending {
            Ending::Interrupted => return Ok(None),
            Ending::Exited(exit) => (exit, None),
            Ending::CutOff { failure, exit } => (exit, Some(failure)),
        };
        let noise = Noise {
            before,
            after: noise::conditions(&prepared.run.used).await,
        };
        if cut_off.is_none() {
            match self.session.ended(&mut self.stages).await {
                Ok(()) => {}
                Err(Halt::Failure(failure)) => cut_off = Some(failure),
                Err(Halt::Error(error)) => return Err(error),
            }
        }
        // not while the program ran, which is measured
        self.shepherds.prepare();
        prepared.run.used.end_others().await;
        let halted = match taken {
            None | Some(Ok(())) => None,
            Some(Err(Halt::Failure(failure))) => Some(failure),
            Some(Err(Halt::Error(error))) => return Err(error),
        };
        Ok(Some(EndedProgram {
            halted,
            exit,
            noise,
            cut_off,
        }))
    }

    /// Takes the checkpoints of the run; `None` when the user has interrupted it.
    async fn take(&mut self, shepherd: &mut Shepherd) -> Option<Result<(), Halt>> {
        let used = &self.prepared.run.used;
        let everywhere = used.everywhere();
        tokio::select! {
            taken = self.session.take(&mut self.stages, shepherd, self.reporter) => Some(taken),
            (node, reason) = used.crew.wait_lost(&everywhere) => {
                Some(Err(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}")).into()))
            }
            () = stop_now(self.stop_signal) => None,
        }
    }

    /// Returns a cause of failure that the run itself cannot know: an unreachable node, misplaced ranks.
    async fn explain_end(&self, ran: &EndedProgram) -> Option<RunFailure> {
        let used = &self.prepared.run.used;
        // ranks may not have come to a node because no new connection to it is possible, though its sentinel is still heard
        let failed_by_itself = ran
            .exit
            .as_ref()
            .is_some_and(|e| e.ended_by.is_none() && e.code != Some(0));
        if failed_by_itself
            && used.transport == Transport::Ssh
            && let Some(refused) = used.crew.probe_starts(&used.others()).await.first()
        {
            let detail = format!(
                "{} cannot be reached from {}: {}",
                refused.host,
                used.head.name,
                refused.reason()
            );
            return Some(RunFailure::new(Cause::NodeLost, detail));
        }
        placement::check(&self.prepared.run).await.err()
    }

    /// Returns what is started again, if anything is.
    fn restart_job(&self, ran: &EndedProgram) -> Result<Option<Job>, Halt> {
        if !self.course.restarted || ran.halted.is_some() {
            return Ok(None);
        }
        let exit_codes = &self.prepared.run.app.success.exit_codes;
        let ended_well = ran
            .exit
            .as_ref()
            .and_then(|exit| exit.code)
            .is_some_and(|code| exit_codes.contains(&code));
        if !self.course.killed && !ended_well {
            return Ok(None);
        }
        let Some(how) = self.session.restart(self.prepared.values())? else {
            return Ok(None);
        };
        Ok(Some(self.prepared.restart_job(&how)?))
    }

    /// Restarts the program; `None` when the user has interrupted it.
    async fn restart(
        &mut self,
        job: &Job,
        ran: &mut EndedProgram,
    ) -> Result<Option<Restarted>, Halt> {
        let prepared = self.prepared;
        self.reporter.stage("restart");
        self.stages.before_restart().await?;
        self.session.prepare_restart().await?;
        let before = noise::conditions(&prepared.run.used).await;
        let mut shepherd = self
            .shepherds
            .start(job, &prepared.run.dir.join("restart.job.json"))
            .await?;
        // the placement of its ranks was checked before
        let exit = match watch(
            &prepared.run,
            &mut shepherd,
            self.stop_signal,
            self.session.watch_restart(),
        )
        .await
        {
            Ending::Interrupted => return Ok(None),
            Ending::Exited(exit) => exit,
            Ending::CutOff { failure, exit } => {
                ran.cut_off.get_or_insert(failure);
                exit
            }
        };
        let noise = Noise {
            before,
            after: noise::conditions(&prepared.run.used).await,
        };
        self.shepherds.prepare();
        prepared.run.used.end_others().await;
        let text = |name: &str| text(&prepared.run.dir.join(name));
        let explained = self.session.explain_restart();
        Ok(Some(Restarted {
            exit,
            noise,
            stdout: text("restart.stdout"),
            stderr: text("restart.stderr"),
            explained,
        }))
    }

    /// Measures what needs the program no more; `None` when the user has interrupted it.
    async fn evaluate(&mut self) -> Option<Result<(), RunFailure>> {
        let stop = AtomicBool::new(false);
        let mut work = Box::pin(self.stages.evaluate(self.reporter, &stop));
        tokio::select! {
            done = &mut work => Some(done),
            () = stop_now(self.stop_signal) => {
                // what it writes is removed next
                stop.store(true, Ordering::Relaxed);
                let _ = work.await;
                None
            }
        }
    }

    /// Gathers the evidence and judges it.
    async fn collect(
        &mut self,
        ran: EndedProgram,
        restarted: Option<&Restarted>,
        not_restarted: Option<RunFailure>,
        not_evaluated: Option<RunFailure>,
    ) -> Result<Executed, RunError> {
        let EndedProgram {
            mut halted,
            exit,
            noise,
            cut_off,
        } = ran;
        let prepared = self.prepared;
        self.reporter.stage("collecting");
        let finished = self.session.finish().await;
        let kept = self.stages.finish().await.map_err(Halt::from);
        match finished.and(kept) {
            Ok(()) => {}
            // what failed before is its reason
            Err(Halt::Failure(failure)) => {
                halted.get_or_insert(failure);
            }
            Err(Halt::Error(error)) => return Err(error),
        }
        let of_restart = restarted.and_then(|r| r.exit.as_ref());
        let wall_s = exit.iter().chain(of_restart).map(|e| e.wall_s).sum();
        let shepherd_lost = exit.is_none() || restarted.is_some_and(|r| r.exit.is_none());
        let told_to_end = exit.iter().chain(of_restart).any(was_told_to_end);
        let outputs = outputs::find_outputs(&prepared.run).await?;
        let (context, course, session) = (self.context, self.course, &*self.session);
        let evidence = Evidence {
            prepared,
            context,
            course,
            exit,
            session,
            stages: &self.stages,
            halted,
            noise: &noise,
            restarted,
            not_restarted,
            not_evaluated,
            cut_off,
            outputs,
        };
        let (outcome, records, facts) = collect::collect(&evidence)?;
        Ok(Executed {
            outcome,
            records,
            facts,
            wall_s,
            interrupted: false,
            shepherd_lost,
            told_to_end,
            over: None,
        })
    }
}

/// Whether a program ended by itself, and with one of these exit codes.
fn is_well(exit: &Exit, exit_codes: &[i32]) -> bool {
    exit.ended_by.is_none() && exit.code.is_some_and(|code| exit_codes.contains(&code))
}

/// Whether something asked for the end of a program or of its shepherd, as by a signal that went to everything. A launcher tells of the signal
/// that ended it by its exit code, as a shell does.
fn was_told_to_end(exit: &Exit) -> bool {
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let ended_by = |signal: &Signal| {
        exit.signal.as_deref() == Some(signal.as_str()) || exit.code == Some(128 + *signal as i32)
    };
    exit.ended_by.is_none() && (exit.told_to_end || signals.iter().any(ended_by))
}

/// Waits for the end of a program under a shepherd, or ends it because of a lost node, the user, or what `failed` says.
async fn watch(
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

#[cfg(test)]
mod tests {
    use super::{is_well, was_told_to_end};
    use crate::attempt::outside::tests::exit;
    use cvc_probe::shepherd::{EndedBy, Exit};

    #[test]
    fn only_what_ended_by_itself_and_well_is_measured_on() {
        let failed = exit(Some(1));
        let well = Exit {
            code: Some(0),
            ..failed.clone()
        };
        let late = Exit {
            ended_by: Some(EndedBy::Timeout),
            ..well.clone()
        };
        let all = [&well, &failed, &late].map(|exit| is_well(exit, &[0]));
        assert_eq!(all, [true, false, false]);
        assert!(
            is_well(&failed, &[0, 1]),
            "the application says what is well"
        );
    }

    #[test]
    fn what_a_signal_to_everything_has_ended_is_told_from_what_failed() {
        let failed = exit(Some(1));
        let by_signal = |name: &str| Exit {
            code: None,
            signal: Some(name.to_owned()),
            ..failed.clone()
        };
        let with_code = |code| Exit {
            code: Some(code),
            ..failed.clone()
        };
        let told = Exit {
            told_to_end: true,
            ..failed.clone()
        };
        for ended in [
            by_signal("SIGTERM"),
            by_signal("SIGINT"),
            with_code(143),
            with_code(129),
            told.clone(),
        ] {
            assert!(was_told_to_end(&ended), "{ended:?}");
        }
        for own in [
            by_signal("SIGSEGV"),
            by_signal("SIGKILL"),
            with_code(139),
            failed.clone(),
            Exit {
                ended_by: Some(EndedBy::Timeout),
                ..told
            },
        ] {
            assert!(!was_told_to_end(&own), "{own:?}");
        }
    }
}
