//! The combinations of a campaign, walked as index vectors: only the current combination is in memory.

use super::{
    grid::{Grid, silence},
    model::StorageKind,
    spec::Spec,
};
use crate::{
    app::descriptor::{Descriptor, illegal_count, not_copied, not_shared},
    point::{Excluded, ExcludedBy, Moment, Point, Reason},
    units::counted,
};

/// A combination, judged.
#[derive(Clone, Debug, PartialEq)]
pub enum Combination {
    /// It runs.
    Runs(Point),
    /// It does not.
    Excluded(Excluded),
}

impl Grid {
    fn point(&self, spec: &Spec, index: &[usize]) -> Point {
        let text = |map: Option<&String>| map.cloned().unwrap_or_default();
        let mut user = self.first_user.clone();
        for (value, (_, column)) in user.values_mut().zip(&self.user) {
            value.clone_from(column.at(index));
        }
        let mut point = Point {
            site: text(
                spec.sites
                    .get_index(*self.site.at(index))
                    .map(|(name, _)| name),
            ),
            app: text(
                spec.apps
                    .get_index(*self.app.at(index))
                    .map(|(name, _)| name),
            ),
            class: self.class.at(index).clone(),
            mapping: self.mapping.at(index).clone(),
            mpi: self.mpi.at(index).clone(),
            storage: self.storage.at(index).clone(),
            user,
            ..Point::default()
        };
        self.settings.set(&mut point, index);
        point
    }

    fn judge(&self, spec: &Spec, index: &[usize]) -> Combination {
        let mut point = self.point(spec, index);
        match self.excluded(spec, index) {
            Some((by, reason)) => Combination::Excluded(Excluded { point, by, reason }),
            None => {
                silence(&mut point);
                Combination::Runs(point)
            }
        }
    }

    fn excluded(&self, spec: &Spec, index: &[usize]) -> Option<(ExcludedBy, Reason)> {
        for rule in &self.rules {
            if rule.conditions.iter().all(|c| c.matches[index[c.axis]]) {
                return Some((ExcludedBy::Rule, rule.reason.clone().into()));
            }
        }
        let (site_name, site) = spec.sites.get_index(*self.site.at(index))?;
        let (app_name, app) = spec.apps.get_index(*self.app.at(index))?;
        let descriptor = &app.descriptor;
        let mapping = self.mapping.at(index);
        let processes = mapping.processes();
        let no = |by, reason: String| Some((by, Reason::Text(reason)));

        if let Some(given) = self
            .processes
            .as_ref()
            .map(|p| *p.at(index))
            .filter(|p| *p != processes)
        {
            return no(
                ExcludedBy::Combination,
                format!("{given} processes, but the mapping {mapping} has {processes}"),
            );
        }
        if mapping.nodes() > site.nodes() {
            return no(
                ExcludedBy::Site,
                format!(
                    "{mapping} needs {}; the site `{site_name}` has {}",
                    counted(mapping.nodes(), "node"),
                    site.nodes()
                ),
            );
        }
        let mpi = self.mpi.at(index);
        if !site.mpi.contains_key(mpi) {
            return no(
                ExcludedBy::Site,
                format!("the site `{site_name}` has no MPI library `{mpi}`"),
            );
        }
        let storage = self.storage.at(index);
        if !site.storage.contains_key(storage) {
            return no(
                ExcludedBy::Site,
                format!("the site `{site_name}` has no storage area `{storage}`"),
            );
        }
        let class = self.class.at(index);
        if !descriptor.workloads.contains_key(class) {
            let known = descriptor
                .workloads
                .keys()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            return no(
                ExcludedBy::Application,
                format!("{app_name} has no workload `{class}`; it has: {known}"),
            );
        }
        if let Some(reason) = illegal_count(app_name, &descriptor.processes, processes) {
            return no(ExcludedBy::Application, reason);
        }
        // whether an area without a path is shared is only known once the nodes are checked
        let apart = site
            .storage
            .get(storage)
            .is_some_and(|a| a.path.is_some() && a.kind == StorageKind::NodeLocal);
        let own_checkpoint = self.settings.checkpointer.at(index).has_own_files();
        if mapping.nodes() > 1 && apart && descriptor.shares_files(own_checkpoint) {
            return no(
                ExcludedBy::Combination,
                not_shared(app_name, mapping, storage),
            );
        }
        if mapping.nodes() > 1 && apart && !app.sources.is_empty() {
            return no(
                ExcludedBy::Combination,
                not_copied(app_name, mapping, storage),
            );
        }
        self.senseless(spec, index, app_name, descriptor)
    }

    /// Finds combinations without meaning, and known hazards.
    fn senseless(
        &self,
        spec: &Spec,
        index: &[usize],
        app: &str,
        descriptor: &Descriptor,
    ) -> Option<(ExcludedBy, Reason)> {
        let no = |reason: String| Some((ExcludedBy::Combination, Reason::Text(reason)));
        let checkpointer = *self.settings.checkpointer.at(index);
        let aggregators = *self.settings.aggregators.at(index);
        let processes = self.mapping.at(index).processes();
        if let Some(count) = aggregators.filter(|a| *a > processes) {
            let plural = if processes == 1 { "" } else { "es" };
            return no(format!(
                "{count} aggregators, but only {processes} process{plural}"
            ));
        }
        if !descriptor.io.collective {
            let factor = match (aggregators, self.settings.cb_buffer.at(index)) {
                (Some(_), _) => Some("aggregators have"),
                (None, Some(_)) => Some("the collective buffer has"),
                (None, None) => None,
            };
            if let Some(factor) = factor {
                return no(format!(
                    "{app} does no collective I/O: {factor} no effect on it"
                ));
            }
        }
        if checkpointer.has_own_files() && descriptor.checkpoint.is_none() {
            return no(format!("{app} writes no checkpoints of its own"));
        }
        if checkpointer.has_own_files()
            && !spec.checkpoint.own_series
            && self.settings.moment.values.iter().all(Moment::is_series)
        {
            return no(
                "a series at moments of the campaign is taken by DMTCP; with `own_series = true` those that the program writes itself are one".to_owned()
            );
        }
        if checkpointer.is_driven() && descriptor.pages.is_some() {
            return no(format!(
                "{app} watches its pages, which a restart by DMTCP does not bring back: use its own checkpoints, or none"
            ));
        }
        if let Some(reason) = checkpointer.hazard_with(*self.settings.tracer.at(index)) {
            return Some((ExcludedBy::Hazard, Reason::Text(reason.to_owned())));
        }
        if checkpointer.is_driven()
            && let Moment::AfterStep(step @ 2..) | Moment::SizeOnlyAfterStep(step @ 2..) =
                self.settings.moment.at(index)
            && descriptor.progress.is_none()
        {
            return no(format!(
                "the output of {app} does not show its steps, so cvc cannot wait for step {step}; use at_s"
            ));
        }
        self.shadows
            .reason(checkpointer, index)
            .map(|reason| (ExcludedBy::Combination, reason.clone()))
    }
}

/// Walks every combination of a campaign, in the order of the file: the matrix, its last axis fastest, then the extra points.
pub struct Expansion<'a> {
    spec: &'a Spec,
    grid: usize,
    index: Vec<usize>,
    done: bool,
}

impl<'a> Expansion<'a> {
    /// Starts at the first combination.
    pub fn new(spec: &'a Spec) -> Self {
        let mut all = Self {
            spec,
            grid: 0,
            index: Vec::new(),
            done: false,
        };
        all.enter(0);
        all
    }

    fn enter(&mut self, grid: usize) {
        self.grid = grid;
        match self.spec.grids.get(grid) {
            Some(grid) => self.index = vec![0; grid.axes.len()],
            None => self.done = true,
        }
    }
}

impl Iterator for Expansion<'_> {
    type Item = Combination;

    fn next(&mut self) -> Option<Combination> {
        if self.done {
            return None;
        }
        let grid = self.spec.grids.get(self.grid)?;
        let judged = grid.judge(self.spec, &self.index);
        // The odometer: the last axis moves first.
        let mut moved = false;
        for (position, size) in self.index.iter_mut().zip(&grid.axes).rev() {
            *position += 1;
            if *position < *size {
                moved = true;
                break;
            }
            *position = 0;
        }
        if !moved {
            self.enter(self.grid + 1);
        }
        Some(judged)
    }
}

impl Spec {
    /// All combinations with their verdicts, in the order of the file.
    pub fn expand(&self) -> Expansion<'_> {
        Expansion::new(self)
    }

    /// Number of combinations, including excluded ones.
    pub fn combinations(&self) -> usize {
        self.grids.iter().map(Grid::len).sum()
    }
}
