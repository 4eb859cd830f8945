//! Walks through the combinations of a campaign as index vectors, so that only the current combination is in memory.

use super::{
    grid::{Grid, Rule, RuleEffect, silence},
    layout_rules, level_rules,
    model::StorageKind,
    spec::Spec,
    strategy_rules,
};
use crate::{
    app::descriptor::{Descriptor, illegal_count, not_copied, not_shared},
    io_settings,
    point::{Excluded, ExcludedBy, FactorId, Moment, Point, Reason},
    units::counted,
};

/// A combination of levels, and whether it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Combination {
    /// The combination runs.
    Runs {
        /// The factor values.
        point: Point,
        /// Reason why the point is expected to fail; `None` if it is not.
        expected_failure: Option<String>,
    },
    /// The combination does not run.
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
            mapping: self.mapping(index),
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
        match self.excluded(spec, index, &point) {
            Some((by, reason)) => Combination::Excluded(Excluded { point, by, reason }),
            None => {
                silence(&mut point);
                strategy_rules::silence(&mut point);
                Combination::Runs {
                    expected_failure: self
                        .reason(RuleEffect::ExpectsFailure, index)
                        .map(str::to_owned),
                    point,
                }
            }
        }
    }

    /// Returns the reason of the first matching rule with this effect; `None` if no rule matches.
    fn reason(&self, effect: RuleEffect, index: &[usize]) -> Option<&str> {
        let matches = |rule: &&Rule| {
            rule.effect == effect && rule.conditions.iter().all(|c| c.matches[index[c.axis]])
        };
        self.rules.iter().find(matches).map(|rule| &*rule.reason)
    }

    fn excluded(
        &self,
        spec: &Spec,
        index: &[usize],
        point: &Point,
    ) -> Option<(ExcludedBy, Reason)> {
        if let Some(reason) = self.reason(RuleEffect::Excludes, index) {
            return Some((ExcludedBy::Rule, reason.to_owned().into()));
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
        let given = self.threads.as_ref().map(|t| *t.at(index));
        if let (Some(given), Some(own)) = (given, mapping.threads())
            && given != own
        {
            return no(
                ExcludedBy::Combination,
                format!("{given} threads, but the mapping {mapping} has {own}"),
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
        let Some(library) = site.mpi.get(mpi) else {
            return no(
                ExcludedBy::Site,
                format!("the site `{site_name}` has no MPI library `{mpi}`"),
            );
        };
        let storage = self.storage.at(index);
        if !site.storage.contains_key(storage) {
            return no(
                ExcludedBy::Site,
                format!("the site `{site_name}` has no storage area `{storage}`"),
            );
        }
        let class = self.class.at(index);
        if let Err(unknown) = descriptor.workload(class) {
            let hint = unknown.hint.map(|hint| format!("; {hint}"));
            return no(
                ExcludedBy::Application,
                unknown.message + &hint.unwrap_or_default(),
            );
        }
        if let Some(reason) = illegal_count(app_name, &descriptor.processes, processes) {
            return no(ExcludedBy::Application, reason);
        }
        // without a path, whether the area is shared is known only after the nodes were checked
        let apart = site
            .storage
            .get(storage)
            .is_some_and(|a| a.path.is_some() && a.kind == StorageKind::NodeLocal);
        let own_checkpoint = self.settings.checkpointer.at(index).has_own_files();
        let is_shared = descriptor.shares_files(own_checkpoint, point);
        if mapping.nodes() > 1 && apart && is_shared {
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
        if let Some(reason) =
            io_settings::senseless(point, descriptor.io.collective, library.io_layer())
        {
            return no(ExcludedBy::Combination, reason);
        }
        self.senseless(spec, index, point, descriptor)
    }

    /// Returns why a combination makes no sense, or why it is a known hazard; `None` if neither.
    fn senseless(
        &self,
        spec: &Spec,
        index: &[usize],
        point: &Point,
        descriptor: &Descriptor,
    ) -> Option<(ExcludedBy, Reason)> {
        let app = &point.app;
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
                "DMTCP takes series at the campaign's moments; `own_series = true` uses the program's own checkpoints as a series".to_owned()
            );
        }
        let is_restarted = point.restart_check.unwrap_or(spec.checkpoint.restart_check);
        if let Some(reason) = strategy_rules::senseless(point, descriptor, is_restarted)
            .or_else(|| level_rules::senseless(spec, point, descriptor))
            .or_else(|| layout_rules::senseless(spec, point, descriptor))
        {
            return no(reason);
        }
        if let Some(factor) = self.without_effect_of_strategy(point, index) {
            let (name, strategy) = (factor.name(), point.strategy);
            return no(format!(
                "{name} has no effect with strategy = \"{strategy}\"; see the otherwise equal point"
            ));
        }
        if checkpointer.is_driven() && descriptor.pages.is_some() {
            return no(format!(
                "{app} tracks its pages, and a restart by DMTCP loses this: use its own checkpoints, or none"
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

impl Grid {
    /// Returns a factor that has no effect with the point's strategy, if the point with another level of this factor runs instead. `None` if there is
    /// no such factor.
    fn without_effect_of_strategy(&self, point: &Point, index: &[usize]) -> Option<FactorId> {
        let settings = &self.settings;
        let is_zipped = |axis| axis == settings.strategy.axis;
        let (writers, late) = (&settings.writers, &settings.when_late);
        if !point.strategy.has_writers()
            && !is_zipped(writers.axis)
            && !writers.stands_for_all(index)
        {
            return Some(FactorId::Writers);
        }
        (!point.strategy.can_skip() && !is_zipped(late.axis) && !late.stands_for_all(index))
            .then_some(FactorId::WhenLate)
    }
}

/// Iterates over every combination of a campaign, in the order of the file: first the matrix, in which the last axis changes fastest, then the extra
/// points.
pub struct Expansion<'a> {
    spec: &'a Spec,
    grid: usize,
    index: Vec<usize>,
    done: bool,
}

impl<'a> Expansion<'a> {
    /// Creates an iterator that starts at the first combination.
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
        // counts like an odometer: the last axis changes first
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
    /// Returns all combinations, each with the decision whether it runs, in the order of the file.
    pub fn expand(&self) -> Expansion<'_> {
        Expansion::new(self)
    }

    /// Returns the number of combinations, including excluded ones.
    pub fn combinations(&self) -> usize {
        self.grids.iter().map(Grid::len).sum()
    }
}
