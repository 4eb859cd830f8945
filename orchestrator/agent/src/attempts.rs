//! The running attempts of an agent.

use super::{
    error::AgentError,
    head::Workplace,
    protocol::{AwaitedAttempt, DispatchId, Event},
    spool::{self, Spool},
};
use camino::Utf8Path;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::stop::StopRequest;
use cvc_engine::attempt::{AttemptEvent, AttemptReporter, AttemptResult, RunError, Task};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{Seek, SeekFrom},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::Instrument;

/// A running attempt.
struct UnderWay {
    dispatch: u32,
    /// Whether the attempt had the whole time of the agent's job: it began before any other attempt of the agent had ended.
    had_whole_job: bool,
    nodes: Vec<String>,
    stop_request: watch::Sender<StopRequest>,
}

/// A report of a running attempt, or its end.
pub(super) enum AttemptNews {
    Reported(RunId, AttemptEvent),
    Ended(EndedAttempt),
}

/// An attempt that has ended.
pub(super) struct EndedAttempt {
    pub(super) attempt: AwaitedAttempt,
    pub(super) result: AttemptResult,
}

/// All running attempts.
pub(super) struct Attempts {
    under_way: BTreeMap<RunId, UnderWay>,
    tasks: JoinSet<(Box<Task>, Result<AttemptResult, RunError>)>,
    reports: mpsc::UnboundedReceiver<(RunId, AttemptEvent)>,
    reporter: mpsc::UnboundedSender<(RunId, AttemptEvent)>,
    /// Whether an attempt has ended in this agent.
    has_ended_one: bool,
}

impl Attempts {
    pub(super) fn new() -> Self {
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            under_way: BTreeMap::new(),
            tasks: JoinSet::new(),
            reports,
            reporter,
            has_ended_one: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns the dispatch of a run's running attempt; `None` if none is running.
    pub(super) fn dispatch(&self, run: &RunId) -> Option<u32> {
        Some(self.under_way.get(run)?.dispatch)
    }

    /// Returns the nodes of the running attempts.
    pub(super) fn nodes(&self) -> BTreeSet<&String> {
        self.under_way.values().flat_map(|u| &u.nodes).collect()
    }

    /// Cuts off the running attempt of a run, if there is one.
    pub(super) fn stop(&self, run: &RunId) {
        if let Some(under_way) = self.under_way.get(run) {
            under_way.stop_request.send_replace(StopRequest::StopNow);
        }
    }

    /// Cuts off all attempts. Returns the runs that had the whole time of the job.
    pub(super) fn stop_all(&self) -> BTreeSet<RunId> {
        self.under_way.keys().for_each(|run| self.stop(run));
        let had_whole_job = self.under_way.iter().filter(|(_, u)| u.had_whole_job);
        had_whole_job.map(|(run, _)| run.clone()).collect()
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, task: Box<Task>, workplace: Arc<dyn Workplace>, spool: &Spool) {
        let run = task.planned.id.clone();
        let (stop_request, stop_signal) = watch::channel(StopRequest::GoOn);
        self.under_way.insert(
            run.clone(),
            UnderWay {
                dispatch: task.dispatch,
                had_whole_job: !self.has_ended_one,
                nodes: task.nodes.clone(),
                stop_request,
            },
        );
        let reporter = AttemptReporter {
            run: run.clone(),
            to: self.reporter.clone(),
        };
        let span = tracing::info_span!("run", run = %run, point = %task.planned.point);
        let (log, dir) = (spool.trace(), spool.campaign());
        let before = fs::metadata(&log).map_or(0, |m| m.len());
        let attempt = async move {
            let result = workplace.attempt(&task, stop_signal, &reporter).await;
            tracing::info!(outcome = ?result, "attempt ended");
            if let Ok(AttemptResult::Ended(file)) = &result {
                let kept = if file.outcome == Outcome::Succeeded {
                    dir.run(&run)
                } else {
                    dir.failed(&run, file.attempt)
                };
                keep_log(&log, before, &kept);
            }
            (task, result)
        };
        self.tasks.spawn(attempt.instrument(span));
    }

    /// Waits for the next report or end of an attempt; forever if no attempt is running. Its future can be dropped, and the method called again.
    /// Before the end of an attempt is handled, all its reports must be taken with [`take_report`](Self::take_report).
    pub(super) async fn next(&mut self) -> Result<AttemptNews, AgentError> {
        tokio::select! {
            biased;
            Some((run, event)) = self.reports.recv() => Ok(AttemptNews::Reported(run, event)),
            Some(ended) = self.tasks.join_next() => {
                let (task, result) = ended.map_err(|e| AgentError::Unable(format!("internal error (please report): {e}")))?;
                let result = result.unwrap_or_else(|error| AttemptResult::Failed {
                    // the attempt's directory could not be written, which fails the run
                    cause: Cause::Store,
                    detail: error.to_string(),
                });
                Ok(AttemptNews::Ended(EndedAttempt { attempt: AwaitedAttempt::of_task(&task), result }))
            }
        }
    }

    /// Returns a report that has arrived; `None` if there is none.
    pub(super) fn take_report(&mut self) -> Option<(RunId, AttemptEvent)> {
        self.reports.try_recv().ok()
    }

    /// Converts a report to an event; `None` if its attempt has ended.
    pub(super) fn event_of(&self, run: RunId, report: AttemptEvent) -> Option<Event> {
        let dispatch = self.dispatch(&run)?;
        Some(match report {
            AttemptEvent::Started(shepherd) => Event::Started {
                id: DispatchId { run, dispatch },
                shepherd,
            },
            AttemptEvent::Stage(stage) => Event::Stage { run, stage },
        })
    }

    /// Records that an attempt has ended.
    pub(super) fn note_ended(&mut self, run: &RunId) {
        self.under_way.remove(run);
        self.has_ended_one = true;
    }
}

/// Copies the part of the agent's log after offset `before` into a run's directory, from which the controller fetches it.
fn keep_log(log: &Utf8Path, before: u64, run: &Utf8Path) {
    let copy = || -> std::io::Result<()> {
        let mut from = File::open(log)?;
        from.seek(SeekFrom::Start(before))?;
        std::io::copy(&mut from, &mut File::create(run.join(spool::TRACE))?)?;
        Ok(())
    };
    if let Err(error) = copy() {
        // a run is complete without this log
        tracing::warn!(%error, %run, "the log of the run cannot be kept");
    }
}
