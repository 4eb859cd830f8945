//! What a campaign has on its sites while it runs: their agents and machines, the budget, and requests to stop.

use super::{
    budget::{Budget, BudgetView},
    closing_clouds::ClosingClouds,
    record::CampaignRecord,
    sites::Sites,
};
use crate::observe::Progress;
use cvc_core::ids::PointId;
use cvc_core::stop::{StopRequest, StopRequests, StopSignal};
use cvc_journal::Event;
use cvc_sites::error::{CampaignError, OverBudget};
use indexmap::IndexMap;
use std::{collections::HashMap, sync::Arc};

/// The sites of a campaign under way, with all that follows from their events.
pub(super) struct Resources<'a> {
    pub(super) record: CampaignRecord<'a>,
    pub(super) budget: Budget<'a>,
    pub(super) sites: Sites,
    /// Fleets that are being given back, at the same time as everything else.
    pub(super) closing: ClosingClouds,
    pub(super) stops: Stops,
    pub(super) phase: Phase,
    pub(super) problems: Problems,
}

/// What the session does with machines and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It runs the plan. Kept machines are used, or stay as they are.
    Running,
    /// It ends what was left, kept machines included, and runs nothing.
    Clearing,
    /// Everything is being closed, so that no failure of a site's task may interrupt that.
    Closing(Extent),
}

/// What is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Everything,
    /// Clusters keep what they have, because this machine has no room for the results that are only there.
    AllButResults,
}

/// Requests to stop.
pub(super) struct Stops {
    /// The user's.
    pub(super) user: StopSignal,
    /// Stop attempts: the user's.
    pub(super) runs: Arc<StopRequests>,
    /// Stop attempts that cost money: the same, or the end of the budget.
    pub(super) paid_runs: Arc<StopRequests>,
}

/// Problems that do not end the session, but are its result.
#[derive(Default)]
pub(super) struct Problems {
    /// Sites of earlier sessions that could not be cleared, or an attempt's end that left something.
    pub(super) leftover: Option<CampaignError>,
    /// The reason why the only site no longer works.
    pub(super) failure: Option<CampaignError>,
}

/// The first of several failures, which is the result; the others are reported at once.
#[derive(Default)]
pub(super) struct Failures(pub(super) Option<CampaignError>);

impl Failures {
    pub(super) fn add(&mut self, error: CampaignError, record: &mut CampaignRecord<'_>) {
        match self.0 {
            None => self.0 = Some(error),
            Some(_) => record.say(&error),
        }
    }
}

impl Resources<'_> {
    /// The spending until now.
    pub(super) fn budget_view(&self) -> BudgetView<'_> {
        BudgetView {
            state: self.record.state(),
            ledger: self.record.journal.ledger(),
            scheduler: &self.record.scheduler,
            by_use: self.budget.billed_by_use(|site| self.sites.cores(site)),
        }
    }

    /// Finds points that cannot run, because something is not installed or their site is not open, and reports them by reason.
    pub(super) fn look_for_obstacles(
        &mut self,
        of_site: Option<&str>,
    ) -> Result<(), CampaignError> {
        let runs: HashMap<&PointId, u64> =
            self.record
                .scheduler
                .runs_of_session()
                .fold(HashMap::new(), |mut runs, r| {
                    *runs.entry(&r.point).or_default() += 1;
                    runs
                });
        let mut reasons: IndexMap<String, (Vec<PointId>, Vec<_>, u64)> = IndexMap::new();
        let is_meant = |site: &str| of_site.is_none_or(|of_site| of_site == site);
        for planned in self
            .record
            .plan
            .points
            .iter()
            .filter(|p| runs.contains_key(&p.id) && is_meant(&p.point.site))
        {
            let obstacle = match self.sites.executor(&planned.point.site) {
                Some(executor) => executor.obstacle(planned),
                // it is not needed, or could not be opened
                None => self.record.scheduler.obstacle(&planned.id).cloned(),
            };
            if let Some(reason) = obstacle {
                let (ids, points, of_reason) = reasons.entry(reason).or_default();
                ids.push(planned.id.clone());
                points.push(planned.point.clone());
                *of_reason += runs.get(&planned.id).copied().unwrap_or(0);
            }
        }
        for (reason, (ids, points, runs)) in reasons {
            self.record.scheduler.obstruct(ids.iter().cloned(), &reason);
            self.record.journal.write(Event::PointsSkipped {
                points: ids,
                reason: reason.clone(),
            })?;
            self.record.observer.on(&Progress::Skipped {
                reason,
                points,
                runs,
            });
        }
        Ok(())
    }

    /// Begins no more runs that cost money, and ends those under way.
    pub(super) fn out_of_money(&mut self) -> Result<(), CampaignError> {
        let Some(limit) = self.budget.limit().map(|b| b.usd) else {
            return Ok(());
        };
        self.budget.note_exceeded();
        let used_up = format!("the budget of ${limit:.2} is used up");
        self.record
            .say(format!("{used_up}: ending runs and giving machines back"));
        self.stops.paid_runs.request(StopRequest::StopNow);
        let view = self.budget_view();
        let waiting = self.record.open_runs(|site| self.budget.costs(&view, site));
        drop(view);
        self.record.give_up(
            &waiting,
            format!("{used_up}; {}", OverBudget::hint("cvc run")),
        )?;
        // those on which nothing runs; the others follow when their runs have ended
        self.close_idle_clouds();
        Ok(())
    }

    pub(super) fn goes_on(&self) -> bool {
        *self.stops.user.borrow() == StopRequest::GoOn
    }
}
