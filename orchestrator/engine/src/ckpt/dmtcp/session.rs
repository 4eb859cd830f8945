//! DMTCP's part in a run: it takes checkpoints when they are due, ends the ranks, and restarts them.

use super::{
    checkpoint::Checkpoint,
    coordinator::{self, DmtcpClient},
    deltas::{Deltas, on_a_thread},
    dmtcp_run::DmtcpRun,
    images::images,
    measure::measure,
    request::{peers, take},
    restart, restart_watch,
    series::Series,
    session_files::{keep_session_files, restore_session_files, without_session_files},
};
use crate::{
    ckpt::{
        contract::{Halt, Install, Restart, Session, SessionContext},
        moments::{Moments, no_checkpoint},
    },
    run::{AttemptReporter, Findings, RunError, RunFailure, Shepherd, own_words, text},
};
use async_trait::async_trait;
use cvc_core::{
    outcome::Cause,
    point::Moment,
    record::{Source, Unit, names},
};
use serde_json::Value;
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

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
    /// What differs between them, if that is measured.
    series: Option<Series>,
}

impl<'r> DmtcpSession<'r> {
    /// The session of a run.
    pub fn new(install: &Install, context: SessionContext<'r>) -> Self {
        let settings = &context.run.checkpoint;
        let deltas = settings.deltas.as_ref();
        let deltas = deltas.map(|deltas| Deltas::new(deltas, &context.run.work));
        let series = settings.moment.is_compared().then(|| Series::new(deltas));
        Self {
            of: DmtcpRun::new(install, context),
            checkpoints: Vec::new(),
            series,
        }
    }

    /// The deltas of the series, if they are made.
    fn deltas(&self) -> Option<&Arc<Mutex<Deltas>>> {
        self.series.as_ref()?.deltas.as_ref()
    }

    /// Does something with the deltas of the series, if there are any, on a thread that may wait for disks. It goes on, and has them, when this is
    /// dropped.
    async fn on_deltas(
        &self,
        work: impl FnOnce(&mut Deltas) -> Result<(), RunFailure> + Send + 'static,
    ) -> Result<(), RunFailure> {
        let Some(deltas) = self.deltas() else {
            return Ok(());
        };
        on_a_thread(deltas, work).await
    }

    /// Waits for the next moment, and takes the checkpoint of it. Returns when it was asked for, seconds of computation; none after the last moment.
    async fn take_next(
        &mut self,
        moments: &mut Moments,
        port: &str,
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
            && self.series.is_none();
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

    /// Compares the checkpoint that was taken last with those before, and stores it, before the next one overwrites it.
    async fn compare_last(&mut self, at_s: f64, reporter: &AttemptReporter) -> Result<(), Halt> {
        let (Some(series), Some(last)) = (&mut self.series, self.checkpoints.last()) else {
            return Ok(());
        };
        reporter.stage(&format!("what changed until checkpoint {}", last.number));
        series.add(&self.of, at_s).await?;
        let images = self.of.layout.ckptdir.clone();
        let content_bytes = last.content_bytes();
        self.on_deltas(move |deltas| deltas.store(&images, content_bytes))
            .await?;
        Ok(())
    }

    /// Takes the checkpoints of all moments.
    async fn take_all(
        &mut self,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        let used = &self.of.run.used;
        // the plan may not have known what the nodes share
        if self.deltas().is_some() && used.places().len() > 1 {
            return Err(no_checkpoint(format!(
                "deltas are made on {}, but the images lie on several nodes: choose a shared storage area, or a mapping with only this node",
                used.head.name
            ))
            .into());
        }
        let mut moments = Moments::new(self.of.run)?;
        let port = coordinator::port(&self.of.layout, shepherd).await?;
        loop {
            match self
                .take_next(&mut moments, &port, shepherd, reporter)
                .await
            {
                // what cannot be compared or stored is a failure, however long the program goes on
                Ok(Some(at_s)) => self.compare_last(at_s, reporter).await?,
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
impl Session for DmtcpSession<'_> {
    async fn take(
        &mut self,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        let taken = self.take_all(shepherd, reporter).await;
        if let Some(series) = &self.series {
            series.forget(&self.of).await;
        }
        taken
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
        // whoever waited for a checkpoint may have had a reason not to any more
        if let Some(series) = &self.series {
            series.forget(&self.of).await;
        }
        let dir = self.of.run.dir.clone();
        let kept = self.on_deltas(move |deltas| deltas.finish(&dir)).await;
        failed.and(kept.map_err(Halt::from))
    }

    async fn settle(&self) {
        if let Some(deltas) = self.deltas() {
            drop(deltas.lock().await);
        }
    }

    async fn evaluate(
        &mut self,
        reporter: &AttemptReporter,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Halt> {
        let titles = match self.deltas() {
            Some(deltas) => deltas.lock().await.titles(),
            None => Vec::new(),
        };
        for (way, title) in titles.iter().enumerate() {
            reporter.stage(title);
            let stop = stop.clone();
            self.on_deltas(move |deltas| deltas.evaluate(way, &stop))
                .await?;
        }
        Ok(())
    }

    fn restart(&self, values: &Value) -> Result<Option<Restart>, Halt> {
        let Some(last) = self.checkpoints.last() else {
            return Ok(None);
        };
        restart::script(&self.of, last, values).map(|script| Some(Restart::Script(script)))
    }

    async fn prepare_restart(&mut self) -> Result<(), Halt> {
        let images = self.of.layout.ckptdir.clone();
        self.on_deltas(move |deltas| deltas.restore_into(&images))
            .await?;
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

    fn measure(&self, _: &str, to: &mut Findings) -> Result<(), RunError> {
        for checkpoint in &self.checkpoints {
            measure(&self.of, checkpoint, to);
        }
        match (&self.series, &self.of.run.checkpoint.moment) {
            (Some(series), Moment::Series { count, .. }) => series.record(*count, to),
            (None, Moment::Series { count, .. }) if self.taken() > 0 => to.record(
                names::SERIES_CHECKPOINTS,
                self.taken() as f64,
                Unit::Count,
                Source::Clock,
                None,
                &[("planned", count.to_string())],
            ),
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
