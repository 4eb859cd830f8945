//! `cvc doctor`

mod cluster;

use crate::{
    args::{DoctorArgs, SiteOf},
    campaigns::{load, load_of_site},
    exit_status::ExitStatus,
    failure::Failure,
    machine::{ask_sites, runtime},
    output,
    text::{paragraph, table},
};
use camino::Utf8PathBuf;
use cvc_core::{campaign::Spec, plan};
use cvc_engine::{
    attempt::{Readiness, ReadySite},
    ckpt::{quirks, repairs},
};
use serde_json::json;
use std::io::Write;

/// One thing that was checked.
struct Finding {
    what: String,
    /// What was found, or what is missing.
    found: Result<String, String>,
    /// What does not work without it.
    cost: &'static str,
    hint: String,
}

/// The campaign that is checked when none is given: it uses everything.
const EVERYTHING: &str = "schema = 1\nname = \"doctor\"\n[sites.local]\nkind = \"local\"\n[matrix]\napp = \"kernel-stencil\"\nclass = \"S\"\nprocesses = 4\nmpi = [\"mpich\", \"openmpi\"]\n";

/// What to check.
struct Asked {
    spec: Spec,
    /// The campaign file, if one is given without a site.
    file: Option<Utf8PathBuf>,
    /// The only site to check.
    site: Option<String>,
}

fn asked(args: &DoctorArgs) -> Result<Asked, Failure> {
    let Some(target) = &args.target else {
        let spec =
            cvc_core::campaign::load_text(std::path::Path::new("doctor.toml"), EVERYTHING, &[cvc_core::app::embedded::directory()?])?;
        return Ok(Asked { spec, file: None, site: None });
    };
    if args.file.is_none() && (target.is_file() || target.as_str().contains('/') || target.extension() == Some("toml")) {
        return Ok(Asked { spec: load(target, &args.which)?, file: Some(target.clone()), site: None });
    }
    let of = SiteOf { site: target.to_string(), file: args.file.clone(), which: args.which.clone() };
    let mut spec = load_of_site(&of)?;
    spec.sites.retain(|name, _| *name == of.site);
    Ok(Asked { spec, file: None, site: Some(of.site) })
}

pub fn doctor(args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let Asked { spec, file, site } = asked(args)?;
    let runtime = runtime()?;
    let clusters = runtime.block_on(cluster::examine(&spec));
    let is_cluster_alone = site.is_some() && !clusters.is_empty();
    if is_cluster_alone {
        return cluster::show_alone(&clusters, args.json);
    }
    let sites = runtime.block_on(ask_sites(&spec, |_| Readiness::Look, |_| ()));
    let mut out = output::shown();
    let mut findings = Vec::new();
    for site in sites.values() {
        findings.extend(of_site(site));
    }
    findings.extend(of_machine());
    let plan = plan::build(&spec);
    let mut obstacles: Vec<String> = Vec::new();
    let mut stuck = 0usize;
    if file.is_some() {
        for planned in &plan.points {
            if let Some(reason) = sites.get(&planned.point.site).and_then(|s| s.obstacle(&planned.point)) {
                stuck += 1;
                if !obstacles.contains(&reason) {
                    obstacles.push(reason);
                }
            }
        }
    }
    let status =
        if stuck > 0 || (file.is_some() && plan.points.is_empty()) { ExitStatus::Installation } else { cluster::status(&clusters) };
    if args.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|f| json!({ "what": f.what, "ok": f.found.is_ok(), "found": f.found.as_ref().unwrap_or_else(|e| e), "cost": f.cost, "hint": f.hint }))
            .collect();
        let value = json!({ "findings": findings, "quirks": quirks::table(), "points": plan.points.len(), "points_that_cannot_run": stuck, "obstacles": obstacles, "clusters": clusters });
        writeln!(out, "{}", serde_json::to_string_pretty(&value).map_err(std::io::Error::from)?)?;
        return Ok(status);
    }
    let mut found = table(["", "what", "found"], &["found"]);
    for finding in &findings {
        let (mark, text) = match &finding.found {
            Ok(text) => ("ok", text),
            Err(text) => ("--", text),
        };
        found.add_row([mark, &finding.what, text]);
    }
    writeln!(out, "{}", found.trim_fmt())?;
    let gaps: Vec<&Finding> = findings.iter().filter(|f| f.found.is_err()).collect();
    if !gaps.is_empty() {
        writeln!(out, "\nwhat does not work because of it, and how to fix it:")?;
        for gap in gaps {
            writeln!(
                out,
                "{}\n{}",
                paragraph("  ", &format!("{}: {}", gap.what, gap.cost)),
                paragraph("    ", &format!("hint: {}", gap.hint))
            )?;
        }
    }
    cluster::show(&mut out, &clusters)?;
    writeln!(out, "\nknown hazards, and what cvc does about each where it applies:")?;
    for quirk in quirks::table() {
        let set: Vec<String> = quirk.env.iter().map(|(k, v)| format!("{k}={v}")).chain(quirk.args.iter().cloned()).collect();
        let set = if set.is_empty() { quirk.note.unwrap_or_default() } else { set.join(" ") };
        writeln!(out, "{}\n{}", paragraph("  ", &format!("{}: {set}", quirk.id)), paragraph("    ", &quirk.reason))?;
    }
    if let Some(file) = &file {
        campaign(&mut out, file, &spec, plan.points.len(), stuck, &obstacles)?;
    }
    Ok(status)
}

fn campaign(
    out: &mut impl Write,
    file: &camino::Utf8Path,
    spec: &Spec,
    points: usize,
    stuck: usize,
    obstacles: &[String],
) -> std::io::Result<()> {
    let local: usize = spec.sites.values().filter(|s| s.kind == cvc_core::campaign::SiteKind::Local).count();
    if stuck == 0 && points > 0 && local == 0 {
        let text = format!("{file}: its {points} points are checked once their sites are open; see the findings above");
        return writeln!(out, "\n{}", paragraph("", &text));
    }
    if stuck == 0 && points > 0 {
        return writeln!(out, "\n{}", paragraph("", &format!("{file}: all {points} points of campaign {} can run here", spec.name)));
    }
    writeln!(out, "\n{}", paragraph("", &format!("{file}: {stuck} of {points} points of campaign {} cannot run here:", spec.name)))?;
    for obstacle in obstacles {
        writeln!(out, "{}", paragraph("  ", obstacle))?;
    }
    Ok(())
}

fn of_site(site: &ReadySite) -> Vec<Finding> {
    let mut findings = vec![Finding {
        what: format!("site {}", site.context.name),
        found: Ok(format!(
            "{} cores, oversubscription {}",
            site.cores,
            if site.context.site.oversubscribe { "allowed" } else { "not allowed" }
        )),
        cost: "",
        hint: String::new(),
    }];
    for (name, install) in &site.mpi {
        findings.push(Finding {
            what: format!("MPI library {name}"),
            found: install.as_ref().map(|i| format!("{} at {}", i.describe(), i.mpiexec)).map_err(|m| m.what.clone()),
            cost: "its points are skipped",
            hint: install.as_ref().err().map(|m| m.hint.clone()).unwrap_or_default(),
        });
        if let Ok(install) = install {
            let compiler = cvc_engine::kernels::mpicc(install);
            findings.push(Finding {
                what: format!("compiler of {name}"),
                found: compiler.as_ref().map(ToString::to_string).map_err(|m| m.what.clone()),
                cost: "the built-in kernels cannot run with this library",
                hint: compiler.err().map(|m| m.hint).unwrap_or_default(),
            });
        }
    }
    let mut add = |what: &str, found: Result<String, (String, String)>, cost| {
        let hint = found.as_ref().err().map(|e| e.1.clone()).unwrap_or_default();
        findings.push(Finding { what: what.into(), found: found.map_err(|e| e.0), cost, hint });
    };
    let pair = |m: &cvc_engine::mpi::Missing| (m.what.clone(), m.hint.clone());
    add(
        "DMTCP",
        site.dmtcp.as_ref().map(|d| format!("{} at {}", d.version, d.bin)).map_err(pair),
        "points with checkpointer = \"dmtcp\" are skipped",
    );
    if let Some(remark) = site.dmtcp.as_ref().ok().and_then(repairs::remark) {
        let hint = "use DMTCP 4.0 to 5.0 for points on several nodes; those on one node are not affected".to_owned();
        add("DMTCP between nodes", Err((remark, hint)), "points on several nodes may hang at a checkpoint or a restart");
    }
    for (tracer, found) in site.tracers.iter().filter(|(tracer, _)| tracer.trace().is_some()) {
        add(tracer.title(), found.as_ref().map(ToString::to_string).map_err(pair), tracer.cost_of_absence());
    }
    findings
}

fn of_machine() -> Vec<Finding> {
    let path = std::env::var("PATH").unwrap_or_default();
    let tool = |name: &str, cost, hint: &str| Finding {
        what: name.into(),
        found: cvc_core::paths::on_path(&[name], &path).map(|p| p.to_string()).ok_or_else(|| format!("{name} is not installed")),
        cost,
        hint: hint.into(),
    };
    vec![
        tool("make", "the built-in kernels cannot be compiled", "Debian, Ubuntu: apt-get install make"),
        tool("cc", "the built-in kernels cannot be compiled", "Debian, Ubuntu: apt-get install gcc libc6-dev"),
        tool("gzip", "DMTCP cannot compress images", "Debian, Ubuntu: apt-get install gzip"),
    ]
}
