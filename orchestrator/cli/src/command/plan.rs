//! `cvc plan`

use super::{
    costs, expected_json,
    plan_view::{Area, View},
    space,
};
use crate::{
    args::{PlanArgs, SortBy},
    display::{Varying, duration},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output::{self, note},
};
use cvc_core::inventory::Inventory;
use cvc_core::plan::{DiskNeed, Plan};
use cvc_core::point::{Excluded, ExcludedBy, Point, Reason};
use cvc_core::strategy::Strategy;
use cvc_core::units::{counted, size};
use cvc_engine::attempt::Readiness;
use cvc_session::{CampaignSession, SoftwareGap, campaigns::unknown_hosts};
use cvc_show::{Blocks, Table};
use indexmap::{IndexMap, IndexSet};
use std::collections::HashMap;

/// Maximum number of points listed below a reason that they share.
const MAX_POINTS: usize = 8;

/// Duration from which cvc warns that the plan may contain a typing error, days.
const MANY_DAYS: f64 = 30.0;

pub fn plan(args: &PlanArgs) -> Result<ExitStatus, Failure> {
    let mut session = CampaignSession::look(
        &args.file,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    session.select(&args.selection.only)?;
    let plan = session.selected();
    if args.json && !args.estimates {
        for (site, inventory) in unknown_hosts(&session.spec) {
            note(unknown_nodes(site, inventory));
        }
        output::print_json(&plan)?;
        return Ok(ExitStatus::Done);
    }
    let sites: IndexMap<_, _> = runtime()?.block_on(session.ask_sites(|_| Readiness::Find, |_| ()));
    let view = View::of(&session, &plan, &sites);
    if args.json {
        let mut all = serde_json::to_value(&plan).map_err(std::io::Error::from)?;
        all["expected"] = expected_json::of(&view, args.sort);
        output::print_json(&all)?;
    } else {
        let mut out = Blocks::default();
        show(&mut out, &view, args.runs, args.sort);
        output::print(&out)?;
        tell_without_effect(&session);
        costs::tell_outdated(&view.expected, &view.expectations.prices, &session.file);
    }
    // the exit code of `cvc run`, for scripts
    session.has_runs()?;
    Ok(if view.not_enough().is_empty() {
        ExitStatus::Done
    } else {
        ExitStatus::NotEnough
    })
}

/// Warns about keys of the campaign file that have no effect.
pub fn tell_without_effect(session: &CampaignSession) {
    for what in session.without_effect() {
        note(format_args!("warning: {what}"));
    }
}

/// Explains why cvc does not know how many nodes a site has.
fn unknown_nodes(site: &str, inventory: &Inventory) -> String {
    let path = inventory.path.display();
    format!(
        "nodes of the site {site}: unknown, so no point is excluded for lack of nodes; its inventory {path} {}",
        inventory.why_unknown()
    )
}

fn show(out: &mut Blocks, view: &View<'_>, every_run: bool, sort: Option<SortBy>) {
    let (spec, plan) = (&view.session.spec, view.plan);
    let varying = Varying::of(plan.points.iter().map(|p| &p.point));
    out.line(format!("campaign {}, seed {}", plan.campaign, plan.seed));
    if !spec.description.is_empty() {
        out.say(&spec.description);
    }
    if spec.variant.is_none() && !spec.variants.is_empty() {
        let names = spec.variants.join(", ");
        out.say(format!("variants (--variant NAME): {names}"));
    }
    constants(out, plan, &varying);
    for (site, inventory) in
        unknown_hosts(spec).filter(|(site, _)| plan.points.iter().any(|p| p.point.site == *site))
    {
        out.say(unknown_nodes(site, inventory));
        out.item(1, format!("hint: {}", inventory.hint()));
    }
    let points = points(view, sort, &varying);
    if !points.rows.is_empty() {
        if view.expected.has_price() {
            costs::tell_assumption(out, view);
        }
        out.gap();
        out.table(points);
    }
    show_skipped(out, view, &varying);
    show_excluded(out, plan);
    remark_on_overlap(out, view);
    if let Some(split) = &plan.predict {
        let train = match split.train.len() {
            1 => "1 point trains".to_owned(),
            n => format!("{n} points train"),
        };
        let held_out = match split.held_out.len() {
            1 => "1 is".to_owned(),
            n => format!("{n} are"),
        };
        out.heading(format!(
            "{train} the models, {held_out} held out and predicted"
        ));
    }
    if every_run {
        show_runs(out, plan, &varying);
    }
    let is_too_long = show_duration(out, view);
    show_space(out, view);
    if view.expected.has_price() {
        costs::show(out, view, is_too_long);
        costs::show_each(out, view, sort, &varying);
        costs::show_machines(out, view);
    }
}

/// Prints a note if points need a measurement of the overlap between writing and computing.
fn remark_on_overlap(out: &mut Blocks, view: &View<'_>) {
    let points = view.plan.points.iter();
    let count = points.filter(|p| p.point.strategy == Strategy::Iwrite);
    if let Some(count) = u32::try_from(count.count()).ok().filter(|count| *count > 0) {
        out.say(format!(
            "{} with strategy = \"iwrite\": some MPI libraries do not write while the program computes; `cvc doctor {} --overlap` measures it",
            counted(count, "point"),
            view.session.file
        ));
    }
}

/// Returns the table of points that run, with the estimates for one run of each.
fn points(view: &View<'_>, sort: Option<SortBy>, varying: &Varying) -> Table {
    let expected = &view.expected;
    let one = expected.of_point(view.plan);
    let runs = view.runs();
    let until = view.session.spec.run.until.as_ref();
    let names = || varying.names().iter().map(String::as_str);
    let mut points = Table::plain(
        ["point"]
            .into_iter()
            .chain(names())
            .chain(["runs", "each", "space"])
            .chain(expected.has_price().then_some("cost")),
    );
    for (planned, estimate) in view.points(sort) {
        let (warmups, measured) = runs.get(&planned.id).copied().unwrap_or_default();
        let mut row = vec![planned.id.as_str()[..8].to_owned()];
        row.extend(names().map(|n| planned.point.factor(n).unwrap_or_else(|| "-".into())));
        let counted = match until {
            Some(until) => format!("{} to {measured}", until.min),
            None => measured.to_string(),
        };
        row.push(match warmups {
            0 => counted,
            n => format!("{counted} + {n} warm-up"),
        });
        let seconds = duration(estimate.seconds);
        row.push(match (estimate.known_cores, estimate.known) {
            (None, _) => "unknown".to_owned(),
            (Some(_), _) if estimate.is_cut() => {
                format!("{}, ends after {seconds}", duration(estimate.needed_s))
            }
            (Some(_), true) => seconds,
            (Some(_), false) => format!("~{seconds}"),
        });
        let spaces = &view.expectations.spaces;
        let is_whole = spaces.get(&planned.id).is_none_or(|s| s.is_whole);
        row.push(format!(
            "{}{}",
            if is_whole { "" } else { "≥" },
            size(estimate.peak_bytes as f64)
        ));
        if expected.has_price() {
            row.push(costs::of_point(
                expected,
                &one,
                &planned.id,
                &planned.point.site,
                warmups + measured,
            ));
        }
        points.row(row);
    }
    points
}

/// Prints points that cannot run on this machine, and programs that were found but not started.
fn show_skipped(out: &mut Blocks, view: &View<'_>, varying: &Varying) {
    let not_here = view.plan.points.iter().filter_map(|p| {
        let reason = view.obstacles.get(&p.id)?;
        Some((reason.clone(), varying.show(&p.point)))
    });
    let not_here: Vec<_> = not_here.collect();
    if !not_here.is_empty() {
        let are = if not_here.len() == 1 { "is" } else { "are" };
        let points = counted(not_here.len(), "point");
        out.heading(format!(
            "{points} {are} skipped here because of missing requirements:"
        ));
        grouped(out, not_here.into_iter());
    }
    let sites = view.sites.values();
    for site in sites.filter(|site| !site.not_started.is_empty()) {
        let (what, name) = (site.not_started.join(", "), &site.context.name);
        out.gap();
        out.say(format!(
            "{what} of the site {name}: found but not started, because the file names its command; `cvc doctor FILE` starts it"
        ));
    }
}

/// Prints the excluded combinations: first those that a point represents, then the others, by reason.
fn show_excluded(out: &mut Blocks, plan: &Plan) {
    let (same, excluded): (Vec<&Excluded>, Vec<&Excluded>) = plan
        .excluded
        .iter()
        .partition(|e| matches!(e.reason, Reason::NoEffect { .. }));
    show_same(out, &same);
    if excluded.is_empty() {
        return;
    }
    let are = if excluded.len() == 1 { "is" } else { "are" };
    out.heading(format!(
        "{} {are} excluded:",
        counted(excluded.len(), "point")
    ));
    let points: Vec<&Point> = excluded
        .iter()
        .map(|e| &e.point)
        .chain(plan.points.iter().map(|p| &p.point))
        .collect();
    let all = Varying::of(points.into_iter());
    let each = excluded
        .iter()
        .map(|e| (format!("{}: {}", by(e.by), e.reason), all.show(&e.point)));
    grouped(out, each);
}

fn show_runs(out: &mut Blocks, plan: &Plan, varying: &Varying) {
    out.heading("runs in order:");
    let by_id: HashMap<_, &Point> = plan.points.iter().map(|p| (&p.id, &p.point)).collect();
    for (number, run) in (1..).zip(&plan.runs) {
        let point = by_id.get(&run.point).map(|p| varying.show(p));
        let repeat = run.repeat;
        out.line(format!(
            "{number:>6}  {}  {repeat:<10} {}",
            run.id,
            point.unwrap_or_default()
        ));
    }
}

/// Prints the number of runs, their duration, and when they end. Returns whether a run is longer than the run time limit.
fn show_duration(out: &mut Blocks, view: &View<'_>) -> bool {
    let (spec, plan) = (&view.session.spec, view.plan);
    let estimates = &view.expectations.estimates;
    let runs = view.runs();
    let is_here = |id| !view.obstacles.contains_key(id);
    let timed: Vec<_> = plan
        .points
        .iter()
        .zip(&estimates.points)
        .filter(|(p, e)| is_here(&p.id) && e.known_cores.is_some())
        .collect();
    let all_s: f64 = timed
        .iter()
        .map(|(p, e)| e.seconds * runs.get(&p.id).map_or(0.0, |(w, m)| f64::from(w + m)))
        .sum();
    let last_s = timed
        .iter()
        .filter_map(|(p, _)| view.expected.ends_s.get(&p.point.site))
        .fold(0.0, |a: f64, b| a.max(*b));
    let counts = runs.iter().filter(|(id, _)| is_here(**id));
    let here: u32 = counts.map(|(_, (w, m))| w + m).sum();
    let most = match spec.run.until {
        Some(_) => "at most ",
        None => "",
    };
    // sites without common machines run at the same time, as do runs side by side
    let in_turn = if last_s < 0.95 * all_s {
        format!(" ({} one after another)", duration(all_s))
    } else {
        String::new()
    };
    let lasts = if timed.is_empty() && here > 0 {
        "for an unknown time".to_owned()
    } else {
        format!("about {}{in_turn}", duration(last_s.min(all_s)))
    };
    out.heading(format!("{most}{}, {lasts}", counted(here, "run")));
    for text in view.expectations.without_cores(spec, plan) {
        out.say(text);
    }
    if let Some(until) = &spec.run.until {
        let both = "the checkpoint's time and the wall time";
        out.line(format!(
            "each point is repeated until the interval of {} is within ±{} %",
            until.of.as_deref().unwrap_or(both),
            until.half_width_pct
        ));
    }
    if let Some(blocks) = spec.run.blocks {
        let each = counted(spec.run.repeats / blocks.count, "counted run");
        out.line(format!(
            "divided among {} {}, {each} of each point on each",
            blocks.count,
            blocks.of.many()
        ));
    }
    if all_s > MANY_DAYS * 86_400.0 {
        out.line("is this intended? Fewer repeats, points or steps take less time; `cvc run --for 8h` ends a session in time");
    }
    let too_long = estimates.too_long(spec.run.timeout_s);
    let beyond_jobs = estimates.beyond_jobs(spec, plan);
    for text in too_long
        .iter()
        .chain(&beyond_jobs)
        .chain(&estimates.too_short())
    {
        out.say(text);
    }
    if estimates.unknown > 0 {
        out.line(format!(
            "(the descriptors of {}, marked ~, do not give their computing time)",
            counted(estimates.unknown, "point")
        ));
    }
    too_long.is_some() || !beyond_jobs.is_empty()
}

/// Prints the software that sites cannot get. Software that several sites lack for the same reason is printed once.
fn show_software(out: &mut Blocks, gaps: &[SoftwareGap]) {
    let mut alike: IndexMap<&str, Vec<&SoftwareGap>> = IndexMap::new();
    for gap in gaps {
        alike.entry(&gap.found).or_default().push(gap);
    }
    for (found, gaps) in alike {
        let sites: Vec<&str> = gaps.iter().map(|gap| gap.site.as_str()).collect();
        out.say(match gaps.as_slice() {
            [one] => one.describe(),
            several => format!(
                "software of the sites {}: {found}; hint, for each: {}",
                sites.join(", "),
                several[0].hint
            ),
        });
    }
}

fn show_space(out: &mut Blocks, view: &View<'_>) {
    for shortage in &view.shortages {
        out.say(shortage.describe());
    }
    let session = view.session;
    // equal needs of several sites are combined into one line
    let mut needs: IndexMap<(Area, u64, &str), Vec<&DiskNeed>> = IndexMap::new();
    for need in &view.expectations.estimates.disk {
        let area = Area::of(&session.spec, &session.dir, need);
        needs
            .entry((area, need.bytes, &need.storage))
            .or_default()
            .push(need);
    }
    for ((area, _, _), needs) in needs {
        out.say(area.describe(&needs));
    }
    show_software(out, &SoftwareGap::find(&session.spec, view.plan));
    let here = view.plan.points.iter().map(|p| &p.id);
    let here = here.filter(|id| !view.obstacles.contains_key(*id));
    let spaces = &view.expectations.spaces;
    space::show_basis(out, here.filter_map(|id| spaces.get(id)));
}

/// Prints the combinations that are not run because a point represents them: for each reason, their number and the levels in which they differ from
/// that point.
fn show_same(out: &mut Blocks, same: &[&Excluded]) {
    if same.is_empty() {
        return;
    }
    let (are, them) = match same.len() {
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    out.heading(format!(
        "{} {are} not run, because a point above represents {them}:",
        counted(same.len(), "combination")
    ));
    let mut groups: IndexMap<String, (&[String], Vec<&Point>)> = IndexMap::new();
    for excluded in same {
        if let Reason::NoEffect { factors, .. } = &excluded.reason {
            let group = groups.entry(excluded.reason.cause());
            let (_, points) = group.or_insert_with(|| (factors, Vec::new()));
            points.push(&excluded.point);
        }
    }
    for (cause, (factors, points)) in groups {
        let of_factor = |name: &String| {
            let levels: IndexSet<String> = points
                .iter()
                .filter(|point| !point.is_neutral(name))
                .filter_map(|point| point.factor(name))
                .collect();
            match levels.is_empty() {
                true => format!("another {name}"),
                false => format!("{name} = {}", Vec::from_iter(levels).join(", ")),
            }
        };
        let levels: Vec<String> = factors.iter().map(of_factor).collect();
        let (n, levels) = (points.len(), levels.join("; "));
        out.item(1, format!("{n} with {levels}: {cause}"));
    }
}

/// Prints the levels that all points share, except defaults that the file does not name.
fn constants(out: &mut Blocks, plan: &Plan, varying: &Varying) {
    let Some(first) = plan.points.first() else {
        return out.line("no point can run");
    };
    let built_in = Point::shown_factors(plan.points.iter().map(|p| &p.point));
    let names = built_in
        .into_iter()
        .chain(first.point.user.keys().map(String::as_str));
    let shared: Vec<String> = names
        .filter(|n| !varying.names().iter().any(|v| v == n) && *n != "processes" && *n != "threads")
        .filter(|n| !is_default(plan, n))
        .filter_map(|n| {
            Some(format!(
                "{n} = {}",
                plan.points.iter().find_map(|p| p.point.factor(n))?
            ))
        })
        .collect();
    out.say(format!("in all points: {}", shared.join(", ")));
}

/// Returns whether a factor has its default level in all points, so that it need not be shown.
fn is_default(plan: &Plan, name: &str) -> bool {
    match name {
        // the storage area of sites that name none
        "storage" => plan.points.iter().all(|p| p.point.storage == "run"),
        "site" | "app" | "class" | "mapping" | "mpi" => false,
        _ => plan.points.iter().all(|p| {
            let level = p.point.factor(name);
            p.point.is_neutral(name)
                || matches!(level.as_deref(), Some("none" | "default" | "false"))
        }),
    }
}

/// Prints each reason, and below it the points that it concerns.
fn grouped(out: &mut Blocks, items: impl Iterator<Item = (String, String)>) {
    let mut groups: IndexMap<String, IndexSet<String>> = IndexMap::new();
    for (reason, point) in items {
        // points with the same shown factors are listed once
        groups.entry(reason).or_default().insert(point);
    }
    for (reason, points) in groups {
        out.item(1, reason);
        for point in points.iter().take(MAX_POINTS) {
            out.line(format!("    - {point}"));
        }
        if points.len() > MAX_POINTS {
            out.line(format!(
                "    - and {} more; `cvc plan --json` lists all excluded points",
                points.len() - MAX_POINTS
            ));
        }
    }
}

fn by(by: ExcludedBy) -> &'static str {
    match by {
        ExcludedBy::Rule => "rule",
        ExcludedBy::Application => "application",
        ExcludedBy::Combination => "combination",
        ExcludedBy::Hazard => "known hazard",
        ExcludedBy::Site => "site",
        ExcludedBy::Missing => "not installed",
    }
}
