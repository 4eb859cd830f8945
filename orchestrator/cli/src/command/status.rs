//! `cvc status`

use crate::{
    args::StatusArgs,
    command::explain::plan_of,
    display::Varying,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, table},
};
use cvc_core::ids::PointId;
use cvc_core::plan::PlannedRun;
use cvc_core::units::counted;
use cvc_journal::CampaignState;
use cvc_session::{
    campaigns::{campaign_dir, clock_warning},
    run_words::{MISSING, NOT_NEEDED, RunWords},
};
use std::{collections::HashMap, io::Write, time::Duration};

pub fn status(args: &StatusArgs) -> Result<ExitStatus, Failure> {
    let Some(pause) = args.watch else {
        once(args)?;
        return Ok(ExitStatus::Done);
    };
    loop {
        output::clear_screen();
        if once(args)? {
            return Ok(ExitStatus::Done);
        }
        output::check()?;
        std::thread::sleep(Duration::from_secs_f64(pause));
    }
}

/// Shows the progress as it is now. Returns whether the campaign is complete.
fn once(args: &StatusArgs) -> Result<bool, Failure> {
    let dir = campaign_dir(
        &args.campaign,
        args.which.variant.as_deref(),
        &args.place.campaigns,
    )?;
    let state = CampaignState::read(&dir.journal())?;
    let plan = plan_of(&dir)?;
    if let Some(warning) = clock_warning(&state, jiff::Timestamp::now()) {
        crate::output::note(warning);
    }
    let words = RunWords::of(&dir, &plan, &state);
    let mut out = output::shown_as(args.json);
    if args.json {
        let runs: Vec<_> = plan
            .runs
            .iter()
            .map(|r| {
                let (word, detail) = words.of_run(r);
                serde_json::json!({ "run": r.id, "point": r.point, "repeat": r.repeat, "state": word, "detail": detail })
            })
            .collect();
        let value = serde_json::json!({ "campaign": plan.campaign, "completed": state.completed, "runs": runs });
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&value).map_err(std::io::Error::from)?
        )?;
        return Ok(state.completed);
    }
    let varying = Varying::of(plan.points.iter().map(|p| &p.point));
    let header: Vec<&str> = varying
        .names()
        .iter()
        .map(String::as_str)
        .chain(["ok", "failed", "skipped", "left"])
        .collect();
    let mut points = table(header, &[]);
    let mut failures = Vec::new();
    let mut total = [0u64; 4];
    let (mut missing, mut not_needed) = (0u64, 0u64);
    let mut runs_of: HashMap<&PointId, Vec<&PlannedRun>> = HashMap::new();
    for run in &plan.runs {
        runs_of.entry(&run.point).or_default().push(run);
    }
    for planned in &plan.points {
        let mut counts = [0u64; 4];
        let mut last = String::new();
        for run in runs_of.get(&planned.id).into_iter().flatten() {
            let (word, detail) = words.of_run(run);
            if word == NOT_NEEDED {
                not_needed += 1;
                continue;
            }
            let column = match word {
                "succeeded" => 0,
                "failed" => 1,
                "skipped" | "quarantined" => 2,
                _ => 3,
            };
            missing += u64::from(word == MISSING);
            counts[column] += 1;
            total[column] += 1;
            if word == "failed" {
                last = detail.unwrap_or_default();
            }
        }
        let mut row: Vec<String> = varying
            .names()
            .iter()
            .map(|n| planned.point.factor(n).unwrap_or_else(|| "-".into()))
            .collect();
        row.extend(counts.iter().map(ToString::to_string));
        if !last.is_empty() {
            failures.push(format!("{}: {last}", varying.show(&planned.point)));
        }
        points.add_row(row);
    }
    let [succeeded, failed, skipped, left] = total;
    writeln!(
        out,
        "campaign {}: {} succeeded, {failed} failed, {skipped} skipped, {left} left",
        plan.campaign,
        counted(succeeded, "run")
    )?;
    if missing > 0 {
        let their = if missing == 1 {
            "its directory is"
        } else {
            "their directories are"
        };
        writeln!(
            out,
            "{} of these had succeeded, and {their} missing: `cvc run` repeats {}",
            missing,
            if missing == 1 { "it" } else { "them" }
        )?;
    }
    if not_needed > 0 {
        let wide = state.decided.values().filter(|d| !d.is_narrow).count() as u64;
        let wide = if wide == 0 {
            String::new()
        } else {
            format!("; {} stayed wider than asked", counted(wide, "point"))
        };
        writeln!(
            out,
            "{} not needed: the intervals of {} are known{wide}",
            counted(not_needed, "run"),
            counted(state.decided.len() as u64, "point")
        )?;
    }
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
    Ok(state.completed)
}
