//! Restarts a run from its last checkpoint, as often as required. Each restarted program except the last takes another checkpoint and is ended; the
//! next restart begins from that checkpoint.

use super::{
    execution::{EndedProgram, Ending, Execution, watch},
    noise::{self, Noise},
    operations,
    restarted::{Continued, Restarted},
};
use crate::{
    ckpt::Halt,
    run::{
        FirstOutput, OutputSizes, PrintedSteps, RestartNumber, ResumePoint, RunError, RunFailure,
        Shepherd, WrongStep, compile, own_words, text, text_until,
    },
};
use cvc_core::outcome::Cause;
use cvc_core::stop::stop_now;
use cvc_probe::shepherd::{Exit, Job};
use regex::Regex;

/// The restarts of a run.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// The restarts, in order.
    pub all: Vec<Restarted>,
    /// Why no further restart was attempted.
    pub failure: Option<RunFailure>,
}

/// How a restarted program ended.
struct EndedRestart {
    exit: Option<Exit>,
    /// Why the restarted program took no further checkpoint.
    halted: Option<RunFailure>,
}

impl Execution<'_> {
    /// Carries out all restarts; returns `None` if the user has interrupted them.
    pub(super) async fn restarts(
        &mut self,
        ran: &mut EndedProgram,
    ) -> Result<Option<Restarts>, RunError> {
        let mut done = Restarts::default();
        let of = self.prepared.run.plan.restarts();
        for number in 1..=of {
            let which = RestartNumber { number, of };
            let restarted = match self.restart_job(ran, which) {
                Ok(Some(job)) => self.restart(&job, which, ran).await,
                Ok(None) => break,
                Err(halt) => Err(halt),
            };
            let halted = match restarted {
                Ok(Some((restarted, halted))) => {
                    let continues = restarted.continued.is_ok() && ran.cut_off.is_none();
                    done.all.push(restarted);
                    match halted {
                        None if continues => continue,
                        halted => halted,
                    }
                }
                Ok(None) => return Ok(None),
                Err(Halt::Failure(failure)) => Some(failure),
                Err(Halt::Error(error)) => return Err(error),
            };
            done.failure = halted.map(|failure| of_several(failure, which));
            break;
        }
        Ok(Some(done))
    }

    /// Returns the job of the restart; `None` if there is nothing to restart.
    fn restart_job(&self, ran: &EndedProgram, which: RestartNumber) -> Result<Option<Job>, Halt> {
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
        let Some(how) = self.session.restart(self.prepared.values(), which)? else {
            return Ok(None);
        };
        Ok(Some(self.prepared.restart_job(&how, which)?))
    }

    /// Restarts the program once. Also returns why it took no further checkpoint, if it should have; `None` if the user has interrupted it.
    async fn restart(
        &mut self,
        job: &Job,
        which: RestartNumber,
        ran: &mut EndedProgram,
    ) -> Result<Option<(Restarted, Option<RunFailure>)>, Halt> {
        let prepared = self.prepared;
        let dir = &prepared.run.dir;
        self.reporter.stage(&match which.of {
            1 => "restart".to_owned(),
            _ => which.describe(),
        });
        let mut job = job.clone();
        if which.number == 1 {
            self.lose_storage().await?;
            if let Some(number) = self.stages.before_restart().await? {
                self.session.restart_from(number);
                if let Some(how) = self.session.restart(prepared.values(), which)? {
                    job = prepared.restart_job(&how, which)?;
                }
            }
        }
        let app = &prepared.run.app;
        let step = app.progress.as_ref().map(|p| compile(app, &p.step));
        let step = step.transpose()?;
        let resume_point = match &step {
            Some(step) => self.resume_point(step, which)?,
            None => None,
        };
        self.session.prepare_restart(which).await?;
        let bytes = self.session.restart_bytes();
        let before = noise::conditions(&prepared.run.used).await;
        let counted = operations::before(&prepared.run.used).await?;
        let mut shepherd = self
            .shepherds
            .start(&job, &dir.join(which.file("job.json")))
            .await?;
        let mut first = FirstOutput::new(
            dir,
            &which.file("stdout"),
            &which.file("stderr"),
            step.clone(),
        );
        let ended = if which.is_last() {
            self.to_the_end(&mut shepherd, &mut first, ran).await
        } else {
            self.to_next_checkpoint(which, &mut shepherd, &mut first, ran)
                .await?
        };
        let Some(EndedRestart { exit, halted }) = ended else {
            return Ok(None);
        };
        // read the output that was written until the end
        first.look();
        let noise = Noise {
            before,
            operations: operations::counted(counted, &prepared.run.used).await,
            after: noise::conditions(&prepared.run.used).await,
        };
        self.shepherds.prepare();
        prepared.run.used.end_others().await;
        let text = |suffix: &str| text(&dir.join(which.file(suffix)));
        let (stdout, stderr) = (text("stdout"), text("stderr"));
        let steps = step.map(|step| PrintedSteps::of_streams(&step, (&stdout, &stderr)));
        let restarted = Restarted {
            which,
            exit,
            noise,
            continued: continued(resume_point, steps.unwrap_or_default(), which),
            stdout,
            stderr,
            explained: self.session.explain_restart(),
            computed: first.seen(),
            bytes,
        };
        Ok(Some((restarted, halted)))
    }

    /// Runs the restarted program to its end; returns `None` if the user has interrupted it.
    async fn to_the_end(
        &mut self,
        shepherd: &mut Shepherd,
        first: &mut FirstOutput,
        ran: &mut EndedProgram,
    ) -> Option<EndedRestart> {
        let session = &self.session;
        let noticed = async {
            first.wait().await;
            std::future::pending::<RunFailure>().await
        };
        let failed = async {
            tokio::select! {
                failure = session.watch_restart() => failure,
                never = noticed => never,
            }
        };
        // the placement of the ranks was checked in the first start
        let ending = watch(&self.prepared.run, shepherd, self.stop_signal, failed).await;
        ended(ending, ran)
    }

    /// Runs the restarted program until its next checkpoint, then ends it; returns `None` if the user has interrupted it.
    async fn to_next_checkpoint(
        &mut self,
        which: RestartNumber,
        shepherd: &mut Shepherd,
        first: &mut FirstOutput,
        ran: &mut EndedProgram,
    ) -> Result<Option<EndedRestart>, Halt> {
        let used = &self.prepared.run.used;
        let early = {
            let failed = self.session.watch_restart();
            tokio::select! {
                () = first.wait() => None,
                ending = watch(&self.prepared.run, shepherd, self.stop_signal, failed) => Some(ending),
            }
        };
        if let Some(ending) = early {
            let ended = ended(ending, ran).map(|ended| {
                let stderr = text(&self.prepared.run.dir.join(which.file("stderr")));
                let why = self.session.explain_restart();
                let why = why.unwrap_or_else(|| own_words(&stderr));
                first.look();
                // the last output may be read only after the end
                let (cause, detail) = if first.seen().is_some() {
                    let detail = "the program ended before its next checkpoint: take fewer restarts (checkpoint.restarts), or a larger workload";
                    (Cause::Checkpoint, detail.to_owned())
                } else {
                    (Cause::Restart, format!("it ended before it computed again: {why}"))
                };
                EndedRestart {
                    halted: Some(RunFailure::new(cause, detail)),
                    ..ended
                }
            });
            return Ok(ended);
        }
        let everywhere = used.everywhere();
        let taken = tokio::select! {
            taken = self.session.take_again(shepherd) => Some(taken),
            (node, reason) = used.crew.wait_lost(&everywhere) => {
                Some(Err(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}")).into()))
            }
            () = stop_now(self.stop_signal) => None,
        };
        let Some(taken) = taken else {
            tokio::join!(used.end_others(), shepherd.end());
            return Ok(None);
        };
        self.session.stop().await;
        let exit = shepherd.end().await;
        let halted = match taken {
            Ok(()) => None,
            Err(Halt::Failure(failure)) => Some(failure),
            Err(Halt::Error(error)) => return Err(error.into()),
        };
        Ok(Some(EndedRestart { exit, halted }))
    }

    /// Returns where a restart must continue, by the steps that the program printed around its checkpoint.
    fn resume_point(
        &self,
        step: &Regex,
        which: RestartNumber,
    ) -> Result<Option<ResumePoint>, RunError> {
        let run = &self.prepared.run;
        let before = (which.number > 1).then(|| RestartNumber {
            number: which.number - 1,
            ..which
        });
        let file = |stream: &str| {
            let name = before.map_or_else(|| stream.to_owned(), |before| before.file(stream));
            run.dir.join(name)
        };
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        if let Some(at) = self.session.continues_from() {
            let printed = |sizes: OutputSizes| {
                let stdout = text_until(&stdout, sizes.stdout);
                let stderr = text_until(&stderr, sizes.stderr);
                PrintedSteps::of_streams(step, (&stdout, &stderr))
            };
            return Ok(ResumePoint::of_request(
                printed(at.asked),
                printed(at.whole),
            ));
        }
        let (stdout, stderr) = (text(&stdout), text(&stderr));
        let steps = PrintedSteps::of_streams(step, (&stdout, &stderr));
        // stages restore the last readable checkpoint, which may be an earlier one
        let own = run.app.checkpoint.as_ref();
        let own = own.filter(|_| self.stages.is_empty());
        if let Some(pattern) = own.and_then(|own| own.step.as_ref()) {
            let pattern = compile(&run.app, pattern)?;
            if let Some(of_checkpoint) = PrintedSteps::of(&pattern, &stdout).last {
                return Ok(Some(ResumePoint::of_step(of_checkpoint, steps)));
            }
        }
        // with a checkpoint written in the background, the program has advanced by the time it is complete
        let is_behind = run.point.strategy.is_behind();
        if let Some(line) = own.and_then(|own| own.time_s.as_ref())
            && !is_behind
        {
            let line = compile(&run.app, line)?;
            if let Some(at) = ResumePoint::of_own(step, &line, &stdout) {
                return Ok(Some(at));
            }
        }
        Ok(ResumePoint::not_from_start(steps))
    }
}

/// Returns how the restarted program ended; `None` if the user has interrupted it.
fn ended(ending: Ending, ran: &mut EndedProgram) -> Option<EndedRestart> {
    let exit = match ending {
        Ending::Interrupted => return None,
        Ending::Exited(exit) => exit,
        Ending::CutOff { failure, exit } => {
            ran.cut_off.get_or_insert(failure);
            exit
        }
    };
    Some(EndedRestart { exit, halted: None })
}

/// Returns where a restarted program that printed these steps continued, or the failure that it did not continue correctly.
fn continued(
    at: Option<ResumePoint>,
    steps: PrintedSteps,
    which: RestartNumber,
) -> Result<Continued, RunFailure> {
    let from = at.and_then(|at| at.from);
    match at.map_or(Ok(()), |at| at.check(steps)) {
        Ok(()) => Ok(Continued {
            from,
            first: steps.first,
        }),
        Err(wrong) => {
            let failure = RunFailure::new(Cause::Restart, describe(wrong));
            Err(of_several(failure, which))
        }
    }
}

fn describe(wrong: WrongStep) -> String {
    match wrong {
        WrongStep::Repeated { first, from } => format!(
            "the restarted program did not continue from its checkpoint: its first step is {first}, and the checkpoint was taken after step {from}"
        ),
        WrongStep::FromStart { first } => format!(
            "the restarted program started from the beginning: its first step is {first}, as before its checkpoint"
        ),
        WrongStep::Skipped { first, until } => format!(
            "the restarted program skipped steps: its first step is {first}, and the checkpoint was taken after step {until} at the latest"
        ),
    }
}

/// Adds the restart's number to a failure, if there are several restarts.
fn of_several(failure: RunFailure, which: RestartNumber) -> RunFailure {
    if which.of == 1 {
        return failure;
    }
    RunFailure {
        detail: format!("{}: {}", which.describe(), failure.detail),
        ..failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_beginning_is_a_failure_of_the_restart_with_both_steps() {
        let step = Regex::new(r"(?m)^step (\d+)").expect("a pattern");
        let before = PrintedSteps::of(&step, "step 1\nstep 2\nstep 3\n");
        let at = ResumePoint::of_request(before, before);
        let from_start = PrintedSteps::of(&step, "step 1\nstep 2\n");
        let which = RestartNumber { number: 2, of: 3 };
        let failure = continued(at, from_start, which).expect_err("it started from the beginning");
        assert_eq!(failure.cause, Cause::Restart);
        assert_eq!(
            failure.detail,
            "restart 2 of 3: the restarted program did not continue from its checkpoint: its first step is 1, and the checkpoint was taken after step 3"
        );
        let on = PrintedSteps::of(&step, "step 4\n");
        let expected = Continued {
            from: Some(3),
            first: Some(4),
        };
        assert_eq!(continued(at, on, which), Ok(expected));
    }
}
