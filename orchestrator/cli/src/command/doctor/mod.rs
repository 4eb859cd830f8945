//! `cvc doctor`

mod app;
mod cluster;
mod hazards;
mod overlap;
mod probe;
mod verdict;

use crate::{
    args::{DoctorArgs, SiteOf, Where},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{machine, runtime},
    output,
    text::paragraph,
};
use camino::Utf8PathBuf;
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::paths::make_absolute;
use cvc_core::plan;
use cvc_core::point::{CheckpointerKind, Compression, Point};
use cvc_engine::{
    attempt::{Readiness, ReadySite},
    ckpt::{
        self,
        quirks::{self, Quirk},
    },
    mpi::Missing,
    tracer::tracer,
};
use cvc_probe::sentinel::{self, SentinelAnswer, SentinelRequest};
use cvc_session::{
    ask_sites,
    campaigns::{Askable, campaign_here, load_and_ask},
};
use cvc_show::Table;
use serde_json::json;
use std::{collections::BTreeSet, io::Write};
use verdict::Verdict;

/// The result of one check.
struct Finding {
    what: String,
    /// A description of what was found, or what is missing.
    found: Result<String, Missing>,
    /// Consequence if the checked item is missing.
    cost: String,
}

impl Finding {
    fn new(
        what: impl Into<String>,
        found: Result<String, Missing>,
        cost: impl Into<String>,
    ) -> Self {
        Self {
            what: what.into(),
            found,
            cost: cost.into(),
        }
    }

    /// Returns the description of what was found, or the name of what is missing.
    fn text(&self) -> &str {
        match &self.found {
            Ok(text) => text,
            Err(missing) => &missing.what,
        }
    }

    /// Returns how to get what is missing; empty if nothing is.
    fn hint(&self) -> &str {
        let missing = self.found.as_ref().err();
        missing.map_or("", |missing| &missing.hint)
    }
}

/// The campaign or site to check.
struct DoctorTarget {
    spec: Spec,
    /// The campaign file, if one is given and no site.
    file: Option<Utf8PathBuf>,
    /// The only site to check.
    site: Option<String>,
}

fn asked(args: &DoctorArgs) -> Result<DoctorTarget, Failure> {
    let Some(target) = &args.target else {
        let spec = campaign_here("doctor", 4, &[CheckpointerKind::None])?;
        return Ok(DoctorTarget {
            spec,
            file: None,
            site: None,
        });
    };
    if args.file.is_none()
        && (target.is_file() || target.as_str().contains('/') || target.extension() == Some("toml"))
    {
        return Ok(DoctorTarget {
            spec: load_and_ask(
                target,
                args.which.variant.as_deref(),
                Askable::All,
                &|what| output::note(what),
            )?,
            file: Some(target.clone()),
            site: None,
        });
    }
    let of = SiteOf {
        site: target.to_string(),
        file: args.file.clone(),
        which: args.which.clone(),
    };
    let mut spec = super::install::of_site(&of)?;
    spec.sites.retain(|name, _| *name == of.site);
    Ok(DoctorTarget {
        spec,
        file: None,
        site: Some(of.site),
    })
}

pub fn doctor(args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let DoctorTarget {
        mut spec,
        file,
        site,
    } = asked(args)?;
    let runtime = runtime()?;
    if let Some(name) = &args.app {
        let subject = app::Subject::find(args, name)?;
        for site in spec.sites.values_mut() {
            let given = args.app_dir.iter().cloned().map(make_absolute);
            let given = given.map(Utf8PathBuf::into_string);
            site.app_dirs.splice(0..0, given);
            // directories named by the campaign and the command line take precedence
            let next_to_it = subject
                .directories()
                .into_iter()
                .map(Utf8PathBuf::into_string);
            site.app_dirs.extend(next_to_it);
        }
        return runtime.block_on(try_app(args, &subject, &spec));
    }
    if args.probe {
        return runtime.block_on(try_checkpoints(&spec, args.json));
    }
    if args.overlap {
        return runtime.block_on(try_overlap(&spec, args));
    }
    let base = machine(&Where {
        campaigns: "campaigns".into(),
    })
    .options()?;
    let clusters = runtime.block_on(cluster::examine(&spec, &base));
    let is_cluster_alone = site.is_some() && !clusters.is_empty();
    if is_cluster_alone {
        return cluster::show_alone(&clusters, args.json);
    }
    let sites = runtime.block_on(ask_sites(&spec, |_| Readiness::Look, |_| ()));
    let plan = plan::build(&spec);
    // a campaign is checked only for what it uses, this machine without a campaign for everything
    let used: Option<Vec<&Point>> = file
        .is_some()
        .then(|| plan.points.iter().map(|p| &p.point).collect());
    let mut findings: Vec<Finding> = sites
        .values()
        .flat_map(|site| of_site(site, used.as_deref()))
        .collect();
    if used.is_none() || spec.sites.values().any(|site| site.kind == SiteKind::Local) {
        findings.extend(of_machine(&spec, used.as_deref()));
    }
    let hazards = if file.is_some() {
        hazards::of_campaign(&spec, &plan, &sites)
    } else {
        quirks::table()
    };
    let verdict = file.is_some().then(|| Verdict::of(&plan, &spec, &sites));
    let status = match &verdict {
        Some(verdict) if !verdict.can_run() => ExitStatus::Installation,
        Some(_) | None => cluster::status(&clusters),
    };
    let mut out = output::shown_as(args.json);
    if args.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|f| json!({ "what": f.what, "ok": f.found.is_ok(), "found": f.text(), "cost": f.cost, "hint": f.hint() }))
            .collect();
        let mut value = json!({ "findings": findings, "hazards": hazards, "clusters": clusters });
        if let Some(verdict) = verdict {
            value["verdict"] = json!(verdict);
        }
        output::print_json(&output::versioned(value))?;
        return Ok(status);
    }
    if let (Some(verdict), Some(file)) = (&verdict, &file) {
        verdict.show(&mut out, file, &spec.name)?;
        writeln!(out)?;
    }
    show_findings(&mut out, &findings, verdict.is_none())?;
    cluster::show(&mut out, &clusters)?;
    show_hazards(&mut out, hazards, file.is_some(), args.hazards)?;
    Ok(status)
}

/// Prints the known hazards: only their names, or also how cvc handles each.
fn show_hazards(
    out: &mut impl Write,
    hazards: Vec<Quirk>,
    of_campaign: bool,
    in_full: bool,
) -> std::io::Result<()> {
    if hazards.is_empty() {
        return Ok(());
    }
    let whose = if of_campaign {
        "known hazards that affect this campaign, with cvc's countermeasures"
    } else {
        "known hazards, with cvc's countermeasures"
    };
    if !in_full {
        let ids: Vec<&str> = hazards.iter().map(|quirk| quirk.id.as_str()).collect();
        let line = format!("{whose} (details: --hazards): {}", ids.join(", "));
        return writeln!(out, "\n{}", paragraph("", &line));
    }
    writeln!(out, "\n{whose}:")?;
    for quirk in hazards {
        let env = quirk.env.iter().map(|(k, v)| format!("{k}={v}"));
        let set: Vec<String> = env.chain(quirk.args.iter().cloned()).collect();
        let set = if set.is_empty() {
            quirk.note.unwrap_or_default()
        } else {
            set.join(" ")
        };
        writeln!(
            out,
            "{}\n{}",
            paragraph("  ", &format!("{}: {set}", quirk.id)),
            paragraph("    ", &quirk.reason)
        )?;
    }
    Ok(())
}

/// Takes a small checkpoint with each library, restarts the program from it, and prints the results.
async fn try_checkpoints(spec: &Spec, is_json: bool) -> Result<ExitStatus, Failure> {
    let sites = ask_sites(spec, |_| Readiness::Look, |_| ()).await;
    let probed = probe::probe(spec, &sites).await?;
    let mut out = output::shown_as(is_json);
    if is_json {
        output::print_json(&output::versioned(probed.to_json()))?;
    } else {
        probed.show(&mut out)?;
    }
    Ok(probed.status())
}

/// Measures whether non-blocking MPI-IO overlaps with computation, and prints the results.
async fn try_overlap(spec: &Spec, args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let sites = ask_sites(spec, |_| Readiness::Look, |_| ()).await;
    let measured = overlap::measure(spec, &sites, args.collective).await?;
    let mut out = output::shown_as(args.json);
    if args.json {
        output::print_json(&output::versioned(measured.to_json()))?;
    } else {
        measured.show(&mut out)?;
    }
    Ok(measured.status())
}

/// Runs the program of a descriptor with each library, and prints which parts of the descriptor fit.
async fn try_app(
    args: &DoctorArgs,
    subject: &app::Subject,
    spec: &Spec,
) -> Result<ExitStatus, Failure> {
    let sites = ask_sites(spec, |_| Readiness::Look, |_| ()).await;
    let fitted = app::fit(args, subject, spec, &sites).await?;
    let mut out = output::shown_as(args.json);
    if args.json {
        output::print_json(&output::versioned(fitted.to_json()))?;
    } else {
        fitted.show(&mut out)?;
    }
    Ok(fitted.status())
}

/// Prints a table of the findings. With `with_hints`, also prints the consequence and the remedy of each missing item; a verdict, if there is one,
/// prints them instead.
fn show_findings(
    out: &mut impl Write,
    findings: &[Finding],
    with_hints: bool,
) -> std::io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let mut found = Table::plain(["", "item", "found"]).wrap(&["found"]);
    for finding in findings {
        let mark = if finding.found.is_ok() { "ok" } else { "--" };
        found.row([mark, &finding.what, finding.text()]);
    }
    writeln!(out, "{}", found)?;
    let gaps: Vec<&Finding> = findings
        .iter()
        .filter(|f| f.found.is_err() && with_hints)
        .collect();
    if !gaps.is_empty() {
        writeln!(out, "\nconsequences, and how to fix them:")?;
        for gap in gaps {
            let (what, hint) = (
                format!("{}: {}", gap.what, gap.cost),
                format!("hint: {}", gap.hint()),
            );
            writeln!(
                out,
                "{}\n{}",
                paragraph("  ", &what),
                paragraph("    ", &hint)
            )?;
        }
    }
    Ok(())
}

/// Checks the software and tools of a site on this machine: only those that its points use, or all if no points are given.
fn of_site(site: &ReadySite, used: Option<&[&Point]>) -> Vec<Finding> {
    let any = |uses: &dyn Fn(&Point) -> bool| {
        used.is_none_or(|points| {
            points
                .iter()
                .any(|p| p.site == site.context.name && uses(p))
        })
    };
    let trace = &site.context.trace;
    let kernels = |point: &Point| trace.needs_kernels(&site.context.apps, point);
    let oversubscribe = match site.context.site.oversubscribe {
        true => "allowed",
        false => "not allowed",
    };
    let cores = format!("{} cores, oversubscription {oversubscribe}", site.cores);
    let name = &site.context.name;
    let mut findings = vec![Finding::new(format!("site {name}"), Ok(cores), "")];
    let libraries = site.mpi.iter();
    for (name, install) in libraries.filter(|(name, _)| any(&|point| point.mpi == **name)) {
        let found = install.as_ref().map_err(Clone::clone);
        findings.push(Finding::new(
            format!("MPI library {name}"),
            found.map(|i| format!("{} at {}", i.describe(), i.mpiexec)),
            "its points are skipped",
        ));
        if let Ok(install) = install
            && any(&|point| point.mpi == *name && kernels(point))
        {
            findings.push(Finding::new(
                format!("compiler of {name}"),
                cvc_engine::kernels::mpicc(install).map(|compiler| compiler.to_string()),
                "the built-in kernels cannot run with this library",
            ));
        }
    }
    for (checkpointer, found) in &site.checkpointers {
        let of_it =
            |point: &Point| ckpt::checkpointer(point.checkpointer).name() == checkpointer.name();
        let needs_programs = found.as_ref().map_or(true, |install| {
            !checkpointer.node_programs(install).is_empty()
        });
        let found = found.as_ref().map_err(Clone::clone);
        let between = any(&|point| of_it(point) && (used.is_none() || point.mapping.nodes() > 1));
        let remark = found.as_ref().ok().filter(|_| between);
        let remark = remark.and_then(|install| checkpointer.remark_on_nodes(install));
        if any(&of_it) && needs_programs {
            let found = found.map(|install| {
                let version = install.version.as_deref().unwrap_or("unknown");
                format!("{version} at {}", install.bin)
            });
            findings.push(Finding::new(
                checkpointer.title(),
                found,
                checkpointer.cost_of_absence(),
            ));
        }
        if let Some((what, hint)) = remark {
            let hint = hint.to_owned();
            findings.push(Finding::new(
                format!("{} between nodes", checkpointer.title()),
                Err(Missing { what, hint }),
                "points on several nodes may hang at a checkpoint or a restart",
            ));
        }
    }
    let traces = |name: &str| any(&|point| tracer(site.context.trace.of(point)).name() == name);
    let tracers = site.tracers.iter();
    findings.extend(
        tracers
            // compiled tracers are listed with their compiler
            .filter(|(tracer, _)| tracer.trace().is_some() && tracer.compiled().is_none())
            .filter(|(tracer, _)| traces(tracer.name()))
            .map(|(tracer, found)| {
                let found = found.as_ref().map(ToString::to_string);
                Finding::new(
                    tracer.title(),
                    found.map_err(Clone::clone),
                    tracer.cost_of_absence(),
                )
            }),
    );
    findings
}

/// Returns the settings of this machine's kernel that change or scatter times.
fn timing() -> Vec<Finding> {
    let Ok(SentinelAnswer::Conditions(conditions)) = sentinel::answer(&SentinelRequest::Conditions)
    else {
        return Vec::new();
    };
    let settings = &conditions.settings;
    let all = [
        ("clock source", &settings.clock_source),
        ("governor", &settings.governor),
        ("boost", &settings.boost),
        ("SMT", &settings.smt),
        ("transparent huge pages", &settings.thp),
    ];
    let known: Vec<String> = all
        .iter()
        .filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?)))
        .collect();
    let mut findings = vec![Finding::new("timing", Ok(known.join(", ")), "")];
    findings.extend(settings.doubts().into_iter().map(|(what, hint)| {
        let hint = hint.to_owned();
        Finding::new(
            "steady timing",
            Err(Missing { what, hint }),
            "run times scatter more than necessary",
        )
    }));
    findings
}

/// Checks the settings and tools of this machine: only the tools that points use, or all if no points are given.
fn of_machine(spec: &Spec, used: Option<&[&Point]>) -> Vec<Finding> {
    let any =
        |uses: &dyn Fn(&Point) -> bool| used.is_none_or(|points| points.iter().any(|p| uses(p)));
    let kernels = any(&|point| spec.trace.needs_kernels(&spec.apps, point));
    let path = std::env::var("PATH").unwrap_or_default();
    let tool = |name: &str, cost: &str, hint: &str| {
        let found = cvc_core::paths::on_path(&[name], &path).map(|p| p.to_string());
        let missing = || Missing {
            what: format!("{name} is not installed"),
            hint: hint.into(),
        };
        Finding::new(name, found.ok_or_else(missing), cost)
    };
    let mut tools = timing();
    if kernels {
        tools.push(tool(
            "make",
            "the built-in kernels cannot be compiled",
            "Debian, Ubuntu: apt-get install make",
        ));
        tools.push(tool(
            "cc",
            "the built-in kernels cannot be compiled",
            "Debian, Ubuntu: apt-get install gcc libc6-dev",
        ));
    }
    let used = |of: &Compression| any(&|point| point.compression == *of);
    let compressors = Compression::ALL.into_iter().filter(used);
    let mut listed = BTreeSet::new();
    for of in compressors.filter_map(Compression::compressor) {
        let skipped = format!("points with compression = \"{}\" are skipped", of.program);
        // the second program decompresses the images at a restart
        let needed = [
            (of.program, skipped),
            (
                of.reader,
                format!("images compressed with {} cannot be restarted", of.program),
            ),
        ];
        for (name, cost) in needed {
            if listed.insert(name) {
                let hint = format!("Debian, Ubuntu: apt-get install {name}");
                tools.push(tool(name, &cost, &hint));
            }
        }
    }
    tools
}
