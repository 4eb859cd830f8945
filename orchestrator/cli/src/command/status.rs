//! `cvc status`

use crate::{
    args::StatusArgs,
    command::{explain::plan_of, records::warn},
    display::{Varying, duration},
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::{paragraph, shown, table},
};
use camino::Utf8PathBuf;
use cvc_controller::runner::means_of;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::Outcome;
use cvc_core::plan::PlannedRun;
use cvc_core::point::{PlannedPoint, Repeat};
use cvc_core::record::names;
use cvc_core::store::CampaignDir;
use cvc_core::units::{counted, size};
use cvc_index::unsound_records;
use cvc_journal::{CampaignState, RunState};
use cvc_session::{
    campaigns::{campaign_dir, clock_warning},
    run_words::{MISSING, NOT_NEEDED, RunWords},
};
use std::{collections::HashMap, io::Write, time::Duration};

pub fn status(args: &StatusArgs) -> Result<ExitStatus, Failure> {
    let Some(pause) = args.watch else {
        once(args, true)?;
        return Ok(ExitStatus::Done);
    };
    let mut is_first = true;
    loop {
        output::clear_screen();
        if once(args, is_first)? {
            return Ok(ExitStatus::Done);
        }
        is_first = false;
        output::check()?;
        std::thread::sleep(Duration::from_secs_f64(pause));
    }
}

/// Shows the progress as it is now; the first time it reads all records, and says which are not as they were written. Returns whether the
/// campaign is complete.
fn once(args: &StatusArgs, is_first: bool) -> Result<bool, Failure> {
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
    let unsound = match is_first {
        true => unsound_records(dir.root(), &plan, &state),
        false => Vec::new(),
    };
    warn(dir.root(), &unsound);
    let words = RunWords::of(&dir, &plan, &state);
    let mut out = output::shown_as(args.json);
    if args.json {
        let unsound: HashMap<&str, &str> = unsound
            .iter()
            .map(|of| (of.run.as_str(), of.records.as_str()))
            .collect();
        let runs: Vec<_> = plan
            .runs
            .iter()
            .map(|r| {
                let (word, detail) = words.of_run(r);
                let mut value = serde_json::json!({ "run": r.id, "point": r.point, "repeat": r.repeat, "state": word, "detail": detail });
                if let Some(records) = unsound.get(r.id.as_str()) {
                    value["records"] = (*records).into();
                }
                if let Some(output) = output_of(&dir, &state, r) {
                    value["output"] = output.as_str().into();
                }
                value
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
    let mut rows: Vec<(&PlannedPoint, [u64; 4], Vec<&RunId>)> = Vec::new();
    let mut failures = Vec::new();
    let mut total = [0u64; 4];
    let (mut missing, mut not_needed) = (0u64, 0u64);
    let mut runs_of: HashMap<&PointId, Vec<&PlannedRun>> = HashMap::new();
    for run in &plan.runs {
        runs_of.entry(&run.point).or_default().push(run);
    }
    for planned in &plan.points {
        let mut counts = [0u64; 4];
        let mut last = None;
        let mut measured = Vec::new();
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
            if word == "succeeded" && matches!(run.repeat, Repeat::Measured(_)) {
                measured.push(&run.id);
            }
            if word == "failed" {
                last = Some((detail.unwrap_or_default(), output_of(&dir, &state, run)));
            }
        }
        if let Some((detail, output)) = last {
            failures.push((
                format!("{}: {detail}", varying.show(&planned.point)),
                output,
            ));
        }
        rows.push((planned, counts, measured));
    }
    writeln!(out, "campaign {}: {}", plan.campaign, totals(total))?;
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
        let ago = jiff::Timestamp::now().as_second() - last.as_second();
        let ago = match ago {
            ..=0 => String::new(),
            seconds => format!(", {} ago", duration(seconds as f64)),
        };
        writeln!(out, "last change: {last:.0}{ago}")?;
    }
    match report_of(&dir) {
        Some(report) => writeln!(out, "report: {}", shown(&report))?,
        None if total[0] + total[1] > 0 => writeln!(
            out,
            "report: none yet in {}; `cvc report` writes one",
            report_dir(&dir)
        )?,
        None => {}
    }
    let means = means_of_points(&dir, total, &rows);
    // as many quantities as the terminal has room for
    let quantities: Vec<usize> = (0..MEANS.len())
        .filter(|q| means.iter().any(|of| of[*q].is_some()))
        .collect();
    let fitting = (0..=quantities.len())
        .rev()
        .map(|n| points(&varying, total, &rows, &means, &quantities[..n]))
        .find(fits);
    let points = match fitting {
        Some(table) => table,
        None => points(&varying, total, &rows, &means, &[]),
    };
    writeln!(out, "\n{}", points.trim_fmt())?;
    if !failures.is_empty() {
        writeln!(out, "\nthe last failure of each point:")?;
    }
    for (failure, output) in failures {
        writeln!(out, "{}", paragraph("  ", &failure))?;
        if let Some(output) = output {
            writeln!(out, "    output: {}", shown(&output))?;
        }
    }
    Ok(state.completed)
}

/// The states of runs that are counted, in the order of the table.
const STATES: [&str; 4] = ["succeeded", "failed", "skipped", "left"];

/// Quantities whose means are shown, with their headings.
const MEANS: [(&str, &str); 3] = [
    (names::WALL_S, "wall time"),
    (names::CKPT_LATENCY_S, "checkpoint"),
    (names::CKPT_STORED_BYTES, "stored"),
];

/// Most runs whose records are read to show means.
const MOST_READ: u64 = 2000;

/// How many runs are in which state, with shares; what is none is left out.
fn totals(total: [u64; 4]) -> String {
    let all: u64 = total.iter().sum();
    let [succeeded, ..] = total;
    let share = |count: u64| match all {
        0 => String::new(),
        // a part is never shown as nothing or as all
        _ if count > 0 && count < all => format!(
            " ({} %)",
            (count as f64 * 100.0 / all as f64).round().clamp(1.0, 99.0)
        ),
        _ => format!(" ({} %)", count * 100 / all),
    };
    let others: String = STATES
        .iter()
        .zip(total)
        .skip(1)
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!(", {count} {state}{}", share(count)))
        .collect();
    format!(
        "{succeeded} of {} succeeded{}{others}",
        counted(all, "run"),
        share(succeeded)
    )
}

/// The table of the points: their runs by state, and the means of what was measured so far. Columns without anything are left out.
fn points(
    varying: &Varying,
    total: [u64; 4],
    rows: &[(&PlannedPoint, [u64; 4], Vec<&RunId>)],
    means: &[[Option<f64>; 3]],
    quantities: &[usize],
) -> comfy_table::Table {
    let states: Vec<usize> = (0..STATES.len())
        .filter(|state| *state == 0 || total[*state] > 0)
        .collect();
    let header: Vec<&str> = varying
        .names()
        .iter()
        .map(String::as_str)
        .chain(states.iter().map(|state| match STATES[*state] {
            "succeeded" => "ok",
            other => other,
        }))
        .chain(quantities.iter().map(|q| MEANS[*q].1))
        .collect();
    let mut table = table(header, &[]);
    for ((planned, counts, _), means) in rows.iter().zip(means) {
        let mut row: Vec<String> = varying
            .names()
            .iter()
            .map(|n| planned.point.factor(n).unwrap_or_else(|| "-".into()))
            .collect();
        row.extend(states.iter().map(|state| counts[*state].to_string()));
        row.extend(quantities.iter().map(|q| match means[*q] {
            None => "-".to_owned(),
            Some(mean) if MEANS[*q].0 == names::CKPT_STORED_BYTES => size(mean),
            Some(mean) => duration(mean),
        }));
        table.add_row(row);
    }
    table
}

/// Whether a table fits the terminal; elsewhere every one does.
fn fits(table: &comfy_table::Table) -> bool {
    let widest = table
        .lines()
        .map(|line| line.trim_end().chars().count())
        .max();
    table
        .width()
        .is_none_or(|width| widest.is_none_or(|widest| widest <= usize::from(width)))
}

/// The means of what was measured at each point; none where that would be too many runs to read.
fn means_of_points(
    dir: &CampaignDir,
    total: [u64; 4],
    rows: &[(&PlannedPoint, [u64; 4], Vec<&RunId>)],
) -> Vec<[Option<f64>; 3]> {
    rows.iter()
        .map(|(.., runs)| {
            if total[0] > MOST_READ {
                [None; 3]
            } else {
                means(dir, runs)
            }
        })
        .collect()
}

/// The means over these runs.
fn means(dir: &CampaignDir, runs: &[&RunId]) -> [Option<f64>; 3] {
    let of_runs: Vec<_> = runs.iter().map(|run| means_of(dir, run)).collect();
    MEANS.map(|(name, _)| {
        let values: Vec<f64> = of_runs
            .iter()
            .filter_map(|of_run| of_run.get(name).copied())
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    })
}

/// The file with what the program of a failed run said.
fn output_of(dir: &CampaignDir, state: &CampaignState, run: &PlannedRun) -> Option<Utf8PathBuf> {
    match state.run(&run.id)? {
        RunState::Finished {
            attempt,
            outcome: Outcome::Failed { cause, .. },
            ..
        } => dir.output_of(&run.id, *attempt, *cause),
        RunState::Finished { .. } | RunState::Open { .. } | RunState::Abandoned { .. } => None,
    }
}

/// The directory in which `cvc run` and `cvc report` write the report, unless they are told another one.
fn report_dir(dir: &CampaignDir) -> Utf8PathBuf {
    Utf8PathBuf::from("reports").join(dir.root().file_name().unwrap_or("campaign"))
}

/// The main file of the report, if one was written there.
fn report_of(dir: &CampaignDir) -> Option<Utf8PathBuf> {
    ["report.html", "report.md", "report.json", "report.tex"]
        .map(|name| report_dir(dir).join(name))
        .into_iter()
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::totals;

    #[test]
    fn shares_add_what_is_none_is_left_out_and_a_part_is_never_all() {
        assert_eq!(
            totals([0, 0, 0, 45]),
            "0 of 45 runs succeeded (0 %), 45 left (100 %)"
        );
        assert_eq!(
            totals([2999, 1, 0, 0]),
            "2999 of 3000 runs succeeded (99 %), 1 failed (1 %)"
        );
        assert_eq!(totals([4, 0, 0, 0]), "4 of 4 runs succeeded (100 %)");
        assert_eq!(totals([0; 4]), "0 of 0 runs succeeded");
    }
}
