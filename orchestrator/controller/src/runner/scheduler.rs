//! Decides which runs are pending and which comes next. No side effects: each decision follows from the plan, the journal's state, and the free nodes
//! of sites.

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
use cvc_journal::{CampaignState, RunState};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The free capacity of sites.
pub(super) trait Capacity {
    /// Returns whether the site may carry out several runs at the same time; `None` if the site is not open.
    fn side_by_side(&self, site: &str) -> Option<bool>;

    /// Returns whether runs of two different sites disturb each other: the sites share a machine, or the campaign wants one site after the other.
    fn are_neighbours(&self, site: &str, other: &str) -> bool;

    /// Returns the names of `wanted` free nodes of a site, none of which is in `used`; `None` if fewer nodes are free.
    fn free_nodes(&self, site: &str, wanted: usize, used: &BTreeSet<String>)
    -> Option<Vec<String>>;
}

/// Numbers of runs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunTally {
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    /// Failed runs that were expected to fail; included in `failed`.
    pub(super) failed_as_expected: u64,
    /// Successful runs that were expected to fail; included in `succeeded`.
    pub(super) succeeded_unexpectedly: u64,
    pub(super) skipped: u64,
    pub(super) left: u64,
}

/// Progress of adopting a run that an earlier controller submitted to an agent. The agent may still be carrying the run out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Adoption {
    Waiting,
    UnderWay,
}

/// Selects the next run of a plan. The choice depends on which runs are settled (they need no further attempt), active or lost, and which failed runs
/// the user wants to retry.
///
/// The cost of handling an event does not depend on the number of runs: open runs that need the same number of nodes of the same site share a queue,
/// and active runs are counted by site. A whole queue is scanned only to give up its runs.
pub(super) struct Scheduler<'a> {
    index: PlanIndex<'a>,
    settings: &'a RunSettings,
    pub(super) retries: Retries<'a>,
    queues: Queues<'a>,
    /// Points that cannot run, with the reason.
    obstacles: BTreeMap<PointId, String>,
    /// Runs that this session leaves for later sessions.
    left_out: HashSet<usize>,
    under_way: UnderWay,
    /// Runs that an earlier controller submitted to an agent.
    adopted: BTreeMap<usize, Adoption>,
    /// Index of the first run that may be unsettled: all runs before it are settled.
    first_open: usize,
    /// Number of checks whether a run is settled; counted by a test.
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

    /// Returns the point of a run of the plan.
    pub(super) fn point_of(&self, run: &RunId) -> Option<&'a Point> {
        self.point(&self.index.run(self.index.number(run)?).point)
    }

    /// Returns whether all points of the plan are on this site.
    pub(super) fn is_only_site(&self, site: &str) -> bool {
        self.index.plan.points.iter().all(|p| p.point.site == site)
    }

    pub(super) fn obstacle(&self, point: &PointId) -> Option<&String> {
        self.obstacles.get(point)
    }

    /// Skips these points from now on, for this reason.
    pub(super) fn obstruct(&mut self, points: impl IntoIterator<Item = PointId>, reason: &str) {
        for point in points {
            for number in self.index.numbers_of(&point) {
                self.queues.remove(*number);
            }
            self.obstacles.insert(point, reason.to_owned());
        }
    }

    /// Leaves these runs for later sessions, except runs that need no further attempt and runs that an earlier controller submitted to an agent.
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

    /// Returns whether an earlier controller submitted this run to an agent.
    pub(super) fn is_adopted(&self, number: usize) -> bool {
        self.adopted.contains_key(&number)
    }

    fn is_left_out(&self, run: &RunId) -> bool {
        let number = || self.index.number(run);
        !self.left_out.is_empty() && number().is_some_and(|n| self.left_out.contains(&n))
    }

    /// Returns the runs of the plan that are not left for later sessions.
    pub(super) fn runs_of_session(&self) -> impl Iterator<Item = &'a PlannedRun> {
        self.index
            .plan
            .runs
            .iter()
            .filter(|run| !self.is_left_out(&run.id))
    }

    /// Allows a failed run its full number of attempts again. The past `attempts` no longer count.
    pub(super) fn forgive(&mut self, run: RunId, attempts: u32) {
        if let Some(number) = self.index.number(&run) {
            self.queues.add(number);
        }
        self.retries.forgive(run, attempts);
    }

    /// Records that an earlier controller submitted this run to an agent.
    pub(super) fn adopt(&mut self, run: &RunId) {
        let number = self.index.number(run);
        self.adopted.extend(number.map(|n| (n, Adoption::Waiting)));
    }

    /// Records that an attempt begins; [`end`](Self::end) undoes it.
    pub(super) fn begin(&mut self, task: Task) {
        if let Some(number) = self.index.number(&task.planned.id) {
            self.queues.remove(number);
            if let Some(adoption) = self.adopted.get_mut(&number) {
                *adoption = Adoption::UnderWay;
            }
        }
        self.under_way.add(task);
    }

    /// Records that an attempt has ended, and returns its task; `None` if the run was not under way.
    pub(super) fn end(&mut self, run: &RunId) -> Option<Task> {
        let number = self.index.number(run);
        if let Some(number) = &number {
            self.adopted.remove(number);
        }
        let task = self.under_way.remove(run)?;
        // the run may be retried; if it is settled, its queue skips it later
        if let Some(number) = number {
            self.queues.add(number);
        }
        Some(task)
    }

    /// Returns the number of nodes that the active attempts on a site need by their mappings.
    pub(super) fn nodes_under_way(&self, site: &str) -> u32 {
        self.under_way.mapped_nodes(site)
    }

    pub(super) fn under_way(&self) -> &HashMap<RunId, Task> {
        self.under_way.tasks()
    }

    /// Returns whether a run must not be tried, or needs no further attempt.
    pub(super) fn is_settled(&self, state: &CampaignState, planned: &PlannedRun) -> bool {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.obstacles.contains_key(&planned.point)
            || self.is_left_out(&planned.id)
            || self.is_set_aside(state, planned)
            || self.retries.attempts_before(state, &planned.id).is_none()
    }

    /// Returns whether a run must not be tried because its point is quarantined, or needs no further run. Runs that an earlier controller submitted
    /// to an agent are never excluded in this way: they may still be active, and nothing else may start on their site.
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

    /// Skips the settled runs at the beginning of the plan and of each queue.
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

    /// Returns whether all runs were settled at the last [`Self::advance`].
    pub(super) fn is_done(&self) -> bool {
        self.first_open >= self.index.plan.runs.len()
    }

    /// Returns the runs that remain and are not under way, on sites for which `wanted` is true, in the order of the plan.
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

    /// Returns the runs of a site that remain and are not under way, in the order of the plan: number in the plan, point identifier, point.
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

    /// Returns the points of a site with runs that may still succeed: remaining runs, and runs under way.
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
        // if no further run follows, the active runs need not be considered
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

    /// Returns whether a run of a site has succeeded, in any session.
    pub(super) fn has_succeeded(&self, state: &CampaignState, site: &str) -> bool {
        let runs = (0..).zip(&self.index.plan.runs);
        let mut of_site = runs.filter(|(number, _)| self.index.site(*number) == Some(site));
        of_site.any(|(_, run)| state.has_succeeded(&run.id))
    }

    /// Returns the runs of one point that remain and are not under way.
    pub(super) fn open_runs_of(
        &self,
        state: &CampaignState,
        point: &PointId,
    ) -> Vec<&'a PlannedRun> {
        let runs = self.index.runs_of(point);
        runs.filter(|r| self.is_open(state, r)).collect()
    }

    /// Returns the sites with work left.
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

    /// Returns whether something runs or remains to run on a site.
    pub(super) fn is_busy(&self, state: &CampaignState, site: &str) -> bool {
        self.under_way.sites().any(|s| s == site)
            || self
                .queues
                .iter()
                .any(|q| q.site == site && self.first_of(state, q).is_some())
    }

    /// Returns the first open run of a queue.
    fn first_of(&self, state: &CampaignState, queue: &Queue<'_>) -> Option<usize> {
        queue
            .runs
            .iter()
            .copied()
            .find(|number| self.is_open(state, self.index.run(*number)))
    }

    /// Returns the next run that may start while other runs are active. Runs that an earlier controller submitted to an agent come first, and no
    /// other run starts on their site or a neighbouring site while they are active, because only their agent knows their nodes.
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
        // nothing starts on a site while runs of an earlier controller are active there
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

    /// Returns the first of these runs whose nodes are free. If a site does not have a number of free nodes, the site is not queried again for that
    /// number or more.
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

    /// Returns the nodes that a run may use now; `None` if they are not free. Runs of neighbouring sites disturb measurements, so a run has its
    /// machines to itself unless its site allows several runs at the same time.
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

    /// Returns the nodes for a run that continues from a checkpoint. Nodes of the run's last attempt that are free keep their position in the
    /// mapping; the others are replaced by nodes from `chosen` or other free nodes.
    pub(super) fn nodes_as_before(
        &self,
        state: &CampaignState,
        planned: &PlannedRun,
        chosen: Vec<String>,
        capacity: &impl Capacity,
    ) -> Vec<String> {
        let before = state
            .runs
            .get(&planned.id)
            .and_then(|history| history.attempts.last());
        let before: Vec<String> = before.map_or_else(Vec::new, |a| {
            a.nodes.iter().map(ToString::to_string).collect()
        });
        let Some(site) = self.point(&planned.point).map(|point| point.site.as_str()) else {
            return chosen;
        };
        if before.len() != chosen.len() {
            return chosen;
        }
        let used = self.under_way.nodes(site);
        // a single machine that counts as several nodes provides its name any number of times
        let free = (chosen.len()..)
            .map_while(|n| {
                capacity
                    .free_nodes(site, n, used)
                    .filter(|nodes| nodes.len() == n)
            })
            .last()
            .unwrap_or_else(|| chosen.clone());
        let mut others = free.iter().filter(|node| !before.contains(node));
        let in_place = before.iter().map(|node| match free.contains(node) {
            true => Some(node.clone()),
            false => others.next().cloned(),
        });
        in_place.collect::<Option<Vec<_>>>().unwrap_or(chosen)
    }

    /// Returns the number of failed runs and the number of remaining runs of a point, if it has failed often enough to be quarantined and is not
    /// quarantined yet; otherwise `None`.
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

    /// Returns the counted runs of a point that succeeded, and how many of its runs may still be tried.
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

    /// Returns the number of runs of a point that may still be tried.
    fn still_tried(&self, state: &CampaignState, point: &PointId) -> u64 {
        let runs = self.index.runs_of(point);
        runs.filter(|r| self.retries.attempts_before(state, &r.id).is_some())
            .count() as u64
    }

    /// Returns why the runs of a point are expected to fail, if they are.
    pub(super) fn expected_failure(&self, point: &PointId) -> Option<&'a str> {
        self.index.expected_failure(point)
    }

    /// Returns the progress of the plan's runs.
    pub(super) fn tally(&self, state: &CampaignState) -> RunTally {
        let mut tally = RunTally::default();
        for planned in &self.index.plan.runs {
            let has_ended = self.retries.attempts_before(state, &planned.id).is_none();
            let is_given_up = self.obstacles.contains_key(&planned.point)
                || state.quarantined.contains(&planned.point);
            let is_expected_to_fail = self.expected_failure(&planned.point).is_some();
            if state.has_succeeded(&planned.id) {
                tally.succeeded += 1;
                tally.succeeded_unexpectedly += u64::from(is_expected_to_fail);
            } else if has_ended {
                tally.failed += 1;
                let is_of_program = matches!(
                    state.run(&planned.id),
                    Some(RunState::Finished { outcome, .. }) if outcome.is_failure_of_program()
                );
                tally.failed_as_expected += u64::from(is_expected_to_fail && is_of_program);
            } else if is_given_up {
                tally.skipped += 1;
            } else if !state.decided.contains_key(&planned.point) {
                // a point that needs no further run has none left
                tally.left += 1;
            }
        }
        tally
    }

    /// Returns the number of the session's runs that can run and are needed, and the number of all runs of the plan that need no further attempt.
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
    use crate::runner::retries::NodeLoss;
    use cvc_core::campaign::Order;
    use cvc_core::mapping::Mapping;
    use cvc_core::outcome::{Cause, Outcome};
    use cvc_core::point::{PlannedPoint, Repeat};
    use cvc_journal::Attempt;
    use cvc_journal::RunHistory;

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

    /// Sites with free nodes. Sites whose names begin with `s` run several runs at the same time; sites whose names begin with `far` share no machine
    /// with others.
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

    /// Returns a plan with two runs of one point on each of these sites, site by site.
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
                    expected_failure: None,
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
            resume: None,
        }
    }

    /// Starts all runs that may start, and returns their names.
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
            kept_bytes: None,
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
    fn a_site_without_side_by_side_has_one_run_and_no_other() {
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
            RunTally {
                succeeded: 4,
                ..RunTally::default()
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
    fn runs_begun_by_an_earlier_controller_come_first_and_alone() {
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
        // an adopted run on one site delays only that site
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
            RunTally {
                skipped: 2,
                ..RunTally::default()
            }
        );
    }

    #[test]
    fn retries_do_not_count_failures_that_were_no_fault_of_the_run() {
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
    fn runs_that_a_decided_point_does_not_need_are_not_left() {
        let plan = plan(&["alone"]);
        let (mut scheduler, mut state) =
            (Scheduler::new(&plan, &SETTINGS), CampaignState::default());
        end(&mut scheduler, &mut state, "alone-1", &[]);
        let decision = cvc_journal::PointDecision {
            repeats: 1,
            is_narrow: true,
            reason: String::new(),
        };
        state
            .decided
            .insert(PointId::from_written("alone"), decision);
        assert_eq!(
            scheduler.tally(&state),
            RunTally {
                succeeded: 1,
                ..RunTally::default()
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
    fn a_lost_attempt_is_repeated_three_times_over_all_sessions() {
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
                kept_bytes: None,
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
        assert_eq!(
            lose(&scheduler, false),
            NodeLoss::Again,
            "the user stopped it"
        );
        let losses: Vec<NodeLoss> = (0..4).map(|_| lose(&scheduler, true)).collect();
        assert_eq!(
            losses,
            [
                NodeLoss::Again,
                NodeLoss::Again,
                NodeLoss::Again,
                NodeLoss::TooOften(4)
            ]
        );
        scheduler.forgive(one.clone(), 1);
        assert_eq!(
            lose(&scheduler, true),
            NodeLoss::Again,
            "the user wants further attempts"
        );
        assert_eq!(
            scheduler.retries.judge_loss(&state, &other),
            NodeLoss::Again
        );
        assert_eq!(
            scheduler.retries.judge_end_of_controller(&state, &one),
            NodeLoss::Again,
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
                kept_bytes: None,
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
            NodeLoss::Again,
            "the user stopped the others"
        );
        assert_eq!(judge(&[true, true, false, true]), NodeLoss::TooOften(4));
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
            RunTally {
                failed: 2,
                skipped: 1,
                ..RunTally::default()
            }
        );
    }
}
