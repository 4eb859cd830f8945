//! A campaign's record: its plan, its journal, its pending runs, and the receivers of its events.

use super::{enough, journaled::Journaled, options::Options, scheduler::Scheduler};
use crate::observe::{Guarded, SessionProgress};
use camino::Utf8PathBuf;
use cvc_core::campaign::Spec;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::Outcome;
use cvc_core::panics::panic_if_asked;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::Point;
use cvc_core::store::CampaignDir;
use cvc_engine::attempt::AttemptEvent;
use cvc_journal::{CampaignState, Event};
use cvc_sites::error::CampaignError;
use std::collections::BTreeSet;

/// The record of a campaign under way.
pub(super) struct CampaignRecord<'a> {
    pub(super) spec: &'a Spec,
    pub(super) plan: &'a Plan,
    pub(super) options: &'a Options,
    pub(super) dir: CampaignDir,
    pub(super) journal: Journaled<'a>,
    pub(super) scheduler: Scheduler<'a>,
    pub(super) observer: Guarded<'a>,
}

/// Why an attempt does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandoned {
    /// The attempt was stopped, or its site no longer works.
    CutOff,
    /// The attempt's agent or nodes were lost.
    Lost,
}

impl<'a> CampaignRecord<'a> {
    /// Returns the state folded from the journal.
    pub(super) fn state(&self) -> &CampaignState {
        self.journal.state()
    }

    /// Skips settled runs at the beginning of the plan and of each queue.
    pub(super) fn advance(&mut self) {
        self.scheduler.advance(self.journal.state());
    }

    /// Returns the runs that remain and are not under way, on sites for which `wanted` is true, in the order of the plan.
    pub(super) fn open_runs(&self, wanted: impl Fn(&str) -> bool) -> Vec<&'a PlannedRun> {
        self.scheduler.open_runs(self.state(), wanted)
    }

    /// Returns the runs of one point that remain and are not under way.
    pub(super) fn open_runs_of(&self, point: &PointId) -> Vec<&'a PlannedRun> {
        self.scheduler.open_runs_of(self.state(), point)
    }

    /// Leaves runs for later sessions.
    pub(super) fn leave_out<'r>(&mut self, runs: impl IntoIterator<Item = &'r RunId>) {
        self.scheduler.leave_out(self.journal.state(), runs);
    }

    /// Reports a message about a site to the observer.
    pub(super) fn say(&mut self, what: impl ToString) {
        let what = what.to_string();
        self.observer.on(&SessionProgress::Site { what });
    }

    /// Journals that nothing is left of a site.
    pub(super) fn site_closed(&mut self, site: &str) -> Result<(), CampaignError> {
        self.journal.write(Event::SiteClosed {
            site: site.into(),
            forgotten: false,
        })
    }

    /// Journals that an attempt does not count.
    pub(super) fn abandon(
        &mut self,
        run: &RunId,
        attempt: u32,
        why: Abandoned,
    ) -> Result<(), CampaignError> {
        self.journal.write(Event::RunAbandoned {
            run: run.clone(),
            attempt,
            ended: Vec::new(),
            lost: why == Abandoned::Lost,
            with_controller: false,
        })
    }

    /// Quarantines a point if too many of its runs have failed.
    pub(super) fn set_aside(&mut self, point: &PointId) -> Result<(), CampaignError> {
        let Some((failures, skipped)) = self.scheduler.to_quarantine(self.journal.state(), point)
        else {
            return Ok(());
        };
        self.journal.write(Event::PointQuarantined {
            point: point.clone(),
            failures,
        })?;
        self.observer.on(&SessionProgress::Quarantined {
            point: point.clone(),
            skipped,
        });
        Ok(())
    }

    /// Records that a point needs no further run, if the campaign has a criterion for that and the point meets it.
    pub(super) fn decide(&mut self, point: &PointId) -> Result<(), CampaignError> {
        let Some(until) = self.spec.run.until.clone() else {
            return Ok(());
        };
        let state = self.journal.state();
        if state.decided.contains_key(point) || state.quarantined.contains(point) {
            return Ok(());
        }
        let (runs, open) = self.scheduler.counted_runs(state, point);
        let Some(decision) = enough::decide(&until, &self.dir, &runs, open) else {
            return Ok(());
        };
        self.journal.write(Event::PointDecided {
            point: point.clone(),
            repeats: decision.repeats,
            is_narrow: decision.is_narrow,
            reason: decision.reason.clone(),
        })?;
        self.observer.on(&SessionProgress::Decided {
            point: point.clone(),
            reason: decision.reason,
            not_needed: open,
        });
        Ok(())
    }

    /// Handles an event of an attempt: reports it to the observer, or journals it.
    pub(super) fn on_attempt_event(
        &mut self,
        run: &RunId,
        event: AttemptEvent,
    ) -> Result<(), CampaignError> {
        match event {
            AttemptEvent::Started(shepherd) => {
                panic_if_asked("walk");
                let Some(attempt) = self.scheduler.under_way().get(run).map(|t| t.attempt) else {
                    return Ok(());
                };
                self.journal.write(Event::RunStarted {
                    run: run.clone(),
                    attempt,
                    pid: shepherd.pid,
                    start_ticks: shepherd.start_ticks,
                })
            }
            AttemptEvent::Stage(stage) => {
                self.observer.on(&SessionProgress::Stage {
                    run: run.clone(),
                    stage,
                });
                Ok(())
            }
        }
    }

    /// Returns the file with the program's own message about a failure.
    pub(super) fn output_of(
        &self,
        run: &RunId,
        attempt: u32,
        outcome: &Outcome,
    ) -> Option<Utf8PathBuf> {
        match outcome {
            Outcome::Succeeded => None,
            Outcome::Failed { cause, .. } => self.dir.output_of(run, attempt, *cause),
        }
    }

    /// Skips all runs of the points of these runs for the rest of this session.
    pub(super) fn give_up(
        &mut self,
        waiting: &[&PlannedRun],
        reason: String,
    ) -> Result<(), CampaignError> {
        if waiting.is_empty() {
            return Ok(());
        }
        let ids: BTreeSet<PointId> = waiting.iter().map(|r| r.point.clone()).collect();
        let points: Vec<Point> = ids
            .iter()
            .filter_map(|p| self.scheduler.point(p).cloned())
            .collect();
        self.scheduler.obstruct(ids.iter().cloned(), &reason);
        self.journal.write(Event::PointsSkipped {
            points: ids.into_iter().collect(),
            reason: reason.clone(),
        })?;
        self.observer.on(&SessionProgress::Skipped {
            reason,
            points,
            runs: waiting.len() as u64,
        });
        Ok(())
    }
}
