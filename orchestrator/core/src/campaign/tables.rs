//! The factor tables of a campaign whose sections are sound: looks up their names, and builds the grids.

use super::{
    build::{self, Known, WrittenRule},
    checker::Checker,
    delta_settings,
    factor::{BUILT_IN, Entry, Factor, Value},
    grid::Grid,
    model::Site,
    predict::PredictSettings,
    predict_settings,
    spec::Spec,
};
use crate::{
    app::{self, LoadedApp},
    source::{Span, Step, key_span, span_of, suggestion},
};
use indexmap::IndexMap;
use toml::de::DeTable;

/// The sites that a site was divided into, one for each instance type that it compares, by its name.
pub type Groups = IndexMap<String, Vec<String>>;

/// Factor tables as read, before names are looked up.
#[derive(Default)]
pub struct Tables {
    pub matrix: Vec<Entry>,
    pub zips: Vec<Vec<Entry>>,
    pub points: Vec<(Vec<Entry>, Span)>,
    pub rules: Vec<WrittenRule>,
}

impl Tables {
    /// Puts the sites that a site was divided into in its place, wherever its name is a level of its own or a condition. In a `[[zip]]` each
    /// level stands beside others, so that there each site has to be named.
    pub fn name_members(&mut self, groups: &Groups) {
        let conditions = self.rules.iter_mut().flat_map(|rule| &mut rule.when);
        let points = self.points.iter_mut().flat_map(|(point, _)| point);
        for entry in self.matrix.iter_mut().chain(points).chain(conditions) {
            if entry.factor != Factor::Site {
                continue;
            }
            entry.values = std::mem::take(&mut entry.values)
                .into_iter()
                .flat_map(|(value, span)| {
                    let members = match &value {
                        Value::Name(name) => groups.get(name),
                        _ => None,
                    };
                    match members {
                        Some(members) => members
                            .iter()
                            .map(|member| (Value::Name(member.clone()), span.clone()))
                            .collect(),
                        None => vec![(value, span)],
                    }
                })
                .collect();
        }
    }

    /// Every factor that is given anywhere.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.matrix
            .iter()
            .chain(self.zips.iter().flatten())
            .chain(self.points.iter().flat_map(|(point, _)| point))
    }
}

/// Looks up all names of a campaign whose sections are sound, and builds its grids; `table` has the positions of sections. The result counts only
/// without an error.
pub fn with_grids(
    check: &mut Checker<'_>,
    table: &DeTable<'_>,
    mut spec: Spec,
    tables: &Tables,
) -> Spec {
    let known = Known {
        sites: &spec.sites,
        apps: &spec.apps,
        rules: &tables.rules,
        checkpoint: &spec.checkpoint,
        trace: &spec.trace,
    };
    let grids = grids(check, &known, tables, table);
    if check.errors.is_empty() {
        let place = |rest: &[Step<'_>]| span_of(table, &[&["checkpoint".into()], rest].concat());
        delta_settings::require_series(check, &spec.checkpoint, &grids, &place);
    }
    check_classes(check, &known, tables);
    check_rules(check, &known, tables, spec.predict.as_ref());
    check_templates(check, &spec.apps, &grids, tables);
    spec.grids = grids;
    // Every point is looked at, so only when all the rest is sound.
    if let Some(settings) = spec.predict.as_ref().filter(|_| check.errors.is_empty()) {
        predict_settings::check_points(check, &spec, settings, key_span(table, "predict"));
    }
    spec
}

/// The matrix, then each extra point.
fn grids(
    check: &mut Checker<'_>,
    known: &Known<'_>,
    tables: &Tables,
    table: &DeTable<'_>,
) -> Vec<Grid> {
    let mut grids = Vec::new();
    let names_app = tables
        .matrix
        .iter()
        .chain(tables.zips.iter().flatten())
        .any(|e| e.factor == Factor::App);
    if names_app || tables.points.is_empty() {
        let axes: Vec<Vec<Entry>> = tables
            .matrix
            .iter()
            .map(|e| vec![e.clone()])
            .chain(tables.zips.iter().cloned())
            .collect();
        let span = key_span(table, "matrix")
            .or_else(|| key_span(table, "zip"))
            .or(Some(0..0));
        grids.extend(build::grid(check, known, &axes, span));
    }
    for (point, span) in &tables.points {
        let mut axis = point.clone();
        let has = |axis: &[Entry], factor: &Factor| axis.iter().any(|e| e.factor == *factor);
        for entry in tables.matrix.iter().filter(|e| e.single().is_some()) {
            // Processes and mapping are alternatives: either one in the point replaces both.
            let message = match entry.factor {
                Factor::Processes | Factor::Mapping => {
                    has(&axis, &Factor::Processes) || has(&axis, &Factor::Mapping)
                }
                _ => has(&axis, &entry.factor),
            };
            if !message {
                axis.push(entry.clone());
            }
        }
        if !has(&axis, &Factor::Site)
            && let Some(first) = known.sites.keys().next()
            && known.sites.len() > 1
        {
            let value = (Value::Name(first.clone()), span.clone());
            axis.push(Entry {
                factor: Factor::Site,
                key: span.clone(),
                span: span.clone(),
                values: vec![value],
            });
        }
        grids.extend(build::grid(check, known, &[axis], Some(span.clone())));
    }
    grids
}

/// A workload that no application has is misspelt; one that only some have leaves the others out.
fn check_classes(check: &mut Checker<'_>, known: &Known<'_>, tables: &Tables) {
    let classes = workloads(known);
    if classes.is_empty() {
        // that there is no application is an error of its own
        return;
    }
    for entry in tables.entries().filter(|e| e.factor == Factor::Class) {
        build::check_names(check, entry, "workload", &classes);
    }
}

/// The workloads of all applications.
fn workloads(known: &Known<'_>) -> Vec<String> {
    known
        .apps
        .values()
        .flat_map(|a| a.descriptor.workloads.keys().cloned())
        .collect()
}

/// Names in rules and in conditions of `[predict]` must exist, or a misspelt one would silently match nothing.
fn check_rules(
    check: &mut Checker<'_>,
    known: &Known<'_>,
    tables: &Tables,
    predict: Option<&PredictSettings>,
) {
    for entry in predict_settings::entries_of(known, predict) {
        let names = |of: &dyn Fn(&Site) -> Vec<String>| {
            known.sites.values().flat_map(of).collect::<Vec<_>>()
        };
        match &entry.factor {
            Factor::Site => build::check_names(
                check,
                entry,
                "site",
                &known.sites.keys().cloned().collect::<Vec<_>>(),
            ),
            Factor::App => build::check_names(
                check,
                entry,
                "application",
                &known.apps.keys().cloned().collect::<Vec<_>>(),
            ),
            Factor::Mpi => build::check_names(
                check,
                entry,
                "MPI library",
                &names(&|s| s.mpi.keys().cloned().collect()),
            ),
            Factor::Storage => build::check_names(
                check,
                entry,
                "storage area",
                &names(&|s| s.storage.keys().cloned().collect()),
            ),
            Factor::Class => build::check_names(check, entry, "workload", &workloads(known)),
            Factor::User(name) => {
                if !tables.entries().any(|e| e.factor == entry.factor) {
                    let free = tables
                        .entries()
                        .filter(|e| matches!(e.factor, Factor::User(_)))
                        .map(|e| e.factor.name());
                    let hint = suggestion(name, "factors", BUILT_IN.iter().copied().chain(free));
                    check.fail(
                        Some(entry.key.clone()),
                        format!("unknown factor `{name}`"),
                        hint,
                    );
                }
            }
            // the others have no names
            _ => {}
        }
    }
}

/// Templates that name a free factor need it.
fn check_templates(
    check: &mut Checker<'_>,
    apps: &IndexMap<String, LoadedApp>,
    grids: &[Grid],
    tables: &Tables,
) {
    // Many extra points share an application and its free factors.
    let mut tried = std::collections::HashSet::new();
    let mut done = std::collections::HashSet::new();
    for grid in grids {
        let users: Vec<&str> = grid.user.iter().map(|(name, _)| name.as_str()).collect();
        for index in &grid.app.values {
            let Some((name, app)) = apps
                .get_index(*index)
                .filter(|_| tried.insert((*index, users.clone())))
            else {
                continue;
            };
            if let Some((_, message)) = app::load::template_errors(&app.descriptor, Some(&users))
                .into_iter()
                .next()
                && done.insert(name)
            {
                let span = tables
                    .entries()
                    .filter(|e| e.factor == Factor::App)
                    .flat_map(|e| &e.values)
                    .find(|(v, _)| *v == Value::Name(name.clone()))
                    .map(|(_, span)| span.clone());
                check.fail(
                    span,
                    format!("{name}: {message}"),
                    "give the free factor, as in [matrix.user] NAME = [..]",
                );
            }
        }
    }
}
