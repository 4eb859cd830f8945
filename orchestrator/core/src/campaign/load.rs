//! Reads a campaign file. Sections are decoded one by one, so that all independent errors are reported.

use super::{
    build::WrittenRule,
    checker::{Checker, KnownHosts, Place, is_name},
    ec2_settings,
    factor::{self, Amount, Entry, Factor, Value, conditions_of},
    level,
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
    source::{Source, SourceError, SourceErrors, Span, Step, span_of, suggestion},
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

/// Reads and checks a campaign file. Descriptors are searched in `apps/` beside the file, then in `app_dirs`.
///
/// It reads only the campaign file and the descriptors, and starts nothing, whatever the file names: it may be somebody else's. Hosts of
/// inventories are left out ([`super::Cluster::unknown_hosts`]).
///
/// # Errors
/// All problems, in the order of the file.
pub fn load(path: &Path, app_dirs: &[PathBuf]) -> Result<Spec, SourceErrors> {
    load_variant(path, None, app_dirs)
}

/// Like [`load`], with a variant of the file laid over it; `None` takes the one that the file itself names, if it names one.
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

/// Like [`load_variant`], where the hosts of some sites with an inventory are known already: their inventories are not looked at.
///
/// # Errors
/// All problems, in the order of the file, those of the hosts included.
pub fn load_with_hosts(
    path: &Path,
    variant: Option<&str>,
    app_dirs: &[PathBuf],
    hosts: &KnownHosts,
) -> Result<Spec, SourceErrors> {
    let source = Source::read(path)?;
    load_source(&source, variant, app_dirs, hosts)
}

/// Like [`load`], from the text of a file at `path`.
///
/// # Errors
/// All problems, in the order of the file.
pub fn load_text(path: &Path, text: &str, app_dirs: &[PathBuf]) -> Result<Spec, SourceErrors> {
    load_source(
        &Source {
            path: path.to_owned(),
            text: text.into(),
        },
        None,
        app_dirs,
        &KnownHosts::new(),
    )
}

fn load_source(
    source: &Source,
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
    // without the requested variant, all other errors would be about another campaign
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
    source: &Source,
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
    // Names are looked up only when all tables are sound: a broken one would make every mention of it an error.
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

/// Keys of all sections, as in `run.repeats`.
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
                            format!("the site `{member}` is there already"),
                            "give one of the two another name, or name each type once",
                        );
                    }
                    sites.insert(member.clone(), site);
                    members.push(member);
                    if check.errors.len() > before {
                        // the others have the same
                        break;
                    }
                }
                groups.insert(site_name.to_owned(), members);
            }
        }
    }
    (sites, groups)
}

/// The instance types that a site compares; nothing if it does not, or if that is wrong.
fn compared_types(check: &mut Checker<'_>, raw: &RawSite, place: &Place<'_>) -> Vec<String> {
    let Some(ec2) = &raw.ec2 else {
        return Vec::new();
    };
    if !ec2.compare_instance_types.is_empty() && !ec2.instance_types.is_empty() {
        check.fail(
            place(&["ec2".into(), "compare_instance_types".into()]),
            "`compare_instance_types` beside `instance_types`",
            "keep one: types to compare, or types of which the next is taken where the one before is not available",
        );
        return Vec::new();
    }
    ec2.compare_instance_types.clone()
}

/// A section of settings; an absent one is an empty one. `None` after an error of its form.
fn settings_section<'t, R: Deserialize<'t> + Default, T>(
    check: &mut Checker<'_>,
    table: &DeTable<'t>,
    section: &str,
    read: impl FnOnce(&mut Checker<'_>, R, &Place<'_>) -> T,
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

/// The tables of a `[[list]]`; anything but a list of tables is an error.
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
            format!("write [[{key}]] with two brackets, one for each"),
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
    let rules = list_of_tables(check, table, "exclude")
        .into_iter()
        .filter_map(|(inner, span)| rule(check, inner, span))
        .collect();
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
                "zipped lists go value by value: make them equally long",
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
        // The debug form tells values apart as `==` does, and can be looked up, which long lists need.
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

fn rule(check: &mut Checker<'_>, inner: &DeTable<'_>, span: Span) -> Option<WrittenRule> {
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
                "say why these combinations are not run; plans and reports show it",
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
                "say why these combinations are not run: reason = \"...\"",
            );
            None
        }
    };
    let Some(when) = inner.get("when") else {
        check.fail(
            Some(span),
            "the key `when` is missing",
            "say what is excluded, as in when = { mpi = \"openmpi\" }",
        );
        return None;
    };
    let Some(conditions) = when.get_ref().as_table().filter(|t| !t.is_empty()) else {
        let message = if when.get_ref().is_table() {
            "`when` is empty and would exclude everything"
        } else {
            "`when` is not a table"
        };
        check.fail(
            Some(when.span()),
            message,
            "name at least one factor, as in when = { mpi = \"openmpi\" }",
        );
        return None;
    };
    Some(WrittenRule {
        when: conditions_of(check, conditions),
        reason: reason?,
    })
}

/// Loads all named applications, in the order of first use, and the smallest one if it is wanted.
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
