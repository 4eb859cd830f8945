//! The budget: it is not exceeded. What a campaign has spent is folded from its journal; before a run begins, what it will take is laid on top,
//! with what it takes to give machines back; and what runs is ended while the rest still pays for that.

use super::{super::observe::Progress, CampaignRunner, Place};
use crate::cost;
use crate::error::CampaignError;
use cvc_core::{
    campaign::{Budget, WhenShort},
    outcome::{Cause, Outcome},
    plan::{Plan, PlannedRun},
    point::Point,
    price::NodeRate,
    spending,
};
use std::{collections::BTreeMap, time::Duration};

/// Giving instances back, seconds: they cost until the cloud has heard of it.
const RELEASE_S: f64 = 60.0;
/// A run that ends on time takes so much longer than its time limit: it is prepared, ended and collected.
const AROUND_RUN_S: f64 = 60.0;
/// Where nothing says how long a run takes, seconds.
const UNKNOWN_RUN_S: f64 = 60.0;

impl CampaignRunner<'_> {
    /// What nodes cost on sites that are billed by use, as the user says.
    fn billed_by_use(&self) -> BTreeMap<String, NodeRate> {
        let rate = |name: &str| {
            let site = self.spec.sites.get(name).filter(|s| s.ec2.is_none())?;
            let cores = match self.places.get(name) {
                Some(Place::Remote(remote)) => Some(remote.ready().cores),
                Some(Place::Here(executor)) => Some(executor.site.cores),
                None => None,
            };
            NodeRate::of_settings(&site.price, site.cluster.as_ref().and_then(|c| c.cores).or(cores))
        };
        self.spec.sites.keys().filter_map(|name| Some((name.clone(), rate(name)?))).collect()
    }

    /// What will have been spent after so many seconds, if nothing else begins or ends: also what is billed at least counts.
    fn spent_after(&self, seconds: f64) -> f64 {
        let ahead = jiff::SignedDuration::try_from_secs_f64(seconds).unwrap_or_default();
        let then = jiff::Timestamp::now().saturating_add(ahead).unwrap_or(jiff::Timestamp::MAX);
        let site_of = |run: &cvc_core::ids::RunId| {
            let point = self.run_points.get(run).and_then(|id| self.points.get(id))?;
            Some((point.site.clone(), point.mapping.nodes()))
        };
        let attempts = spending::attempts_cost(&self.state, site_of, &self.billed_by_use(), then);
        let leases = spending::campaign_cost(&self.state, then);
        spending::total(attempts.values()).usd + spending::total(leases.values()).usd
    }

    /// What each second costs from now on, if nothing changes.
    fn per_s(&self) -> f64 {
        let by_use = self.billed_by_use();
        let of_run = |task: &super::Task| Some(by_use.get(&task.point.site)?.cost_of(1.0, task.point.mapping.nodes()));
        let of_lease = |lease: &cvc_core::journal::Lease| {
            let order = lease.order.as_ref().filter(|_| !lease.released)?;
            let alive = if lease.job.is_some() { lease.instances().len() - lease.lost.len() } else { order.count as usize };
            Some(order.usd_per_hour? / 3600.0 * alive as f64)
        };
        let runs: f64 = self.under_way.values().filter_map(of_run).sum();
        runs + self.state.leases.iter().filter_map(of_lease).sum::<f64>()
    }

    /// Whether runs of a site cost.
    pub(super) fn costs(&self, site: &str) -> bool {
        self.spec.sites.get(site).is_some_and(|s| s.ec2.is_some()) || self.billed_by_use().contains_key(site)
    }

    /// Instances that a site's points need beside those that are there.
    fn missing_nodes(&self, site: &str, points: impl Iterator<Item = u32>) -> Option<u32> {
        let of_site = self.spec.sites.get(site)?;
        let most = points.max()?;
        let needed = of_site.nodes_for(most);
        let leases = self.state.leases.iter().filter(|l| l.site == site && !l.released && l.order.is_some());
        let there: usize = leases.map(|l| l.instances().len().saturating_sub(l.lost.len())).sum();
        Some(needed.saturating_sub(u32::try_from(there).unwrap_or(u32::MAX)))
    }

    /// How long a run may take: what is expected, or its time limit where it is to be finished whatever happens.
    fn run_s(&self, planned: &PlannedRun, budget: &Budget) -> f64 {
        match budget.when_short {
            WhenShort::End => self.options.expected_s.get(&planned.point).copied().unwrap_or(UNKNOWN_RUN_S),
            WhenShort::Finish => self.spec.run.timeout_s + AROUND_RUN_S,
        }
    }

    /// Why a run cannot be paid for; `None` if it can, or if it costs nothing.
    pub(super) fn unaffordable(&self, planned: &PlannedRun) -> Option<String> {
        let budget = self.spec.budget.as_ref()?;
        let point = self.points.get(&planned.point)?;
        let site = self.spec.sites.get(&point.site)?;
        if !spending::total(spending::campaign_cost(&self.state, jiff::Timestamp::now()).values()).is_known() {
            return Some("the budget: nobody knows what some of its instances cost, so that it could be exceeded".into());
        }
        let run_s = self.run_s(planned, budget);
        // instances that are there cost while it runs, whichever site it is on
        let of_run = match (&site.ec2, self.billed_by_use().get(&point.site)) {
            (None, Some(rate)) => rate.cost_of(run_s, point.mapping.nodes()),
            (Some(_), _) | (None, None) => 0.0,
        };
        if of_run == 0.0 && self.per_s() == 0.0 {
            return None;
        }
        let spent = self.spent_after(0.0);
        let will_be = self.spent_after(run_s + RELEASE_S) + of_run;
        (will_be > budget.usd).then(|| {
            format!(
                "the budget: ${spent:.4} of ${:.2} is spent, and after a run here ({run_s:.0} s, and the time to give machines back) it would be \
                 ${will_be:.4}",
                budget.usd
            )
        })
    }

    /// Why the instances of a site cannot be paid for; `None` if they can. Instances whose price nobody knows cannot.
    pub(super) fn unaffordable_fleet(&self, site: &str, plan: &Plan) -> Option<String> {
        let budget = self.spec.budget.as_ref()?;
        let of_site = self.spec.sites.get(site)?;
        of_site.ec2.as_ref()?;
        let wanted: Vec<(&PlannedRun, &Point)> = plan
            .runs
            .iter()
            .filter_map(|r| Some((r, self.points.get(&r.point)?)))
            .filter(|(r, p)| p.site == site && !self.settled(r))
            .collect();
        let nodes = self.missing_nodes(site, wanted.iter().map(|(_, p)| p.mapping.nodes()))?;
        let book = cost::PriceBook::open(&cost::cache_file());
        let Some(rate) = cost::dearest_rate(&book, of_site, None) else {
            return Some(
                "the budget: nobody knows what its instances cost, so that it could be exceeded; `cvc prices` asks the cloud".into(),
            );
        };
        let run_s = wanted.iter().map(|(r, _)| self.run_s(r, budget)).fold(f64::INFINITY, f64::min);
        let seconds = cost::SETUP_S + run_s + RELEASE_S;
        let spent = self.spent_after(0.0);
        let will_be = self.spent_after(seconds) + rate.billed(seconds, nodes);
        (will_be > budget.usd).then(|| {
            format!(
                "the budget: ${spent:.4} of ${:.2} is spent, and after one run on {nodes} fresh instances it would be ${will_be:.4}",
                budget.usd
            )
        })
    }

    /// What is left for instances, after what it takes to give them back.
    pub(super) fn allowance(&self) -> Option<f64> {
        let budget = self.spec.budget.as_ref()?;
        Some((budget.usd - self.spent_after(RELEASE_S)).max(0.0))
    }

    /// When what runs must be ended, so that the budget pays for giving machines back; `None` if it lasts as long as anything may.
    pub(super) fn money_lasts(&self) -> Option<Duration> {
        let budget = self.spec.budget.as_ref()?;
        let per_s = self.per_s();
        if per_s <= 0.0 {
            return None;
        }
        // each step falls short of the end, by what is billed at least and would be counted twice
        let mut seconds = 0.0;
        for _ in 0..4 {
            seconds += ((budget.usd - self.spent_after(seconds + RELEASE_S)) / per_s).max(0.0);
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The same for a site whose instances are about to be launched.
    pub(super) fn money_lasts_with(&self, site: &str, plan: &Plan) -> Option<Duration> {
        let budget = self.spec.budget.as_ref()?;
        let of_site = self.spec.sites.get(site)?;
        let points = plan.points.iter().filter(|p| p.point.site == site);
        let nodes = self.missing_nodes(site, points.map(|p| p.point.mapping.nodes()))?;
        let rate = cost::dearest_rate(&cost::PriceBook::open(&cost::cache_file()), of_site, None)?;
        let seconds = (budget.usd - self.spent_after(0.0)) / (self.per_s() + rate.cost_of(1.0, nodes)) - RELEASE_S;
        Duration::try_from_secs_f64(seconds.max(0.0)).ok()
    }

    /// Runs that cost are not begun any more, and those that run are ended.
    pub(super) fn out_of_money(&mut self, plan: &Plan) -> Result<(), CampaignError> {
        let Some(budget) = self.spec.budget.clone() else { return Ok(()) };
        self.over_budget = true;
        self.observer.on(&Progress::Site {
            what: format!("the budget of ${:.2} is used up: runs are ended, and machines are given back", budget.usd),
        });
        self.cut.send_replace(super::StopRequest::StopNow);
        let costs = |r: &&PlannedRun| self.points.get(&r.point).is_some_and(|p| self.costs(&p.site));
        let open = plan.runs.iter().filter(|r| !self.settled(r) && !self.under_way.contains_key(&r.id));
        let waiting: Vec<_> = open.filter(costs).map(|r| r.point.clone()).collect();
        let runs = waiting.len() as u64;
        self.give_up(
            waiting.into_iter().collect(),
            runs,
            format!("the budget of ${:.2} is used up; raise `budget.usd`, and `cvc run` goes on", budget.usd),
        )
    }

    /// Whether the budget pays for machines that are kept.
    pub(super) fn pays_for_keeping(&self, keep_s: f64) -> bool {
        !self.over_budget && self.spec.budget.as_ref().is_none_or(|b| self.spent_after(keep_s + RELEASE_S) <= b.usd)
    }

    /// What became of a run that was ended for want of money: it does not count as an attempt.
    pub(super) fn ended_by_budget(&self) -> Option<(Cause, String)> {
        let budget = self.spec.budget.as_ref().filter(|_| self.over_budget)?;
        Some((
            Cause::Budget,
            format!(
                "ended because the budget of ${:.2} would have been exceeded; raise `budget.usd`, and `cvc run` does it again",
                budget.usd
            ),
        ))
    }

    /// Attempts that failed without any fault of the run's.
    pub(super) fn blameless(&self, run: &cvc_core::ids::RunId) -> u32 {
        let of = |cause: Cause| {
            let by = |a: &&cvc_core::journal::Attempt| matches!(a.outcome, Some(Outcome::Failed { cause: c, .. }) if c == cause);
            self.state.runs.get(run).map_or(0, |h| h.attempts.iter().filter(by).count() as u32)
        };
        // what the cloud takes back again and again is one of the plan's problems
        of(Cause::Reclaimed).min(super::MOST_RECLAIMED) + of(Cause::Budget)
    }
}
