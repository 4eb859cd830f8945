//! `cvc status`

use crate::{
    args::CampaignArgs,
    campaigns::campaign_dir,
    display::Varying,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, table},
};
use cvc_core::{
    ids::PointId,
    journal::{CampaignState, RunState},
    outcome::Outcome,
    plan::{Plan, PlannedRun},
    store::read_text,
    units::counted,
};
use std::{collections::HashMap, io::Write};

pub fn status(args: &CampaignArgs) -> Result<ExitStatus, Failure> {
    let dir = campaign_dir(&args.campaign, &args.which, &args.place)?;
    let state = CampaignState::read(&dir.journal())?;
    let plan: Plan = serde_json::from_str(&read_text(&dir.plan())?).map_err(|e| Failure::Other {
        status: ExitStatus::Store,
        message: format!("{}: {e}", dir.plan()),
        hint: Some("`cvc run` writes it again".into()),
    })?;
    let mut out = output::shown();
    if args.json {
        let runs: Vec<_> = plan
            .runs
            .iter()
            .map(|r| {
                let (word, detail) = word(state.run(&r.id), state.quarantined.contains(&r.point));
                serde_json::json!({ "run": r.id, "point": r.point, "repeat": r.repeat, "state": word, "detail": detail })
            })
            .collect();
        let value = serde_json::json!({ "campaign": plan.campaign, "completed": state.completed, "runs": runs });
        writeln!(out, "{}", serde_json::to_string_pretty(&value).map_err(std::io::Error::from)?)?;
        return Ok(ExitStatus::Done);
    }
    let varying = Varying::of(plan.points.iter().map(|p| &p.point));
    let header: Vec<&str> = varying.names().iter().map(String::as_str).chain(["ok", "failed", "left"]).collect();
    let mut points = table(header, &[]);
    let mut failures = Vec::new();
    let mut total = [0u64; 3];
    let mut runs_of: HashMap<&PointId, Vec<&PlannedRun>> = HashMap::new();
    for run in &plan.runs {
        runs_of.entry(&run.point).or_default().push(run);
    }
    for planned in &plan.points {
        let mut counts = [0u64; 3];
        let mut last = String::new();
        for run in runs_of.get(&planned.id).into_iter().flatten() {
            let (word, detail) = word(state.run(&run.id), state.quarantined.contains(&planned.id));
            let column = match word {
                "succeeded" => 0,
                "failed" => 1,
                _ => 2,
            };
            counts[column] += 1;
            total[column] += 1;
            if word == "failed" {
                last = detail.unwrap_or_default();
            }
        }
        let mut row: Vec<String> = varying.names().iter().map(|n| planned.point.factor(n).unwrap_or_else(|| "-".into())).collect();
        row.extend(counts.iter().map(ToString::to_string));
        if !last.is_empty() {
            failures.push(format!("{}: {last}", varying.show(&planned.point)));
        }
        points.add_row(row);
    }
    writeln!(out, "campaign {}: {} succeeded, {} failed, {} left", plan.campaign, counted(total[0], "run"), total[1], total[2])?;
    if let Some((_, last)) = state.span {
        writeln!(out, "last entry of the journal: {last:.0}")?;
    }
    writeln!(out, "\n{}", points.trim_fmt())?;
    if !failures.is_empty() {
        writeln!(out, "\nthe last failure of each point:")?;
    }
    for failure in failures {
        writeln!(out, "{}", paragraph("  ", &failure))?;
    }
    Ok(ExitStatus::Done)
}

fn word(state: Option<&RunState>, quarantined: bool) -> (&'static str, Option<String>) {
    match state {
        Some(RunState::Finished { outcome: Outcome::Succeeded, .. }) => ("succeeded", None),
        Some(RunState::Finished { outcome: Outcome::Failed { detail, .. }, .. }) => ("failed", Some(detail.clone())),
        Some(RunState::Open { .. }) => ("open", None),
        Some(RunState::Abandoned { .. }) | None if quarantined => ("quarantined", None),
        Some(RunState::Abandoned { .. }) => ("abandoned", None),
        None => ("to do", None),
    }
}
