//! Checks the sections that are not factors: sites, `[run]`, `[checkpoint]`, `[trace]`, `[report]`.

use super::{
    blocks::{BlockKind, Blocks},
    checker::{Checker, Place, is_name, path_text},
    cluster_settings, delta_settings, ec2_settings,
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

/// Longest name of a locale, bytes.
const MAX_LOCALE: usize = 64;

pub fn run(check: &mut Checker<'_>, raw: &RawRun, place: &Place<'_>) -> RunSettings {
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

/// Days or fleets among which the counted runs of each point are divided.
fn blocks(
    check: &mut Checker<'_>,
    raw: &RawRun,
    repeats: u32,
    ends_early: bool,
    place: &Place<'_>,
) -> Option<Blocks> {
    let (of, count) = match (raw.days, raw.fleets) {
        (None, None) => return None,
        (Some(days), None) => (BlockKind::Days, days),
        (None, Some(fleets)) => (BlockKind::Fleets, fleets),
        (Some(_), Some(_)) => {
            let hint = "remove one: a fleet that is not kept ends with the session, so days have fleets of their own";
            check.fail(place(&["fleets".into()]), "`fleets` beside `days`", hint);
            return None;
        }
    };
    let key = of.many();
    let count = check.whole(key, count, 2, 1000, place) as u32;
    let at = || place(&[key.into()]);
    if ends_early {
        let hint =
            format!("give a number of repeats: the rule that ends them does not know of {key}");
        check.fail(
            at(),
            format!("`{key}` beside repeats that end when their interval is narrow"),
            hint,
        );
    } else if repeats % count != 0 {
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

/// Fleets are of instances, and a kept one would serve the next block too.
pub fn fleets(
    check: &mut Checker<'_>,
    run: &RunSettings,
    sites: &IndexMap<String, Site>,
    place: &Place<'_>,
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
                    "remove `keep` from [sites.{name}.ec2]: each fleet ends before the next begins"
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

/// The fewest runs whose interval says something: two values that are alike by chance would end a point.
const LEAST_REPEATS: i64 = 3;

/// Fewest repeats if the file does not say: of values with a tail, points that may end after three are held less often.
const USUAL_LEAST: i64 = 5;

/// Widest interval that is worth stopping at, percent.
const WIDEST_PCT: f64 = 100.0;

/// Repeats until an interval is narrow: the most, and the rule.
fn until(check: &mut Checker<'_>, raw: &RawUntil, place: &Place<'_>) -> (u32, Option<Until>) {
    let at = |key: &'static str| place(&["repeats".into(), key.into()]);
    let min = raw.min.unwrap_or(USUAL_LEAST.min(raw.max));
    for (key, value) in [("min", raw.min), ("max", Some(raw.max))]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    {
        if !(LEAST_REPEATS..=10_000).contains(&value) {
            check.fail(
                at(key),
                format!("`{key}` is {value}"),
                format!("write a whole number from {LEAST_REPEATS} to 10000"),
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
    let runs = |value: i64| value.clamp(LEAST_REPEATS, 10_000) as u32;
    (
        runs(raw.max),
        Some(Until {
            min: runs(min),
            half_width_pct,
            of: raw.of.clone(),
        }),
    )
}

/// On other machines cvc's own directory is removed with the campaign, so kept files need another place.
pub fn kept(
    check: &mut Checker<'_>,
    run: &RunSettings,
    sites: &IndexMap<String, Site>,
    place: &Place<'_>,
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

pub fn checkpoint(
    check: &mut Checker<'_>,
    raw: &RawCheckpoint,
    place: &Place<'_>,
) -> CheckpointSettings {
    check.seconds("`timeout_s`", raw.timeout_s, place(&["timeout_s".into()]));
    let moment = raw.moment.check(&mut |way, message, hint| {
        let way: Vec<Step<'_>> = std::iter::once("moment".into())
            .chain(way.iter().copied())
            .collect();
        check.fail(place(&way), message, hint);
    });
    CheckpointSettings {
        moment,
        restart_check: raw.restart_check,
        baseline: raw.baseline,
        own_series: raw.own_series,
        timeout_s: raw.timeout_s,
        deltas: raw
            .deltas
            .as_ref()
            .map(|raw| delta_settings::read(check, raw, place)),
    }
}

/// Checks the section, and gives the report the campaign's name as its title unless it has one.
pub fn report(
    check: &mut Checker<'_>,
    mut report: ReportSettings,
    name: &str,
    place: &Place<'_>,
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

/// A site; `place` starts inside its table.
pub fn site(check: &mut Checker<'_>, name: &str, raw: RawSite, place: &Place<'_>) -> Option<Site> {
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
    let mut storage = IndexMap::new();
    for (area, raw) in raw.storage {
        let way: [Step<'_>; 2] = ["storage".into(), area.as_str().into()];
        if !is_name(&area) {
            check.fail(
                place(&way),
                format!("`{area}` is not a valid name for a storage area"),
                "use small letters, digits, `-`, `_` and `.`",
            );
        }
        if let Some(path) = &raw.path {
            path_text(
                check,
                path,
                place(&["storage".into(), area.as_str().into(), "path".into()]),
            );
        }
        storage.insert(
            area,
            StorageArea {
                path: raw.path,
                kind: raw.kind,
            },
        );
    }
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
        cluster,
        login: raw.user.clone().filter(|_| kind == Some(SiteKind::Ec2)),
        ec2,
        price,
        install: raw.install,
    })
}

fn mpi_library(check: &mut Checker<'_>, raw: RawMpi, place: &Place<'_>) -> MpiLibrary {
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
                format!("`{key}` beside `{first}`"),
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
    }
}
