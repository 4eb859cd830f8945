//! Checks the sections that are not factor tables: sites, `[run]`, `[checkpoint]`, `[trace]`, `[report]`.

use super::{
    blocks::{BlockKind, Blocks},
    checker::{Checker, SpanLookup, is_name, path_text},
    cluster_settings, delta_settings, deployment_settings, ec2_settings, level_settings,
    model::{
        CheckpointSettings, MpiFamily, MpiLibrary, MpiSource, ReportSettings, RunSettings, Site,
        SiteKind, StorageArea, Until,
    },
    raw::{RawCheckpoint, RawMpi, RawRepeats, RawRun, RawSite, RawUntil},
};
use crate::{
    names::wrong_variable,
    source::{Step, suggestion},
};
use indexmap::IndexMap;

/// Maximum length of a locale's name, bytes.
const MAX_LOCALE: usize = 64;

pub fn run(check: &mut Checker<'_>, raw: &RawRun, place: &SpanLookup<'_>) -> RunSettings {
    check.seconds("`timeout_s`", raw.timeout_s, place(&["timeout_s".into()]));
    let (repeats, until) = match &raw.repeats {
        RawRepeats::Number(repeats) => (
            check.whole("repeats", *repeats, 1, 10_000, place) as u32,
            None,
        ),
        RawRepeats::Until(raw) => until(check, raw, place),
    };
    let blocks = blocks(check, raw, repeats, until.is_some(), place);
    let is_of_locales = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
    if raw.locale.is_empty()
        || raw.locale.len() > MAX_LOCALE
        || !raw.locale.chars().all(is_of_locales)
    {
        let message = format!("`locale` is {:?}", raw.locale);
        check.fail(
            place(&["locale".into()]),
            message,
            "write the name of a locale, such as \"C.UTF-8\"; `locale -a` lists those of a machine",
        );
    }
    RunSettings {
        repeats,
        until,
        blocks,
        warmups: check.whole("warmups", raw.warmups, 0, 10_000, place) as u32,
        seed: check.whole("seed", raw.seed, 0, i64::MAX, place) as u64,
        order: raw.order,
        timeout_s: raw.timeout_s,
        max_output_mib: check.whole("max_output_mib", raw.max_output_mib, 1, 1 << 20, place) as u64,
        retries: check.whole("retries", raw.retries, 0, 100, place) as u32,
        quarantine_after: check.whole("quarantine_after", raw.quarantine_after, 1, 10_000, place)
            as u32,
        sites_in_turn: raw.sites_in_turn,
        keep_images: raw.keep_images,
        keep_outputs: raw.keep_outputs,
        locale: raw.locale.clone(),
    }
}

/// Returns the blocks into which the counted runs of each point are divided; `None` if the runs are not divided.
fn blocks(
    check: &mut Checker<'_>,
    raw: &RawRun,
    repeats: u32,
    ends_early: bool,
    place: &SpanLookup<'_>,
) -> Option<Blocks> {
    let (of, count) = match (raw.days, raw.fleets) {
        (None, None) => return None,
        (Some(days), None) => (BlockKind::Days, days),
        (None, Some(fleets)) => (BlockKind::Fleets, fleets),
        (Some(_), Some(_)) => {
            let hint = "remove one: without `keep`, a fleet ends with the session, so each day has its own fleet";
            check.fail(place(&["fleets".into()]), "both `fleets` and `days`", hint);
            return None;
        }
    };
    let key = of.many();
    let count = check.whole(key, count, 2, 1000, place) as u32;
    let at = || place(&[key.into()]);
    if ends_early {
        let hint = format!("give a fixed number of repeats: adaptive repeats do not support {key}");
        check.fail(at(), format!("`{key}` with adaptive repeats"), hint);
    } else if !repeats.is_multiple_of(count) {
        let hint = format!(
            "write a multiple of {count} as `repeats`, such as {}",
            repeats.next_multiple_of(count)
        );
        check.fail(
            at(),
            format!("{repeats} repeats cannot be divided equally among {count} {key}"),
            hint,
        );
    }
    Some(Blocks { of, count })
}

/// Checks the key `fleets`: every site must be of the kind `ec2`, and no site may keep its instances, because kept instances would also serve the
/// next block.
pub fn fleets(
    check: &mut Checker<'_>,
    run: &RunSettings,
    sites: &IndexMap<String, Site>,
    place: &SpanLookup<'_>,
) {
    if run
        .blocks
        .is_none_or(|blocks| blocks.of != BlockKind::Fleets)
    {
        return;
    }
    let at = || place(&["fleets".into()]);
    for (name, site) in sites {
        match &site.ec2 {
            None => {
                let hint = "only sites of kind `ec2` have fleets: write `days`, or leave it out";
                check.fail(at(), format!("`fleets` with the site `{name}`"), hint);
            }
            Some(ec2) if ec2.keep_s.is_some() => {
                let hint = format!(
                    "remove `keep` from [sites.{name}.ec2]: each fleet ends before the next starts"
                );
                check.fail(
                    at(),
                    format!("`fleets` with the site `{name}`, which keeps its instances"),
                    hint,
                );
            }
            Some(_) => {}
        }
    }
}

/// Minimum number of runs from which an interval is computed. With two runs, values that are equal by chance would give a narrow interval.
const MIN_REPEATS: i64 = 3;

/// Default minimum number of repeats. With three repeats of heavy-tailed values, intervals contain the true mean less often than they should.
const USUAL_LEAST: i64 = 5;

/// Maximum value of `until`, the half width of the interval at which a point needs no further run; percent of the mean.
const WIDEST_PCT: f64 = 100.0;

/// Returns the maximum number of repeats, and the rule by which a point may need fewer.
fn until(check: &mut Checker<'_>, raw: &RawUntil, place: &SpanLookup<'_>) -> (u32, Option<Until>) {
    let at = |key: &'static str| place(&["repeats".into(), key.into()]);
    let min = raw.min.unwrap_or(USUAL_LEAST.min(raw.max));
    for (key, value) in [("min", raw.min), ("max", Some(raw.max))]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    {
        if !(MIN_REPEATS..=10_000).contains(&value) {
            check.fail(
                at(key),
                format!("`{key}` is {value}"),
                format!("write a whole number from {MIN_REPEATS} to 10000"),
            );
        }
    }
    if min > raw.max {
        let max = raw.max;
        check.fail(
            at("min"),
            format!("`min` is {min}, more than `max`, {max}"),
            "write the smaller number as `min`",
        );
    }
    let number = raw
        .until
        .trim()
        .strip_suffix('%')
        .map(str::trim_end)
        .and_then(|text| text.parse::<f64>().ok());
    let half_width_pct = match number {
        Some(pct) if pct > 0.0 && pct < WIDEST_PCT => pct,
        Some(_) | None => {
            let message = format!("`until` is {:?}", raw.until);
            check.fail(
                at("until"),
                message,
                "write half the width of the interval in percent of the mean, as in \"5 %\": above 0 and below 100",
            );
            WIDEST_PCT
        }
    };
    if raw.of.as_ref().is_some_and(|name| name.trim().is_empty()) {
        check.fail(
            at("of"),
            "`of` is empty",
            "write the name of a quantity as in the report's data, as in \"ckpt_latency_s\", or leave it out",
        );
    }
    let runs = |value: i64| value.clamp(MIN_REPEATS, 10_000) as u32;
    (
        runs(raw.max),
        Some(Until {
            min: runs(min),
            half_width_pct,
            of: raw.of.clone(),
        }),
    )
}

/// Checks that all storage areas on other machines have a path if files are to be kept. Without a path the files would be in cvc's own directory,
/// which is removed at the end of the campaign.
pub fn kept(
    check: &mut Checker<'_>,
    run: &RunSettings,
    sites: &IndexMap<String, Site>,
    place: &SpanLookup<'_>,
) {
    let kept = [
        ("keep_images", run.keep_images),
        ("keep_outputs", run.keep_outputs),
    ];
    for (key, _) in kept.into_iter().filter(|(_, kept)| *kept) {
        for (name, site) in sites.iter().filter(|(_, s)| s.cluster.is_some()) {
            if let Some((area, _)) = site.storage.iter().find(|(_, a)| a.path.is_none()) {
                check.fail(
                    place(&[key.into()]),
                    format!("`{key}` on the site `{name}`, whose storage area `{area}` is removed at the end"),
                    format!("give the site a storage area with a path: [sites.{name}.storage.{area}] path = \"...\""),
                );
            }
        }
    }
}

/// Maximum number of restarts of a run.
const MAX_RESTARTS: u32 = 100;

pub fn checkpoint(
    check: &mut Checker<'_>,
    raw: &RawCheckpoint,
    place: &SpanLookup<'_>,
) -> CheckpointSettings {
    check.seconds("`timeout_s`", raw.timeout_s, place(&["timeout_s".into()]));
    let moment = raw.moment.check(&mut |way, message, hint| {
        let way: Vec<Step<'_>> = std::iter::once("moment".into())
            .chain(way.iter().copied())
            .collect();
        check.fail(place(&way), message, hint);
    });
    if !(1..=MAX_RESTARTS).contains(&raw.restarts) {
        check.fail(
            place(&["restarts".into()]),
            format!("`restarts` is {}", raw.restarts),
            format!("give a number from 1 to {MAX_RESTARTS}, or leave it out for one restart"),
        );
    }
    if raw.restarts > 1 && raw.own_series {
        check.fail(
            place(&["restarts".into()]),
            "`restarts` with `own_series`: a run with several restarts ends at its first checkpoint and has no series",
            "leave out `restarts` or `own_series`",
        );
    }
    CheckpointSettings {
        moment,
        restart_check: raw.restart_check,
        restarts: raw.restarts,
        baseline: raw.baseline,
        own_series: raw.own_series,
        timeout_s: raw.timeout_s,
        deltas: raw
            .deltas
            .as_ref()
            .map(|raw| delta_settings::read(check, raw, place)),
        levels: raw
            .levels
            .as_ref()
            .map(|raw| level_settings::read(check, raw, place)),
        resume: raw.resume,
    }
}

/// Checks the section `[report]`. A report without a title gets the campaign's name as title.
pub fn report(
    check: &mut Checker<'_>,
    mut report: ReportSettings,
    name: &str,
    place: &SpanLookup<'_>,
) -> ReportSettings {
    for (i, format) in report.formats.iter().enumerate() {
        if report.formats[..i].contains(format) {
            check.fail(
                place(&["formats".into(), i.into()]),
                "the format is given twice",
                "remove one",
            );
        }
    }
    if report.formats.is_empty() {
        check.fail(
            place(&["formats".into()]),
            "the list of formats is empty",
            "give at least one of html, csv, json, markdown, latex",
        );
    }
    if report.title.trim().is_empty() {
        report.title = name.to_owned();
    }
    report
}

/// Returns a checked site; `None` after an error. `place` returns positions below the site's table.
pub fn site(
    check: &mut Checker<'_>,
    name: &str,
    raw: RawSite,
    place: &SpanLookup<'_>,
) -> Option<Site> {
    let kind = match raw.kind.as_str() {
        "local" => Some(SiteKind::Local),
        "ssh" => Some(SiteKind::Ssh),
        "slurm" => Some(SiteKind::Slurm),
        "ec2" => Some(SiteKind::Ec2),
        other => {
            check.fail(
                place(&["kind".into()]),
                format!("unknown kind of site `{other}`"),
                suggestion(other, "known kinds", ["local", "ssh", "slurm", "ec2"]),
            );
            None
        }
    };
    for (i, dir) in raw.app_dirs.iter().enumerate() {
        path_text(check, dir, place(&["app_dirs".into(), i.into()]));
    }
    if let Some(prefix) = &raw.dmtcp.prefix {
        path_text(check, prefix, place(&["dmtcp".into(), "prefix".into()]));
    }
    let cluster = kind.and_then(|kind| cluster_settings::cluster(check, kind, name, &raw, place));
    let ec2 = kind.and_then(|kind| ec2_settings::ec2(check, kind, raw.ec2.as_ref(), place));
    let price = ec2_settings::price(check, kind, raw.price, place);
    raw.install.check(check, place);
    environments(check, &raw, place);
    let mut storage = raw.storage;
    for (area, settings) in &storage {
        let way: [Step<'_>; 2] = ["storage".into(), area.as_str().into()];
        if !is_name(area) {
            check.fail(
                place(&way),
                format!("`{area}` is not a valid name for a storage area"),
                "use small letters, digits, `-`, `_` and `.`",
            );
        }
        if let Some(path) = &settings.path {
            path_text(
                check,
                path,
                place(&["storage".into(), area.as_str().into(), "path".into()]),
            );
        }
    }
    deployment_settings::check(check, kind, cluster.as_ref(), &storage, place);
    if storage.is_empty() {
        storage = StorageArea::usual();
    }
    let mut mpi = IndexMap::new();
    for (library, raw) in raw.mpi {
        let place = |rest: &[Step<'_>]| {
            let mut way: Vec<Step<'_>> = vec!["mpi".into(), library.as_str().into()];
            way.extend(rest);
            place(&way)
        };
        if !is_name(&library) {
            check.fail(
                place(&[]),
                format!("`{library}` is not a valid name for an MPI library"),
                "use small letters, digits, `-`, `_` and `.`",
            );
        }
        let checked = mpi_library(check, raw, &place);
        mpi.insert(library, checked);
    }
    if mpi.is_empty() {
        mpi = MpiLibrary::usual();
    }
    if !is_name(name) {
        check.fail(
            place(&[]),
            format!("`{name}` is not a valid site name"),
            "use small letters, digits, `-`, `_` and `.`",
        );
    }
    Some(Site {
        kind: kind?,
        app_dirs: raw.app_dirs,
        oversubscribe: raw.oversubscribe.unwrap_or(kind == Some(SiteKind::Local)),
        storage,
        mpi,
        dmtcp: raw.dmtcp,
        environment: raw.environment,
        apps: raw.apps,
        cluster,
        login: raw.user.clone().filter(|_| kind == Some(SiteKind::Ec2)),
        ec2,
        price,
        install: raw.install,
    })
}

fn mpi_library(check: &mut Checker<'_>, raw: RawMpi, place: &SpanLookup<'_>) -> MpiLibrary {
    let mut sources = Vec::new();
    for (key, value) in [
        ("prefix", raw.prefix),
        ("module", raw.module),
        ("mpiexec", raw.mpiexec),
    ] {
        let Some(value) = value else { continue };
        path_text(check, &value, place(&[key.into()]));
        if let Some((first, _)) = sources.first() {
            check.fail(
                place(&[key.into()]),
                format!("both `{key}` and `{first}`"),
                "give one of prefix, module and mpiexec",
            );
        }
        sources.push((key, value));
    }
    let source = match sources.into_iter().next() {
        None => MpiSource::Path,
        Some(("prefix", value)) => MpiSource::Prefix(value),
        Some(("module", value)) => MpiSource::Module(value),
        Some((_, value)) => MpiSource::Mpiexec(value),
    };
    if raw.io.is_some() && raw.family != MpiFamily::OpenMpi {
        check.fail(
            place(&["io".into()]),
            "only Open MPI has a choice of I/O layers",
            "remove `io`: MPICH always uses ROMIO",
        );
    }
    for (key, value) in &raw.env {
        if let Some((message, hint)) = wrong_variable(key, value) {
            check.fail(place(&["env".into(), key.as_str().into()]), message, hint);
        }
    }
    for (i, arg) in raw.args.iter().enumerate() {
        if arg.contains('\0') {
            check.fail(
                place(&["args".into(), i.into()]),
                "an argument cannot contain a zero byte",
                "remove it",
            );
        }
    }
    MpiLibrary {
        family: raw.family,
        source,
        env: raw.env,
        args: raw.args,
        io: raw.io,
        environment: raw.environment,
    }
}

/// Checks the environments set up before launchers: those of the site, its libraries and its applications.
fn environments(check: &mut Checker<'_>, raw: &RawSite, place: &SpanLookup<'_>) {
    let of = |way: &[&str], rest: &[Step<'_>]| {
        let way = way.iter().map(|step| Step::from(*step));
        let whole: Vec<Step<'_>> = way
            .chain(["environment".into()])
            .chain(rest.iter().copied())
            .collect();
        place(&whole)
    };
    raw.environment.check(check, &|rest| of(&[], rest));
    for (name, library) in &raw.mpi {
        library
            .environment
            .check(check, &|rest| of(&["mpi", name], rest));
    }
    for (name, app) in &raw.apps {
        app.environment
            .check(check, &|rest| of(&["apps", name], rest));
    }
}
