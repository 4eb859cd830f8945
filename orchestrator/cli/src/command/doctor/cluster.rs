//! Sites of several machines, as `cvc doctor` shows them.

use crate::{exit_status::ExitStatus, failure::Failure, output, text::paragraph};
use cvc_controller::doctor::{self, Check, Here, State};
use cvc_controller::runner::Options;
use cvc_core::campaign::Spec;
use cvc_show::Table;
use indexmap::IndexMap;
use std::{io::Write, time::Duration};

/// Findings by site.
pub(super) type Clusters = IndexMap<String, Vec<Check>>;

/// Checks every cluster of a campaign and reports its progress meanwhile.
pub(super) async fn examine(spec: &Spec, base: &Options) -> Clusters {
    let here = Here {
        base: spec.directory().to_owned(),
        node_program: base.node_program.clone(),
        clouds: base.clouds.clone(),
    };
    let mut clusters = Clusters::new();
    for (name, site) in spec.sites.iter().filter(|(_, site)| site.cluster.is_some()) {
        let bar = output::bar();
        bar.set_template("{spinner} {msg}");
        bar.tick_every(Duration::from_millis(100));
        let checks = doctor::examine(name, site, &here, &mut |what| {
            bar.set_message(&format!("{name}: {what}"))
        })
        .await;
        bar.finish_and_clear();
        clusters.insert(name.clone(), checks);
    }
    clusters
}

/// Success if runs can start, even with doubtful findings.
pub(super) fn status(clusters: &Clusters) -> ExitStatus {
    if clusters.values().flatten().any(|c| c.state == State::Bad) {
        ExitStatus::Host
    } else {
        ExitStatus::Done
    }
}

/// Checks one site, and nothing on this machine.
pub(super) fn show_alone(clusters: &Clusters, json: bool) -> Result<ExitStatus, Failure> {
    let mut out = output::shown_as(json);
    if json {
        output::print_json(&serde_json::json!({ "clusters": clusters }))?;
    } else {
        show(&mut out, clusters)?;
    }
    Ok(status(clusters))
}

/// Shows tables of findings, and how to fix the problems.
pub(super) fn show(out: &mut impl Write, clusters: &Clusters) -> std::io::Result<()> {
    for (name, checks) in clusters {
        writeln!(out, "\nsite {name}")?;
        let mut found = Table::plain(["", "what", "host", "found"]).wrap(&["found"]);
        for check in checks {
            found.row([
                mark(check.state),
                &check.what,
                check.host.as_deref().unwrap_or("all"),
                &check.found,
            ]);
        }
        writeln!(out, "{}", found)?;
        // what was found stands above; a remedy of several things or hosts stands once
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

fn mark(state: State) -> &'static str {
    match state {
        State::Good => "ok",
        State::Skipped => "..",
        State::Doubtful => "??",
        State::Bad => "--",
    }
}
