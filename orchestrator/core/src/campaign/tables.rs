//! The factor tables of a campaign whose sections are valid: looks up their names, and builds the grids.

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

/// For each site that compares instance types, the sites into which it was divided, one for each type.
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
    /// Replaces a site that compares instance types by the sites into which it was divided: in the matrix, in points and in conditions. A `[[zip]]`
    /// pairs each level with others, so there the file must name each of these sites.
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

    /// Returns all factors that the matrix, the zips and the extra points give, with their values.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.matrix
            .iter()
            .chain(self.zips.iter().flatten())
            .chain(self.points.iter().flat_map(|(point, _)| point))
    }
}

/// Looks up all names of a campaign whose sections are valid, and builds its grids. `table` has the positions of the sections. If an error was
/// reported, the result must not be used.
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
    // Checks every point, so only if everything else is valid.
    if let Some(settings) = spec.predict.as_ref().filter(|_| check.errors.is_empty()) {
        predict_settings::check_points(check, &spec, settings, key_span(table, "predict"));
    }
    spec
}

/// Returns the grid of the matrix, followed by one for each extra point.
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
            // Processes and mapping are alternatives: a point that gives either of them replaces both.
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

/// Checks the names of workloads. A name that no application has is an error. A name that only some applications have excludes points of the others.
fn check_classes(check: &mut Checker<'_>, known: &Known<'_>, tables: &Tables) {
    if known.apps.is_empty() {
        // a missing application is reported separately
        return;
    }
    for entry in tables.entries().filter(|e| e.factor == Factor::Class) {
        check_workload(check, known, entry);
    }
}

/// Reports each value of the entry that is not a workload or a size of any application.
fn check_workload(check: &mut Checker<'_>, known: &Known<'_>, entry: &Entry) {
    let apps = || known.apps.values().map(|app| &app.descriptor);
    for (value, span) in &entry.values {
        let Value::Name(name) = value else { continue };
        if apps().any(|app| app.workload(name).is_ok()) {
            continue;
        }
        let refused = apps().filter(|app| app.size.is_some() || apps().count() == 1);
        if let Some(why) = refused
            .filter_map(|app| app.workload(name).err())
            .next()
            .filter(|_| name.contains('='))
        {
            check.fail(
                Some(span.clone()),
                why.message,
                why.hint.unwrap_or_default(),
            );
            continue;
        }
        let mut list: Vec<&str> = apps()
            .flat_map(|app| app.workloads.keys().map(String::as_str))
            .collect();
        list.sort_unstable();
        list.dedup();
        check.fail(
            Some(span.clone()),
            format!("unknown workload `{name}`"),
            suggestion(name, "known here", list),
        );
    }
}

/// Checks that names in rules and in conditions of `[predict]` exist: a misspelt name would silently match nothing.
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
            Factor::Class => check_workload(check, known, entry),
            Factor::User(name) if !tables.entries().any(|e| e.factor == entry.factor) => {
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
            // other factors have no names to check
            _ => {}
        }
    }
}

/// Checks that the free factors which templates use exist.
fn check_templates(
    check: &mut Checker<'_>,
    apps: &IndexMap<String, LoadedApp>,
    grids: &[Grid],
    tables: &Tables,
) {
    // many extra points have the same application and free factors
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
