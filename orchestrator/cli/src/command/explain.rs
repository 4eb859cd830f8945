//! `cvc explain`

use crate::{
    args::ExplainArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, table},
};
use cvc_core::{
    plan::{Plan, select_points},
    store::CampaignDir,
    units::duration,
};
use cvc_journal::CampaignState;
use cvc_session::{
    campaigns::{campaign_dir, read_plan},
    explanation::{ExplainedRun, Explanation, end_of_output, explain_id, explain_points},
};
use serde::Serialize;
use std::io::{self, Write};

/// Lines of a failed program's output that are shown.
const LINES: usize = 8;

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'e> {
    schema: u32,
    explanations: &'e [Explanation],
}

pub fn explain(args: &ExplainArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    let plan = plan_of(&dir)?;
    let state = if dir.journal().exists() {
        CampaignState::read(&dir.journal())?
    } else {
        CampaignState::default()
    };
    let found = find(args, &dir, &plan, &state)?;
    let mut out = output::shown_as(args.json);
    if args.json {
        let printed = Printed {
            schema: 1,
            explanations: &found,
        };
        let text = serde_json::to_string_pretty(&printed).map_err(io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(ExitStatus::Done);
    }
    for (i, explanation) in found.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        show(&mut out, &dir, explanation)?;
    }
    Ok(ExitStatus::Done)
}

/// The plan of a campaign.
pub fn plan_of(dir: &CampaignDir) -> Result<Plan, Failure> {
    read_plan(dir).map_err(|error| Failure::Other {
        status: ExitStatus::Store,
        message: error.to_string(),
        hint: Some("`cvc run` with the campaign's file writes it again".into()),
    })
}

fn find(
    args: &ExplainArgs,
    dir: &CampaignDir,
    plan: &Plan,
    state: &CampaignState,
) -> Result<Vec<Explanation>, Failure> {
    let selects = args.what.iter().any(|word| word.contains('='));
    if selects {
        let text = args.what.join(" ");
        let everything = Plan {
            points: plan
                .points
                .iter()
                .cloned()
                .chain(plan.excluded.iter().map(as_planned))
                .collect(),
            ..plan.clone()
        };
        let selected = select_points(&everything, &[text]).map_err(|error| Failure::Other {
            status: ExitStatus::Usage,
            message: error.message,
            hint: Some(error.hint),
        })?;
        return Ok(explain_points(
            dir,
            plan,
            state,
            plan.points.iter().filter(|p| selected.contains(&p.id)),
            plan.excluded
                .iter()
                .filter(|e| selected.contains(&as_planned(e).id)),
        ));
    }
    let found: Vec<Explanation> = args
        .what
        .iter()
        .flat_map(|id| explain_id(dir, plan, state, id))
        .collect();
    if found.is_empty() {
        return Err(Failure::Other {
            status: ExitStatus::Usage,
            message: format!(
                "{} has no run or point whose identifier begins with {}",
                plan.campaign,
                args.what.join(" or ")
            ),
            hint: Some(
                "`cvc status --json` lists the identifiers; or name points by factors: mapping=4Nx1P mpi=mpich"
                    .into(),
            ),
        });
    }
    Ok(found)
}

/// An excluded combination as if it were a point, so that it can be selected.
fn as_planned(excluded: &cvc_core::point::Excluded) -> cvc_core::point::PlannedPoint {
    // writing to memory does not fail
    let text = serde_json::to_vec(&(&excluded.point, "excluded")).unwrap_or_default();
    cvc_core::point::PlannedPoint {
        id: cvc_core::ids::PointId::of(&text),
        point: excluded.point.clone(),
        baseline: false,
    }
}

fn show(out: &mut impl Write, dir: &CampaignDir, explanation: &Explanation) -> io::Result<()> {
    match explanation {
        Explanation::Run(run) => show_run(out, dir, run),
        Explanation::Point {
            point,
            factors,
            why,
            runs,
        } => {
            writeln!(out, "point {point}")?;
            writeln!(out, "{}", paragraph("  ", &listed(factors)))?;
            writeln!(out, "{}", paragraph("  ", why))?;
            let mut rows = table(["run", "repeat", "state", "why"], &["why"]);
            for run in runs {
                rows.add_row([&run.run, &run.repeat, run.state, &run.why]);
            }
            writeln!(out, "\n{}", rows.trim_fmt())
        }
        Explanation::Excluded { factors, why } => {
            writeln!(out, "{}", paragraph("", &listed(factors)))?;
            writeln!(out, "{}", paragraph("  ", why))
        }
    }
}

fn listed(factors: &[(String, String)]) -> String {
    factors
        .iter()
        .map(|(name, level)| format!("{name}={level}"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn show_run(out: &mut impl Write, dir: &CampaignDir, run: &ExplainedRun) -> io::Result<()> {
    writeln!(out, "run {}: {}, {}", run.run, run.point, run.repeat)?;
    writeln!(
        out,
        "{}",
        paragraph("  ", &format!("{}: {}", run.state, run.why))
    )?;
    if !run.attempts.is_empty() {
        let mut rows = table(["attempt", "started", "took", "nodes", "end"], &["end"]);
        for attempt in &run.attempts {
            rows.add_row([
                attempt.number.to_string(),
                attempt.started.clone().unwrap_or_else(|| "-".to_owned()),
                attempt.took_s.map_or_else(|| "-".to_owned(), duration),
                if attempt.nodes.is_empty() {
                    "this machine".to_owned()
                } else {
                    attempt.nodes.join(" ")
                },
                attempt.end.clone(),
            ]);
        }
        writeln!(out, "\n{}", rows.trim_fmt())?;
    }
    let Some(directory) = &run.directory else {
        return Ok(());
    };
    writeln!(out, "\n{}", dir.root().join(directory))?;
    if run.state != "failed" {
        return Ok(());
    }
    for (name, text) in end_of_output(dir, run) {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !is_remark_of_dmtcp(line))
            .collect();
        if lines.is_empty() {
            continue;
        }
        writeln!(out, "\nthe end of {name}:")?;
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

/// Whether a line is a note or a warning of DMTCP, as it writes to every program's standard error: `[…, Warning] at file.cpp:158 in …`.
fn is_remark_of_dmtcp(line: &str) -> bool {
    let remark = |word: &str| {
        line.split_once(word)
            .is_some_and(|(before, _)| before.contains('['))
    };
    remark(", Note] at ") || remark(", Warning] at ")
}

#[cfg(test)]
mod tests {
    use super::is_remark_of_dmtcp;

    #[test]
    fn remarks_of_dmtcp_are_told_from_what_a_program_says() {
        let of_dmtcp = "[2026-11-25T09:03:29.613, 40000, 40000, Warning] at socketconnection.cpp:235 in TcpConnection; REASON='…'";
        assert!(is_remark_of_dmtcp(of_dmtcp));
        assert!(!is_remark_of_dmtcp(
            "mesh.dat: no such mesh [Warning] at line 3"
        ));
    }
}
