//! Keeps the spending of a campaign within its budget. The spending so far is computed from the journal. A run begins only if the budget also covers
//! the run's expected cost and the cost of giving machines back. Active work is ended while the rest of the budget still pays for giving machines
//! back.

use super::{fleet_end::lease_usd_per_s, ledger::Ledger, scheduler::Scheduler};
use cvc_cloud::cost;
use cvc_core::campaign::{self, Spec, WhenShort};
use cvc_core::clock;
use cvc_core::ids::PointId;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::Point;
use cvc_journal::CampaignState;
use cvc_journal::budget_share::RELEASE_S;
use cvc_journal::price::NodeRate;
use cvc_journal::spending;
use cvc_sites::error::OverBudget;
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// Time that preparing, ending and collecting a run takes in addition to the run's time limit, seconds.
const AROUND_RUN_S: f64 = 60.0;
/// Assumed length of a run that has no prediction, seconds.
const UNKNOWN_RUN_S: f64 = 60.0;

/// The budget of a campaign.
pub(super) struct BudgetWatch<'a> {
    spec: &'a Spec,
    plan: &'a Plan,
    expected_s: &'a HashMap<PointId, f64>,
    /// Whether runs were not begun, or were ended, so that the budget is not exceeded.
    exceeded: bool,
}

/// The spending until a moment, and the resources that continue to cost after it.
pub(super) struct BudgetView<'b> {
    pub(super) state: &'b CampaignState,
    pub(super) ledger: &'b Ledger<'b>,
    pub(super) scheduler: &'b Scheduler<'b>,
    /// Node prices of sites that are billed by use.
    pub(super) by_use: BTreeMap<String, NodeRate>,
}

impl BudgetView<'_> {
    /// Returns the spending `seconds` from now if no other work begins or ends until then, US dollars. Includes minimum charges.
    pub(super) fn spent_after(&self, seconds: f64) -> f64 {
        let ahead = jiff::SignedDuration::try_from_secs_f64(seconds).unwrap_or_default();
        let then = clock::now()
            .saturating_add(ahead)
            .unwrap_or(jiff::Timestamp::MAX);
        let then = spending::counted_until(self.state, then);
        self.ledger.attempts_usd(&self.by_use, then) + self.ledger.leases_cost(self.state, then).usd
    }

    /// Returns the cost of each further second if nothing changes, US dollars.
    fn per_s(&self) -> f64 {
        self.by_use_per_s()
            + self
                .ledger
                .open_leases(self.state)
                .filter_map(lease_usd_per_s)
                .sum::<f64>()
    }

    /// Returns the cost per second of the active runs on nodes that are billed by use, US dollars.
    pub(super) fn by_use_per_s(&self) -> f64 {
        let of_site = |(site, rate): (&String, &NodeRate)| {
            rate.cost_of(1.0, self.scheduler.nodes_under_way(site))
        };
        self.by_use.iter().map(of_site).sum()
    }

    /// Returns whether the prices of all launched instances are known.
    fn is_known(&self) -> bool {
        self.ledger.leases_cost(self.state, clock::now()).is_known()
    }
}

impl<'a> BudgetWatch<'a> {
    /// Creates the budget; `expected_s` has the expected duration of a run of each point, seconds.
    pub(super) fn new(
        spec: &'a Spec,
        plan: &'a Plan,
        expected_s: &'a HashMap<PointId, f64>,
    ) -> Self {
        Self {
            spec,
            plan,
            expected_s,
            exceeded: false,
        }
    }

    /// Returns the limit that the user set.
    pub(super) fn limit(&self) -> Option<&'a campaign::Budget> {
        self.spec.budget.as_ref()
    }

    /// Records that runs were not begun, or were ended, so that the budget is not exceeded.
    pub(super) fn note_exceeded(&mut self) {
        self.exceeded = true;
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.exceeded
    }

    /// Returns the node prices of the sites that are billed by use, from the prices that the user states. `cores` returns the number of cores of a
    /// node of an open site.
    pub(super) fn billed_by_use(
        &self,
        cores: impl Fn(&str) -> Option<u32>,
    ) -> BTreeMap<String, NodeRate> {
        let rate = |name: &str| {
            let site = self.spec.sites.get(name).filter(|s| s.ec2.is_none())?;
            NodeRate::of_settings(
                &site.price,
                site.cluster
                    .as_ref()
                    .and_then(|c| c.cores)
                    .or_else(|| cores(name)),
            )
        };
        self.spec
            .sites
            .keys()
            .filter_map(|name| Some((name.clone(), rate(name)?)))
            .collect()
    }

    /// Returns whether runs of a site cost money.
    pub(super) fn costs(&self, view: &BudgetView<'_>, site: &str) -> bool {
        self.spec.sites.get(site).is_some_and(|s| s.ec2.is_some()) || view.by_use.contains_key(site)
    }

    /// Returns how many instances the largest mapping in `nodes` needs in addition to the site's existing ones.
    fn missing_nodes(
        &self,
        view: &BudgetView<'_>,
        site: &str,
        nodes: impl Iterator<Item = u32>,
    ) -> Option<u32> {
        let needed = self.spec.sites.get(site)?.nodes_for(nodes.max()?);
        let leases = view
            .state
            .leases
            .iter()
            .filter(|l| l.site == site && !l.released && l.order.is_some());
        let there: usize = leases
            .map(|l| l.instances().len().saturating_sub(l.lost.len()))
            .sum();
        Some(needed.saturating_sub(u32::try_from(there).unwrap_or(u32::MAX)))
    }

    /// Returns the assumed duration of a run, seconds: the expected duration. If `when_short` lets active runs finish, returns the run's time limit
    /// plus [`AROUND_RUN_S`].
    fn run_s(&self, planned: &PlannedRun, limit: &campaign::Budget) -> f64 {
        match limit.when_short {
            WhenShort::End => self
                .expected_s
                .get(&planned.point)
                .copied()
                .unwrap_or(UNKNOWN_RUN_S),
            WhenShort::Finish => self.spec.run.timeout_s + AROUND_RUN_S,
        }
    }

    /// Returns the reason why the budget does not cover a run; `None` if it does, or if the run costs nothing.
    pub(super) fn unaffordable(
        &self,
        view: &BudgetView<'_>,
        planned: &PlannedRun,
    ) -> Option<OverBudget> {
        let limit = self.limit()?;
        let point = view.scheduler.point(&planned.point)?;
        let site = self.spec.sites.get(&point.site)?;
        if !view.is_known() {
            return Some(OverBudget::new(
                "the price of some of its instances is unknown, so it could be exceeded",
            ));
        }
        let run_s = self.run_s(planned, limit);
        // the existing instances of all sites cost while the run is active
        let of_run = match (&site.ec2, view.by_use.get(&point.site)) {
            (None, Some(rate)) => rate.cost_of(run_s, point.mapping.nodes()),
            (Some(_), _) | (None, None) => 0.0,
        };
        if of_run == 0.0 && view.per_s() == 0.0 {
            return None;
        }
        let spent = view.spent_after(0.0);
        let will_be = view.spent_after(run_s + RELEASE_S) + of_run;
        (will_be > limit.usd).then(|| {
            OverBudget::new(format!(
                "${spent:.4} of ${:.2} is spent, and after a run here ({run_s:.0} s, and the time to give machines back) it would be \
                 ${will_be:.4}",
                limit.usd
            ))
        })
    }

    /// Returns the reason why the budget does not cover the instances of a site; `None` if it does. Instances of unknown price are never covered.
    pub(super) fn unaffordable_fleet(
        &self,
        view: &BudgetView<'_>,
        site: &str,
    ) -> Option<OverBudget> {
        let limit = self.limit()?;
        let of_site = self.spec.sites.get(site)?;
        of_site.ec2.as_ref()?;
        let of_run = |r: &'a PlannedRun| {
            Some((
                r,
                view.scheduler.point(&r.point).filter(|p| p.site == site)?,
            ))
        };
        let wanted: Vec<(&PlannedRun, &Point)> = self
            .plan
            .runs
            .iter()
            .filter_map(of_run)
            .filter(|(r, _)| !view.scheduler.is_settled(view.state, r))
            .collect();
        let nodes =
            self.missing_nodes(view, site, wanted.iter().map(|(_, p)| p.mapping.nodes()))?;
        let book = cost::PriceBook::open(&cost::cache_file()).for_budget();
        let rate = match cost::dearest_rate(&book, of_site, None) {
            Ok(rate) => rate,
            Err(unknown) => {
                return Some(OverBudget::new(format!(
                    "{unknown}, so it could be exceeded; `cvc prices` queries the cloud"
                )));
            }
        };
        let run_s = wanted
            .iter()
            .map(|(r, _)| self.run_s(r, limit))
            .fold(f64::INFINITY, f64::min);
        let seconds = cost::SETUP_S + run_s + RELEASE_S;
        let spent = view.spent_after(0.0);
        let will_be = view.spent_after(seconds) + rate.billed(seconds, nodes);
        (will_be > limit.usd).then(|| {
            OverBudget::new(format!(
                "${spent:.4} of ${:.2} is spent, and after one run on {nodes} fresh instances it would be ${will_be:.4}",
                limit.usd
            ))
        })
    }

    /// Returns the time from now after which active work must be ended, so that the budget still pays for giving machines back; `None` without a
    /// budget, or if nothing costs any more.
    pub(super) fn lasts(&self, view: &BudgetView<'_>) -> Option<Duration> {
        let limit = self.limit()?;
        let per_s = view.per_s();
        if per_s <= 0.0 {
            return None;
        }
        // each step underestimates the time, because minimum charges are counted twice; a few steps converge
        let mut seconds = 0.0;
        for _ in 0..4 {
            seconds += ((limit.usd - view.spent_after(seconds + RELEASE_S)) / per_s).max(0.0);
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Returns whether the budget covers keeping the machines for another `keep_s` seconds.
    pub(super) fn pays_for_keeping(&self, view: &BudgetView<'_>, keep_s: f64) -> bool {
        !self.exceeded
            && self
                .limit()
                .is_none_or(|b| view.spent_after(keep_s + RELEASE_S) <= b.usd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_journal::lease::LaunchOrder;
    use cvc_journal::price::{Price, PriceFrom, RatePart};
    use cvc_journal::{Acquired, Entry, Event};
    use jiff::Timestamp;

    const LOCAL: &str = "[sites.local]\nkind = \"local\"";
    const CLOUD: &str = "[sites.a]\nkind = \"ec2\"\nec2 = { region = \"us-east-1\", instance_types = [\"c5.large\"], nodes = 4 }";

    /// Returns a campaign of one run on one site.
    fn spec(site: &str) -> Spec {
        let text = format!(
            "schema = 1\nname = \"c\"\n{site}\n[budget]\nusd = 1.0\n[matrix]\napp = \"demo\"\nclass = \"S\"\nmapping = \"1Nx2P\"\n\
             [run]\nrepeats = 1\n"
        );
        let apps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/apps");
        campaign::load_text(std::path::Path::new("c.toml"), &text, &[apps])
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn with_usd(spec: &Spec, usd: f64) -> Spec {
        let mut spec = spec.clone();
        spec.budget.as_mut().expect("a budget").usd = usd;
        spec
    }

    /// Returns a campaign that has these instances since `at`.
    fn with_lease(order: LaunchOrder, instances: &[&str], at: Timestamp) -> CampaignState {
        let mut state = CampaignState::default();
        for event in [
            Event::LeaseIntended {
                lease: "l".into(),
                site: "a".into(),
                nodes: order.count,
                order: Some(Box::new(order)),
            },
            Event::LeaseAcquired {
                lease: "l".into(),
                by: Acquired::instances(instances.iter().copied()),
            },
        ] {
            state.apply(&Entry { seq: 1, at, event }).expect("legal");
        }
        state
    }

    #[test]
    fn a_run_that_uses_the_budget_up_is_affordable_and_a_dearer_one_is_not() {
        let spec = spec(LOCAL);
        let plan = cvc_core::plan::build(&spec);
        let (state, run) = (CampaignState::default(), &plan.runs[0]);
        let (ledger, scheduler) = (Ledger::of(&plan, &state), Scheduler::new(&plan, &spec.run));
        let price = RatePart {
            what: "node".into(),
            price: Price::new(3600.0, PriceFrom::Campaign),
        };
        let rate = NodeRate::new(vec![price], 0.0);
        let view = BudgetView {
            state: &state,
            ledger: &ledger,
            scheduler: &scheduler,
            by_use: [(plan.points[0].point.site.clone(), rate)].into(),
        };
        let expected_s = [(run.point.clone(), 64.0)].into();
        let is_affordable = |usd: f64| {
            let spec = with_usd(&spec, usd);
            let budget = BudgetWatch::new(&spec, &plan, &expected_s);
            budget.unaffordable(&view, run).is_none()
        };
        assert!(is_affordable(64.0) && !is_affordable(63.99));
    }

    #[test]
    fn a_run_that_must_be_finished_is_paid_to_its_time_limit_and_until_it_is_collected() {
        let mut spec = spec(LOCAL);
        spec.run.timeout_s = 100.0;
        spec.budget.as_mut().expect("a budget").when_short = WhenShort::Finish;
        let plan = cvc_core::plan::build(&spec);
        let (state, run) = (CampaignState::default(), &plan.runs[0]);
        let (ledger, scheduler) = (Ledger::of(&plan, &state), Scheduler::new(&plan, &spec.run));
        let view = BudgetView {
            state: &state,
            ledger: &ledger,
            scheduler: &scheduler,
            by_use: [(
                plan.points[0].point.site.clone(),
                NodeRate::new(
                    vec![RatePart {
                        what: "node".into(),
                        price: Price::new(3600.0, PriceFrom::Campaign),
                    }],
                    0.0,
                ),
            )]
            .into(),
        };
        // the campaign's expected durations do not count
        let expected_s = [(run.point.clone(), 1.0)].into();
        let is_affordable = |usd: f64| {
            let spec = with_usd(&spec, usd);
            let budget = BudgetWatch::new(&spec, &plan, &expected_s);
            budget.unaffordable(&view, run).is_none()
        };
        let needed = 100.0 + AROUND_RUN_S;
        assert!(is_affordable(needed) && !is_affordable(needed - 0.01));
    }

    #[test]
    fn machines_are_kept_within_the_budget_unless_it_has_ended_something() {
        let spec = with_usd(&spec(LOCAL), 0.0);
        let plan = cvc_core::plan::build(&spec);
        let (state, expected_s) = (CampaignState::default(), HashMap::new());
        let (ledger, scheduler) = (Ledger::of(&plan, &state), Scheduler::new(&plan, &spec.run));
        let view = BudgetView {
            state: &state,
            ledger: &ledger,
            scheduler: &scheduler,
            by_use: BTreeMap::new(),
        };
        let mut budget = BudgetWatch::new(&spec, &plan, &expected_s);
        assert!(budget.pays_for_keeping(&view, 60.0), "they cost nothing");
        budget.note_exceeded();
        assert!(!budget.pays_for_keeping(&view, 60.0));
    }

    /// Computes each limit from the spending one moment earlier, so that the test holds for any duration.
    #[test]
    fn the_time_to_give_machines_back_is_paid_as_well() {
        let spec = spec(CLOUD);
        let plan = cvc_core::plan::build(&spec);
        let order = LaunchOrder {
            count: 1,
            usd_per_hour: Some(3600.0),
            lifetime_s: 1_000_000,
            ..LaunchOrder::default()
        };
        let state = with_lease(order, &["i-1"], clock::now());
        let (ledger, scheduler) = (Ledger::of(&plan, &state), Scheduler::new(&plan, &spec.run));
        let view = BudgetView {
            state: &state,
            ledger: &ledger,
            scheduler: &scheduler,
            by_use: BTreeMap::new(),
        };
        let expected_s = [(plan.runs[0].point.clone(), 64.0)].into();
        let short_of = |seconds: f64| with_usd(&spec, view.spent_after(seconds + RELEASE_S) - 0.01);
        let plenty = with_usd(&spec, 1e6);
        let is_short = |spec: &Spec| {
            let budget = BudgetWatch::new(spec, &plan, &expected_s);
            (
                !budget.pays_for_keeping(&view, 64.0),
                budget.unaffordable(&view, &plan.runs[0]).is_some(),
                budget.unaffordable_fleet(&view, "a").is_some(),
            )
        };
        let of_run = is_short(&short_of(64.0));
        assert!(of_run.0 && of_run.1);
        assert!(is_short(&short_of(cost::SETUP_S + 64.0)).2);
        assert_eq!(is_short(&plenty), (false, false, false));
    }

    #[test]
    fn instances_that_are_lost_are_missing() {
        let spec = spec(CLOUD);
        let plan = cvc_core::plan::build(&spec);
        let order = LaunchOrder {
            count: 3,
            ..LaunchOrder::default()
        };
        let mut state = with_lease(order, &["i-1", "i-2", "i-3"], Timestamp::UNIX_EPOCH);
        let event = Event::LeaseLost {
            lease: "l".into(),
            instances: vec!["i-2".into()],
            why: "taken back".into(),
        };
        let at = Timestamp::UNIX_EPOCH;
        state.apply(&Entry { seq: 1, at, event }).expect("legal");
        let (ledger, scheduler) = (Ledger::of(&plan, &state), Scheduler::new(&plan, &spec.run));
        let view = BudgetView {
            state: &state,
            ledger: &ledger,
            scheduler: &scheduler,
            by_use: BTreeMap::new(),
        };
        let expected_s = HashMap::new();
        let budget = BudgetWatch::new(&spec, &plan, &expected_s);
        let missing = |nodes| budget.missing_nodes(&view, "a", [nodes].into_iter());
        assert_eq!([2, 3, 4].map(missing), [0, 1, 2].map(Some));
    }
}
