//! The points and runs of a plan, by their names.

use cvc_core::ids::{PointId, RunId};
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Point};
use std::collections::HashMap;

/// A plan whose points and runs are found by name.
pub(super) struct PlanIndex<'a> {
    pub(super) plan: &'a Plan,
    points: HashMap<&'a PointId, IndexedPoint<'a>>,
    numbers: HashMap<&'a RunId, usize>,
}

/// A point with the numbers of its runs in the plan.
struct IndexedPoint<'a> {
    planned: &'a PlannedPoint,
    runs: Vec<usize>,
}

impl<'a> PlanIndex<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut points: HashMap<&PointId, IndexedPoint<'_>> = HashMap::new();
        for planned in &plan.points {
            let runs = Vec::new();
            points.insert(&planned.id, IndexedPoint { planned, runs });
        }
        for (number, run) in plan.runs.iter().enumerate() {
            if let Some(indexed) = points.get_mut(&run.point) {
                indexed.runs.push(number);
            }
        }
        let numbers = plan.runs.iter().enumerate();
        Self {
            plan,
            points,
            numbers: numbers.map(|(number, run)| (&run.id, number)).collect(),
        }
    }

    pub(super) fn point(&self, id: &PointId) -> Option<&'a Point> {
        self.points.get(id).map(|indexed| &indexed.planned.point)
    }

    /// Returns why the runs of a point are expected to fail, if they are.
    pub(super) fn expected_failure(&self, id: &PointId) -> Option<&'a str> {
        self.points.get(id)?.planned.expected_failure.as_deref()
    }

    /// Returns the number of a run in the plan.
    pub(super) fn number(&self, run: &RunId) -> Option<usize> {
        self.numbers.get(run).copied()
    }

    pub(super) fn run(&self, number: usize) -> &'a PlannedRun {
        &self.plan.runs[number]
    }

    /// Returns the site of a run.
    pub(super) fn site(&self, number: usize) -> Option<&'a str> {
        Some(self.point(&self.run(number).point)?.site.as_str())
    }

    /// Returns the numbers of the runs of a point.
    pub(super) fn numbers_of(&self, point: &PointId) -> &[usize] {
        self.points.get(point).map_or(&[], |indexed| &indexed.runs)
    }

    /// Returns the runs of a point.
    pub(super) fn runs_of(&self, point: &PointId) -> impl Iterator<Item = &'a PlannedRun> {
        self.numbers_of(point)
            .iter()
            .map(|number| &self.plan.runs[*number])
    }
}
