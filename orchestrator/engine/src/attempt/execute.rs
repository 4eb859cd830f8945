//! Executes one run, from its start to its outcome.

use super::{
    collect,
    executed::{Executed, interrupted},
    execution::{EndedProgram, Ending, Execution, watch},
    judge::Evidence,
    keep::{self, keep_checkpoint},
    noise::{self, Noise},
    notice::take_checkpoint,
    operations::{self, CountedBefore},
    outputs, placement,
    prepare::Prepared,
    restarted::Restarted,
    restarts::Restarts,
};
use crate::{
    ckpt::Halt,
    crew::{self, CrewError, Leaving},
    run::{
        AttemptEvent, AttemptReporter, LATER, RunError, RunFailure, SOON, Shepherd, Shepherds,
        SiteContext,
    },
    stage::{KeptOnNodes, Stages},
    transport::Transport,
};
use cvc_core::outcome::Cause;
use cvc_core::stop::{StopSignal, stop_now};
use cvc_core::store::KeptCheckpoint;
use cvc_probe::shepherd::{EndedBy, Exit};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Converts an error into a failure of the run if the error means that a node is lost. Returns anything else unchanged.
fn lost_node(halt: Halt) -> Halt {
    match halt {
        Halt::Error(error) if is_lost_node(&error) => {
            RunFailure::new(Cause::NodeLost, error.to_string()).into()
        }
        halt => halt,
    }
}

fn is_lost_node(error: &RunError) -> bool {
    let RunError::Crew(error) = error else {
        return false;
    };
    matches!(error, CrewError::Lost { .. } | CrewError::Timeout { .. })
}

/// Waits for the notice that a node of a run will be reclaimed. Never returns if the run's checkpoints are not kept for the next attempt.
async fn wait_leaving(prepared: &Prepared) -> (String, Leaving) {
    if !prepared.keeps {
        return std::future::pending().await;
    }
    let used = &prepared.run.used;
    used.crew.wait_leaving(&used.everywhere()).await
}

/// Starts the run, takes its checkpoints, waits for its end, restarts it if required, and collects the results. Reports the shepherd of the run as
/// soon as it has started.
///
/// # Errors
/// The run cannot be carried out. Every other problem is part of the run's outcome.
pub(super) async fn execute(
    context: &SiteContext,
    prepared: &Prepared,
    shepherds: &Shepherds,
    stop_signal: &mut StopSignal,
    reporter: &AttemptReporter,
) -> Result<Executed, RunError> {
    let course = prepared.course();
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
        notice: None,
    };
    let executed = execution.carry_out().await;
    // the run's files may be removed next: wait until no stage uses them
    execution.stages.settle().await;
    executed
}

impl Execution<'_> {
    /// Executes the run from its start to its outcome.
    async fn carry_out(&mut self) -> Result<Executed, RunError> {
        let Some(mut ran) = self.run().await? else {
            return Ok(interrupted());
        };
        if ran.cut_off.is_none() {
            match self.explain_end(&ran).await {
                Ok(allowed) => ran.allowed_cores = allowed,
                Err(failure) => ran.cut_off = Some(failure),
            }
        }
        let Some(restarts) = self.restarts(&mut ran).await? else {
            return Ok(interrupted());
        };
        let over = Instant::now();
        let mut not_evaluated = None;
        // these measurements may take hours: skip them after a failure
        if restarts.failure.is_none() && self.is_good(&ran, &restarts.all) {
            match self.evaluate().await {
                None => return Ok(interrupted()),
                Some(Ok(())) => {}
                Some(Err(failure)) => not_evaluated = Some(failure),
            }
        }
        let executed = self.collect(ran, &restarts, not_evaluated).await?;
        Ok(Executed {
            over: Some(over),
            ..executed
        })
    }

    /// Returns whether neither the program nor a restart has failed until now.
    fn is_good(&self, ran: &EndedProgram, restarts: &[Restarted]) -> bool {
        let exit_codes = &self.prepared.run.app.success.exit_codes;
        let ended_well = |exit: Option<&Exit>| exit.is_some_and(|exit| is_well(exit, exit_codes));
        ran.halted.is_none()
            && ran.cut_off.is_none()
            && if self.course.killed {
                // a program that cvc ended on purpose has no exit code of its own
                let is_late = |exit: &Exit| exit.ended_by == Some(EndedBy::Timeout);
                !ran.exit.as_ref().is_none_or(is_late)
            } else {
                ended_well(ran.exit.as_ref())
            }
            && restarts.iter().all(|r| r.continued.is_ok())
            && restarts
                .last()
                .is_none_or(|last| ended_well(last.exit.as_ref()))
    }

    /// Runs the program to its end; returns `None` if the user has interrupted it.
    async fn run(&mut self) -> Result<Option<EndedProgram>, RunError> {
        let prepared = self.prepared;
        let before = noise::conditions(&prepared.run.used).await;
        let counted = match self.file_system().await {
            Ok(counted) => counted,
            Err(failure) => return Ok(Some(EndedProgram::not_started(failure, before))),
        };
        let mut shepherd = match self.start().await? {
            Ok(shepherd) => shepherd,
            Err(failure) => return Ok(Some(EndedProgram::not_started(failure, before))),
        };
        self.reporter.emit(AttemptEvent::Started(shepherd.id));
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
                // if the program ended by itself, its exit explains the missing checkpoint: keep that exit
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
                let watched = tokio::select! {
                    ending = watch(&prepared.run, &mut shepherd, self.stop_signal, failed) => Ok(ending),
                    leaving = wait_leaving(prepared) => Err(leaving),
                };
                match watched {
                    Ok(ending) => ending,
                    Err(leaving) => {
                        self.checkpoint_on_notice(&mut shepherd, leaving).await;
                        self.session.stop().await;
                        let (_, exit) =
                            tokio::join!(prepared.run.used.end_others(), shepherd.end());
                        self.keep_last().await;
                        Ending::Exited(exit)
                    }
                }
            }
        };
        let (exit, mut cut_off) = match ending {
            Ending::Interrupted => return Ok(None),
            Ending::Exited(exit) => (exit, None),
            Ending::CutOff { failure, exit } => (exit, Some(failure)),
        };
        // if the program had already ended successfully, the node's loss does not matter
        let exit_codes = &prepared.run.app.success.exit_codes;
        let has_come_to_end = exit.as_ref().is_some_and(|exit| is_well(exit, exit_codes));
        if let Some(notice) = &self.notice
            && !(notice.has_ended && has_come_to_end)
        {
            cut_off.get_or_insert_with(|| notice.failure.clone());
        }
        // if ranks were ended because a node was lost, that is not a failure of the program
        if let Some(Err(Halt::Failure(failure))) = &taken
            && failure.cause == Cause::NodeLost
        {
            cut_off.get_or_insert_with(|| failure.clone());
        }
        let noise = Noise {
            before,
            operations: operations::counted(counted, &prepared.run.used).await,
            after: noise::conditions(&prepared.run.used).await,
        };
        if cut_off.is_none() {
            match self.session.ended(&mut self.stages).await {
                Ok(()) => {}
                Err(Halt::Failure(failure)) => cut_off = Some(failure),
                Err(Halt::Error(error)) => return Err(error),
            }
        }
        // not earlier: the program was being measured while it ran
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
            allowed_cores: None,
        }))
    }

    /// Checks the servers of the run's file system, and reads the file system's counters.
    async fn file_system(&self) -> Result<Option<CountedBefore>, RunFailure> {
        let used = &self.prepared.run.used;
        if let Some(file_system) = &used.file_system
            && let Some(problem) = file_system.server_problem(&used.crew).await
        {
            return Err(RunFailure::new(Cause::NodeLost, problem));
        }
        operations::before(used).await
    }

    /// Starts the program, or continues it from the checkpoint of an earlier attempt. If the program cannot be started for a reason that is a failure
    /// of the run, the inner result is that failure.
    async fn start(&mut self) -> Result<Result<Shepherd, RunFailure>, RunError> {
        let prepared = self.prepared;
        let resumed = match &prepared.resume {
            Some(kept) => {
                self.reporter
                    .stage(&format!("continues from attempt {}", kept.attempt));
                let details = match self.details(kept).await {
                    Ok(details) => details,
                    Err(failure) => return Ok(Err(failure)),
                };
                match self.session.resume(&details, prepared.values()).await {
                    Ok(how) => Some(prepared.resume_job(&how)?),
                    Err(Halt::Failure(failure)) => return Ok(Err(failure)),
                    Err(Halt::Error(error)) => return Err(error),
                }
            }
            None => None,
        };
        let job = resumed.as_ref().unwrap_or(&prepared.job);
        let job_file = prepared.run.dir.join("job.json");
        Ok(Ok(self.shepherds.start(job, &job_file).await?))
    }

    /// Restores checkpoints that nodes keep, and returns the checkpointer's data for continuing from a checkpoint.
    async fn details(&mut self, kept: &KeptCheckpoint) -> Result<Value, RunFailure> {
        let Some(on_nodes) = &kept.on_nodes else {
            return Ok(kept.details.clone());
        };
        let unread = |error: serde_json::Error| {
            let why = format!("the run's checkpoints on nodes cannot be read: {error}");
            RunFailure::new(Cause::Restart, why)
        };
        let on_nodes: KeptOnNodes = serde_json::from_value(on_nodes.clone()).map_err(unread)?;
        let restored = self.stages.resume(&on_nodes).await?;
        Ok(restored.details.unwrap_or_default())
    }

    /// Returns the checkpoints that nodes keep for the next attempt; `None` unless the run ended because it lost a node.
    async fn kept_on_nodes(
        &mut self,
        ran: &EndedProgram,
    ) -> Option<Result<KeptOnNodes, RunFailure>> {
        let failures = ran.cut_off.iter().chain(&ran.halted);
        let is_lost = failures
            .map(|failure| failure.cause)
            .any(keep::is_loss_of_node);
        if !self.prepared.keeps || !self.prepared.outlives_agent || !is_lost {
            return None;
        }
        let mut kept = match self.stages.keep().await? {
            Ok(kept) => kept,
            Err(failure) => return Some(Err(failure)),
        };
        for of in &mut kept.checkpoints {
            of.details = of
                .details
                .take()
                .or_else(|| self.session.details_of(of.ckpt));
        }
        kept.checkpoints.retain(|of| of.details.is_some());
        (!kept.checkpoints.is_empty()).then_some(Ok(kept))
    }

    /// Takes a checkpoint before the run is ended because a node will be reclaimed. Returns the failure with which the run then ends.
    async fn checkpoint_on_notice(
        &mut self,
        shepherd: &mut Shepherd,
        leaving: (String, Leaving),
    ) -> RunFailure {
        self.reporter.stage(&format!(
            "taking a checkpoint before {} is reclaimed",
            leaving.0
        ));
        let limit = Duration::from_secs_f64(self.prepared.run.plan.timeout_s());
        let taken = take_checkpoint(&mut *self.session, shepherd, leaving, limit).await;
        let failure = taken.failure.clone();
        self.notice = Some(taken);
        failure
    }

    /// Makes nodes keep the checkpoint that the program has written because a node will be reclaimed.
    async fn keep_last(&mut self) {
        let Some(notice) = self.notice.as_ref().filter(|_| !self.stages.is_empty()) else {
            return;
        };
        let limit = notice.left().unwrap_or(LATER);
        let kept = tokio::time::timeout(limit, self.session.ended(&mut self.stages)).await;
        // an earlier checkpoint may suffice
        if let Ok(Err(Halt::Failure(failure))) = kept {
            tracing::warn!(run = %self.prepared.run.id, why = failure.detail, "the last checkpoint is not kept on nodes");
        }
    }

    /// Takes the checkpoints of the run; returns `None` if the user has interrupted it.
    async fn take(&mut self, shepherd: &mut Shepherd) -> Option<Result<(), Halt>> {
        let used = &self.prepared.run.used;
        let everywhere = used.everywhere();
        tokio::select! {
            taken = self.session.take(&mut self.stages, shepherd, self.reporter) => Some(taken.map_err(lost_node)),
            (node, reason) = used.crew.wait_lost(&everywhere) => {
                Some(Err(RunFailure::new(Cause::NodeLost, format!("{node}: {reason}")).into()))
            }
            problem = used.wait_lost_files() => Some(Err(RunFailure::new(Cause::NodeLost, problem).into())),
            leaving = wait_leaving(self.prepared) => {
                let failure = self.checkpoint_on_notice(shepherd, leaving).await;
                Some(Err(failure.into()))
            }
            () = stop_now(self.stop_signal) => None,
        }
    }

    /// Checks the nodes and the placement of ranks after the program's end. Returns the smallest number of cores that a rank may use, if ranks have
    /// threads.
    ///
    /// # Errors
    /// A cause of failure that the program itself cannot report: an unreachable node, misplaced ranks.
    async fn explain_end(&self, ran: &EndedProgram) -> Result<Option<u32>, RunFailure> {
        let used = &self.prepared.run.used;
        let has_failed = ran.halted.is_some()
            || (ran.exit.as_ref())
                .is_none_or(|exit| exit.ended_by == Some(EndedBy::Timeout) || exit.code != Some(0));
        if has_failed
            && !self.course.killed
            && let Some(file_system) = &used.file_system
            && let Some(problem) = file_system.server_problem(&used.crew).await
        {
            return Err(RunFailure::new(Cause::NodeLost, problem));
        }
        // no new connection to the node may be possible, so that its ranks never started, although the connection to its sentinel still works
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
            return Err(RunFailure::new(Cause::NodeLost, detail));
        }
        let bound = self.prepared.request.bound_threads();
        placement::check(&self.prepared.run, bound).await
    }

    /// Empties the storage of the nodes that the plan selects for that, as if other nodes had replaced them.
    pub(super) async fn lose_storage(&mut self) -> Result<(), Halt> {
        let (prepared, run) = (self.prepared, &self.prepared.run);
        let Some(levels) = run.plan.levels() else {
            return Ok(());
        };
        let lost = levels.settings.lose.iter();
        let lost = lost.filter_map(|number| run.used.ranks.get((*number as usize).checked_sub(1)?));
        let lost: Vec<&str> = lost.map(|node| node.name.as_str()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        // wait for all stages first, so that every rehearsal has the same state
        self.stages.settle().await;
        self.reporter
            .stage(&format!("the storage of {} is emptied", lost.join(", ")));
        let failed = |error: CrewError| {
            let what = format!("the storage of nodes cannot be emptied: {error}");
            RunFailure::new(Cause::Restart, what)
        };
        let dirs = [run.work.clone().into(), run.tmp.clone().into()];
        let crew = &run.used.crew;
        crew::whole(crew.remove(&lost, &dirs, &[], LATER).await).map_err(failed)?;
        let made = crew.ask_all(&lost, prepared.elsewhere.clone(), SOON).await;
        crew::whole(made).map_err(failed)?;
        if lost.contains(&run.used.head.name.as_str()) {
            let mut copies = prepared.copies.iter();
            let copied = copies.try_for_each(|copy| copy.copy_into(&run.work));
            copied.map_err(RunError::from)?;
        }
        Ok(())
    }

    /// Takes the measurements that do not need the program; returns `None` if the user has interrupted them.
    async fn evaluate(&mut self) -> Option<Result<(), RunFailure>> {
        let stop = AtomicBool::new(false);
        let mut work = Box::pin(self.stages.evaluate(self.reporter, &stop));
        tokio::select! {
            done = &mut work => Some(done),
            () = stop_now(self.stop_signal) => {
                // the files being measured are removed next
                stop.store(true, Ordering::Relaxed);
                let _ = work.await;
                None
            }
        }
    }

    /// Collects the results of the run and derives its outcome.
    async fn collect(
        &mut self,
        ran: EndedProgram,
        restarts: &Restarts,
        not_evaluated: Option<RunFailure>,
    ) -> Result<Executed, RunError> {
        self.reporter.stage("collecting");
        let on_nodes = self.kept_on_nodes(&ran).await;
        let EndedProgram {
            mut halted,
            exit,
            noise,
            mut cut_off,
            allowed_cores,
        } = ran;
        let prepared = self.prepared;
        let finished = self.session.finish().await.map_err(lost_node);
        let kept = match &on_nodes {
            // nodes keep the checkpoint instead of the campaign
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) | None => self.stages.finish().await.map_err(Halt::from),
        };
        if let (Some(Err(why)), Some(failure)) = (&on_nodes, &mut cut_off) {
            failure.detail = format!("{}; {}", failure.detail, why.detail);
        }
        match finished.and(kept) {
            Ok(()) => {}
            // the earlier failure is the reason why there is no checkpoint
            Err(Halt::Failure(failure)) => {
                halted.get_or_insert(failure);
            }
            Err(Halt::Error(error)) => return Err(error),
        }
        let of_restarts = || restarts.all.iter().filter_map(|r| r.exit.as_ref());
        let wall_s = exit.iter().chain(of_restarts()).map(|e| e.wall_s).sum();
        let shepherd_lost = exit.is_none() || restarts.all.iter().any(|r| r.exit.is_none());
        let end_requested = exit.iter().chain(of_restarts()).any(end_was_requested);
        let outputs = match outputs::find_outputs(&prepared.run).await {
            // outputs on a lost node cannot be found, and the run has failed anyway
            Err(error) if cut_off.is_some() && is_lost_node(&error) => Vec::new(),
            found => found?,
        };
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
            restarts: &restarts.all,
            not_restarted: restarts.failure.clone(),
            not_evaluated,
            cut_off,
            allowed_cores,
            outputs,
        };
        let (outcome, records, facts) = collect::collect(&evidence)?;
        let notice = self.notice.as_ref();
        let kept = match on_nodes {
            Some(on_nodes) => on_nodes.ok().and_then(|kept| keep::on_nodes(kept, notice)),
            None => keep_checkpoint(prepared, &mut *self.session, &outcome, notice).await,
        };
        Ok(Executed {
            kept: kept.map(Box::new),
            outcome,
            records,
            facts,
            wall_s,
            interrupted: false,
            files_lost: prepared.run.used.has_lost_files(),
            shepherd_lost,
            end_requested,
            over: None,
        })
    }
}

/// Returns whether the program ended by itself with one of these exit codes.
fn is_well(exit: &Exit, exit_codes: &[i32]) -> bool {
    exit.ended_by.is_none() && exit.code.is_some_and(|code| exit_codes.contains(&code))
}

/// Returns whether the end of a program or its shepherd was requested, for example by a signal to all processes. If a signal ended the launcher, the
/// exit code may be 128 plus the signal's number, as in a shell.
fn end_was_requested(exit: &Exit) -> bool {
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let ended_by = |signal: &Signal| {
        exit.signal.as_deref() == Some(signal.as_str()) || exit.code == Some(128 + *signal as i32)
    };
    exit.ended_by.is_none() && (exit.end_requested || signals.iter().any(ended_by))
}

#[cfg(test)]
mod tests {
    use super::{end_was_requested, is_well};
    use crate::attempt::outside::tests::exit;
    use cvc_probe::shepherd::{EndedBy, Exit};

    #[test]
    fn only_programs_that_ended_by_themselves_and_well_are_measured_further() {
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
    fn programs_ended_by_a_signal_to_everything_are_distinguished_from_failures() {
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
        let signalled = Exit {
            end_requested: true,
            ..failed.clone()
        };
        for ended in [
            by_signal("SIGTERM"),
            by_signal("SIGINT"),
            with_code(143),
            with_code(129),
            signalled.clone(),
        ] {
            assert!(end_was_requested(&ended), "{ended:?}");
        }
        for own in [
            by_signal("SIGSEGV"),
            by_signal("SIGKILL"),
            with_code(139),
            failed.clone(),
            Exit {
                ended_by: Some(EndedBy::Timeout),
                ..signalled
            },
        ] {
            assert!(!end_was_requested(&own), "{own:?}");
        }
    }
}
