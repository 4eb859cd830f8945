//! Decides what remains to be done and which run comes next. No side effects: each decision follows from the plan, the journal's state, and
//! the free nodes of sites.

use super::{
    plan_index::PlanIndex,
    queues::{Queue, Queues},
    retries::Retries,
    under_way::UnderWay,
};
use cvc_core::campaign::RunSettings;
use cvc_core::ids::{PointId, RunId};
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{Point, Repeat};
use cvc_engine::attempt::Task;
use cvc_journal::CampaignState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The free capacity of sites.
pub(super) trait Capacity {
    /// Whether runs of a site may be side by side; `None` if it is not open.
    fn side_by_side(&self, site: &str) -> Option<bool>;

    /// Whether runs of two different sites disturb each other: the sites share a machine, or the campaign wants one after the other.
    fn are_neighbours(&self, site: &str, other: &str) -> bool;

    /// This many free nodes of a site; `None` if there are fewer.
    fn free_nodes(&self, site: &str, wanted: usize, used: &BTreeSet<String>)
    -> Option<Vec<String>>;
}

/// Numbers of runs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) skipped: u64,
    pub(super) left: u64,
}

/// How far a run is taken up that an earlier controller handed over to an agent, which may be carrying it out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Adoption {
    Waiting,
    UnderWay,
}

/// The runs of a plan: which are settled, under way, lost, forgiven.
///
/// Each event costs as much with many runs as with few: open runs wait in queues of those that need the same, and what is under way is
/// counted by site. No queue is scanned, except to give up what is in it.
pub(super) struct Scheduler<'a> {
    index: PlanIndex<'a>,
    settings: &'a RunSettings,
    pub(super) retries: Retries<'a>,
    queues: Queues<'a>,
    /// Points that cannot run, with the reason.
    obstacles: BTreeMap<PointId, String>,
    /// Runs that are left for later sessions.
    left_out: HashSet<usize>,
    under_way: UnderWay,
    /// Runs that an earlier controller handed over.
    adopted: BTreeMap<usize, Adoption>,
    /// All runs before this one are settled.
    first_open: usize,
    /// How often it was asked whether a run is settled.
    #[cfg(test)]
    looks: std::cell::Cell<u64>,
}

impl<'a> Scheduler<'a> {
    pub(super) fn new(plan: &'a Plan, settings: &'a RunSettings) -> Self {
        let index = PlanIndex::new(plan);
        let points = plan.points.iter();
        let queues = Queues::new(
            plan.runs.len(),
            points.map(|p| (&p.point, index.numbers_of(&p.id))),
        );
        Self {
            settings,
            retries: Retries::new(settings),
            queues,
            index,
            obstacles: BTreeMap::new(),
            left_out: HashSet::new(),
            under_way: UnderWay::default(),
            adopted: BTreeMap::new(),
            first_open: 0,
            #[cfg(test)]
            looks: Default::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.looks.get()
    }

    pub(super) fn point(&self, id: &PointId) -> Option<&'a Point> {
        self.index.point(id)
    }

    /// The point of a run of the plan.
    pub(super) fn point_of(&self, run: &RunId) -> Option<&'a Point> {
        self.point(&self.index.run(self.index.number(run)?).point)
    }

    /// Whether the plan has points of no other site.
    pub(super) fn is_only_site(&self, site: &str) -> bool {
        self.index.plan.points.iter().all(|p| p.point.site == site)
    }

    pub(super) fn obstacle(&self, point: &PointId) -> Option<&String> {
        self.obstacles.get(point)
    }

    /// Skips points from now on, for this reason.
    pub(super) fn obstruct(&mut self, points: impl IntoIterator<Item = PointId>, reason: &str) {
        for point in points {
            for number in self.index.numbers_of(&point) {
                self.queues.remove(*number);
            }
            self.obstacles.insert(point, reason.to_owned());
        }
    }

    /// Leaves runs for later sessions, but for those that are done and those that an earlier controller handed over.
    pub(super) fn leave_out<'r>(
        &mut self,
        state: &CampaignState,
        runs: impl IntoIterator<Item = &'r RunId>,
    ) {
        for run in runs {
            let Some(number) = self.index.number(run) else {
                continue;
            };
            if self.retries.attempts_before(state, run).is_some() && !self.is_adopted(number) {
                self.queues.remove(number);
                self.left_out.insert(number);
            }
        }
    }

    /// Whether an earlier controller handed this run over.
    pub(super) fn is_adopted(&self, number: usize) -> bool {
        self.adopted.contains_key(&number)
    }

    fn is_left_out(&self, run: &RunId) -> bool {
        let number = || self.index.number(run);
        !self.left_out.is_empty() && number().is_some_and(|n| self.left_out.contains(&n))
    }

    /// The runs of the plan that are not left for later sessions.
    pub(super) fn runs_of_session(&self) -> impl Iterator<Item = &'a PlannedRun> {
        self.index
            .plan
            .runs
            .iter()
            .filter(|run| !self.is_left_out(&run.id))
    }

    /// Gives a failed run its attempts again.
    pub(super) fn forgive(&mut self, run: RunId, attempts: u32) {
        if let Some(number) = self.index.number(&run) {
            self.queues.add(number);
        }
        self.retries.forgive(run, attempts);
    }

    /// Notes that an earlier controller handed this run over.
    pub(super) fn adopt(&mut self, run: &RunId) {
        let number = self.index.number(run);
        self.adopted.extend(number.map(|n| (n, Adoption::Waiting)));
    }

    /// Notes that an attempt begins; [`end`](Self::end) undoes it.
    pub(super) fn begin(&mut self, task: Task) {
        if let Some(number) = self.index.number(&task.planned.id) {
            self.queues.remove(number);
            if let Some(adoption) = self.adopted.get_mut(&number) {
                *adoption = Adoption::UnderWay;
            }
        }
        self.under_way.add(task);
    }

    /// Notes that an attempt has ended; `None` if it was not under way.
    pub(super) fn end(&mut self, run: &RunId) -> Option<Task> {
        let number = self.index.number(run);
        if let Some(number) = &number {
            self.adopted.remove(number);
        }
        let task = self.under_way.remove(run)?;
        // it may be tried again: if not, that is seen when its turn comes
        if let Some(number) = number {
            self.queues.add(number);
        }
        Some(task)
    }

    /// Number of nodes of the mappings of attempts under way on a site.
    pub(super) fn nodes_under_way(&self, site: &str) -> u32 {
        self.under_way.mapped_nodes(site)
    }

    pub(super) fn under_way(&self) -> &HashMap<RunId, Task> {
        self.under_way.tasks()
    }

    /// Whether a run is not to be tried, or needs no further attempt.
    pub(super) fn is_settled(&self, state: &CampaignState, planned: &PlannedRun) -> bool {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.obstacles.contains_key(&planned.point)
            || self.is_left_out(&planned.id)
            || self.is_set_aside(state, planned)
            || self.retries.attempts_before(state, &planned.id).is_none()
    }

    /// Whether a run is not to be tried because its point failed too often, or needs no further run. What an earlier controller began is under way all the same, and
    /// nothing may start beside it.
    fn is_set_aside(&self, state: &CampaignState, planned: &PlannedRun) -> bool {
        let is_adopted = || {
            let number = self.index.number(&planned.id);
            number.is_some_and(|n| self.is_adopted(n))
        };
        (state.quarantined.contains(&planned.point) || state.decided.contains_key(&planned.point))
            && !is_adopted()
    }

    fn is_open(&self, state: &CampaignState, planned: &PlannedRun) -> bool {
        !self.is_settled(state, planned) && !self.under_way.has(&planned.id)
    }

    /// Skips the runs at the beginning that are settled, of the plan and of each queue.
    pub(super) fn advance(&mut self, state: &CampaignState) {
        while let Some(run) = self.index.plan.runs.get(self.first_open)
            && self.is_settled(state, run)
            && !self.under_way.has(&run.id)
        {
            self.first_open += 1;
        }
        let mut queues = std::mem::take(&mut self.queues);
        queues.skip(|number| self.is_settled(state, self.index.run(number)));
        self.queues = queues;
    }

    /// Whether all runs were settled at the last [`Self::advance`].
    pub(super) fn is_done(&self) -> bool {
        self.first_open >= self.index.plan.runs.len()
    }

    /// Runs that remain and are not under way, of wanted sites, in the order of the plan.
    pub(super) fn open_runs(
        &self,
        state: &CampaignState,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<&'a PlannedRun> {
        let mut numbers: Vec<usize> = self
            .queues
            .iter()
            .filter(|q| wanted(q.site))
            .flat_map(|q| q.runs.iter().copied())
            .collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .map(|number| self.index.run(number))
            .filter(|r| self.is_open(state, r))
            .collect()
    }

    /// The runs of a site that remain and are not under way: their numbers and points, in the order of the plan.
    pub(super) fn open_numbers(
        &self,
        state: &CampaignState,
        site: &str,
    ) -> Vec<(usize, &'a PointId, &'a Point)> {
        self.open_runs(state, |s| s == site)
            .into_iter()
            .filter_map(|planned| {
                let number = self.index.number(&planned.id)?;
                Some((number, &planned.point, self.point(&planned.point)?))
            })
            .collect()
    }

    /// The points of the runs of a site that may still succeed: those that remain, and those under way.
    pub(super) fn open_points(
        &self,
        state: &CampaignState,
        site: &str,
    ) -> Vec<(&'a PointId, &'a Point)> {
        let waiting: HashSet<&PointId> = self
            .open_runs(state, |s| s == site)
            .into_iter()
            .map(|planned| &planned.point)
            .collect();
        let under_way: HashSet<&PointId> = self
            .under_way()
            .values()
            .filter(|task| task.point.site == site)
            .map(|task| &task.planned.point)
            .collect();
        // what runs is no reason to wait if nothing follows
        if waiting.is_empty() {
            return Vec::new();
        }
        self.index
            .plan
            .points
            .iter()
            .filter(|p| waiting.contains(&p.id) || under_way.contains(&p.id))
            .map(|p| (&p.id, &p.point))
            .collect()
    }

    /// Whether a run of a site has succeeded, in any session.
    pub(super) fn has_succeeded(&self, state: &CampaignState, site: &str) -> bool {
        let runs = (0..).zip(&self.index.plan.runs);
        let mut of_site = runs.filter(|(number, _)| self.index.site(*number) == Some(site));
        of_site.any(|(_, run)| state.has_succeeded(&run.id))
    }

    /// Runs of one point that remain and are not under way.
    pub(super) fn open_runs_of(
        &self,
        state: &CampaignState,
        point: &PointId,
    ) -> Vec<&'a PlannedRun> {
        let runs = self.index.runs_of(point);
        runs.filter(|r| self.is_open(state, r)).collect()
    }

    /// Sites that have something left to do.
    pub(super) fn wanted_sites(&self, state: &CampaignState) -> BTreeSet<String> {
        let wanted = |r: &&PlannedRun| {
            !self.is_left_out(&r.id)
                && !self.is_set_aside(state, r)
                && self.retries.attempts_before(state, &r.id).is_some()
        };
        self.index
            .plan
            .runs
            .iter()
            .filter(wanted)
            .filter_map(|r| Some(self.point(&r.point)?.site.clone()))
            .collect()
    }

    /// Whether something runs or remains to run on a site.
    pub(super) fn is_busy(&self, state: &CampaignState, site: &str) -> bool {
        self.under_way.sites().any(|s| s == site)
            || self
                .queues
                .iter()
                .any(|q| q.site == site && self.first_of(state, q).is_some())
    }

    /// The first open run of a queue.
    fn first_of(&self, state: &CampaignState, queue: &Queue<'_>) -> Option<usize> {
        queue
            .runs
            .iter()
            .copied()
            .find(|number| self.is_open(state, self.index.run(*number)))
    }

    /// The next run that may start beside those under way. Runs that an earlier controller began come first, and nothing starts beside
    /// them, because only their agent knows their nodes.
    pub(super) fn next(&self, state: &CampaignState, capacity: &impl Capacity) -> Option<usize> {
        let adopted = |adoption: Adoption| {
            let of_kind = self.adopted.iter().filter(move |(_, a)| **a == adoption);
            of_kind.map(|(number, _)| *number)
        };
        let waiting: Vec<usize> = adopted(Adoption::Waiting)
            .filter(|number| self.is_open(state, self.index.run(*number)))
            .collect();
        let taking_up: BTreeSet<&str> = adopted(Adoption::UnderWay)
            .chain(waiting.iter().copied())
            .filter_map(|number| self.index.site(number))
            .collect();
        if let Some(number) = self.first_with_nodes(waiting, capacity) {
            return Some(number);
        }
        // nothing begins beside what an earlier controller handed over
        let is_free = |site: &str| {
            taking_up
                .iter()
                .all(|other| *other != site && !capacity.are_neighbours(site, other))
        };
        let mut first: Vec<usize> = self
            .queues
            .iter()
            .filter(|q| is_free(q.site))
            .filter_map(|q| self.first_of(state, q))
            .collect();
        first.sort_unstable();
        self.first_with_nodes(first, capacity)
    }

    /// The first of these runs whose nodes are free. A site is not asked again for as many nodes as it does not have.
    fn first_with_nodes(&self, numbers: Vec<usize>, capacity: &impl Capacity) -> Option<usize> {
        let mut too_many: HashMap<&str, u32> = HashMap::new();
        numbers.into_iter().find(|number| {
            let planned = self.index.run(*number);
            let Some(point) = self.point(&planned.point) else {
                return false;
            };
            let (site, wanted) = (point.site.as_str(), point.mapping.nodes());
            if too_many.get(site).is_some_and(|n| wanted >= *n) {
                return false;
            }
            let has_nodes = self.nodes_for(planned, capacity).is_some();
            if !has_nodes {
                too_many.insert(site, wanted);
            }
            has_nodes
        })
    }

    /// Nodes that a run may have now. Neighbours disturb measurements, so it runs alone on its machines unless its site allows others beside it.
    pub(super) fn nodes_for(
        &self,
        planned: &PlannedRun,
        capacity: &impl Capacity,
    ) -> Option<Vec<String>> {
        let point = self.point(&planned.point)?;
        let site = point.site.as_str();
        let shares = capacity.side_by_side(site)?;
        let is_apart = |other: &str| other != site && !capacity.are_neighbours(site, other);
        let disturbs = |other: &str| {
            !is_apart(other) && !(shares && capacity.side_by_side(other) == Some(true))
        };
        if self.under_way.sites().any(disturbs) {
            return None;
        }
        let used = self.under_way.nodes(site);
        capacity.free_nodes(site, point.mapping.nodes() as usize, used)
    }

    /// Numbers of failed and remaining runs of a point, if it has failed often enough to be given up.
    pub(super) fn to_quarantine(
        &self,
        state: &CampaignState,
        point: &PointId,
    ) -> Option<(u32, u64)> {
        if state.quarantined.contains(point) {
            return None;
        }
        let runs = || self.index.runs_of(point);
        let failed = runs().filter(|r| state.has_failed(&r.id)).count();
        let failures = u32::try_from(failed).unwrap_or(u32::MAX);
        let skipped = self.still_tried(state, point);
        (failures >= self.settings.quarantine_after && skipped > 0).then_some((failures, skipped))
    }

    /// The counted runs of a point that succeeded, and how many of its runs may still be tried.
    pub(super) fn counted_runs(
        &self,
        state: &CampaignState,
        point: &PointId,
    ) -> (Vec<&'a RunId>, u64) {
        let counts =
            |r: &&PlannedRun| matches!(r.repeat, Repeat::Measured(_)) && state.has_succeeded(&r.id);
        let counted = self.index.runs_of(point).filter(counts);
        (
            counted.map(|r| &r.id).collect(),
            self.still_tried(state, point),
        )
    }

    /// Number of runs of a point that may still be tried.
    fn still_tried(&self, state: &CampaignState, point: &PointId) -> u64 {
        let runs = self.index.runs_of(point);
        runs.filter(|r| self.retries.attempts_before(state, &r.id).is_some())
            .count() as u64
    }

    /// Where the runs of the plan stand.
    pub(super) fn tally(&self, state: &CampaignState) -> Tally {
        let mut tally = Tally::default();
        for planned in &self.index.plan.runs {
            let has_ended = self.retries.attempts_before(state, &planned.id).is_none();
            let is_given_up = self.obstacles.contains_key(&planned.point)
                || state.quarantined.contains(&planned.point);
            if state.has_succeeded(&planned.id) {
                tally.succeeded += 1;
            } else if has_ended {
                tally.failed += 1;
            } else if is_given_up {
                tally.skipped += 1;
            } else if !state.decided.contains_key(&planned.point) {
                // a point that needs no further run has none left
                tally.left += 1;
            }
        }
        tally
    }

    /// Number of runs that can run, and number of runs that need no further attempt.
    pub(super) fn progress(&self, state: &CampaignState) -> (u64, u64) {
        let is_needed = |r: &&PlannedRun| {
            !state.decided.contains_key(&r.point)
                || self.retries.attempts_before(state, &r.id).is_none()
        };
        let can_run = self
            .runs_of_session()
            .filter(|r| !self.obstacles.contains_key(&r.point))
            .filter(is_needed)
            .count() as u64;
        let done = self
            .index
            .plan
            .runs
            .iter()
            .filter(|r| self.retries.attempts_before(state, &r.id).is_none())
            .count() as u64;
        (can_run, done)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::runner::retries::Loss;
    use cvc_core::campaign::Order;
    use cvc_core::mapping::Mapping;
    use cvc_core::outcome::{Cause, Outcome};
    use cvc_core::point::{PlannedPoint, Repeat};
    use cvc_journal::RunHistory;
    use cvc_journal::{Attempt, RunState};

    pub(in super::super) static SETTINGS: std::sync::LazyLock<RunSettings> =
        std::sync::LazyLock::new(|| RunSettings {
            repeats: 2,
            warmups: 0,
            seed: 1,
            order: Order::Interleaved,
            timeout_s: 60.0,
            max_output_mib: 1024,
            retries: 1,
            quarantine_after: 2,
            sites_in_turn: false,
            until: None,
            blocks: None,
            keep_images: false,
            keep_outputs: false,
            locale: cvc_core::campaign::DEFAULT_LOCALE.to_owned(),
        });

    /// Sites with free nodes; those that begin with `s` take runs side by side, those that begin with `far` share no machine with others.
    struct Nodes(BTreeMap<&'static str, Vec<&'static str>>);

    impl Capacity for Nodes {
        fn side_by_side(&self, site: &str) -> Option<bool> {
            self.0.contains_key(site).then(|| site.starts_with('s'))
        }

        fn are_neighbours(&self, site: &str, other: &str) -> bool {
            !(site.starts_with("far") || other.starts_with("far"))
        }

        fn free_nodes(
            &self,
            site: &str,
            wanted: usize,
            used: &BTreeSet<String>,
        ) -> Option<Vec<String>> {
            let free = self
                .0
                .get(site)?
                .iter()
                .map(|n| (*n).to_owned())
                .filter(|n| !used.contains(n));
            let free: Vec<String> = free.take(wanted).collect();
            (free.len() == wanted).then_some(free)
        }
    }

    fn nodes() -> Nodes {
        Nodes([("alone", vec!["a1"]), ("shared", vec!["s1", "s2"])].into())
    }

    /// A plan with two runs of one point on each of these sites, site by site.
    fn plan(sites: &[&str]) -> Plan {
        let id = |site: &str| PointId::from_written(site);
        let point = |site: &str| Point {
            site: site.to_owned(),
            app: "ep".into(),
            class: "S".into(),
            mapping: Mapping::one_node(1),
            mpi: "mpich".into(),
            storage: "disk".into(),
            ..Point::default()
        };
        let run = |site: &str, n: u32| PlannedRun {
            id: RunId::from_written(&format!("{site}-{n}")),
            point: id(site),
            repeat: Repeat::Measured(n),
            block: None,
        };
        Plan {
            schema: 1,
            campaign: "c".into(),
            seed: 1,
            points: sites
                .iter()
                .map(|s| PlannedPoint {
                    id: id(s),
                    point: point(s),
                    baseline: false,
                })
                .collect(),
            runs: sites.iter().flat_map(|s| [run(s, 1), run(s, 2)]).collect(),
            excluded: Vec::new(),
            predict: None,
        }
    }

    fn task_on(scheduler: &Scheduler<'_>, number: usize, nodes: &Nodes) -> Task {
        let planned = scheduler.index.plan.runs[number].clone();
        let point = scheduler.point(&planned.point).expect("a point").clone();
        let nodes = scheduler.nodes_for(&planned, nodes).expect("nodes");
        Task {
            planned,
            point,
            attempt: 1,
            dispatch: 0,
            nodes,
            disk_bytes: None,
        }
    }

    /// Starts all that may start, and gives their names.
    fn start_all(scheduler: &mut Scheduler<'_>, state: &CampaignState) -> Vec<String> {
        start_on(scheduler, state, &nodes())
    }

    fn start_on(
        scheduler: &mut Scheduler<'_>,
        state: &CampaignState,
        nodes: &Nodes,
    ) -> Vec<String> {
        let mut started = Vec::new();
        while let Some(number) = scheduler.next(state, nodes) {
            started.push(scheduler.index.plan.runs[number].id.to_string());
            scheduler.begin(task_on(scheduler, number, nodes));
        }
        started
    }

    fn end(
        scheduler: &mut Scheduler<'_>,
        state: &mut CampaignState,
        run: &str,
        failures: &[Cause],
    ) {
        let id = RunId::from_written(run);
        scheduler.end(&id);
        let failed = |cause: &Cause| Outcome::Failed {
            cause: *cause,
            detail: String::new(),
        };
        let attempt = |(n, cause): (usize, &Cause)| Attempt {
            number: n as u32 + 1,
            started: None,
            ended: None,
            outcome: Some(failed(cause)),
            abandoned: false,
            with_controller: false,
            lost: false,
            nodes: Default::default(),
            not_again: None,
        };
        let outcome = failures.last().map_or(Outcome::Succeeded, failed);
        let last = RunState::Finished {
            attempt: failures.len().max(1) as u32,
            outcome,
            records: None,
            manifest: None,
        };
        let attempts = failures.iter().enumerate().map(attempt).collect();
        state.runs.insert(
            id,
            RunHistory {
                state: last,
                attempts,
            },
        );
    }

    #[test]
    fn a_site_without_side_by_side_has_one_run_and_nothing_beside_it() {
        let plan = plan(&["alone", "shared"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        assert_eq!(start_all(&mut scheduler, &state), ["alone-1"]);
        end(&mut scheduler, &mut state, "alone-1", &[]);
        assert_eq!(start_all(&mut scheduler, &state), ["alone-2"]);
        end(&mut scheduler, &mut state, "alone-2", &[]);
        scheduler.advance(&state);
        assert_eq!(start_all(&mut scheduler, &state), ["shared-1", "shared-2"]);
        assert!(scheduler.is_busy(&state, "shared") && !scheduler.is_busy(&state, "alone"));
        end(&mut scheduler, &mut state, "shared-1", &[]);
        end(&mut scheduler, &mut state, "shared-2", &[]);
        scheduler.advance(&state);
        assert!(scheduler.is_done());
        assert_eq!(
            scheduler.tally(&state),
            Tally {
                succeeded: 4,
                ..Tally::default()
            }
        );
    }

    #[test]
    fn runs_side_by_side_get_different_nodes() {
        let plan = plan(&["shared"]);
        let mut scheduler = Scheduler::new(&plan, &SETTINGS);
        start_all(&mut scheduler, &CampaignState::default());
        let mut used: Vec<&String> = scheduler
            .under_way()
            .values()
            .flat_map(|t| &t.nodes)
            .collect();
        used.sort();
        assert_eq!(used, ["s1", "s2"]);
    }

    #[test]
    fn what_an_earlier_controller_has_begun_comes_first_and_nothing_beside_it() {
        let plan = plan(&["shared"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        scheduler.adopt(&RunId::from_written("shared-2"));
        assert_eq!(start_all(&mut scheduler, &state), ["shared-2"]);
        end(&mut scheduler, &mut state, "shared-2", &[]);
        assert_eq!(start_all(&mut scheduler, &state), ["shared-1"]);
    }

    #[test]
    fn sites_that_share_no_machine_run_at_the_same_time() {
        let nodes = Nodes(
            [
                ("alone", vec!["a1"]),
                ("far", vec!["f1"]),
                ("far-too", vec!["g1"]),
            ]
            .into(),
        );
        let plan = plan(&["alone", "far", "far-too"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        assert_eq!(
            start_on(&mut scheduler, &state, &nodes),
            ["alone-1", "far-1", "far-too-1"],
            "one on each"
        );
        end(&mut scheduler, &mut state, "far-1", &[]);
        assert_eq!(start_on(&mut scheduler, &state, &nodes), ["far-2"]);
        // what an earlier controller handed over to one keeps only that one waiting
        let mut scheduler = Scheduler::new(&plan, &SETTINGS);
        scheduler.adopt(&RunId::from_written("far-2"));
        let started = start_on(&mut scheduler, &CampaignState::default(), &nodes);
        assert_eq!(started, ["far-2", "alone-1", "far-too-1"]);
    }

    #[test]
    fn a_site_that_is_not_open_starts_nothing_but_is_wanted() {
        let plan = plan(&["closed"]);
        let (mut scheduler, state) = (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        assert!(start_all(&mut scheduler, &state).is_empty());
        assert_eq!(scheduler.wanted_sites(&state), ["closed".to_owned()].into());
        scheduler.obstruct([PointId::from_written("closed")], "gone");
        scheduler.advance(&state);
        assert!(scheduler.is_done() && scheduler.open_runs(&state, |_| true).is_empty());
        assert_eq!(
            scheduler.tally(&state),
            Tally {
                skipped: 2,
                ..Tally::default()
            }
        );
    }

    #[test]
    fn retries_do_not_count_what_was_no_fault_of_the_run() {
        let plan = plan(&["alone"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        let run = RunId::from_written("alone-1");
        let mut left = |scheduler: &mut Scheduler<'_>, failures: &[Cause]| {
            end(scheduler, &mut state, "alone-1", failures);
            scheduler.retries.attempts_before(&state, &run)
        };
        assert_eq!(left(&mut scheduler, &[Cause::Application]), Some(1));
        assert_eq!(
            left(&mut scheduler, &[Cause::Application, Cause::Application]),
            None
        );
        assert_eq!(
            left(&mut scheduler, &[Cause::Budget, Cause::Application]),
            Some(2)
        );
        assert_eq!(left(&mut scheduler, &[Cause::Reclaimed; 9]), Some(9));
        assert_eq!(
            left(&mut scheduler, &[Cause::Reclaimed; 10]),
            None,
            "the cloud takes it back too often"
        );
        scheduler.forgive(run.clone(), 10);
        assert_eq!(
            left(&mut scheduler, &[Cause::Reclaimed; 10]),
            Some(10),
            "the user wants further attempts"
        );
    }

    #[test]
    fn an_attempt_that_is_still_open_is_the_next_one() {
        let plan = plan(&["alone"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        let run = RunId::from_written("alone-1");
        end(&mut scheduler, &mut state, "alone-1", &[Cause::Application]);
        state.runs.get_mut(&run).expect("a history").state = RunState::Open {
            attempt: 2,
            shepherd: None,
        };
        assert_eq!(scheduler.retries.attempts_before(&state, &run), Some(1));
    }

    #[test]
    fn what_a_decided_point_does_not_need_is_not_left() {
        let plan = plan(&["alone"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        end(&mut scheduler, &mut state, "alone-1", &[]);
        let decision = cvc_journal::Decision {
            repeats: 1,
            is_narrow: true,
            reason: String::new(),
        };
        state
            .decided
            .insert(PointId::from_written("alone"), decision);
        assert_eq!(
            scheduler.tally(&state),
            Tally {
                succeeded: 1,
                ..Tally::default()
            }
        );
        assert_eq!(scheduler.progress(&state), (1, 1));
    }

    #[test]
    fn warm_ups_are_no_counted_runs() {
        let mut plan = plan(&["alone"]);
        plan.runs[0].repeat = Repeat::Warmup(1);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        for run in ["alone-1", "alone-2"] {
            end(&mut scheduler, &mut state, run, &[]);
        }
        assert_eq!(
            scheduler.counted_runs(&state, &PointId::from_written("alone")),
            (vec![&RunId::from_written("alone-2")], 0)
        );
    }

    #[test]
    fn a_lost_attempt_is_done_again_three_times_in_all_sessions_together() {
        let plan = plan(&["alone"]);
        let mut scheduler = Scheduler::new(&plan, &SETTINGS);
        let (one, other) = (
            RunId::from_written("alone-1"),
            RunId::from_written("alone-2"),
        );
        let mut state = CampaignState::default();
        let mut lose = |scheduler: &Scheduler<'_>, lost: bool| {
            let loss = scheduler.retries.judge_loss(&state, &one);
            let attempt = Attempt {
                number: 1,
                started: None,
                ended: None,
                outcome: None,
                abandoned: true,
                lost,
                with_controller: false,
                nodes: Default::default(),
                not_again: None,
            };
            let history = state.runs.entry(one.clone());
            let begun = || RunHistory {
                state: RunState::Abandoned { attempts: 0 },
                attempts: Vec::new(),
            };
            history.or_insert_with(begun).attempts.push(attempt);
            loss
        };
        assert_eq!(lose(&scheduler, false), Loss::Again, "the user stopped it");
        let losses: Vec<Loss> = (0..4).map(|_| lose(&scheduler, true)).collect();
        assert_eq!(
            losses,
            [Loss::Again, Loss::Again, Loss::Again, Loss::TooOften(4)]
        );
        scheduler.forgive(one.clone(), 1);
        assert_eq!(
            lose(&scheduler, true),
            Loss::Again,
            "the user wants further attempts"
        );
        assert_eq!(scheduler.retries.judge_loss(&state, &other), Loss::Again);
        assert_eq!(
            scheduler.retries.judge_end_of_controller(&state, &one),
            Loss::Again,
            "its controller has outlived it each time"
        );
    }

    #[test]
    fn a_run_may_end_three_controllers_in_all_sessions_together() {
        let plan = plan(&["alone"]);
        let scheduler = Scheduler::new(&plan, &SETTINGS);
        let run = RunId::from_written("alone-1");
        let judge = |ends: &[bool]| {
            let attempts = ends.iter().map(|with_controller| Attempt {
                number: 1,
                started: None,
                ended: None,
                outcome: None,
                abandoned: true,
                lost: false,
                with_controller: *with_controller,
                nodes: Default::default(),
                not_again: None,
            });
            let history = RunHistory {
                state: RunState::Abandoned { attempts: 0 },
                attempts: attempts.collect(),
            };
            let state = CampaignState {
                runs: [(run.clone(), history)].into(),
                ..CampaignState::default()
            };
            scheduler.retries.judge_end_of_controller(&state, &run)
        };
        assert_eq!(
            judge(&[true, false, false, true, false]),
            Loss::Again,
            "the user stopped the others"
        );
        assert_eq!(judge(&[true, true, false, true]), Loss::TooOften(4));
    }

    #[test]
    fn a_point_is_given_up_when_too_many_of_its_runs_have_failed_and_some_are_left() {
        let mut plan = plan(&["alone"]);
        plan.runs.push(PlannedRun {
            id: RunId::from_written("alone-3"),
            ..plan.runs[0].clone()
        });
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        let point = PointId::from_written("alone");
        end(
            &mut scheduler,
            &mut state,
            "alone-1",
            &[Cause::Application; 2],
        );
        assert_eq!(scheduler.to_quarantine(&state, &point), None);
        end(
            &mut scheduler,
            &mut state,
            "alone-2",
            &[Cause::Application; 2],
        );
        assert_eq!(scheduler.to_quarantine(&state, &point), Some((2, 1)));
        state.quarantined.insert(point.clone());
        assert_eq!(
            scheduler.to_quarantine(&state, &point),
            None,
            "once is enough"
        );
        scheduler.advance(&state);
        assert!(scheduler.is_done());
        assert_eq!(
            scheduler.tally(&state),
            Tally {
                failed: 2,
                skipped: 1,
                ..Tally::default()
            }
        );
    }
}
