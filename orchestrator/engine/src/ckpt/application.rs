//! Checkpoints that the program writes by itself.

use super::{
    contract::{
        CheckpointRun, CheckpointToKeep, Checkpointer, Course, Halt, Install, Restart,
        SessionContext,
    },
    own_series::{Announcements, OwnSeries, QUIET},
};
use crate::crew;
use crate::run::{
    AttemptReporter, Findings, RestartNumber, RunContext, RunError, RunFailure, SOON, Shepherd,
    arguments, compile, files, numbers, patterns,
};
use crate::stage::Stages;
use async_trait::async_trait;
use cvc_core::app::template_values;
use cvc_core::campaign::CheckpointPlan;
use cvc_core::outcome::Cause;
use cvc_core::record::{Source, Unit, names};
use cvc_core::strategy::CheckpointLayout;
use cvc_probe::sentinel::FileFound;
use serde_json::{Value, json};
use std::{
    future::pending,
    time::{Duration, Instant},
};

/// Interval between checks of the output of a program that is ended after its next checkpoint.
const TICK: Duration = Duration::from_millis(5);
/// Interval between checks of the program's files, if the program does not announce checkpoints.
const FILES_TICK: Duration = Duration::from_millis(50);
/// Interval between checks of the files of a checkpoint that cvc requested by a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Time without a change after which the files of a requested checkpoint count as complete, if the program is still running.
const UNCHANGED: Duration = Duration::from_secs(2);

/// Files of a checkpoint, watched until a new checkpoint replaces them.
struct WatchedFiles {
    before: Vec<(String, FileFound)>,
    last: Vec<(String, FileFound)>,
    /// Time of the last observed change.
    since: Instant,
}

impl WatchedFiles {
    fn new(now: Vec<(String, FileFound)>) -> Self {
        Self {
            before: now.clone(),
            last: now,
            since: Instant::now(),
        }
    }

    fn see(&mut self, now: Vec<(String, FileFound)>) {
        if now != self.last {
            (self.last, self.since) = (now, Instant::now());
        }
    }

    /// Returns whether the files differ from those at the beginning.
    fn are_others(&self) -> bool {
        self.last != self.before
    }
}

/// The checkpointer for programs that write their checkpoints themselves.
pub(super) struct ApplicationCheckpointer;

impl Checkpointer for ApplicationCheckpointer {
    fn name(&self) -> &'static str {
        "application"
    }

    fn title(&self) -> &'static str {
        "the program's own checkpoints"
    }

    fn course(&self, plan: &CheckpointPlan) -> Course {
        // if several restarts are required, each restarted program but the last is ended after its next checkpoint
        let in_a_row = plan.restarts() > 1;
        Course {
            on_request: in_a_row,
            killed: in_a_row,
            cut_short: false,
            restarted: plan.is_restarted(),
        }
    }

    fn session<'r>(&self, _: &Install, context: SessionContext<'r>) -> Box<dyn CheckpointRun + 'r> {
        Box::new(OwnFiles {
            run: context.run,
            found: Vec::new(),
            series: None,
            taken: 0,
            restart: None,
            restart_bytes: None,
        })
    }
}

/// The checkpoint files that the program of a run writes.
struct OwnFiles<'r> {
    run: &'r RunContext,
    /// Files at the end of the run, each with its node.
    found: Vec<(String, FileFound)>,
    /// Differences between checkpoints, if they are measured.
    series: Option<OwnSeries>,
    /// Number of checkpoints that cvc has waited for; it ends the program after each of them.
    taken: usize,
    /// The current restart.
    restart: Option<RestartNumber>,
    /// Size of the files that the restart reads, bytes.
    restart_bytes: Option<u64>,
}

impl OwnFiles<'_> {
    /// Returns the current files of the program's checkpoint.
    async fn find(&self) -> Result<Vec<(String, FileFound)>, RunError> {
        match &self.run.app.checkpoint {
            Some(own) => files(self.run, &patterns(self.run, &own.files)?).await,
            None => Ok(Vec::new()),
        }
    }

    /// Waits for the next checkpoint of the program, after which the program is ended.
    async fn wait_for_next(&mut self, shepherd: &mut Shepherd) -> Result<(), Halt> {
        let stdout = self
            .restart
            .map_or_else(|| "stdout".to_owned(), |which| which.file("stdout"));
        let own = self.run.app.checkpoint.as_ref();
        match own.and_then(|own| own.time_s.as_deref()) {
            Some(pattern) => {
                let line = compile(&self.run.app, pattern)?;
                let mut output = Announcements::new(self.run.dir.join(stdout), line);
                until(shepherd, || output.count() > 0).await?;
            }
            None => self.wait_for_files(shepherd).await?,
        }
        self.taken += 1;
        Ok(())
    }

    /// Waits until the checkpoint's files have changed, and then stay unchanged for [`QUIET`].
    async fn wait_for_files(&self, shepherd: &mut Shepherd) -> Result<(), Halt> {
        let mut watched = WatchedFiles::new(self.find().await?);
        loop {
            watched.see(self.find().await?);
            let is_whole =
                !watched.last.is_empty() && watched.last.iter().all(|(_, f)| f.bytes > 0);
            if watched.are_others() && is_whole && watched.since.elapsed() >= QUIET {
                return Ok(());
            }
            if !shepherd.at_work() {
                return Err(ended_before_checkpoint().into());
            }
            tokio::time::sleep(FILES_TICK).await;
        }
    }
}

/// Waits until a condition holds. Fails if the program ends before.
async fn until(shepherd: &mut Shepherd, mut is_so: impl FnMut() -> bool) -> Result<(), RunFailure> {
    loop {
        let ended = !shepherd.at_work();
        if is_so() {
            return Ok(());
        }
        if ended {
            return Err(ended_before_checkpoint());
        }
        tokio::time::sleep(TICK).await;
    }
}

fn ended_before_checkpoint() -> RunFailure {
    RunFailure::new(
        Cause::Checkpoint,
        "the program ended before its next checkpoint: take fewer restarts (checkpoint.restarts), or a workload with more checkpoints",
    )
}

impl OwnFiles<'_> {
    /// Returns the numbers that a pattern finds in the output. A partly captured number is a failure of the run.
    fn printed(
        &self,
        what: &str,
        pattern: &str,
        output: &str,
        to: &mut Findings,
    ) -> Result<Vec<f64>, RunError> {
        let found = numbers(&compile(&self.run.app, pattern)?, output);
        Ok(found.unwrap_or_else(|cut| {
            to.fail_by_cut_number(what, pattern, &cut);
            Vec::new()
        }))
    }
}

#[async_trait]
impl CheckpointRun for OwnFiles<'_> {
    async fn accompany(&mut self, stages: &mut Stages<'_>) -> RunFailure {
        if stages.is_empty() {
            return pending().await;
        }
        let watched = match OwnSeries::new(self.run) {
            Ok(series) => self.series.insert(series).watch(self.run, stages).await,
            Err(error) => Err(error.into()),
        };
        match watched {
            Ok(()) => pending().await,
            Err(Halt::Failure(failure)) => failure,
            Err(Halt::Error(error)) => RunFailure::new(
                Cause::Checkpoint,
                format!("the changes between the program's checkpoints are unknown: {error}"),
            ),
        }
    }

    async fn ended(&mut self, stages: &mut Stages<'_>) -> Result<(), Halt> {
        match &mut self.series {
            Some(series) => series.end(self.run, stages).await,
            None => Ok(()),
        }
    }

    async fn take(
        &mut self,
        _: &mut Stages<'_>,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        reporter.stage("checkpoint 1");
        self.wait_for_next(shepherd).await
    }

    fn taken(&self) -> usize {
        self.taken
    }

    async fn take_again(&mut self, shepherd: &mut Shepherd) -> Result<(), Halt> {
        self.wait_for_next(shepherd).await
    }

    async fn finish(&mut self) -> Result<(), Halt> {
        self.found = self.find().await?;
        Ok(())
    }

    async fn prepare_restart(&mut self, which: RestartNumber) -> Result<(), Halt> {
        let found = self.find().await?;
        self.restart = Some(which);
        // a delegated file has room for several checkpoints, only one of which is read
        let is_whole = self.run.point.layout != CheckpointLayout::Delegated;
        let bytes = found.iter().map(|(_, file)| file.bytes).sum();
        self.restart_bytes = is_whole.then_some(bytes);
        Ok(())
    }

    fn restart_bytes(&self) -> Option<u64> {
        self.restart_bytes
    }

    fn restart(&self, _: &Value, _: RestartNumber) -> Result<Option<Restart>, Halt> {
        let app = &self.run.app;
        let (Some(templates), true) = (
            &app.command.restart_args,
            app.checkpoint.as_ref().is_some_and(|c| c.restartable),
        ) else {
            let detail = "the descriptor does not say how the program restarts (checkpoint.restartable, command.restart_args)";
            return Err(RunFailure::new(Cause::Restart, detail).into());
        };
        let run = self.run;
        let values = template_values(
            app,
            &run.point,
            run.program.as_str(),
            run.dir.as_str(),
            run.work.as_str(),
        );
        let args = arguments(
            &format!("{}: command.restart_args", app.name),
            templates,
            &values,
        )?;
        Ok(Some(Restart::Program(args)))
    }

    async fn take_now(&mut self, shepherd: &mut Shepherd, limit: Duration) -> Result<(), Halt> {
        let own = self.run.app.checkpoint.as_ref();
        let Some(signal) = own.and_then(|own| own.signal) else {
            let detail = "the descriptor names no signal that makes the program write a checkpoint (checkpoint.signal)";
            return Err(RunFailure::new(Cause::Checkpoint, detail).into());
        };
        let mut watched = WatchedFiles::new(self.find().await?);
        let used = &self.run.used;
        let sent = used
            .crew
            .signal(&used.everywhere(), &used.marker, signal.number(), SOON)
            .await;
        let ranks: usize = crew::whole(sent)
            .map_err(RunError::from)?
            .iter()
            .map(|(_, ranks)| ranks.len())
            .sum();
        if ranks < self.run.point.processes() as usize {
            let detail = format!(
                "only {ranks} of {} ranks could be sent the signal {signal}",
                self.run.point.processes()
            );
            return Err(RunFailure::new(Cause::Checkpoint, detail).into());
        }
        let begun = Instant::now();
        loop {
            // determined before the files are listed, so that the list has all files if the program has ended
            let has_ended = !shepherd.at_work();
            watched.see(self.find().await?);
            // if the program continues, its files are complete once they have been unchanged for a while
            if watched.are_others() && (has_ended || watched.since.elapsed() > UNCHANGED) {
                return Ok(());
            }
            if has_ended || begun.elapsed() > limit {
                let why = if has_ended {
                    "it ended without one".to_owned()
                } else {
                    format!("none was complete after {:.0} s", limit.as_secs_f64())
                };
                let detail = format!("the program wrote no checkpoint after {signal}: {why}");
                return Err(RunFailure::new(Cause::Checkpoint, detail).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn details_of(&self, _: u64) -> Option<Value> {
        let app = &self.run.app;
        app.checkpoint.as_ref().filter(|own| own.restartable)?;
        app.command.restart_args.as_ref()?;
        Some(json!({}))
    }

    async fn keep(&mut self) -> Option<CheckpointToKeep> {
        self.details_of(0)?;
        let files = self.find().await.ok()?;
        let is_empty = files.iter().all(|(_, file)| file.bytes == 0);
        (!is_empty).then_some(CheckpointToKeep {
            details: Value::Null,
            files,
        })
    }

    async fn resume(&mut self, _: &Value, values: &Value) -> Result<Restart, Halt> {
        let only = RestartNumber { number: 1, of: 1 };
        let restart = self.restart(values, only)?;
        restart.ok_or_else(|| RunFailure::new(Cause::Restart, "it cannot be restarted").into())
    }

    fn measure(
        &self,
        output: &str,
        stages: &Stages<'_>,
        to: &mut Findings,
    ) -> Result<(), RunError> {
        let Some(own) = &self.run.app.checkpoint else {
            return Ok(());
        };
        let total: u64 = self.found.iter().map(|(_, file)| file.bytes).sum();
        if total == 0 {
            to.fail(
                Cause::Checkpoint,
                format!(
                    "the program wrote no checkpoint: no file {} below {}",
                    own.files.join(", "),
                    self.run.work
                ),
            );
            return Ok(());
        }
        let mut printed = |what, pattern: &Option<String>| match pattern {
            Some(pattern) => self.printed(what, pattern, output, to),
            None => Ok(Vec::new()),
        };
        let times = printed("time of a checkpoint", &own.time_s)?;
        let stops = printed(
            "time for which a checkpoint stopped the program",
            &own.stop_s,
        )?;
        let skipped = printed("number of checkpoints skipped", &own.skipped)?;
        let size = printed("size of a checkpoint", &own.size)?.last().copied();
        for (name, values) in [
            (names::CKPT_LATENCY_S, &times),
            (names::CKPT_STOP_S, &stops),
        ] {
            for (number, seconds) in (1u32..).zip(values) {
                let labels = [("ckpt", number.to_string())];
                let source = Source::ApplicationOutput;
                to.record(
                    name,
                    *seconds,
                    Unit::Seconds,
                    source,
                    Some("stdout"),
                    &labels,
                );
            }
        }
        if let Some(count) = skipped.last() {
            let source = Source::ApplicationOutput;
            to.record(
                names::CKPT_SKIPPED,
                *count,
                Unit::Count,
                source,
                Some("stdout"),
                &[],
            );
        }
        if let Some(series) = &self.series {
            series.record(times.len(), stages, to);
        }
        // a later checkpoint replaces an earlier one: the files belong to the last
        let ckpt = ("ckpt", times.len().max(1).to_string());
        let labels = [ckpt.clone(), ("kind", "application".to_owned())];
        to.count(
            names::CKPT_FILES,
            self.found.len() as f64,
            Source::FileSize,
            &labels,
        );
        let (bytes, source) = match size {
            Some(printed) => (printed, Source::ApplicationOutput),
            None => (total as f64, Source::FileSize),
        };
        to.bytes(names::CKPT_BYTES, bytes, source, &labels);
        to.bytes(
            names::CKPT_STORED_BYTES,
            total as f64,
            Source::FileSize,
            &[ckpt],
        );
        Ok(())
    }
}
