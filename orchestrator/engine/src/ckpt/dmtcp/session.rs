//! DMTCP's work in a run: takes checkpoints when they are due, ends the ranks, and restarts them.

use super::{
    checkpoint::{Checkpoint, KeptImages},
    coordinator::{self, DmtcpClient},
    dmtcp_run::DmtcpRun,
    images::{AwaitedImages, images, named},
    install::{CKPT_DIR, DmtcpLayout},
    measure::{measure, measure_again, stored_bytes},
    request::{peers, set_earlier_logs_aside, take},
    restart, restart_watch,
    session_files::{
        keep_session_files, move_session_files, restore_session_files, session,
        without_session_files,
    },
};
use crate::{
    ckpt::{
        contract::{
            CheckpointRun, CheckpointToKeep, Continuation, Halt, Install, Restart, SessionContext,
        },
        moments::Moments,
    },
    run::{
        AttemptReporter, Findings, OutputSizes, RestartNumber, RunError, RunFailure, SESSION,
        Shepherd, files, own_words, text,
    },
    stage::{Stages, Taken},
};
use async_trait::async_trait;
use camino::Utf8PathBuf;
use cvc_core::{
    outcome::Cause,
    point::Moment,
    record::{Source, names},
    store::StoreError,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Time limit for the images of a program that has ended to become complete.
const REST_LIMIT: Duration = Duration::from_secs(60);

/// Time limit for detecting that a program has ended.
const END_SEEN: Duration = Duration::from_secs(3);
/// Interval between checks for a program's end.
const TICK: Duration = Duration::from_millis(25);

/// A run under DMTCP, and its checkpoints so far.
pub(super) struct DmtcpSession<'r> {
    /// The run; after a restart begins, the restart.
    of: DmtcpRun<'r>,
    checkpoints: Vec<Checkpoint>,
    /// Checkpoints that restarted programs took, each with its restart.
    again: Vec<(RestartNumber, Checkpoint)>,
    /// Number of the checkpoint that the run is restarted from, if that is not the last one.
    earlier: Option<u64>,
    /// When the program, or the restarted program, began to compute.
    begun: Instant,
    /// Whether checkpoints are kept for the run's next attempt.
    keeps: bool,
}

impl<'r> DmtcpSession<'r> {
    /// Creates the session of a run.
    pub fn new(install: &Install, context: SessionContext<'r>) -> Self {
        Self {
            keeps: context.keeps,
            of: DmtcpRun::new(install, context),
            checkpoints: Vec::new(),
            again: Vec::new(),
            earlier: None,
            begun: Instant::now(),
        }
    }

    /// Returns the checkpoint that the run is restarted from: the last checkpoint, or an earlier one if the nodes no longer have the last.
    fn last(&self) -> Option<&Checkpoint> {
        let again = self.again.last().map(|(_, checkpoint)| checkpoint);
        let is_earlier = |of: &&Checkpoint| Some(u64::from(of.number)) == self.earlier;
        let earlier = self.checkpoints.iter().find(is_earlier);
        again.or(earlier).or(self.checkpoints.last())
    }

    /// Returns the data that the next attempt needs to continue from a checkpoint.
    fn details(&self, of: &Checkpoint) -> Option<Value> {
        let run = self.of.run;
        let nodes = run.used.ranks.iter().chain([&run.used.head]);
        let kept = KeptImages {
            number: of.number,
            events: of.events,
            request_to_stored_s: of.request_to_stored_s,
            requested: of.requested,
            written: of.written.clone(),
            last_write: of.last_write,
            peers: of.peers,
            at_s: of.at_s,
            tmp: run.tmp.clone(),
            nodes: nodes
                .map(|node| (node.name.clone(), node.hostname.clone()))
                .collect(),
        };
        serde_json::to_value(kept).ok()
    }

    /// Prepares the files for a restart from the last checkpoint.
    async fn ready_files(&self) -> Result<(), Halt> {
        if let Some(last) = self.last() {
            restart::forget_saved_files(&self.of, last).await;
        }
        Ok(restore_session_files(&self.of).await?)
    }

    /// Copies the restart script that an earlier attempt's coordinator wrote, and returns the copy's path. The original must not be executed, because
    /// this attempt's coordinator overwrites it.
    fn own_script(&self) -> Result<Utf8PathBuf, RunError> {
        let (from, dir) = (self.of.restart_script(), &self.of.layout.kvdir);
        let to = dir.join("resumed.sh");
        std::fs::create_dir_all(dir).map_err(StoreError::io("make", dir))?;
        std::fs::copy(&from, &to).map_err(StoreError::io("copy", &from))?;
        Ok(to)
    }

    /// Takes a checkpoint of the restarted program.
    async fn take_next_again(
        &mut self,
        which: RestartNumber,
        shepherd: &mut Shepherd,
    ) -> Result<(), Halt> {
        let of = &self.of;
        let limit = Duration::from_secs_f64(of.run.plan.timeout_s());
        let coordinator = DmtcpClient {
            install: &of.install,
            port: coordinator::port(&of.layout, shepherd).await?,
        };
        let peers = peers(of, &coordinator, shepherd, limit).await?;
        if let Err(error) = keep_session_files(of).await {
            return Err(without_session_files(of, &error).map_or(Halt::Error(error), Halt::Failure));
        }
        let number = self.last().map_or(0, |last| last.number) + 1;
        let taken = take(of, &coordinator, shepherd, number, peers, limit, false).await?;
        self.again.push((which, taken));
        Ok(())
    }

    /// Waits for the next moment of the campaign, and takes its checkpoint. Returns the time of the request, seconds since the program began to
    /// compute; `None` if no moment is left.
    async fn take_next(
        &mut self,
        moments: &mut Moments,
        port: &str,
        stages: &Stages<'_>,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<Option<f64>, Halt> {
        let (of, plan) = (&self.of, &self.of.run.plan);
        let coordinator = DmtcpClient {
            install: &of.install,
            port: port.to_owned(),
        };
        let limit = Duration::from_secs_f64(plan.timeout_s());
        let continues = !plan.kills() && !plan.is_restarted();
        let Some(due) = moments.next(shepherd).await? else {
            return Ok(None);
        };
        reporter.stage(&format!("checkpoint {}", due.number));
        let peers = peers(of, &coordinator, shepherd, limit).await?;
        // decompressing images needs cores that the program uses: images of the last checkpoint can be read after the program's end
        let later =
            due.last && continues && plan.compression().compressor().is_some() && stages.is_empty();
        // with checkpoints on nodes, the run may restart from one that is not the last
        let may_restart = (due.last || plan.levels().is_some()) && plan.is_restarted();
        if self.keeps || may_restart {
            // copy the files now, while they certainly exist: the program, and with it the MPI library, may end right after its checkpoint
            if let Err(error) = keep_session_files(of).await {
                return Err(
                    without_session_files(of, &error).map_or(Halt::Error(error), Halt::Failure)
                );
            }
        }
        let taken = take(of, &coordinator, shepherd, due.number, peers, limit, later).await?;
        self.checkpoints.push(Checkpoint {
            at_s: due.at_s,
            ..taken
        });
        Ok(Some(due.at_s))
    }

    /// Passes the last checkpoint to the stages, before the next checkpoint overwrites it.
    async fn after_last(
        &self,
        at_s: f64,
        stages: &mut Stages<'_>,
        reporter: &AttemptReporter,
    ) -> Result<(), RunFailure> {
        let Some(last) = self.checkpoints.last().filter(|_| !stages.is_empty()) else {
            return Ok(());
        };
        reporter.stage(&if self.of.run.plan.is_compared() {
            format!("changes up to checkpoint {}", last.number)
        } else {
            format!("checkpoint {} is kept on nodes", last.number)
        });
        let taken = Taken {
            number: last.number.into(),
            at_s,
            parts: last.parts(&self.of.layout.ckptdir, |node| session(&self.of, node)),
        };
        stages.after(&taken).await
    }

    /// Takes checkpoints at all moments of the campaign.
    async fn take_all(
        &mut self,
        stages: &mut Stages<'_>,
        shepherd: &mut Shepherd,
        reporter: &AttemptReporter,
    ) -> Result<(), Halt> {
        let Some(moment) = self.of.run.plan.requested() else {
            return Ok(());
        };
        let mut moments = Moments::new(moment, self.of.run)?;
        if let Some(last) = self.checkpoints.last() {
            moments.resume_after(last.number, last.at_s);
        }
        let port = coordinator::port(&self.of.layout, shepherd).await?;
        loop {
            match self
                .take_next(&mut moments, &port, stages, shepherd, reporter)
                .await
            {
                // if a checkpoint cannot be compared or stored, the run fails immediately
                Ok(Some(at_s)) => self.after_last(at_s, stages, reporter).await?,
                Ok(None) => return Ok(()),
                // a series ends with its program, unless the run is restarted: that needs a last checkpoint
                Err(Halt::Failure(failure))
                    if failure.cause == Cause::Checkpoint
                        && self.of.run.plan.is_requested_series()
                        && !self.checkpoints.is_empty()
                        && !self.of.run.plan.is_restarted()
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

/// Returns whether the program has ended, or ends within [`END_SEEN`].
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

    /// Reads the images of a checkpoint whose reading was postponed until the program's end.
    async fn finish(&mut self) -> Result<(), Halt> {
        let mut failed = Ok(());
        for checkpoint in self.checkpoints.iter_mut().filter(|c| c.dirs.is_empty()) {
            match images(
                &self.of,
                &AwaitedImages::of_ranks(&self.of, checkpoint.number),
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

    fn restart(&self, values: &Value, which: RestartNumber) -> Result<Option<Restart>, Halt> {
        let Some(last) = self.last() else {
            return Ok(None);
        };
        let second = DmtcpLayout::of(self.of.run).of_restart(which);
        let script = restart::script(&self.of, last, values, &second, &which.stem())?;
        Ok(Some(Restart::Script(script)))
    }

    fn restart_from(&mut self, number: u64) {
        self.earlier = Some(number);
    }

    async fn prepare_restart(&mut self, which: RestartNumber) -> Result<(), Halt> {
        self.ready_files().await?;
        self.of = self.of.of_restart(which);
        Ok(())
    }

    fn restart_bytes(&self) -> Option<u64> {
        let last = self.last().filter(|last| !last.dirs.is_empty())?;
        let is_restored = self.again.is_empty() && self.of.run.plan.deltas().is_some();
        Some(stored_bytes(&self.of, last, is_restored))
    }

    async fn take_again(&mut self, shepherd: &mut Shepherd) -> Result<(), Halt> {
        match self.of.restart {
            Some(which) => self.take_next_again(which, shepherd).await,
            None => Ok(()),
        }
    }

    async fn watch_restart(&self) -> RunFailure {
        let peers = self.last().map_or(self.of.peers, |last| last.peers);
        restart_watch::watch(&self.of, peers).await
    }

    fn explain_restart(&self) -> Option<String> {
        restart_watch::find_assertion(&self.of)
    }

    fn continues_from(&self) -> Option<Continuation> {
        self.last().map(|last| Continuation {
            number: last.number,
            asked: last.asked,
            whole: last.whole,
        })
    }

    fn measure(&self, _: &str, stages: &Stages<'_>, to: &mut Findings) -> Result<(), RunError> {
        for checkpoint in &self.checkpoints {
            measure(&self.of, checkpoint, to);
        }
        for (which, checkpoint) in &self.again {
            measure_again(&self.of, *which, checkpoint, to);
        }
        let plan = &self.of.run.plan;
        let series = plan.requested().filter(|m| m.is_series());
        let planned = series.map(Moment::count);
        if self.taken() == 0 {
            return Ok(());
        }
        if let Some(count) = planned
            && !plan.is_compared()
        {
            to.count(
                names::SERIES_CHECKPOINTS,
                self.taken() as f64,
                Source::Clock,
                &[("planned", count.to_string())],
            );
        }
        stages.measure(planned.unwrap_or(1).into(), to);
        Ok(())
    }

    async fn take_now(&mut self, shepherd: &mut Shepherd, limit: Duration) -> Result<(), Halt> {
        let last = self.checkpoints.last();
        // an incomplete checkpoint would have replaced the previous one
        if let Some(last) = last.filter(|last| last.request_to_stored_s > limit.as_secs_f64()) {
            let detail = format!(
                "checkpoint {} took {:.1} s, more than the {:.1} s that are left",
                last.number,
                last.request_to_stored_s,
                limit.as_secs_f64()
            );
            return Err(RunFailure::new(Cause::Checkpoint, detail).into());
        }
        let number = last.map_or(1, |last| last.number + 1);
        let of = &self.of;
        let port = coordinator::port(&of.layout, shepherd).await?;
        let coordinator = DmtcpClient {
            install: &of.install,
            port,
        };
        let peers = peers(of, &coordinator, shepherd, limit).await?;
        keep_session_files(of).await?;
        let taken = take(of, &coordinator, shepherd, number, peers, limit, true).await?;
        self.checkpoints.push(Checkpoint {
            at_s: self.begun.elapsed().as_secs_f64(),
            ..taken
        });
        Ok(())
    }

    async fn keep(&mut self) -> Option<CheckpointToKeep> {
        let last = self.checkpoints.last()?;
        // images of a later, incomplete checkpoint may have replaced some of these
        if named(&self.of).await.ok()?.1 != last.named {
            return None;
        }
        let below = [CKPT_DIR, SESSION].map(|dir| format!("{dir}*/**/*"));
        Some(CheckpointToKeep {
            details: self.details(last)?,
            files: files(self.of.run, &below).await.ok()?,
        })
    }

    fn details_of(&self, number: u64) -> Option<Value> {
        let mut all = self.checkpoints.iter();
        self.details(all.find(|of| u64::from(of.number) == number)?)
    }

    async fn resume(&mut self, details: &Value, values: &Value) -> Result<Restart, Halt> {
        let not_resumed = |why: String| {
            RunFailure::new(
                Cause::Restart,
                format!("it cannot continue from its checkpoint: {why}"),
            )
        };
        let kept: KeptImages = serde_json::from_value(details.clone())
            .map_err(|error| not_resumed(error.to_string()))?;
        let used = &self.of.run.used;
        let nodes: Vec<&str> = used
            .ranks
            .iter()
            .chain([&used.head])
            .map(|node| node.name.as_str())
            .collect();
        if nodes.len() != kept.nodes.len() {
            return Err(not_resumed("it ran on another number of nodes".into()).into());
        }
        move_session_files(&self.of, &kept.nodes, &nodes).map_err(RunError::from)?;
        let hosts = kept.nodes.iter().map(|(_, host)| host.clone());
        self.of.moved = hosts.zip(nodes.into_iter().map(str::to_owned)).collect();
        let awaited = AwaitedImages::of_ranks(&self.of, kept.number);
        let dirs = images(&self.of, &awaited, Instant::now(), REST_LIMIT, || true)
            .await
            .map_err(|failure| not_resumed(failure.detail))?;
        let checkpoint = Checkpoint {
            number: kept.number,
            events: kept.events,
            request_to_stored_s: kept.request_to_stored_s,
            requested: kept.requested,
            last_write: kept.last_write,
            written: kept.written,
            dirs,
            peers: kept.peers,
            asked: OutputSizes::default(),
            whole: OutputSizes::default(),
            script: self.own_script()?,
            named: named(&self.of).await?.1,
            at_s: kept.at_s,
        };
        set_earlier_logs_aside(&self.of.layout);
        let _ = std::fs::remove_file(&self.of.layout.portfile);
        let script = restart::script(&self.of, &checkpoint, values, &self.of.layout, "restart")?;
        self.checkpoints.push(checkpoint);
        self.begun = Instant::now()
            .checked_sub(Duration::try_from_secs_f64(kept.at_s).unwrap_or_default())
            .unwrap_or_else(Instant::now);
        self.ready_files().await?;
        Ok(Restart::Script(script))
    }

    fn start_failure(&self) -> String {
        let message = text(&self.of.run.dir.join("coordinator.out"));
        format!("DMTCP did not start: {}", own_words(&message))
    }

    fn keep_logs(&self) {
        let first = DmtcpLayout::of(self.of.run);
        let Ok(entries) = first.kvdir.read_dir_utf8() else {
            return;
        };
        for entry in entries.flatten() {
            if entry.path().is_file() && entry.file_name() != "port" {
                // a missing log is not an error
                let _ = std::fs::copy(entry.path(), self.of.run.dir.join(entry.file_name()));
            }
        }
        let _ = std::fs::copy(
            first.scripts.join("dmtcp_restart_script.sh"),
            self.of.run.dir.join("dmtcp_restart_script.sh"),
        );
    }
}
