//! Resources of a campaign on its sites during a session: agents and machines, the budget, and requests to stop.

use super::{
    budget::{BudgetView, BudgetWatch},
    closing_clouds::ClosingClouds,
    record::CampaignRecord,
    sites::Sites,
};
use crate::observe::SessionProgress;
use cvc_core::ids::PointId;
use cvc_core::stop::{StopRequest, StopRequests, StopSignal};
use cvc_journal::Event;
use cvc_sites::error::{CampaignError, OverBudget};
use indexmap::IndexMap;
use std::{collections::HashMap, sync::Arc};

/// The sites of an active campaign; handles their events.
pub(super) struct Resources<'a> {
    pub(super) record: CampaignRecord<'a>,
    pub(super) budget: BudgetWatch<'a>,
    pub(super) sites: Sites,
    /// Fleets that are being given back, concurrently with everything else.
    pub(super) closing: ClosingClouds,
    pub(super) stops: Stops,
    pub(super) phase: Phase,
    pub(super) problems: Problems,
}

/// What the session does with machines and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The session runs the plan. Kept machines are used, or stay unchanged.
    Running,
    /// The session only ends and removes what earlier sessions left, including kept machines. It carries out no run.
    Clearing,
    /// Everything is being closed; a failure of a site's task must not interrupt that.
    Closing(ResourceExtent),
}

/// How much of the campaign's resources is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceExtent {
    Everything,
    /// Everything except results that exist only on clusters, because this machine has no room for them.
    AllButResults,
}

/// Requests to stop.
pub(super) struct Stops {
    /// The user's requests.
    pub(super) user: StopSignal,
    /// Stops attempts on the user's request.
    pub(super) runs: Arc<StopRequests>,
    /// Stops attempts that cost money, on the user's request or at the end of the budget.
    pub(super) paid_runs: Arc<StopRequests>,
}

/// Problems that do not interrupt the session, but are returned as its result.
#[derive(Default)]
pub(super) struct Problems {
    /// Something that an earlier session or an attempt left on a site, and that could not be removed.
    pub(super) leftover: Option<CampaignError>,
    /// The reason why the only site no longer works.
    pub(super) failure: Option<CampaignError>,
}

/// The first of several failures, which becomes the result; further failures are reported immediately.
#[derive(Default)]
pub(super) struct FailureCounts(pub(super) Option<CampaignError>);

impl FailureCounts {
    pub(super) fn add(&mut self, error: CampaignError, record: &mut CampaignRecord<'_>) {
        match self.0 {
            None => self.0 = Some(error),
            Some(_) => record.say(&error),
        }
    }
}

impl Resources<'_> {
    /// Returns the current spending, with the resources that continue to cost.
    pub(super) fn budget_view(&self) -> BudgetView<'_> {
        BudgetView {
            state: self.record.state(),
            ledger: self.record.journal.ledger(),
            scheduler: &self.record.scheduler,
            by_use: self.budget.billed_by_use(|site| self.sites.cores(site)),
        }
    }

    /// Finds points that cannot run, because software is not installed or their site is not open; reports them by reason.
    pub(super) fn find_obstacles(&mut self, of_site: Option<&str>) -> Result<(), CampaignError> {
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
                // the site is not needed, or could not be opened
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
            self.record.observer.on(&SessionProgress::Skipped {
                reason,
                points,
                runs,
            });
        }
        Ok(())
    }

    /// Stops beginning runs that cost money, and ends the active ones.
    pub(super) fn budget_exhausted(&mut self) -> Result<(), CampaignError> {
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
        // sites on which nothing is active; the others follow when their runs have ended
        self.close_idle_clouds();
        Ok(())
    }

    pub(super) fn continues(&self) -> bool {
        *self.stops.user.borrow() == StopRequest::GoOn
    }
}
