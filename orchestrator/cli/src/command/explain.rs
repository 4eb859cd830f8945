//! `cvc explain`

use crate::{args::ExplainArgs, exit_status::ExitStatus, failure::Failure, output};
use cvc_core::{
    plan::{Plan, select_points},
    store::CampaignDir,
    units::duration,
};
use cvc_journal::CampaignState;
use cvc_session::{
    campaigns::{campaign_dir, read_plan},
    explanation::{ExplainedRun, Explanation, end_of_output, explain_id, explain_points},
    run_words::RunWord,
};
use cvc_show::{Blocks, Table, or_dash};
use serde::Serialize;

/// Maximum number of lines shown of a failed program's output.
const LINES: usize = 8;

/// The output of `--json`.
#[derive(Serialize)]
struct ExplainOutput<'e> {
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
    let printed = ExplainOutput {
        schema: 1,
        explanations: &found,
    };
    output::answer(args.json, &printed, |out| {
        for (i, explanation) in found.iter().enumerate() {
            if i > 0 {
                out.gap();
            }
            show(out, &dir, explanation);
        }
    })?;
    Ok(ExitStatus::Done)
}

/// Reads the plan of a campaign.
pub fn plan_of(dir: &CampaignDir) -> Result<Plan, Failure> {
    read_plan(dir).map_err(|error| Failure::Other {
        status: ExitStatus::Store,
        message: error.to_string(),
        hint: Some("run `cvc run` with the campaign's file to write it again".into()),
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

/// Returns an excluded combination as a planned point, so that it can be selected like one.
fn as_planned(excluded: &cvc_core::point::Excluded) -> cvc_core::point::PlannedPoint {
    // writing to memory does not fail
    let text = serde_json::to_vec(&(&excluded.point, "excluded")).unwrap_or_default();
    cvc_core::point::PlannedPoint {
        id: cvc_core::ids::PointId::of(&text),
        point: excluded.point.clone(),
        baseline: false,
        expected_failure: None,
    }
}

fn show(out: &mut Blocks, dir: &CampaignDir, explanation: &Explanation) {
    match explanation {
        Explanation::Run(run) => show_run(out, dir, run),
        Explanation::Point {
            point,
            factors,
            why,
            runs,
        } => {
            out.line(format!("point {point}"));
            out.item(1, listed(factors));
            out.item(1, why);
            let mut rows = Table::plain(["run", "repeat", "state", "why"]).wrap(&["why"]);
            for run in runs {
                rows.row([&run.run, &run.repeat, run.state.as_str(), &run.why]);
            }
            out.gap();
            out.table(rows);
        }
        Explanation::Excluded { factors, why } => {
            out.say(listed(factors));
            out.item(1, why);
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

fn show_run(out: &mut Blocks, dir: &CampaignDir, run: &ExplainedRun) {
    out.line(format!("run {}: {}, {}", run.run, run.point, run.repeat));
    out.item(1, format!("{}: {}", run.state, run.why));
    if !run.attempts.is_empty() {
        let mut rows = Table::plain(["attempt", "started", "took", "nodes", "end"]).wrap(&["end"]);
        for attempt in &run.attempts {
            rows.row([
                attempt.number.to_string(),
                attempt.started.clone().unwrap_or_else(|| "-".to_owned()),
                or_dash(attempt.took_s, duration),
                if attempt.nodes.is_empty() {
                    "this machine".to_owned()
                } else {
                    attempt.nodes.join(" ")
                },
                attempt.end.clone(),
            ]);
        }
        out.gap();
        out.table(rows);
    }
    let Some(directory) = &run.directory else {
        return;
    };
    out.heading(dir.root().join(directory).to_string());
    if run.state != RunWord::Failed {
        return;
    }
    for (name, text) in end_of_output(dir, run) {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !is_remark_of_dmtcp(line))
            .collect();
        if lines.is_empty() {
            continue;
        }
        out.heading(format!("the end of {name}:"));
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            out.line(format!("  {line}"));
        }
    }
}

/// Returns whether a line is a note or a warning of DMTCP, which it writes to every program's standard error: `[…, Warning] at file.cpp:158 in …`.
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
    fn remarks_of_dmtcp_are_distinguished_from_program_output() {
        let of_dmtcp = "[2026-11-25T09:03:29.613, 40000, 40000, Warning] at socketconnection.cpp:235 in TcpConnection; REASON='…'";
        assert!(is_remark_of_dmtcp(of_dmtcp));
        assert!(!is_remark_of_dmtcp(
            "mesh.dat: no such mesh [Warning] at line 3"
        ));
    }
}
