//! Limits of a session: selected points, an end time, a last block. The other runs are left for later sessions.

use cvc_core::ids::{PointId, RunId};

use cvc_core::plan::{Plan, PlannedRun};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::time::Instant;

/// The limits of one session.
#[derive(Debug)]
pub(super) struct SessionLimit {
    selected: Option<HashSet<PointId>>,
    last_block: Option<u32>,
    end: Option<Instant>,
    /// Start times of the active runs.
    begun: HashMap<RunId, Instant>,
    /// Duration of the longest run of each point among the runs that ended in this session.
    longest: HashMap<PointId, Duration>,
}

impl SessionLimit {
    pub(super) fn new(
        selected: Option<HashSet<PointId>>,
        last_block: Option<u32>,
        end: Option<Instant>,
    ) -> Self {
        Self {
            selected,
            last_block,
            end,
            begun: HashMap::new(),
            longest: HashMap::new(),
        }
    }

    /// Returns whether a run is excluded from this session: its point is not selected, its block comes later, or it would probably end too late.
    /// `expected_s` has the estimated duration by point, seconds. If a run of the point has ended in this session, the duration of that run is used
    /// instead.
    pub(super) fn excludes(
        &self,
        planned: &PlannedRun,
        expected_s: &HashMap<PointId, f64>,
    ) -> bool {
        if self
            .selected
            .as_ref()
            .is_some_and(|selected| !selected.contains(&planned.point))
        {
            return true;
        }
        if self
            .last_block
            .is_some_and(|last| planned.block.is_some_and(|block| block.number > last))
        {
            return true;
        }
        let Some(end) = self.end else { return false };
        let estimate = || {
            Duration::try_from_secs_f64(expected_s.get(&planned.point).copied().unwrap_or(0.0))
                .unwrap_or_default()
        };
        let lasts = self
            .longest
            .get(&planned.point)
            .copied()
            .unwrap_or_else(estimate);
        Instant::now()
            .checked_add(lasts)
            .is_none_or(|then| then > end)
    }

    /// Returns the runs of a plan that are excluded from this session, by the current estimates.
    pub(super) fn excluded<'p>(
        &self,
        plan: &'p Plan,
        expected_s: &HashMap<PointId, f64>,
    ) -> Vec<&'p RunId> {
        plan.runs
            .iter()
            .filter(|run| self.excludes(run, expected_s))
            .map(|run| &run.id)
            .collect()
    }

    /// Returns whether the session's time is over.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    pub(super) fn begin(&mut self, run: &RunId) {
        self.begun.insert(run.clone(), Instant::now());
    }

    pub(super) fn finish(&mut self, run: &RunId, point: &PointId) {
        let Some(begun) = self.begun.remove(run) else {
            return;
        };
        let longest = self.longest.entry(point.clone()).or_default();
        *longest = (*longest).max(begun.elapsed());
    }
}
