//! Compares the scheduler with a plain reference scheduler, over random plans and histories. The reference scheduler examines every run of the plan
//! at each step. Also counts how many runs the scheduler examines.

use super::scheduler::{Capacity, Scheduler, tests::SETTINGS};
use cvc_core::ids::{PointId, RunId};
use cvc_core::mapping::Mapping;
use cvc_core::outcome::{Cause, Outcome};
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Point, Repeat};
use cvc_engine::attempt::Task;
use cvc_journal::{Attempt, CampaignState, RunHistory, RunState};
use proptest::prelude::*;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, HashMap},
};

/// Names of sites. The first site runs one run at a time, and the last one is not open.
const SITES: [&str; 4] = ["alone", "small", "large", "closed"];

/// Number of nodes of each site now.
struct Nodes {
    count: [usize; 4],
    asked: Cell<u64>,
}

impl Capacity for Nodes {
    fn side_by_side(&self, site: &str) -> Option<bool> {
        (site != "closed").then_some(site != "alone")
    }

    fn are_neighbours(&self, site: &str, other: &str) -> bool {
        site != SITES[2] && other != SITES[2]
    }

    fn free_nodes(
        &self,
        site: &str,
        wanted: usize,
        used: &BTreeSet<String>,
    ) -> Option<Vec<String>> {
        self.asked.set(self.asked.get() + 1);
        let at = SITES.iter().position(|s| *s == site)?;
        let names = (0..self.count[at]).map(|n| format!("{site}-{n}"));
        let free: Vec<String> = names.filter(|n| !used.contains(n)).take(wanted).collect();
        (free.len() == wanted).then_some(free)
    }
}

/// Returns a plan with points of these sites and numbers of nodes; `order` gives the point of each run.
fn plan(points: &[(usize, u32)], order: &[usize]) -> Plan {
    let id = |at: usize| PointId::from_written(&format!("p{at}"));
    let point = |(site, nodes): &(usize, u32)| Point {
        site: SITES[*site].to_owned(),
        app: "ep".into(),
        class: "S".into(),
        mapping: format!("{nodes}Nx1P")
            .parse::<Mapping>()
            .expect("a mapping"),
        mpi: "mpich".into(),
        storage: "disk".into(),
        ..Point::default()
    };
    let run = |(number, at): (usize, &usize)| PlannedRun {
        id: RunId::from_written(&format!("r{number}")),
        point: id(*at),
        repeat: Repeat::Measured(number as u32),
        block: None,
    };
    Plan {
        schema: 1,
        campaign: "c".into(),
        seed: 1,
        points: points
            .iter()
            .enumerate()
            .map(|(at, p)| PlannedPoint {
                id: id(at),
                point: point(p),
                baseline: false,
                expected_failure: None,
            })
            .collect(),
        runs: order.iter().enumerate().map(run).collect(),
        excluded: Vec::new(),
        predict: None,
    }
}

/// The plain reference scheduler.
#[derive(Default)]
struct Plain {
    obstacles: BTreeSet<PointId>,
    under_way: BTreeMap<RunId, Task>,
    adopted: BTreeSet<RunId>,
    first_open: usize,
}

impl Plain {
    fn is_settled(
        &self,
        plan: &Plan,
        scheduler: &Scheduler<'_>,
        state: &CampaignState,
        run: &PlannedRun,
    ) -> bool {
        let _ = plan;
        let is_set_aside =
            state.quarantined.contains(&run.point) && !self.adopted.contains(&run.id);
        self.obstacles.contains(&run.point)
            || is_set_aside
            || scheduler.retries.attempts_before(state, &run.id).is_none()
    }

    fn advance(&mut self, plan: &Plan, scheduler: &Scheduler<'_>, state: &CampaignState) {
        while let Some(run) = plan.runs.get(self.first_open)
            && self.is_settled(plan, scheduler, state, run)
            && !self.under_way.contains_key(&run.id)
        {
            self.first_open += 1;
        }
    }

    fn open(&self, plan: &Plan, scheduler: &Scheduler<'_>, state: &CampaignState) -> Vec<usize> {
        let is_open = |number: &usize| {
            let run = &plan.runs[*number];
            !self.is_settled(plan, scheduler, state, run) && !self.under_way.contains_key(&run.id)
        };
        (self.first_open..plan.runs.len()).filter(is_open).collect()
    }

    fn nodes_for(&self, plan: &Plan, run: &PlannedRun, nodes: &Nodes) -> Option<Vec<String>> {
        let point = &plan.points.iter().find(|p| p.id == run.point)?.point;
        let shares = nodes.side_by_side(&point.site)?;
        let disturbs = |t: &&Task| {
            let other = t.point.site.as_str();
            let is_near = other == point.site || nodes.are_neighbours(&point.site, other);
            is_near && !(shares && nodes.side_by_side(other) == Some(true))
        };
        if self.under_way.values().any(|t| disturbs(&t)) {
            return None;
        }
        let of_site = self
            .under_way
            .values()
            .filter(|t| t.point.site == point.site);
        let used: BTreeSet<String> = of_site.flat_map(|t| t.nodes.iter().cloned()).collect();
        nodes.free_nodes(&point.site, point.mapping.nodes() as usize, &used)
    }

    fn next(
        &self,
        plan: &Plan,
        scheduler: &Scheduler<'_>,
        state: &CampaignState,
        nodes: &Nodes,
    ) -> Option<usize> {
        let open = self.open(plan, scheduler, state);
        let adopted = |number: &usize| self.adopted.contains(&plan.runs[*number].id);
        let site_of = |run: &PlannedRun| {
            plan.points
                .iter()
                .find(|p| p.id == run.point)
                .expect("a point")
                .point
                .site
                .clone()
        };
        let under_way = self
            .under_way
            .values()
            .filter(|t| self.adopted.contains(&t.planned.id))
            .map(|t| t.point.site.clone());
        let waiting = open
            .iter()
            .filter(|n| adopted(n))
            .map(|n| site_of(&plan.runs[*n]));
        let taking_up: BTreeSet<String> = under_way.chain(waiting).collect();
        let is_free = |site: &str| {
            taking_up
                .iter()
                .all(|other| other != site && !nodes.are_neighbours(site, other))
        };
        let has_nodes = |number: &usize| self.nodes_for(plan, &plan.runs[*number], nodes).is_some();
        let taken_up = open.iter().copied().filter(adopted).find(has_nodes);
        taken_up.or_else(|| {
            open.iter()
                .copied()
                .filter(|n| !adopted(n) && is_free(&site_of(&plan.runs[*n])))
                .find(has_nodes)
        })
    }
}

/// Events of a simulated campaign.
#[derive(Clone, Debug)]
enum Happens {
    /// All runs that may start are started.
    Start,
    /// The active attempt at this position ends in this way.
    End(usize, End),
    Quarantine(usize),
    Obstruct(usize),
    Nodes(usize, usize),
    Advance,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Succeeded,
    Failed(Cause),
    Abandoned,
}

fn happens() -> impl Strategy<Value = Happens> {
    let end = prop_oneof![
        4 => Just(End::Succeeded),
        2 => Just(End::Failed(Cause::Application)),
        1 => Just(End::Failed(Cause::Reclaimed)),
        1 => Just(End::Abandoned),
    ];
    prop_oneof![
        8 => Just(Happens::Start),
        8 => (0usize..8, end).prop_map(|(at, end)| Happens::End(at, end)),
        1 => (0usize..6).prop_map(Happens::Quarantine),
        1 => (0usize..6).prop_map(Happens::Obstruct),
        2 => (0usize..3, 0usize..6).prop_map(|(site, count)| Happens::Nodes(site, count)),
        6 => Just(Happens::Advance),
    ]
}

/// Applies the end of an attempt to the state, as its journal would.
fn fold(state: &mut CampaignState, task: &Task, end: End) {
    let failed = |cause| Outcome::Failed {
        cause,
        detail: String::new(),
    };
    let (outcome, abandoned) = match end {
        End::Succeeded => (Some(Outcome::Succeeded), false),
        End::Failed(cause) => (Some(failed(cause)), false),
        End::Abandoned => (None, true),
    };
    let last = match &outcome {
        Some(outcome) => RunState::Finished {
            attempt: task.attempt,
            outcome: outcome.clone(),
            records: None,
            manifest: None,
        },
        None => RunState::Abandoned {
            attempts: task.attempt - 1,
        },
    };
    let attempt = Attempt {
        number: task.attempt,
        started: None,
        ended: None,
        outcome,
        abandoned,
        lost: abandoned,
        with_controller: false,
        nodes: Default::default(),
        kept_bytes: None,
        not_again: None,
    };
    let begun = || RunHistory {
        state: last.clone(),
        attempts: Vec::new(),
    };
    let history = state
        .runs
        .entry(task.planned.id.clone())
        .or_insert_with(begun);
    history.state = last.clone();
    history.attempts.push(attempt);
}

fn task(
    plan: &Plan,
    scheduler: &Scheduler<'_>,
    state: &CampaignState,
    number: usize,
    nodes: &Nodes,
) -> Task {
    let planned = plan.runs[number].clone();
    let point = scheduler.point(&planned.point).expect("a point").clone();
    let attempt = scheduler
        .retries
        .attempts_before(state, &planned.id)
        .unwrap_or(0)
        + 1;
    let nodes = scheduler.nodes_for(&planned, nodes).expect("nodes");
    Task {
        planned,
        point,
        attempt,
        dispatch: 0,
        nodes,
        disk_bytes: None,
        resume: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn runs_start_in_the_same_order_as_with_a_full_scan(
        points in prop::collection::vec((0usize..4, 1u32..4), 1..6),
        order in prop::collection::vec(0usize..6, 0..30),
        adopted in prop::collection::vec(0usize..30, 0..3),
        history in prop::collection::vec(happens(), 0..120),
    ) {
        let order: Vec<usize> = order.into_iter().map(|at| at % points.len()).collect();
        let plan = plan(&points, &order);
        let mut state = CampaignState::default();
        let mut nodes = Nodes { count: [3, 2, 5, 3], asked: Cell::new(0) };
        let (mut scheduler, mut plain) = (Scheduler::new(&plan, &SETTINGS), Plain::default());
        for run in adopted.into_iter().filter_map(|at| plan.runs.get(at)) {
            state.runs.insert(run.id.clone(), RunHistory { state: RunState::Open { attempt: 1, shepherd: None }, attempts: Vec::new() });
            scheduler.adopt(&run.id);
            plain.adopted.insert(run.id.clone());
        }
        for step in history {
            match step {
                Happens::Start => {
                    let next = scheduler.next(&state, &nodes);
                    prop_assert_eq!(next, plain.next(&plan, &scheduler, &state, &nodes));
                    if let Some(number) = next {
                        let task = task(&plan, &scheduler, &state, number, &nodes);
                        prop_assert_eq!(Some(task.nodes.clone()), plain.nodes_for(&plan, &task.planned, &nodes));
                        plain.under_way.insert(task.planned.id.clone(), task.clone());
                        scheduler.begin(task);
                    }
                }
                Happens::End(at, end) => {
                    let Some(run) = plain.under_way.keys().nth(at).cloned() else { continue };
                    let task = plain.under_way.remove(&run).expect("it is under way");
                    plain.adopted.remove(&run);
                    prop_assert_eq!(scheduler.end(&run).map(|t| t.planned.id), Some(run));
                    fold(&mut state, &task, end);
                }
                Happens::Quarantine(at) => {
                    let Some(point) = plan.points.get(at) else { continue };
                    state.quarantined.insert(point.id.clone());
                }
                Happens::Obstruct(at) => {
                    let Some(point) = plan.points.get(at) else { continue };
                    plain.obstacles.insert(point.id.clone());
                    scheduler.obstruct([point.id.clone()], "gone");
                }
                Happens::Nodes(site, count) => nodes.count[site] = count,
                Happens::Advance => {
                    scheduler.advance(&state);
                    plain.advance(&plan, &scheduler, &state);
                    prop_assert_eq!(scheduler.is_done(), plain.first_open >= plan.runs.len());
                }
            }
            let open = plain.open(&plan, &scheduler, &state);
            let ids = |runs: Vec<&PlannedRun>| runs.into_iter().map(|r| r.id.clone()).collect::<Vec<_>>();
            let site_of: HashMap<&PointId, &str> = plan.points.iter().map(|p| (&p.id, p.point.site.as_str())).collect();
            for site in SITES {
                let of_site: Vec<&PlannedRun> = open.iter().map(|n| &plan.runs[*n]).filter(|r| site_of[&r.point] == site).collect();
                let runs = plain.under_way.values().any(|t| t.point.site == site);
                prop_assert_eq!(scheduler.is_busy(&state, site), runs || !of_site.is_empty());
                prop_assert_eq!(ids(scheduler.open_runs(&state, |s| s == site)), ids(of_site));
                prop_assert_eq!(scheduler.is_only_site(site), plan.points.iter().all(|p| p.point.site == site));
            }
            for point in &plan.points {
                let of_point: Vec<&PlannedRun> = open.iter().map(|n| &plan.runs[*n]).filter(|r| r.point == point.id).collect();
                prop_assert_eq!(ids(scheduler.open_runs_of(&state, &point.id)), ids(of_point));
            }
        }
    }
}

/// Carries out a plan of this many runs, with failures. Returns how often the scheduler examined a run or requested nodes, divided by the number of
/// runs.
fn examined_for_each_run(runs: usize) -> u64 {
    // two sites that carry out several runs at the same time, with more than one number of nodes, and a site that is not open
    let points = [(1, 1), (1, 2), (2, 1), (2, 3), (3, 1)];
    let order: Vec<usize> = (0..runs).map(|n| n % points.len()).collect();
    let plan = plan(&points, &order);
    let mut state = CampaignState::default();
    let nodes = Nodes {
        count: [1, 2, 5, 0],
        asked: Cell::new(0),
    };
    let mut scheduler = Scheduler::new(&plan, &SETTINGS);
    let mut ended = 0;
    loop {
        scheduler.advance(&state);
        while let Some(number) = scheduler.next(&state, &nodes) {
            let task = task(&plan, &scheduler, &state, number, &nodes);
            scheduler.begin(task);
        }
        let busy = SITES
            .iter()
            .filter(|site| scheduler.is_busy(&state, site))
            .count();
        // only the site that is not open still has runs to do
        let Some(run) = scheduler.under_way().keys().min().cloned() else {
            break assert_eq!(busy, 1);
        };
        let task = scheduler.end(&run).expect("it was under way");
        ended += 1;
        let end = if ended % 7 == 0 && task.attempt == 1 {
            End::Failed(Cause::Budget)
        } else {
            End::Succeeded
        };
        fold(&mut state, &task, end);
    }
    assert_eq!(scheduler.tally(&state).succeeded as usize, runs / 5 * 4);
    (scheduler.looks() + nodes.asked.get()) / runs as u64
}

#[test]
fn examined_runs_for_each_run_do_not_grow_with_the_plan() {
    let (few, many) = (examined_for_each_run(500), examined_for_each_run(5000));
    assert!(
        many <= few + 1 && many < 60,
        "{few} looks for each of 500 runs, {many} for each of 5000"
    );
}
