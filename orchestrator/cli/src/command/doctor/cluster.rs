//! Output of `cvc doctor` for sites of several machines.

use crate::{exit_status::ExitStatus, failure::Failure, output, text::paragraph};
use cvc_controller::doctor::{self, CheckState, DoctorCheck, Here};
use cvc_controller::runner::Options;
use cvc_core::campaign::{SiteKind, Spec};
use cvc_core::plan;
use cvc_session::SoftwareGap;
use cvc_show::Table;
use indexmap::IndexMap;
use std::{io::Write, time::Duration};

/// Results of the checks, by site.
pub(super) type Clusters = IndexMap<String, Vec<DoctorCheck>>;

/// Checks every cluster of a campaign, and shows the progress.
pub(super) async fn examine(spec: &Spec, base: &Options) -> Clusters {
    let here = Here {
        base: spec.directory().to_owned(),
        node_program: base.node_program.clone(),
        clouds: base.clouds.clone(),
    };
    let gaps = SoftwareGap::find(spec, &plan::build(spec));
    let mut clusters = Clusters::new();
    for (name, site) in spec.sites.iter().filter(|(_, site)| site.cluster.is_some()) {
        let bar = output::bar();
        bar.set_template("{spinner} {msg}");
        bar.tick_every(Duration::from_millis(100));
        let mut checks = doctor::examine(name, site, &here, &mut |what| {
            bar.set_message(&format!("{name}: {what}"))
        })
        .await;
        bar.finish_and_clear();
        // instances do not exist yet, so their software is judged by the plan; nodes of other sites report what they have
        if site.kind == SiteKind::Ec2
            && let Some(gap) = gaps.iter().find(|gap| gap.site == *name)
        {
            checks.push(DoctorCheck {
                what: "software".to_owned(),
                host: None,
                state: if gap.is_certain {
                    CheckState::Bad
                } else {
                    CheckState::Skipped
                },
                found: gap.found.clone(),
                hint: gap.hint.clone(),
            });
        }
        clusters.insert(name.clone(), checks);
    }
    clusters
}

/// Returns success if runs can start, even if some findings are doubtful.
pub(super) fn status(clusters: &Clusters) -> ExitStatus {
    if clusters
        .values()
        .flatten()
        .any(|c| c.state == CheckState::Bad)
    {
        ExitStatus::Host
    } else {
        ExitStatus::Done
    }
}

/// Prints the checks of clusters only, without this machine.
pub(super) fn show_alone(clusters: &Clusters, json: bool) -> Result<ExitStatus, Failure> {
    let mut out = output::shown_as(json);
    if json {
        output::print_json(&output::versioned(
            serde_json::json!({ "clusters": clusters }),
        ))?;
    } else {
        show(&mut out, clusters)?;
    }
    Ok(status(clusters))
}

/// Prints a table of checks for each site, and how to fix the problems.
pub(super) fn show(out: &mut impl Write, clusters: &Clusters) -> std::io::Result<()> {
    for (name, checks) in clusters {
        writeln!(out, "\nsite {name}")?;
        let mut found = Table::plain(["", "item", "host", "found"]).wrap(&["found"]);
        for check in checks {
            found.row([
                mark(check.state),
                &check.what,
                check.host.as_deref().unwrap_or("all"),
                &check.found,
            ]);
        }
        writeln!(out, "{}", found)?;
        // a remedy that applies to several checks or hosts is printed once
        let mut fixed: IndexMap<&str, Vec<String>> = IndexMap::new();
        for check in checks.iter().filter(|c| !c.hint.is_empty()) {
            let of = match &check.host {
                Some(host) => format!("{} ({host})", check.what),
                None => check.what.clone(),
            };
            fixed.entry(&check.hint).or_default().push(of);
        }
        if !fixed.is_empty() {
            writeln!(out, "\nhow to fix it:")?;
        }
        for (hint, of) in fixed {
            writeln!(
                out,
                "{}\n{}",
                paragraph("  ", &of.join(", ")),
                paragraph("    ", &format!("hint: {hint}"))
            )?;
        }
    }
    Ok(())
}

fn mark(state: CheckState) -> &'static str {
    match state {
        CheckState::Good => "ok",
        CheckState::Skipped => "..",
        CheckState::Doubtful => "??",
        CheckState::Bad => "--",
    }
}
