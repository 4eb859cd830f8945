//! Running sums of a campaign's spending. The sums equal those that [`cvc_journal::spending`] computes from the whole journal. Each event changes
//! only the sums that it concerns, so that the budget can be checked at every step.

use cvc_core::ids::{LeaseId, NodeName, RunId};

use cvc_journal::{Attempt, CampaignState, Event, Lease};

use cvc_core::plan::Plan;

use cvc_journal::price::NodeRate;

use cvc_journal::spending::{self, Spent};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

const NS_PER_S: f64 = 1e9;

/// The sums. Times are whole nanoseconds, so that repeated additions cause no rounding.
pub(super) struct Ledger<'a> {
    /// For each run of the plan: its site, and the number of nodes of its mapping.
    place_of: HashMap<&'a RunId, (&'a str, u32)>,
    attempts: BTreeMap<&'a str, OfSite>,
    /// Latest start time of all attempts that have not ended.
    last_start: Timestamp,
    /// Number of different nodes in each list of nodes, by the address of the list in memory.
    counted: HashMap<usize, (Arc<[NodeName]>, u32)>,
    /// Leases of clouds that have ended, as indices of leases. `over_cost` is their total cost.
    over: BTreeSet<usize>,
    over_cost: Spent,
    /// Leases of clouds that have not ended, as indices of leases.
    open: BTreeSet<usize>,
    /// Number of leases that have been examined so far.
    leases: usize,
}

/// The attempts at the runs of a site.
#[derive(Default)]
struct OfSite {
    /// Sum over the ended attempts of their duration times their number of nodes, nanoseconds.
    ended_ns: i128,
    /// Attempts that have not ended, each with its start time and number of nodes.
    open: HashMap<RunId, (Timestamp, u32)>,
    /// Sum of the numbers of nodes of the open attempts. `open_start_ns` is the sum of number of nodes times start time.
    open_nodes: i128,
    open_start_ns: i128,
}

impl OfSite {
    fn begin(&mut self, run: &RunId, start: Timestamp, nodes: u32) {
        self.forget(run);
        self.open.insert(run.clone(), (start, nodes));
        self.open_nodes += i128::from(nodes);
        self.open_start_ns += i128::from(nodes) * start.as_nanosecond();
    }

    fn forget(&mut self, run: &RunId) {
        if let Some((start, nodes)) = self.open.remove(run) {
            self.open_nodes -= i128::from(nodes);
            self.open_start_ns -= i128::from(nodes) * start.as_nanosecond();
        }
    }

    /// Returns the sum of duration times number of nodes of all attempts until `then`, nanoseconds. `is_later` means that all attempts began before
    /// `then`.
    fn until(&self, then: Timestamp, is_later: bool) -> i128 {
        let open = if is_later {
            self.open_nodes * then.as_nanosecond() - self.open_start_ns
        } else {
            // some attempts begin after `then`, because the clock was set back
            self.open
                .values()
                .map(|(start, nodes)| i128::from(*nodes) * between_ns(*start, then))
                .sum()
        };
        self.ended_ns + open
    }
}

fn between_ns(start: Timestamp, end: Timestamp) -> i128 {
    (end.as_nanosecond() - start.as_nanosecond()).max(0)
}

impl<'a> Ledger<'a> {
    /// Returns the sums of a campaign so far.
    pub(super) fn of(plan: &'a Plan, state: &CampaignState) -> Self {
        let points: HashMap<_, _> = plan
            .points
            .iter()
            .map(|p| (&p.id, (p.point.site.as_str(), p.point.mapping.nodes())))
            .collect();
        let mut ledger = Self {
            place_of: plan
                .runs
                .iter()
                .filter_map(|r| Some((&r.id, *points.get(&r.point)?)))
                .collect(),
            attempts: BTreeMap::new(),
            last_start: Timestamp::MIN,
            counted: HashMap::new(),
            over: BTreeSet::new(),
            over_cost: Spent::default(),
            open: BTreeSet::new(),
            leases: 0,
        };
        for planned in &plan.runs {
            for attempt in state.runs.get(&planned.id).map_or(&[][..], |h| &h.attempts) {
                ledger.count(&planned.id, attempt);
            }
        }
        ledger.count_leases(state);
        ledger
    }

    /// Applies an event to the sums; `state` already includes it.
    pub(super) fn apply(&mut self, state: &CampaignState, event: &Event) {
        match event {
            Event::RunIntended { run, .. }
            | Event::RunStarted { run, .. }
            | Event::RunFinished { run, .. }
            | Event::RunAbandoned { run, .. } => {
                // a run has at most one active attempt, which is the last
                if let Some(attempt) = state.runs.get(run).and_then(|h| h.attempts.last()) {
                    self.count(run, attempt);
                }
            }
            Event::LeaseIntended { .. } => self.count_leases(state),
            Event::LeaseAcquired { lease, .. }
            | Event::LeaseExtended { lease, .. }
            | Event::LeasePriced { lease, .. }
            | Event::LeaseKept { lease, .. }
            | Event::LeaseLost { lease, .. }
            | Event::LeaseReleased { lease, .. } => self.count_lease(state, lease),
            Event::Opened { .. }
            | Event::LineageGiven { .. }
            | Event::CheckpointKept { .. }
            | Event::RunDiscarded { .. }
            | Event::Repaired { .. }
            | Event::ResultsFetched { .. }
            | Event::Started { .. }
            | Event::SiteOpened { .. }
            | Event::SiteClosed { .. }
            | Event::PointQuarantined { .. }
            | Event::PointDecided { .. }
            | Event::PointsSkipped { .. }
            | Event::PointReleased { .. }
            | Event::Interrupted { .. }
            | Event::Completed { .. } => {}
        }
    }

    fn count(&mut self, run: &RunId, attempt: &Attempt) {
        let (Some((site, nodes)), Some(start)) = (self.place_of.get(run).copied(), attempt.started)
        else {
            return;
        };
        let nodes = self.nodes_of(&attempt.nodes).unwrap_or(nodes);
        let of_site = self.attempts.entry(site).or_default();
        match attempt.ended {
            None => {
                self.last_start = self.last_start.max(start);
                of_site.begin(run, start, nodes);
            }
            Some(end) => {
                of_site.forget(run);
                of_site.ended_ns += i128::from(nodes) * between_ns(start, end);
            }
        }
    }

    /// Returns the number of different nodes in a list; `None` if the list is empty.
    fn nodes_of(&mut self, nodes: &Arc<[NodeName]>) -> Option<u32> {
        if nodes.is_empty() {
            return None;
        }
        let counted = self.counted.entry(nodes.as_ptr().addr());
        Some(
            counted
                .or_insert_with(|| (Arc::clone(nodes), spending::count_distinct(nodes)))
                .1,
        )
    }

    /// Examines the leases that are new since the last call.
    fn count_leases(&mut self, state: &CampaignState) {
        for (number, lease) in state.leases.iter().enumerate().skip(self.leases) {
            match &lease.order {
                None => {}
                Some(_) if lease.released => self.end_lease(number, lease),
                Some(_) => drop(self.open.insert(number)),
            }
        }
        self.leases = state.leases.len();
    }

    fn count_lease(&mut self, state: &CampaignState, name: &LeaseId) {
        let Some(number) = state.leases.iter().rposition(|l| l.name == *name) else {
            return;
        };
        if self.over.contains(&number) {
            // new facts about a lease that has already ended: count everything again
            (self.over, self.over_cost, self.open, self.leases) = Default::default();
            self.count_leases(state);
        } else if state.leases[number].released && self.open.remove(&number) {
            self.end_lease(number, &state.leases[number]);
        }
    }

    fn end_lease(&mut self, number: usize, lease: &Lease) {
        if let Some(spent) = spending::lease_cost(lease, Timestamp::MAX) {
            self.over_cost = spending::total([&self.over_cost, &spent]);
        }
        self.over.insert(number);
    }

    /// Returns the cost of attempts at runs until `then` on sites that are billed by use, US dollars.
    pub(super) fn attempts_usd(&self, rates: &BTreeMap<String, NodeRate>, then: Timestamp) -> f64 {
        let is_later = then >= self.last_start;
        let usd = |(site, rate): (&String, &NodeRate)| {
            let ns = self.attempts.get(site.as_str())?.until(then, is_later);
            Some(rate.cost_of(ns as f64 / NS_PER_S, 1))
        };
        rates.iter().filter_map(usd).sum()
    }

    /// Returns the cost of cloud instances until `then`, and of the transfers from them.
    pub(super) fn leases_cost(&self, state: &CampaignState, then: Timestamp) -> Spent {
        let mut costs: Vec<Spent> = self
            .open_leases(state)
            .filter_map(|lease| spending::lease_cost(lease, then))
            .collect();
        // one transfer cost for each site
        costs.extend(state.fetched.values().map(spending::fetched_cost));
        spending::total(costs.iter().chain([&self.over_cost]))
    }

    /// Returns the cloud orders that have not ended.
    pub(super) fn open_leases<'s>(
        &self,
        state: &'s CampaignState,
    ) -> impl Iterator<Item = &'s Lease> {
        self.open
            .iter()
            .filter_map(|number| state.leases.get(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cvc_core::ids::PointId;
    use cvc_core::mapping::Mapping;
    use cvc_core::outcome::Outcome;
    use cvc_core::plan::PlannedRun;
    use cvc_core::point::{PlannedPoint, Point, Repeat};
    use cvc_journal::lease::LaunchOrder;
    use cvc_journal::price::{Price, PriceFrom, RatePart};
    use cvc_journal::{Acquired, Entry};
    use proptest::prelude::*;

    const SITES: [&str; 3] = ["free", "cheap", "dear"];

    fn run(number: usize) -> RunId {
        RunId::from_written(&format!("r{number}"))
    }

    /// Returns a plan of six runs, two on each site.
    fn plan() -> Plan {
        let point = |site: &str| Point {
            site: site.to_owned(),
            app: "ep".into(),
            class: "S".into(),
            mapping: "3Nx1P".parse::<Mapping>().expect("a mapping"),
            mpi: "mpich".into(),
            storage: "disk".into(),
            ..Point::default()
        };
        let planned = |number: usize| PlannedRun {
            id: run(number),
            point: PointId::from_written(SITES[number % 3]),
            repeat: Repeat::Measured(number as u32),
            block: None,
        };
        Plan {
            schema: 1,
            campaign: "c".into(),
            seed: 1,
            points: SITES
                .iter()
                .map(|s| PlannedPoint {
                    id: PointId::from_written(s),
                    point: point(s),
                    baseline: false,
                    expected_failure: None,
                })
                .collect(),
            runs: (0..6).map(planned).collect(),
            excluded: Vec::new(),
            predict: None,
        }
    }

    fn rate(usd: f64) -> NodeRate {
        NodeRate::new(
            vec![RatePart {
                what: "node".into(),
                price: Price::new(usd, PriceFrom::Campaign),
            }],
            0.0,
        )
    }

    fn rates() -> BTreeMap<String, NodeRate> {
        [
            ("cheap".to_owned(), rate(0.1)),
            ("dear".to_owned(), rate(7.0)),
        ]
        .into()
    }

    /// Returns an event that is written if it may follow the previous ones.
    fn event() -> impl Strategy<Value = Event> {
        let lease = || (0usize..3).prop_map(|n| LeaseId::from(format!("l{n}")));
        let until = (0i64..4000).prop_map(|s| Timestamp::from_second(s).expect("a time"));
        let intended = (0usize..7, 1u32..3, 0usize..4);
        prop_oneof![
            4 => intended.prop_map(|(n, attempt, nodes)| {
                let nodes: Vec<NodeName> = (0..nodes).map(|n| format!("n{}", n % 2).into()).collect();
                Event::RunIntended { run: run(n), attempt, nodes: serde_json::from_value(serde_json::json!(nodes)).expect("names") }
            }),
            2 => (0usize..7, 1u32..3).prop_map(|(n, attempt)| Event::RunStarted { run: run(n), attempt, pid: 1, start_ticks: 1 }),
            2 => (0usize..7, 1u32..3).prop_map(|(n, attempt)| {
                Event::RunFinished { run: run(n), attempt, outcome: Outcome::Succeeded, records: None, manifest: None, not_again: None }
            }),
            2 => (0usize..7, 1u32..3).prop_map(|(n, attempt)| Event::RunAbandoned { run: run(n), attempt, ended: vec![], lost: false, with_controller: false }),
            1 => (lease(), 1u32..4, prop::option::of(0.0..5.0), any::<bool>()).prop_map(|(lease, nodes, usd, cloud)| {
                Event::LeaseIntended { lease, site: "cloud".into(), nodes, order: cloud.then(|| {
                    Box::new(LaunchOrder { count: nodes, vcpus: 4, usd_per_hour: usd, ..LaunchOrder::default() })
                }) }
            }),
            1 => lease().prop_map(|lease| Event::LeaseAcquired { lease, by: Acquired::instances(["i-1", "i-2"]) }),
            1 => (lease(), until.clone()).prop_map(|(lease, until)| Event::LeaseExtended { lease, until }),
            1 => (lease(), until.clone(), 0.0..5.0).prop_map(|(lease, since, usd)| {
                Event::LeasePriced { lease, rate: Box::new(rate(usd)), since }
            }),
            1 => (lease(), until).prop_map(|(lease, until)| Event::LeaseKept { lease, until }),
            1 => lease().prop_map(|lease| Event::LeaseLost { lease, instances: vec!["i-2".into()], why: String::new() }),
            1 => lease().prop_map(|lease| Event::LeaseReleased { lease, how: String::new() }),
        ]
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * (1.0 + a.abs())
    }

    proptest! {
        #[test]
        fn the_sums_equal_those_of_the_whole_journal(events in prop::collection::vec((event(), -5i64..60), 0..80), begun_at in 0usize..80) {
            let (plan, rates) = (plan(), rates());
            let site_of = |run: &RunId| {
                let number: usize = run.as_str()[1..].parse().expect("a number");
                (number < 6).then(|| (SITES[number % 3].to_owned(), 3))
            };
            let mut state = CampaignState::default();
            let mut ledger = Ledger::of(&plan, &state);
            let mut now = 1000;
            for (number, (event, passed)) in events.into_iter().enumerate() {
                if number == begun_at {
                    // a controller that continues a campaign
                    ledger = Ledger::of(&plan, &state);
                }
                now += passed;
                let entry = Entry { seq: 1, at: Timestamp::from_second(now).expect("a time"), event };
                if state.apply(&entry).is_ok() {
                    ledger.apply(&state, &entry.event);
                }
                for ahead in [-100, 0, 1, 100_000] {
                    let then = spending::counted_until(&state, Timestamp::from_second(now + ahead).expect("a time"));
                    let attempts = spending::total(spending::attempts_cost(&state, site_of, &rates, then).values()).usd;
                    let sum = ledger.attempts_usd(&rates, then);
                    prop_assert!(is_near(attempts, sum), "{} and {}", attempts, sum);
                    let leases = spending::total(spending::campaign_cost(&state, then).values());
                    let sum = ledger.leases_cost(&state, then);
                    prop_assert!(is_near(leases.usd, sum.usd), "{:?} and {:?}", leases, sum);
                    prop_assert!(leases.unknown == sum.unknown && is_near(leases.instance_s, sum.instance_s));
                }
            }
        }
    }

    #[test]
    fn ended_attempts_are_not_examined_again() {
        let plan = plan();
        let mut state = CampaignState::default();
        let mut ledger = Ledger::of(&plan, &state);
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        for second in 0..1000 {
            let (attempt, run) = (1, run(1));
            for event in [
                Event::RunIntended {
                    run: run.clone(),
                    attempt,
                    nodes: Default::default(),
                },
                Event::RunAbandoned {
                    run,
                    attempt,
                    ended: vec![],
                    lost: false,
                    with_controller: false,
                },
            ] {
                let entry = Entry {
                    seq: 1,
                    at: at(second),
                    event,
                };
                state.apply(&entry).expect("legal");
                ledger.apply(&state, &entry.event);
            }
        }
        assert_eq!(ledger.attempts["cheap"].open.len(), 0);
        assert_eq!(state.runs[&run(1)].attempts.len(), 1000);
        // the cost of attempts is computed without any history
        assert_eq!(ledger.attempts_usd(&rates(), at(5000)), 0.0);
    }
}
