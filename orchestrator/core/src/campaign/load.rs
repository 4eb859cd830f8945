//! Reads a campaign file. Sections are decoded one by one, so that all independent errors are reported.

use super::{
    build::WrittenRule,
    checker::{Checker, KnownHosts, SpanLookup, is_name},
    ec2_settings,
    factor::{self, Amount, Entry, Factor, Value, conditions_of},
    grid::RuleEffect,
    level, level_settings,
    model::{Site, TraceSettings},
    predict_settings,
    raw::{RawCheckpoint, RawRun, RawSite, SECTIONS},
    settings,
    spec::Spec,
    tables::{Groups, Tables, with_grids},
    variant,
};
use crate::app;
use crate::{
    app::LoadedApp,
    source::{SourceError, SourceErrors, SourceText, Span, Step, span_of, suggestion},
};
use indexmap::IndexMap;
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Version of the format of campaign files.
pub const SCHEMA: i64 = 1;

/// Reads and checks a campaign file. Descriptors are searched in `apps/` next to the file, then in `app_dirs`.
///
/// Reads only the campaign file and the descriptors, and starts no program that the file names, because the file may come from somebody else. Hosts
/// of inventories are not read ([`super::Cluster::unknown_hosts`]).
///
/// # Errors
/// All problems, in the order of the file.
pub fn load(path: &Path, app_dirs: &[PathBuf]) -> Result<Spec, SourceErrors> {
    load_variant(path, None, app_dirs)
}

/// Like [`load`], with a variant of the file applied; `None` for the variant that the file itself names, if any.
///
/// # Errors
/// All problems, in the order of the file, including a missing variant.
pub fn load_variant(
    path: &Path,
    variant: Option<&str>,
    app_dirs: &[PathBuf],
) -> Result<Spec, SourceErrors> {
    load_with_hosts(path, variant, app_dirs, &KnownHosts::new())
}

/// Like [`load_variant`], but with the hosts of some sites already known. The inventories of these sites are not read.
///
/// # Errors
/// All problems, in the order of the file, including those of the hosts.
pub fn load_with_hosts(
    path: &Path,
    variant: Option<&str>,
    app_dirs: &[PathBuf],
    hosts: &KnownHosts,
) -> Result<Spec, SourceErrors> {
    let source = SourceText::read(path)?;
    load_source(&source, variant, app_dirs, hosts)
}

/// Like [`load`], from the text of a file at `path`.
///
/// # Errors
/// All problems, in the order of the file.
pub fn load_text(path: &Path, text: &str, app_dirs: &[PathBuf]) -> Result<Spec, SourceErrors> {
    load_source(
        &SourceText {
            path: path.to_owned(),
            text: text.into(),
        },
        None,
        app_dirs,
        &KnownHosts::new(),
    )
}

fn load_source(
    source: &SourceText,
    variant: Option<&str>,
    app_dirs: &[PathBuf],
    hosts: &KnownHosts,
) -> Result<Spec, SourceErrors> {
    let mut table = source.parse().map_err(SourceErrors)?;
    let mut errors = Vec::new();
    let variants = variant::names(&table);
    let applied = variant::apply(
        &mut Checker {
            source,
            hosts,
            errors: &mut errors,
        },
        &mut table,
        variant,
    );
    let variant = applied.as_ref().map(|applied| applied.name.as_str());
    // without the requested variant, all other errors would refer to a different campaign
    let spec = errors
        .is_empty()
        .then(|| read(source, &table, app_dirs, hosts, &mut errors))
        .flatten()
        .map(|spec| match variant {
            Some(variant) => {
                spec.into_variant(variant, &variant::fixed_text(source, Some(variant)))
            }
            None => spec,
        });
    let unchanged = applied.map(|applied| applied.unchanged).unwrap_or_default();
    let spec = spec.map(|spec| Spec {
        variants,
        unchanged,
        ..spec
    });
    match spec {
        Some(spec) if errors.is_empty() => Ok(spec),
        _ => {
            errors.sort_by_key(|e| {
                (
                    e.path != source.path,
                    e.span.as_ref().map_or(0, |s| s.start),
                )
            });
            Err(SourceErrors(errors))
        }
    }
}

fn read(
    source: &SourceText,
    table: &DeTable<'_>,
    app_dirs: &[PathBuf],
    hosts: &KnownHosts,
    errors: &mut Vec<SourceError>,
) -> Option<Spec> {
    let mut check = Checker {
        source,
        hosts,
        errors,
    };
    for (key, _) in table {
        let key_name = key.get_ref().as_ref();
        if !SECTIONS.contains(&key_name) {
            check.fail(
                Some(key.span()),
                format!("unknown key `{key_name}`"),
                suggestion(key_name, "known keys here", SECTIONS),
            );
        }
    }
    version(&mut check, table);
    let name = name(&mut check, table);
    let description = text(&mut check, table, "description").unwrap_or_default();
    let (sites, groups) = sites(&mut check, table);
    let run = settings_section(&mut check, table, "run", |check, raw: RawRun, place| {
        settings::run(check, &raw, place)
    });
    if let Some(run) = &run {
        let place = |rest: &[Step<'_>]| span_of(table, &[&["run".into()], rest].concat());
        settings::kept(&mut check, run, &sites, &place);
        settings::fleets(&mut check, run, &sites, &place);
    }
    let checkpoint = settings_section(
        &mut check,
        table,
        "checkpoint",
        |check, raw: RawCheckpoint, place| settings::checkpoint(check, &raw, place),
    );
    if let Some(checkpoint) = &checkpoint {
        let place = |rest: &[Step<'_>]| span_of(table, &[&["checkpoint".into()], rest].concat());
        level_settings::require_areas(&mut check, checkpoint, &sites, &place);
    }
    let trace = settings_section(&mut check, table, "trace", |_, trace: TraceSettings, _| {
        trace
    });
    let title = name.clone().unwrap_or_default();
    let report = settings_section(&mut check, table, "report", |check, report, place| {
        settings::report(check, report, &title, place)
    });
    let budget = table
        .contains_key("budget")
        .then(|| settings_section(&mut check, table, "budget", ec2_settings::budget))
        .flatten();
    let predict = predict_settings::read(&mut check, table);
    let mut tables = tables(&mut check, table);
    tables.name_members(&groups);

    let mut app_dirs = app_dirs.to_vec();
    app_dirs.insert(
        0,
        source.path.parent().unwrap_or(Path::new("")).join("apps"),
    );
    let wants_baseline = checkpoint
        .as_ref()
        .is_some_and(|checkpoint| checkpoint.baseline);
    let apps = apps(&mut check, &tables, &app_dirs, wants_baseline);
    site_apps(&mut check, table, &sites, &apps);
    // Names are looked up only when all tables are valid: an invalid table would make every use of its name an error.
    if !check.errors.is_empty() {
        return None;
    }
    let spec = Spec {
        path: source.path.clone(),
        text: source.text.clone(),
        name: name?,
        variant: None,
        variants: Vec::new(),
        given: given(table),
        unchanged: Vec::new(),
        description,
        sites,
        apps,
        run: run?,
        checkpoint: checkpoint?,
        trace: trace?,
        report: report?,
        budget,
        predict,
        grids: Vec::new(),
    };
    Some(with_grids(&mut check, table, spec, &tables))
}

/// Checks that the campaign uses every application for which a site has settings. In a file with variants, another variant may use the application.
fn site_apps(
    check: &mut Checker<'_>,
    table: &DeTable<'_>,
    sites: &IndexMap<String, Site>,
    apps: &IndexMap<String, LoadedApp>,
) {
    if table.contains_key("variants") || !check.errors.is_empty() {
        return;
    }
    for (site, settings) in sites {
        for name in settings
            .apps
            .keys()
            .filter(|name| !apps.contains_key(*name))
        {
            check.fail(
                span_of(
                    table,
                    &[
                        "sites".into(),
                        site.as_str().into(),
                        "apps".into(),
                        name.as_str().into(),
                    ],
                ),
                format!("no point of the campaign runs `{name}`"),
                suggestion(
                    name,
                    "applications of the campaign",
                    apps.keys().map(String::as_str),
                ),
            );
        }
    }
}

/// Returns the keys that the file gives in all sections, as in `run.repeats`.
fn given(table: &DeTable<'_>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (section, value) in table {
        let inner = value.get_ref().as_table();
        all.extend(
            inner
                .into_iter()
                .flat_map(DeTable::keys)
                .map(|key| format!("{}.{}", section.get_ref(), key.get_ref())),
        );
    }
    all
}

fn version(check: &mut Checker<'_>, table: &DeTable<'_>) {
    match table.get("schema") {
        None => check.fail(
            Some(0..0),
            "the key `schema` is missing",
            "add `schema = 1` at the top: the version of the format",
        ),
        Some(value) => match check.source.decode::<i64>(value) {
            Ok(SCHEMA) => {}
            Ok(other) => {
                let hint = format!(
                    "write `schema = {SCHEMA}`, or use a version of cvc that knows format {other}"
                );
                check.fail(
                    Some(value.span()),
                    format!("unknown campaign format {other}"),
                    hint,
                );
            }
            Err(e) => check.errors.push(e),
        },
    }
}

fn text(check: &mut Checker<'_>, table: &DeTable<'_>, key: &str) -> Option<String> {
    match check.source.decode::<String>(table.get(key)?) {
        Ok(text) => Some(text),
        Err(e) => {
            check.errors.push(e);
            None
        }
    }
}

fn name(check: &mut Checker<'_>, table: &DeTable<'_>) -> Option<String> {
    if !table.contains_key("name") {
        check.fail(
            Some(0..0),
            "the key `name` is missing",
            "add `name = \"...\"`; the campaign's directory gets this name",
        );
    }
    let name = text(check, table, "name")?;
    if !is_name(&name) || name.contains('.') {
        let span = table.get("name").map(Spanned::span);
        check.fail(
            span,
            format!("`{name}` is not a valid campaign name"),
            "use small letters, digits, `-` and `_`, beginning with a letter or digit",
        );
    }
    Some(name)
}

fn sites(check: &mut Checker<'_>, table: &DeTable<'_>) -> (IndexMap<String, Site>, Groups) {
    let (mut sites, mut groups) = (IndexMap::new(), Groups::new());
    let hint = "add a table [sites.local] with kind = \"local\"";
    let Some(value) = table.get("sites") else {
        check.fail(Some(0..0), "the campaign has no site", hint);
        return (sites, groups);
    };
    let Some(inner) = value.get_ref().as_table() else {
        check.fail(
            Some(value.span()),
            format!(
                "expected a table of sites, found {}",
                level::kind(value.get_ref())
            ),
            hint,
        );
        return (sites, groups);
    };
    if inner.is_empty() {
        check.fail(Some(value.span()), "the campaign has no site", hint);
    }
    for (key, value) in inner {
        let site_name = key.get_ref().as_ref();
        match check.source.decode::<RawSite>(value) {
            Err(e) => check.errors.push(e),
            Ok(raw) => {
                let place = |rest: &[Step<'_>]| {
                    let mut way: Vec<Step<'_>> = vec!["sites".into(), site_name.into()];
                    way.extend(rest);
                    span_of(table, &way)
                };
                let compared = compared_types(check, &raw, &place);
                if compared.is_empty() {
                    if let Some(site) = settings::site(check, site_name, raw, &place) {
                        sites.insert(site_name.to_owned(), site);
                    }
                    continue;
                }
                let mut members = Vec::new();
                for instance_type in compared {
                    let mut one = raw.clone();
                    if let Some(ec2) = &mut one.ec2 {
                        ec2.instance_types = vec![instance_type.clone()];
                    }
                    let member = format!("{site_name}-{}", instance_type.replace('.', "-"));
                    let before = check.errors.len();
                    let Some(site) = settings::site(check, &member, one, &place) else {
                        break;
                    };
                    if inner.contains_key(member.as_str()) || sites.contains_key(&member) {
                        check.fail(
                            place(&["ec2".into(), "compare_instance_types".into()]),
                            format!("the site `{member}` exists already"),
                            "rename one of them, or list each type once",
                        );
                    }
                    sites.insert(member.clone(), site);
                    members.push(member);
                    if check.errors.len() > before {
                        // the other sites would report the same errors
                        break;
                    }
                }
                groups.insert(site_name.to_owned(), members);
            }
        }
    }
    (sites, groups)
}

/// Returns the instance types that a site compares; empty if the site compares none, or after an error.
fn compared_types(check: &mut Checker<'_>, raw: &RawSite, place: &SpanLookup<'_>) -> Vec<String> {
    let Some(ec2) = &raw.ec2 else {
        return Vec::new();
    };
    if !ec2.compare_instance_types.is_empty() && !ec2.instance_types.is_empty() {
        check.fail(
            place(&["ec2".into(), "compare_instance_types".into()]),
            "both `compare_instance_types` and `instance_types`",
            "keep one: types to compare, or alternatives in case the previous one is unavailable",
        );
        return Vec::new();
    }
    ec2.compare_instance_types.clone()
}

/// Decodes a section of settings; an absent section counts as empty. `None` if the section has the wrong form.
fn settings_section<'t, R: Deserialize<'t> + Default, T>(
    check: &mut Checker<'_>,
    table: &DeTable<'t>,
    section: &str,
    read: impl FnOnce(&mut Checker<'_>, R, &SpanLookup<'_>) -> T,
) -> Option<T> {
    let raw = match table
        .get(section)
        .map(|value| check.source.decode::<R>(value))
    {
        None => R::default(),
        Some(Ok(raw)) => raw,
        Some(Err(e)) => {
            check.errors.push(e);
            return None;
        }
    };
    let place = |rest: &[Step<'_>]| {
        let mut way: Vec<Step<'_>> = vec![section.into()];
        way.extend(rest);
        span_of(table, &way)
    };
    Some(read(check, raw, &place))
}

/// Returns the tables of a `[[list]]`; reports anything else as an error.
fn list_of_tables<'d, 't>(
    check: &mut Checker<'_>,
    table: &'d DeTable<'t>,
    key: &str,
) -> Vec<(&'d DeTable<'t>, Span)> {
    let Some(value) = table.get(key) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let mut wrong = |value: &Spanned<DeValue<'_>>| {
        let message = format!(
            "expected tables [[{key}]], found {}",
            level::kind(value.get_ref())
        );
        check.fail(
            Some(value.span()),
            message,
            format!("write one [[{key}]] (two brackets) for each"),
        );
    };
    match value.get_ref() {
        DeValue::Array(list) => {
            for item in list.iter() {
                match item.get_ref().as_table() {
                    Some(inner) => all.push((inner, item.span())),
                    None => wrong(item),
                }
            }
        }
        _ => wrong(value),
    }
    all
}

fn tables(check: &mut Checker<'_>, table: &DeTable<'_>) -> Tables {
    let matrix = match table.get("matrix").map(|v| (v.get_ref().as_table(), v)) {
        None => Vec::new(),
        Some((Some(inner), _)) => factor::entries(check.source, inner, Amount::Some, check.errors),
        Some((None, value)) => {
            check.fail(
                Some(value.span()),
                format!("expected a table, found {}", level::kind(value.get_ref())),
                "write [matrix]",
            );
            Vec::new()
        }
    };
    let mut taken: Vec<(Factor, Span, &str)> = matrix
        .iter()
        .map(|e| (e.factor.clone(), e.key.clone(), "[matrix]"))
        .collect();
    let mut zips = Vec::new();
    for (inner, span) in list_of_tables(check, table, "zip") {
        let before = check.errors.len();
        let entries = factor::entries(check.source, inner, Amount::List, check.errors);
        if check.errors.len() > before {
            continue;
        }
        zip(check, &entries, &mut taken, span);
        zips.push(entries);
    }
    let mut points = Vec::new();
    for (inner, span) in list_of_tables(check, table, "points") {
        if inner.is_empty() {
            check.fail(
                Some(span.clone()),
                "the extra point is empty",
                "give its factors, or remove it",
            );
        }
        points.push((
            factor::entries(check.source, inner, Amount::One, check.errors),
            span,
        ));
    }
    let mut rules = Vec::new();
    for effect in [RuleEffect::Excludes, RuleEffect::ExpectsFailure] {
        for (inner, span) in list_of_tables(check, table, effect.table()) {
            rules.extend(rule(check, effect, inner, span));
        }
    }
    Tables {
        matrix,
        zips,
        points,
        rules,
    }
}

fn zip(
    check: &mut Checker<'_>,
    entries: &[Entry],
    taken: &mut Vec<(Factor, Span, &str)>,
    span: Span,
) {
    let Some(first) = entries.first() else {
        check.fail(
            Some(span),
            "the zip is empty",
            "give at least two lists of equal length, or remove it",
        );
        return;
    };
    if entries.len() == 1 {
        let hint = format!(
            "zip it with another factor, or move `{}` to [matrix]",
            first.factor.name()
        );
        check.fail(Some(first.key.clone()), "a zip of one factor", hint);
    }
    for entry in entries {
        if entry.values.len() != first.values.len() {
            let message = format!(
                "`{}` has {} values, but `{}` of the same zip has {}",
                entry.factor.name(),
                entry.values.len(),
                first.factor.name(),
                first.values.len()
            );
            check.fail(
                Some(entry.span.clone()),
                message,
                "zipped lists vary value by value: make them equally long",
            );
        }
        if let Some((_, _, place)) = taken.iter().find(|(f, _, _)| *f == entry.factor) {
            let message = format!("`{}` already varies in {place}", entry.factor.name());
            let hint = if *place == "[matrix]" {
                "remove it from [matrix] or from the zip"
            } else {
                "zips that share a factor would depend on each other in a cycle: put all their factors into one [[zip]]"
            };
            check.fail(Some(entry.key.clone()), message, hint);
        }
    }
    let mut seen = std::collections::HashMap::new();
    for i in 0..entries.iter().map(|e| e.values.len()).min().unwrap_or(0) {
        // The debug form distinguishes values as `==` does, and allows fast look-ups in long lists.
        let row: Vec<String> = entries
            .iter()
            .map(|e| format!("{:?}", e.values[i].0))
            .collect();
        if let Some(j) = seen.insert(row, i) {
            let message = format!("value {} of the zip repeats value {}", i + 1, j + 1);
            check.fail(
                Some(first.values[i].1.clone()),
                message,
                "remove one; more runs of a point are `repeats`",
            );
            break;
        }
    }
    taken.extend(
        entries
            .iter()
            .map(|e| (e.factor.clone(), e.key.clone(), "another [[zip]]")),
    );
}

fn rule(
    check: &mut Checker<'_>,
    effect: RuleEffect,
    inner: &DeTable<'_>,
    span: Span,
) -> Option<WrittenRule> {
    let explained = effect.explained();
    for (key, _) in inner {
        let key_name = key.get_ref().as_ref();
        if !["when", "reason"].contains(&key_name) {
            let hint = suggestion(key_name, "known keys here", ["when", "reason"]);
            check.fail(Some(key.span()), format!("unknown key `{key_name}`"), hint);
        }
    }
    let reason = match inner
        .get("reason")
        .map(|v| (v.span(), check.source.decode::<String>(v)))
    {
        Some((_, Ok(reason))) if !reason.trim().is_empty() => Some(reason),
        Some((span, Ok(_))) => {
            check.fail(
                Some(span),
                "the reason is empty",
                format!("explain {explained}; plans and reports show it"),
            );
            None
        }
        Some((_, Err(e))) => {
            check.errors.push(e);
            None
        }
        None => {
            check.fail(
                Some(span.clone()),
                "the key `reason` is missing",
                format!("explain {explained}: reason = \"...\""),
            );
            None
        }
    };
    let Some(when) = inner.get("when") else {
        check.fail(
            Some(span),
            "the key `when` is missing",
            "add the combinations, as in when = { mpi = \"openmpi\" }",
        );
        return None;
    };
    let Some(conditions) = when.get_ref().as_table().filter(|t| !t.is_empty()) else {
        let message = if when.get_ref().is_table() {
            "`when` is empty and would match everything"
        } else {
            "`when` is not a table"
        };
        check.fail(
            Some(when.span()),
            message,
            "give at least one factor, as in when = { mpi = \"openmpi\" }",
        );
        return None;
    };
    Some(WrittenRule {
        effect,
        when: conditions_of(check, conditions),
        reason: reason?,
    })
}

/// Loads all named applications, in the order of first use. If `wants_baseline`, also loads the smallest MPI program.
fn apps(
    check: &mut Checker<'_>,
    tables: &Tables,
    dirs: &[PathBuf],
    wants_baseline: bool,
) -> IndexMap<String, LoadedApp> {
    let mut apps = IndexMap::new();
    let mut tried = std::collections::HashSet::new();
    let named = tables
        .entries()
        .filter(|e| e.factor == Factor::App)
        .flat_map(|e| &e.values);
    let named = named.filter_map(|(value, span)| match value {
        Value::Name(name) => Some((name.clone(), span.clone())),
        _ => None,
    });
    let smallest = wants_baseline.then(|| (app::SMALLEST.to_owned(), 0..0));
    for (name, span) in named.chain(smallest) {
        if !tried.insert(name.clone()) {
            continue;
        }
        if name.starts_with(app::replay::PREFIX) {
            let directory = check.source.path.parent().unwrap_or(Path::new(""));
            match app::replay::load(&name, directory) {
                Ok(app) => {
                    apps.insert(name, app);
                }
                Err(error) => check.fail(
                    Some(span),
                    error.to_string(),
                    "`cvc phases LOGS --write FILE` writes a model; paths begin at the directory of this file",
                ),
            }
            continue;
        }
        let Some(path) = app::load::find(&name, dirs) else {
            let known = app::load::known(dirs);
            let hint = suggestion(&name, "descriptors found", known.iter().map(String::as_str))
                + &format!("; an application is a file apps/{name}.toml");
            check.fail(
                Some(span.clone()),
                format!("unknown application `{name}`: no descriptor found"),
                hint,
            );
            continue;
        };
        match app::load::load(&path) {
            Ok(app) => {
                apps.insert(name.clone(), app);
            }
            Err(SourceErrors(more)) => check.errors.extend(more),
        }
    }
    apps
}
