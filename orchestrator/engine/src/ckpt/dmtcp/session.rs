//! DMTCP's part in a run: it takes checkpoints when they are due, ends the ranks, and restarts them.

use super::{
    checkpoint::Checkpoint,
    coordinator::{self, DmtcpClient},
    dmtcp_run::DmtcpRun,
    images::images,
    measure::measure,
    request::{peers, take},
    restart, restart_watch,
    session_files::{keep_session_files, restore_session_files, without_session_files},
};
use crate::{
    ckpt::{
        contract::{CheckpointRun, Halt, Install, Restart, SessionContext},
        moments::Moments,
    },
    run::{AttemptReporter, Findings, RunError, RunFailure, Shepherd, own_words, text},
    stage::{Stages, Taken},
};
use async_trait::async_trait;
use cvc_core::{
    outcome::Cause,
    point::Moment,
    record::{Source, names},
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Time limit for the images of a program that has ended.
const REST_LIMIT: Duration = Duration::from_secs(60);

/// Time within which a program that ends is seen to have ended.
const END_SEEN: Duration = Duration::from_secs(3);
/// Delay between looks whether it has.
const TICK: Duration = Duration::from_millis(25);

/// A run under DMTCP, and its checkpoints so far.
pub(super) struct DmtcpSession<'r> {
    of: DmtcpRun<'r>,
    checkpoints: Vec<Checkpoint>,
}

impl<'r> DmtcpSession<'r> {
    /// The session of a run.
    pub fn new(install: &Install, context: SessionContext<'r>) -> Self {
        Self {
            of: DmtcpRun::new(install, context),
            checkpoints: Vec::new(),
        }
    }

    /// Waits for the next moment, and takes the checkpoint of it. Returns when it was asked for, seconds of computation; none after the last moment.
    async fn take_next(
        &mut self,
        moments: &mut Moments,
        port: &str,
        stages: &Stages<'_>,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<Option<f64>, Halt> {
        let (of, settings) = (&self.of, &self.of.run.checkpoint);
        let coordinator = DmtcpClient {
            install: &of.install,
            port: port.to_owned(),
        };
        let limit = Duration::from_secs_f64(settings.timeout_s);
        let goes_on = !settings.moment.kills() && !settings.restart_check;
        let Some(due) = moments.next(shepherd).await? else {
            return Ok(None);
        };
        reporter.stage(&format!("checkpoint {}", due.number));
        let peers = peers(of, &coordinator, shepherd, limit).await?;
        // decompressing images takes cores from the program: the last ones can wait until it has ended
        let later = due.last
            && goes_on
            && of.run.point.compression.program().is_some()
            && stages.is_empty();
        if due.last && settings.restart_check {
            // now, while they are there for sure: the program may end as soon as it has been checkpointed, and the MPI library with it
            if let Err(error) = keep_session_files(of).await {
                return Err(
                    without_session_files(of, &error).map_or(Halt::Error(error), Halt::Failure)
                );
            }
        }
        self.checkpoints
            .push(take(of, &coordinator, shepherd, due.number, peers, limit, later).await?);
        Ok(Some(due.at_s))
    }

    /// Lets stages do their work on the checkpoint that was taken last, before the next one overwrites it.
    async fn after_last(
        &self,
        at_s: f64,
        stages: &mut Stages<'_>,
        reporter: &AttemptReporter,
    ) -> Result<(), RunFailure> {
        let Some(last) = self.checkpoints.last().filter(|_| !stages.is_empty()) else {
            return Ok(());
        };
        reporter.stage(&format!("what changed until checkpoint {}", last.number));
        let taken = Taken {
            number: last.number.into(),
            at_s,
            parts: last.parts(&self.of.layout.ckptdir),
        };
        stages.after(&taken).await
    }

    /// Takes the checkpoints of all moments.
    async fn take_all(
        &mut self,
        stages: &mut Stages<'_>,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        let mut moments = Moments::new(self.of.run)?;
        let port = coordinator::port(&self.of.layout, shepherd).await?;
        loop {
            match self
                .take_next(&mut moments, &port, stages, shepherd, reporter)
                .await
            {
                // what cannot be compared or stored is a failure, however long the program goes on
                Ok(Some(at_s)) => self.after_last(at_s, stages, reporter).await?,
                Ok(None) => return Ok(()),
                // a series is as long as its program; the restart needs what is kept for the last one
                Err(Halt::Failure(failure))
                    if failure.cause == Cause::Checkpoint
                        && self.of.run.checkpoint.moment.is_series()
                        && !self.checkpoints.is_empty()
                        && !self.of.run.checkpoint.restart_check
                        && ends_soon(shepherd).await =>
                {
                    reporter.stage(&format!(
                        "the program ended after checkpoint {}",
                        self.checkpoints.len()
                    ));
                    return Ok(());
                }
                Err(halt) => return Err(halt),
            }
        }
    }
}

/// Whether the program has ended, or does so at once.
async fn ends_soon(shepherd: &mut Shepherd) -> bool {
    let begin = Instant::now();
    while shepherd.at_work() {
        if begin.elapsed() > END_SEEN {
            return false;
        }
        tokio::time::sleep(TICK).await;
    }
    true
}

#[async_trait]
impl CheckpointRun for DmtcpSession<'_> {
    async fn take(
        &mut self,
        stages: &mut Stages<'_>,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        self.take_all(stages, shepherd, reporter).await
    }

    fn taken(&self) -> usize {
        self.checkpoints.len()
    }

    async fn stop(&self) {
        coordinator::kill(&self.of).await;
    }

    /// Reads the images of a checkpoint that was left for later.
    async fn finish(&mut self) -> Result<(), Halt> {
        let mut failed = Ok(());
        for checkpoint in self.checkpoints.iter_mut().filter(|c| c.dirs.is_empty()) {
            match images(
                &self.of,
                checkpoint.number,
                Instant::now(),
                REST_LIMIT,
                || true,
            )
            .await
            {
                Ok(dirs) => checkpoint.dirs = dirs,
                Err(why) => failed = Err(why.into()),
            }
        }
        failed
    }

    fn restart(&self, values: &Value) -> Result<Option<Restart>, Halt> {
        let Some(last) = self.checkpoints.last() else {
            return Ok(None);
        };
        restart::script(&self.of, last, values).map(|script| Some(Restart::Script(script)))
    }

    async fn prepare_restart(&mut self) -> Result<(), Halt> {
        if let Some(last) = self.checkpoints.last() {
            restart::forget_saved_files(&self.of, last).await;
        }
        Ok(restore_session_files(&self.of).await?)
    }

    async fn watch_restart(&self) -> RunFailure {
        let peers = self
            .checkpoints
            .last()
            .map_or(self.of.peers, |last| last.peers);
        restart_watch::watch(&self.of, peers).await
    }

    fn explain_restart(&self) -> Option<String> {
        restart_watch::find_assertion(&self.of)
    }

    fn continues_from(&self) -> Option<(u32, u64)> {
        self.checkpoints
            .last()
            .map(|last| (last.number, last.printed_bytes))
    }

    fn measure(&self, _: &str, stages: &Stages<'_>, to: &mut Findings) -> Result<(), RunError> {
        for checkpoint in &self.checkpoints {
            measure(&self.of, checkpoint, to);
        }
        match self.of.run.checkpoint.moment {
            Moment::Series { count, .. } if self.taken() > 0 && stages.is_empty() => to.count(
                names::SERIES_CHECKPOINTS,
                self.taken() as f64,
                Source::Clock,
                &[("planned", count.to_string())],
            ),
            Moment::Series { count, .. } if self.taken() > 0 => stages.measure(count.into(), to),
            _ => {}
        }
        Ok(())
    }

    fn start_failure(&self) -> String {
        let message = text(&self.of.run.dir.join("coordinator.out"));
        format!("DMTCP did not start: {}", own_words(&message))
    }

    fn keep_logs(&self) {
        let Ok(entries) = self.of.layout.kvdir.read_dir_utf8() else {
            return;
        };
        for entry in entries.flatten() {
            if entry.path().is_file() && entry.file_name() != "port" {
                // a missing log is not an error
                let _ = std::fs::copy(entry.path(), self.of.run.dir.join(entry.file_name()));
            }
        }
        let _ = std::fs::copy(
            self.of.restart_script(),
            self.of.run.dir.join("dmtcp_restart_script.sh"),
        );
    }
}
