//! The attempts of a walk: which begin, and what follows from their ends.

use super::{Attempts, CampaignRunner, record::Abandoned, retries::Loss};
use crate::observe::Progress;
use cvc_core::ids::{NodeName, RunId};
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::panics::panic_if_asked;
use cvc_core::plan::PlannedRun;
use cvc_core::store::{OutcomeFile, StoreError};
use cvc_engine::attempt::{AttemptReporter, AttemptResult, Task, conclude_failed};
use cvc_journal::{Event, RunState};
use cvc_sites::error::{CampaignError, OverBudget};
use tracing::Instrument;

impl CampaignRunner<'_> {
    /// The run that tells more than the next one where the first runs of a site failed, if it may start now.
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

    /// Starts all runs that may start now; points that the budget does not pay for are given up.
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
        let run = planned.id.clone();
        let Some(point) = self
            .resources
            .record
            .scheduler
            .point(&planned.point)
            .cloned()
        else {
            return Err(StoreError::damaged(
                self.resources.record.dir.plan(),
                0,
                format!("run {run} names a point that is not in the plan"),
            )
            .into());
        };
        let state = self.resources.record.journal.state();
        let attempt = self
            .resources
            .record
            .scheduler
            .retries
            .attempts_before(state, &run)
            .unwrap_or(0)
            + 1;
        let nodes = self
            .resources
            .record
            .scheduler
            .nodes_for(planned, &self.resources.sites);
        let (Some(executor), Some(mut nodes)) =
            (self.resources.sites.executor(&point.site).cloned(), nodes)
        else {
            return Err(CampaignError::internal(format!(
                "site {} is not open",
                point.site
            )));
        };
        self.resources.record.observer.on(&Progress::RunStarted {
            run: run.clone(),
            point: Box::new(point.clone()),
            repeat: planned.repeat,
            attempt,
            number,
        });
        let history = state.runs.get(&run);
        let dispatches = history.map_or(0, |history| history.attempts.len());
        // an earlier controller handed it over: only wait for it
        let resumed = matches!(state.run(&run), Some(RunState::Open { .. }));
        if resumed {
            // it is where the earlier controller had it, unless that was of a version that did not say so
            let before = history
                .and_then(|history| history.attempts.last())
                .map(|a| a.nodes.iter().map(ToString::to_string).collect::<Vec<_>>());
            nodes = before.filter(|n| !n.is_empty()).unwrap_or(nodes);
        } else {
            let elsewhere = if executor.local_context().is_none() {
                nodes.clone()
            } else {
                Vec::new()
            };
            let elsewhere: Vec<NodeName> = elsewhere.into_iter().map(Into::into).collect();
            let nodes = self.resources.record.state().node_sets.write(&elsewhere);
            self.resources.record.journal.write(Event::RunIntended {
                run: run.clone(),
                attempt,
                nodes,
            })?;
        }
        let dispatch = u32::try_from(if resumed {
            dispatches.saturating_sub(1)
        } else {
            dispatches
        })
        .unwrap_or(u32::MAX);
        let task = Task {
            planned: planned.clone(),
            disk_bytes: self
                .resources
                .record
                .options
                .disk_bytes
                .get(&planned.point)
                .copied(),
            nodes,
            point,
            attempt,
            dispatch,
        };
        self.limit.begin(&task.planned.id);
        self.resources.record.scheduler.begin(task.clone());
        let costs = self
            .resources
            .budget
            .costs(&self.resources.budget_view(), &task.point.site);
        let stop_signal = if costs {
            self.resources.stops.paid_runs.subscribe()
        } else {
            self.resources.stops.runs.subscribe()
        };
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

    /// Handles the end of an attempt. Returns whether the user cut it off.
    pub(super) fn ended(
        &mut self,
        run: &RunId,
        attempted: AttemptResult,
    ) -> Result<bool, CampaignError> {
        let Some(task) = self.resources.record.scheduler.end(run) else {
            return Ok(false);
        };
        self.limit.finish(run, &task.planned.point);
        let (run, attempt) = (run.clone(), task.attempt);
        let (cause, detail) = match attempted {
            AttemptResult::Ended(file) => return self.ended_with(&task, file).map(|()| false),
            AttemptResult::Failed { cause, detail } => (cause, detail),
            AttemptResult::Interrupted => match self.ended_by_budget() {
                Some(failure) => failure,
                None => {
                    self.resources
                        .record
                        .abandon(&run, attempt, Abandoned::CutOff)?;
                    return Ok(true);
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
                    Loss::Again => {
                        self.resources
                            .record
                            .abandon(&run, attempt, Abandoned::Lost)?;
                        self.resources
                            .record
                            .observer
                            .on(&Progress::RunLost { run, reason });
                        return Ok(false);
                    }
                    Loss::TooOften(losses) => {
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
        self.ended_with(&task, file).map(|()| false)
    }

    pub(super) fn ended_with(
        &mut self,
        task: &Task,
        file: OutcomeFile,
    ) -> Result<(), CampaignError> {
        let (run, attempt) = (task.planned.id.clone(), task.attempt);
        let (outcome, wall_s) = (file.outcome.clone(), file.wall_s);
        let not_again = self
            .fail_fast
            .judge_retry(&run, &task.planned.point, &outcome, wall_s)
            .filter(|_| {
                !self.resources.record.scheduler.retries.is_last(
                    self.resources.record.state(),
                    &run,
                    attempt,
                )
            });
        let mut finished = Event::finished(run.clone(), file);
        if let Event::RunFinished { not_again: why, .. } = &mut finished {
            why.clone_from(&not_again);
        }
        match self.resources.sites.executor(&task.point.site) {
            // its sealed directory tells the same: it may go to disk with the beginning of the next run
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
        self.fail_fast
            .note(&task.planned.point, &task.point, &outcome);
        self.resources.record.observer.on(&Progress::RunFinished {
            output: self.resources.record.output_of(&run, attempt, &outcome),
            run: run.clone(),
            outcome: outcome.clone(),
            wall_s,
            retry,
            not_again,
        });
        if !retry {
            self.resources.record.set_aside(&task.planned.point)?;
            self.resources.record.decide(&task.planned.point)?;
        }
        self.stop_if_alike(task, &outcome);
        Ok(())
    }

    /// Leaves the other runs of a site for later sessions, if its first ones failed in the same way and none has succeeded.
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
        self.resources.record.observer.on(&Progress::FailedAlike {
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

    /// The result of a run that was ended because the budget is used up; it does not count as an attempt.
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
