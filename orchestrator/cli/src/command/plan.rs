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
use cvc_core::plan::Plan;
use cvc_core::point::{Excluded, ExcludedBy, Point, Reason, Repeat};
use cvc_core::units::{counted, size};
use cvc_engine::attempt::Readiness;
use cvc_session::{Session, campaigns::unknown_hosts};
use cvc_show::{Blocks, Table};
use indexmap::{IndexMap, IndexSet};
use std::collections::HashMap;

/// Maximum number of points that are listed below a reason that concerns them all.
const MAX_POINTS: usize = 8;

/// A plan that takes longer, in days, is perhaps a typing error.
const MANY_DAYS: f64 = 30.0;

pub fn plan(args: &PlanArgs) -> Result<ExitStatus, Failure> {
    let mut session = Session::look(
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
        costs::tell_outdated(&view.expected, &view.expectations.prices, &args.file);
    }
    // the same as `cvc run` ends with, so that a script notices
    session.has_runs()?;
    Ok(if view.not_enough().is_empty() {
        ExitStatus::Done
    } else {
        ExitStatus::NotEnough
    })
}

/// Warns of keys of the file that change nothing.
pub fn tell_without_effect(session: &Session) {
    for what in session.without_effect() {
        note(format_args!("warning: {what}"));
    }
}

/// Says why the number of nodes of a site is unknown.
fn unknown_nodes(site: &str, inventory: &Inventory) -> String {
    let path = inventory.path.display();
    format!(
        "nodes of the site {site}: unknown, so that no point is excluded for want of nodes; its inventory {path} {}",
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
        out.gap();
        out.table(points);
    }
    show_skipped(out, view, &varying);
    show_excluded(out, plan);
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

/// The points that run here, with what is expected of a run of each.
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

/// Points that cannot run on this machine, and programs that were found but not started.
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
            "{points} {are} skipped here, because something is missing:"
        ));
        grouped(out, not_here.into_iter());
    }
    let sites = view.sites.values();
    for site in sites.filter(|site| !site.not_started.is_empty()) {
        let (what, name) = (site.not_started.join(", "), &site.context.name);
        out.gap();
        out.say(format!(
            "{what} of the site {name}: found, but not started, because the file names what to start; `cvc doctor FILE` does"
        ));
    }
}

/// Combinations that do not run: those that a point stands for, and the others.
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
    out.heading("runs in their order:");
    let by_id: HashMap<_, &Point> = plan.points.iter().map(|p| (&p.id, &p.point)).collect();
    for (number, run) in (1..).zip(&plan.runs) {
        let point = by_id.get(&run.point).map(|p| varying.show(p));
        let repeat = match run.repeat {
            Repeat::Warmup(n) => format!("warm-up {n}"),
            Repeat::Measured(n) => format!("repeat {n}"),
        };
        out.line(format!(
            "{number:>6}  {}  {repeat:<10} {}",
            run.id,
            point.unwrap_or_default()
        ));
    }
}

/// How many runs there are, how long they take, and when they end. Returns whether runs are longer than they may be.
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
    // sites that share no machine, and runs side by side
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
        out.line("is that meant? Fewer repeats, points or steps take less; `cvc run --for 8h` ends a session in time");
    }
    let too_long = estimates.too_long(spec.run.timeout_s);
    for text in too_long.iter().chain(&estimates.too_short()) {
        out.say(text);
    }
    if estimates.unknown > 0 {
        out.line(format!(
            "(the descriptors of {}, marked ~, do not say how long they compute)",
            counted(estimates.unknown, "point")
        ));
    }
    too_long.is_some()
}

fn show_space(out: &mut Blocks, view: &View<'_>) {
    for shortage in &view.shortages {
        out.say(shortage.told());
    }
    let session = view.session;
    for need in &view.expectations.estimates.disk {
        out.line(Area::of(&session.spec, &session.dir, need).told(need));
    }
    let here = view.plan.points.iter().map(|p| &p.id);
    let here = here.filter(|id| !view.obstacles.contains_key(*id));
    let spaces = &view.expectations.spaces;
    space::show_basis(out, here.filter_map(|id| spaces.get(id)));
}

/// Says in one line for each reason how many combinations are not run because another one stands for them, and in which levels they differ from it.
fn show_same(out: &mut Blocks, same: &[&Excluded]) {
    if same.is_empty() {
        return;
    }
    let (are, them) = match same.len() {
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    out.heading(format!(
        "{} {are} not run, because a point above stands for {them}:",
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

/// Shows once what all points share, but for factors that are as without being named.
fn constants(out: &mut Blocks, plan: &Plan, varying: &Varying) {
    let Some(first) = plan.points.first() else {
        return out.line("no point is left to run");
    };
    let built_in = Point::shown_factors(plan.points.iter().map(|p| &p.point));
    let names = built_in
        .into_iter()
        .chain(first.point.user.keys().map(String::as_str));
    let shared: Vec<String> = names
        .filter(|n| !varying.names().iter().any(|v| v == n) && *n != "processes")
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

/// Whether a factor says nothing of any point that a campaign without it would not have.
fn is_default(plan: &Plan, name: &str) -> bool {
    match name {
        // that of sites which name none
        "storage" => plan.points.iter().all(|p| p.point.storage == "run"),
        "site" | "app" | "class" | "mapping" | "mpi" => false,
        _ => plan.points.iter().all(|p| {
            let level = p.point.factor(name);
            p.point.is_neutral(name)
                || matches!(level.as_deref(), Some("none" | "default" | "false"))
        }),
    }
}

/// Reasons, and below each the points that it concerns.
fn grouped(out: &mut Blocks, items: impl Iterator<Item = (String, String)>) {
    let mut groups: IndexMap<String, IndexSet<String>> = IndexMap::new();
    for (reason, point) in items {
        // what the shown factors do not tell apart stands once
        groups.entry(reason).or_default().insert(point);
    }
    for (reason, points) in groups {
        out.item(1, reason);
        for point in points.iter().take(MAX_POINTS) {
            out.line(format!("    - {point}"));
        }
        if points.len() > MAX_POINTS {
            out.line(format!(
                "    - and {} more; `cvc plan --json` lists all that are excluded",
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
