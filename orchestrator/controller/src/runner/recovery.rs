//! Recovers the state that earlier controllers left: ends or adopts open runs, keeps complete ones, and repeats missing ones.

use super::{record::CampaignRecord, retries::NodeLoss, sites::Sites};
use crate::observe::SessionProgress;
use cvc_core::campaign::SiteKind;
use cvc_core::ids::RunId;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::store::{StoreError, read_outcome, remove_all, remove_torn, sealed_outcome};
use cvc_engine::attempt::{conclude_failed, recover_run};
use cvc_journal::{Event, RunState};
use cvc_sites::error::CampaignError;
use std::{collections::BTreeSet, io::ErrorKind};

impl CampaignRecord<'_> {
    /// Handles the runs that were open when a controller ended: ends their processes, keeps complete results, and marks the other runs to be
    /// repeated.
    pub(super) fn recover(&mut self, sites: &Sites) -> Result<(), CampaignError> {
        let open: Vec<(RunId, u32, _)> = self
            .journal
            .state()
            .runs
            .iter()
            .filter_map(|(run, history)| match &history.state {
                RunState::Open { attempt, shepherd } => Some((run.clone(), *attempt, *shepherd)),
                RunState::Abandoned { .. } | RunState::Finished { .. } => None,
            })
            .collect();
        // read once: there may be a hundred thousand names
        let names = self.run_names()?;
        self.repeat_missing_runs(&names)?;
        self.adopt_complete_runs(&names)?;
        self.remove_partial_runs(&names)?;
        for (run, attempt, shepherd) in open {
            if self.is_remote(&run) {
                // the run may still be active on its site: the site's agent is queried when the site is opened
                match sealed_outcome(&self.dir, &run, attempt) {
                    Some(file) => self.journal.write(Event::finished(run, file))?,
                    None => {
                        remove_all(&self.dir.partial(&run))?;
                        remove_torn(&self.dir, &run, attempt)?;
                        self.scheduler.adopt(&run);
                    }
                }
                continue;
            }
            let context_of = |site: &str| sites.executor(site)?.local_context();
            let (ended, whole) = recover_run(&self.dir, context_of, &run, attempt, shepherd)?;
            self.observer.on(&SessionProgress::Recovered {
                run: run.clone(),
                ended: ended.len() as u64,
                kept: whole.is_some(),
            });
            match whole {
                Some(file) => self.journal.write(Event::finished(run, file))?,
                None => self.abandon_with_controller(run, attempt, ended)?,
            }
        }
        Ok(())
    }

    /// Returns the names below `runs/`; empty if that directory does not exist, as before the first session.
    fn run_names(&self) -> Result<BTreeSet<String>, CampaignError> {
        let runs = self.dir.runs();
        match runs.read_dir_utf8() {
            Ok(entries) => Ok(entries
                .flatten()
                .map(|entry| entry.file_name().to_owned())
                .collect()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(StoreError::io("list", &runs)(error).into()),
        }
    }

    /// Records that a run was interrupted because its controller was killed or lost power. The run is repeated; but if this has happened to the run
    /// too often, the run counts as failed.
    fn abandon_with_controller(
        &mut self,
        run: RunId,
        attempt: u32,
        ended: Vec<u32>,
    ) -> Result<(), CampaignError> {
        let state = self.journal.state();
        let with_controller = !state.stop_asked;
        let times = match self.scheduler.retries.judge_end_of_controller(state, &run) {
            NodeLoss::TooOften(times) if with_controller => times,
            NodeLoss::TooOften(_) | NodeLoss::Again => {
                return self.journal.write(Event::RunAbandoned {
                    run,
                    attempt,
                    ended,
                    lost: false,
                    with_controller,
                });
            }
        };
        let detail = format!(
            "cvc was ended {times} times during this run, by KILL, for lack of memory, or with its machine: check what the run does to the machine, then retry \
             it with `cvc run --retry-failed`"
        );
        let file = conclude_failed(&self.dir, &run, attempt, Cause::EndedFromOutside, detail)?;
        let (outcome, wall_s) = (file.outcome.clone(), file.wall_s);
        self.journal.write(Event::finished(run.clone(), file))?;
        let retry = !self
            .scheduler
            .retries
            .used_up(self.journal.state(), &run, attempt);
        let point = self
            .plan
            .runs
            .iter()
            .find(|planned| planned.id == run)
            .map(|planned| planned.point.clone());
        // the end of a run that is no longer in the plan does not matter
        let Some(point) = point else { return Ok(()) };
        self.observer.on(&SessionProgress::RunFinished {
            output: self.output_of(&run, attempt, &outcome),
            run,
            outcome,
            wall_s,
            retry,
            not_again: None,
        });
        if retry {
            Ok(())
        } else {
            self.set_aside(&point)
        }
    }

    /// Marks runs that had succeeded but whose directories have been deleted, so that they are repeated.
    fn repeat_missing_runs(&mut self, there: &BTreeSet<String>) -> Result<(), CampaignError> {
        let succeeded =
            self.journal
                .state()
                .runs
                .iter()
                .filter_map(|(run, history)| match &history.state {
                    RunState::Finished {
                        attempt,
                        outcome: Outcome::Succeeded,
                        ..
                    } => Some((run, *attempt)),
                    RunState::Finished { .. }
                    | RunState::Open { .. }
                    | RunState::Abandoned { .. } => None,
                });
        let missing: Vec<(RunId, u32)> = succeeded
            .filter(|(run, _)| !there.contains(run.as_str()))
            .map(|(run, attempt)| (run.clone(), attempt))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        for (run, attempt) in &missing {
            let reason = "its directory is missing".to_owned();
            self.journal.write(Event::RunDiscarded {
                run: run.clone(),
                attempt: *attempt,
                reason,
            })?;
        }
        self.observer.on(&SessionProgress::Missing {
            runs: missing.into_iter().map(|(run, _)| run).collect(),
        });
        Ok(())
    }

    /// Journals complete runs that the journal does not have, because it was restored from an older copy or has lost its end. Otherwise the runs
    /// would be repeated, and the repeated runs would replace their directories.
    fn adopt_complete_runs(&mut self, names: &BTreeSet<String>) -> Result<(), CampaignError> {
        let mut taken_in = Vec::new();
        for name in names {
            let Ok(run) = RunId::try_from(name.clone()) else {
                continue;
            };
            match self.journal.state().run(&run) {
                // open attempts are recovered separately
                Some(
                    RunState::Open { .. }
                    | RunState::Finished {
                        outcome: Outcome::Succeeded,
                        ..
                    },
                ) => continue,
                Some(RunState::Abandoned { .. } | RunState::Finished { .. }) | None => {}
            }
            let file = read_outcome(&self.dir.run(&run))
                .ok()
                .filter(|file| file.outcome == Outcome::Succeeded);
            let Some(file) = file.and_then(|file| sealed_outcome(&self.dir, &run, file.attempt))
            else {
                continue;
            };
            self.journal.write(Event::RunIntended {
                run: run.clone(),
                attempt: file.attempt,
                nodes: Default::default(),
            })?;
            self.journal.write(Event::finished(run.clone(), file))?;
            taken_in.push(run);
        }
        if !taken_in.is_empty() {
            self.observer
                .on(&SessionProgress::TakenIn { runs: taken_in });
        }
        Ok(())
    }

    /// Removes the directories of runs that were only partly fetched. They are left if one controller was fetching a run while another one took the
    /// campaign over and recorded the end of the run. No further attempt at such a run removes them.
    fn remove_partial_runs(&self, names: &BTreeSet<String>) -> Result<(), CampaignError> {
        for name in names {
            let Some(Ok(run)) = name
                .strip_suffix(".partial")
                .map(|run| RunId::try_from(run.to_owned()))
            else {
                continue;
            };
            if !matches!(self.journal.state().run(&run), Some(RunState::Open { .. })) {
                remove_all(&self.dir.partial(&run))?;
            }
        }
        Ok(())
    }

    /// Returns whether a run of the plan is carried out on other machines.
    fn is_remote(&self, run: &RunId) -> bool {
        let site = self
            .scheduler
            .point_of(run)
            .and_then(|p| self.spec.sites.get(&p.site));
        site.is_some_and(|s| s.kind != SiteKind::Local)
    }

    /// Gives failed runs their full number of attempts again.
    pub(super) fn forget_failures(&mut self) -> Result<(), CampaignError> {
        for (run, attempts) in self.journal.reopen_failed() {
            self.scheduler.forgive(run, attempts);
        }
        // journaled, because the points would otherwise be quarantined again after a crash
        for point in self.journal.state().quarantined.clone() {
            self.journal.write(Event::PointReleased { point })?;
        }
        Ok(())
    }
}
