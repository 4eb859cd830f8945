//! Attempts of a session: starts them, and handles the consequences of their ends.

use super::{
    Attempts, CampaignRunner, StepEffect,
    record::{Abandoned, CampaignRecord},
    resources::Resources,
    retries::NodeLoss,
};
use crate::observe::SessionProgress;
use cvc_core::ids::{NodeName, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::panics::panic_if_asked;
use cvc_core::plan::PlannedRun;
use cvc_core::point::Point;
use cvc_core::store::{KeptCheckpoint, OutcomeFile, StoreError, read_outcome};
use cvc_engine::attempt::{AttemptReporter, AttemptResult, Task, conclude_failed};
use cvc_journal::{Event, RunState};
use cvc_sites::error::{CampaignError, OverBudget};
use tracing::Instrument;

impl CampaignRunner<'_> {
    /// Returns the number of the most informative next run if the first runs of the site failed; `None` if there is none, or if that run may not
    /// start now.
    pub(super) fn preferred(&self, next: usize) -> Option<usize> {
        if self.resources.record.scheduler.is_adopted(next) {
            return None;
        }
        let (state, scheduler) = (
            self.resources.record.state(),
            &self.resources.record.scheduler,
        );
        let site = scheduler
            .point(&self.resources.record.plan.runs[next].point)?
            .site
            .as_str();
        let open = || scheduler.open_numbers(state, site);
        let number = self.fail_fast.preferred(site, open)?;
        let planned = &self.resources.record.plan.runs[number];
        let may_start = scheduler
            .nodes_for(planned, &self.resources.sites)
            .is_some()
            && !self
                .limit
                .excludes(planned, &self.resources.record.options.expected_s);
        may_start.then_some(number)
    }

    /// Starts all runs that may start now; gives up points that the budget does not cover.
    pub(super) fn start_all(&mut self, attempts: &mut Attempts) -> Result<(), CampaignError> {
        while let Some(number) = self
            .resources
            .record
            .scheduler
            .next(self.resources.record.state(), &self.resources.sites)
        {
            let number = self.preferred(number).unwrap_or(number);
            let planned = &self.resources.record.plan.runs[number];
            if self
                .limit
                .excludes(planned, &self.resources.record.options.expected_s)
                && !self.resources.record.scheduler.is_adopted(number)
            {
                let of_point: Vec<&RunId> = self
                    .resources
                    .record
                    .open_runs_of(&planned.point)
                    .into_iter()
                    .map(|r| &r.id)
                    .collect();
                self.resources.record.leave_out(of_point);
                continue;
            }
            match self
                .resources
                .budget
                .unaffordable(&self.resources.budget_view(), planned)
            {
                None => self.start(planned, number as u64 + 1, attempts)?,
                Some(over) => {
                    self.resources.budget.note_exceeded();
                    let of_point = self.resources.record.open_runs_of(&planned.point);
                    self.resources.record.give_up(
                        &of_point,
                        format!("{over}; {}", OverBudget::hint("cvc run")),
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Begins one attempt.
    pub(super) fn start(
        &mut self,
        planned: &PlannedRun,
        number: u64,
        attempts: &mut Attempts,
    ) -> Result<(), CampaignError> {
        let Resources { record, sites, .. } = &mut self.resources;
        let Some(point) = record.scheduler.point(&planned.point) else {
            let what = format!("run {} names a point that is not in the plan", planned.id);
            return Err(StoreError::damaged(record.dir.plan(), 0, what).into());
        };
        let kept = record.kept_checkpoint(&planned.id);
        let nodes = record
            .scheduler
            .nodes_for(planned, sites)
            .map(|nodes| match &kept {
                Some(_) => record
                    .scheduler
                    .nodes_as_before(record.state(), planned, nodes, sites),
                None => nodes,
            });
        let executor = sites.executor(&point.site).cloned();
        let (Some(executor), Some(nodes)) = (executor, nodes) else {
            let what = format!("site {} is not open", point.site);
            return Err(CampaignError::internal(what));
        };
        let is_elsewhere = executor.local_context().is_none();
        let mut task = record.intend(planned, number, point, nodes, is_elsewhere)?;
        task.resume = kept;
        self.limit.begin(&task.planned.id);
        record.scheduler.begin(task.clone());
        let view = self.resources.budget_view();
        let stops = &self.resources.stops;
        let stop_signal = if self.resources.budget.costs(&view, &task.point.site) {
            stops.paid_runs.subscribe()
        } else {
            stops.runs.subscribe()
        };
        let run = planned.id.clone();
        let reporter = AttemptReporter {
            run: run.clone(),
            to: attempts.event_sender.clone(),
        };
        let span = tracing::info_span!("run", run = %run, site = %task.point.site, point = %task.planned.point);
        attempts.tasks.spawn(
            async move {
                panic_if_asked("attempt");
                let result = executor.attempt(&task, stop_signal, &reporter).await;
                (run, result)
            }
            .instrument(span),
        );
        Ok(())
    }

    /// Handles the end of an attempt.
    pub(super) fn ended(
        &mut self,
        run: &RunId,
        attempted: AttemptResult,
    ) -> Result<StepEffect, CampaignError> {
        let Some(task) = self.resources.record.scheduler.end(run) else {
            return Ok(StepEffect::Continues);
        };
        self.limit.finish(run, &task.planned.point);
        let (run, attempt) = (run.clone(), task.attempt);
        let (cause, detail) = match attempted {
            AttemptResult::Ended(file) => {
                self.ended_with(&task, file)?;
                return Ok(StepEffect::Continues);
            }
            AttemptResult::Failed { cause, detail } => (cause, detail),
            AttemptResult::Interrupted => match self.ended_by_budget() {
                Some(failure) => failure,
                None => {
                    self.resources
                        .record
                        .abandon(&run, attempt, Abandoned::CutOff)?;
                    return Ok(StepEffect::CutOff);
                }
            },
            AttemptResult::Lost { reason, time_limit } => {
                match self
                    .resources
                    .record
                    .scheduler
                    .retries
                    .judge_loss(self.resources.record.state(), &run)
                {
                    NodeLoss::Again => {
                        self.resources
                            .record
                            .abandon(&run, attempt, Abandoned::Lost)?;
                        self.resources
                            .record
                            .observer
                            .on(&SessionProgress::RunLost { run, reason });
                        return Ok(StepEffect::Continues);
                    }
                    NodeLoss::TooOften(losses) => {
                        let cause = if time_limit {
                            Cause::Timeout
                        } else {
                            Cause::NodeLost
                        };
                        (
                            cause,
                            format!("lost {losses} times with its agent or nodes: {reason}"),
                        )
                    }
                }
            }
        };
        let file = conclude_failed(&self.resources.record.dir, &run, attempt, cause, detail)?;
        self.ended_with(&task, file)?;
        Ok(StepEffect::Continues)
    }

    pub(super) fn ended_with(
        &mut self,
        task: &Task,
        file: OutcomeFile,
    ) -> Result<(), CampaignError> {
        let (run, attempt) = (task.planned.id.clone(), task.attempt);
        let (outcome, wall_s) = (file.outcome.clone(), file.wall_s);
        let scheduler = &self.resources.record.scheduler;
        let expected = scheduler
            .expected_failure(&task.planned.point)
            .filter(|_| outcome.is_failure_of_program());
        let not_again = expected
            .map(|reason| format!("it was expected to fail: {reason}"))
            .or_else(|| {
                self.fail_fast
                    .judge_retry(&run, &task.planned.point, &outcome, wall_s)
            })
            .filter(|_| {
                !self.resources.record.scheduler.retries.is_last(
                    self.resources.record.state(),
                    &run,
                    attempt,
                )
            });
        if let Some(kept) = &file.kept {
            self.resources
                .record
                .journal
                .write_unsynced(Event::CheckpointKept {
                    run: run.clone(),
                    attempt,
                    bytes: kept.bytes,
                })?;
        }
        let mut finished = Event::finished(run.clone(), file);
        if let Event::RunFinished { not_again: why, .. } = &mut finished {
            why.clone_from(&not_again);
        }
        match self.resources.sites.executor(&task.point.site) {
            // the sealed directory is sufficient evidence: the event may be synced together with the beginning of the next run
            Some(here) if here.local_context().is_some() => {
                self.resources.record.journal.write_unsynced(finished)?
            }
            Some(executor) => {
                self.resources.record.journal.write(finished)?;
                executor.forget(task);
            }
            None => self.resources.record.journal.write(finished)?,
        }
        let retry = outcome != Outcome::Succeeded
            && !self.resources.record.scheduler.retries.used_up(
                self.resources.record.state(),
                &run,
                attempt,
            );
        if expected.is_none() {
            self.fail_fast
                .note(&task.planned.point, &task.point, &outcome);
        }
        self.resources
            .record
            .observer
            .on(&SessionProgress::RunFinished {
                output: self.resources.record.output_of(&run, attempt, &outcome),
                run: run.clone(),
                outcome: outcome.clone(),
                wall_s,
                retry,
                not_again,
            });
        if expected.is_some() {
            return Ok(());
        }
        if !retry {
            self.resources.record.set_aside(&task.planned.point)?;
            self.resources.record.decide(&task.planned.point)?;
        }
        self.stop_if_alike(task, &outcome);
        Ok(())
    }

    /// Leaves the other runs of a site for later sessions, if its first runs failed in the same way and none has succeeded.
    pub(super) fn stop_if_alike(&mut self, task: &Task, outcome: &Outcome) {
        let Outcome::Failed { cause, detail } = outcome else {
            return;
        };
        let (site, state, scheduler) = (
            task.point.site.as_str(),
            self.resources.record.state(),
            &self.resources.record.scheduler,
        );
        let open = || scheduler.open_points(state, site);
        let has_succeeded = || scheduler.has_succeeded(state, site);
        let Some(alike) = self.fail_fast.stops(site, outcome, open, has_succeeded) else {
            return;
        };
        let waiting: Vec<RunId> = scheduler
            .open_runs(state, |s| s == site)
            .into_iter()
            .map(|planned| planned.id.clone())
            .collect();
        self.resources.record.leave_out(&waiting);
        let run = task.planned.id.clone();
        self.resources
            .record
            .observer
            .on(&SessionProgress::FailedAlike {
                site: site.to_owned(),
                cause: *cause,
                detail: detail.clone(),
                points: alike.points as u64,
                attempts: alike.attempts as u64,
                left: waiting.len() as u64,
                output: self.resources.record.output_of(&run, task.attempt, outcome),
                run,
            });
    }

    /// Returns the cause and the reason of a run that was ended because the budget is used up; `None` if the budget is not used up. The attempt does
    /// not count.
    pub(super) fn ended_by_budget(&self) -> Option<(Cause, String)> {
        let limit = self
            .resources
            .budget
            .limit()
            .filter(|_| self.resources.budget.is_exceeded())?
            .usd;
        let detail = format!(
            "ended because the budget of ${limit:.2} would have been exceeded; {}",
            OverBudget::hint("cvc run")
        );
        Some((Cause::Budget, detail))
    }
}

impl CampaignRecord<'_> {
    /// Returns the checkpoint from which the next attempt at a run continues, which the run's last attempt has kept; `None` if there is none.
    fn kept_checkpoint(&self, run: &RunId) -> Option<Box<KeptCheckpoint>> {
        if !self.spec.checkpoint.resume {
            return None;
        }
        let history = self.state().runs.get(run)?;
        let RunState::Finished { attempt, .. } = &history.state else {
            return None;
        };
        history
            .attempts
            .iter()
            .rfind(|a| a.number == *attempt)?
            .kept_bytes?;
        read_outcome(&self.dir.failed(run, *attempt)).ok()?.kept
    }

    /// Reports and journals that an attempt begins on these nodes. An attempt that an earlier controller submitted to an agent is not started again,
    /// only waited for.
    fn intend(
        &mut self,
        planned: &PlannedRun,
        number: u64,
        point: &Point,
        mut nodes: Vec<String>,
        is_elsewhere: bool,
    ) -> Result<Task, CampaignError> {
        let (run, state) = (&planned.id, self.journal.state());
        let before = self.scheduler.retries.attempts_before(state, run);
        let attempt = before.unwrap_or(0) + 1;
        let earlier = state.runs.get(run).map_or(&[][..], |h| &h.attempts);
        let mut dispatch = u32::try_from(earlier.len()).unwrap_or(u32::MAX);
        self.observer.on(&SessionProgress::RunStarted {
            run: run.clone(),
            point: Box::new(point.clone()),
            repeat: planned.repeat,
            attempt,
            number,
        });
        if matches!(state.run(run), Some(RunState::Open { .. })) {
            // an adopted run is on the nodes of the earlier controller, unless that version did not record them
            let before = earlier.last().map_or(&[][..], |a| &a.nodes[..]);
            if !before.is_empty() {
                nodes = before.iter().map(ToString::to_string).collect();
            }
            dispatch = dispatch.saturating_sub(1);
        } else {
            let elsewhere = nodes.iter().filter(|_| is_elsewhere);
            let elsewhere: Vec<NodeName> = elsewhere.cloned().map(Into::into).collect();
            let nodes = state.node_sets.write(&elsewhere);
            self.journal.write(Event::RunIntended {
                run: run.clone(),
                attempt,
                nodes,
            })?;
        }
        Ok(Task {
            planned: planned.clone(),
            disk_bytes: self.options.disk_bytes.get(&planned.point).copied(),
            nodes,
            point: point.clone(),
            attempt,
            dispatch,
            resume: None,
        })
    }
}
