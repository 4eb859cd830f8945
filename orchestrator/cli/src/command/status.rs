//! `cvc status`

use crate::{
    args::StatusArgs,
    command::{explain::plan_of, records::warn},
    display::{Varying, duration},
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::shown,
};
use camino::Utf8PathBuf;
use cvc_controller::runner::means_of;
use cvc_core::ids::{PointId, RunId};
use cvc_core::outcome::Outcome;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::point::{PlannedPoint, Repeat};
use cvc_core::record::names;
use cvc_core::store::CampaignDir;
use cvc_core::units::{counted, size};
use cvc_index::{UnsoundRecords, unsound_records};
use cvc_journal::{CampaignState, RunState};
use cvc_session::{
    campaigns::{campaign_dir, clock_warning},
    run_words::{MISSING, NOT_NEEDED, RunWords},
};
use cvc_show::{Blocks, Table, fits};
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};

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
    if args.json {
        output::print_json(&as_json(&dir, &plan, &state, &words, &unsound))?;
    } else {
        let mut out = Blocks::default();
        Progress::of(&dir, &plan, &state, &words).show(&mut out);
        output::print(&out)?;
    }
    Ok(state.completed)
}

fn as_json(
    dir: &CampaignDir,
    plan: &Plan,
    state: &CampaignState,
    words: &RunWords<'_>,
    unsound: &[UnsoundRecords],
) -> Value {
    let unsound: HashMap<&str, &str> = unsound
        .iter()
        .map(|of| (of.run.as_str(), of.records.as_str()))
        .collect();
    let run = |r: &PlannedRun| {
        let (word, detail) = words.of_run(r);
        let mut value = json!({ "run": r.id, "point": r.point, "repeat": r.repeat, "state": word, "detail": detail });
        if let Some(records) = unsound.get(r.id.as_str()) {
            value["records"] = (*records).into();
        }
        if let Some(output) = output_of(dir, state, r) {
            value["output"] = output.as_str().into();
        }
        value
    };
    let runs: Vec<Value> = plan.runs.iter().map(run).collect();
    json!({ "campaign": plan.campaign, "completed": state.completed, "runs": runs })
}

/// The runs of a point by their states, in the order of [`STATES`].
struct PointRow<'a> {
    planned: &'a PlannedPoint,
    counts: [u64; 4],
    measured: Vec<&'a RunId>,
}

/// How far a campaign is.
struct Progress<'a> {
    dir: &'a CampaignDir,
    plan: &'a Plan,
    state: &'a CampaignState,
    varying: Varying,
    rows: Vec<PointRow<'a>>,
    /// The last failure of each point, and the file with what the program said.
    failures: Vec<(String, Option<Utf8PathBuf>)>,
    total: [u64; 4],
    missing: u64,
    not_needed: u64,
}

impl<'a> Progress<'a> {
    fn of(
        dir: &'a CampaignDir,
        plan: &'a Plan,
        state: &'a CampaignState,
        words: &RunWords<'_>,
    ) -> Self {
        let mut all = Self {
            dir,
            plan,
            state,
            varying: Varying::of(plan.points.iter().map(|p| &p.point)),
            rows: Vec::new(),
            failures: Vec::new(),
            total: [0; 4],
            missing: 0,
            not_needed: 0,
        };
        let mut runs_of: HashMap<&PointId, Vec<&PlannedRun>> = HashMap::new();
        for run in &plan.runs {
            runs_of.entry(&run.point).or_default().push(run);
        }
        for planned in &plan.points {
            let runs = runs_of.get(&planned.id).into_iter().flatten();
            all.add_point(planned, runs.copied(), words);
        }
        all
    }

    fn add_point(
        &mut self,
        planned: &'a PlannedPoint,
        runs: impl Iterator<Item = &'a PlannedRun>,
        words: &RunWords<'_>,
    ) {
        let mut row = PointRow {
            planned,
            counts: [0; 4],
            measured: Vec::new(),
        };
        let mut last = None;
        for run in runs {
            let (word, detail) = words.of_run(run);
            if word == NOT_NEEDED {
                self.not_needed += 1;
                continue;
            }
            let column = match word {
                "succeeded" => 0,
                "failed" => 1,
                "skipped" | "quarantined" => 2,
                _ => 3,
            };
            self.missing += u64::from(word == MISSING);
            row.counts[column] += 1;
            self.total[column] += 1;
            if word == "succeeded" && matches!(run.repeat, Repeat::Measured(_)) {
                row.measured.push(&run.id);
            }
            if word == "failed" {
                let output = output_of(self.dir, self.state, run);
                last = Some((detail.unwrap_or_default(), output));
            }
        }
        if let Some((detail, output)) = last {
            let point = self.varying.show(&planned.point);
            self.failures.push((format!("{point}: {detail}"), output));
        }
        self.rows.push(row);
    }

    fn show(&self, out: &mut Blocks) {
        self.show_totals(out);
        let means = self.means_of_points();
        // as many quantities as the terminal has room for
        let quantities: Vec<usize> = (0..MEANS.len())
            .filter(|q| means.iter().any(|of| of[*q].is_some()))
            .collect();
        let fitting = (0..=quantities.len())
            .rev()
            .map(|n| self.points(&means, &quantities[..n]))
            .find(fits);
        out.gap();
        out.table(fitting.unwrap_or_else(|| self.points(&means, &[])));
        if !self.failures.is_empty() {
            out.heading("the last failure of each point:");
        }
        for (failure, output) in &self.failures {
            out.item(1, failure);
            if let Some(output) = output {
                out.line(format!("    output: {}", shown(output)));
            }
        }
    }

    fn show_totals(&self, out: &mut Blocks) {
        out.line(format!(
            "campaign {}: {}",
            self.plan.campaign,
            totals(self.total)
        ));
        if self.missing > 0 {
            let (their, them) = match self.missing {
                1 => ("its directory is", "it"),
                _ => ("their directories are", "them"),
            };
            out.line(format!(
                "{} of these had succeeded, and {their} missing: `cvc run` repeats {them}",
                self.missing
            ));
        }
        let decided = &self.state.decided;
        if self.not_needed > 0 {
            let wide = decided.values().filter(|d| !d.is_narrow).count();
            let wide = match wide {
                0 => String::new(),
                n => format!("; {} stayed wider than asked", counted(n, "point")),
            };
            out.line(format!(
                "{} not needed: the intervals of {} are known{wide}",
                counted(self.not_needed, "run"),
                counted(decided.len(), "point")
            ));
        }
        if let Some((_, last)) = self.state.span {
            let ago = match jiff::Timestamp::now().as_second() - last.as_second() {
                ..=0 => String::new(),
                seconds => format!(", {} ago", duration(seconds as f64)),
            };
            out.line(format!("last change: {last:.0}{ago}"));
        }
        match report_of(self.dir) {
            Some(report) => out.line(format!("report: {}", shown(&report))),
            None if self.total[0] + self.total[1] > 0 => out.line(format!(
                "report: none yet in {}; `cvc report` writes one",
                report_dir(self.dir)
            )),
            None => {}
        }
    }

    /// The table of the points: their runs by state, and the means of what was measured so far. Columns without anything are left out.
    fn points(&self, means: &[[Option<f64>; 3]], quantities: &[usize]) -> Table {
        let states: Vec<usize> = (0..STATES.len())
            .filter(|state| *state == 0 || self.total[*state] > 0)
            .collect();
        let names = || self.varying.names().iter().map(String::as_str);
        let heading = |state: &usize| match STATES[*state] {
            "succeeded" => "ok",
            other => other,
        };
        let header = names().chain(states.iter().map(heading));
        let mut table = Table::plain(header.chain(quantities.iter().map(|q| MEANS[*q].1)));
        for (row, means) in self.rows.iter().zip(means) {
            let levels = names().map(|n| row.planned.point.factor(n).unwrap_or_else(|| "-".into()));
            let counts = states.iter().map(|state| row.counts[*state].to_string());
            let means = quantities.iter().map(|q| match means[*q] {
                None => "-".to_owned(),
                Some(mean) if MEANS[*q].0 == names::CKPT_STORED_BYTES => size(mean),
                Some(mean) => duration(mean),
            });
            table.row(levels.chain(counts).chain(means));
        }
        table
    }

    /// The means of what was measured at each point; none where that would be too many runs to read.
    fn means_of_points(&self) -> Vec<[Option<f64>; 3]> {
        let of = |row: &PointRow<'_>| match self.total[0] {
            n if n > MOST_READ => [None; 3],
            _ => means(self.dir, &row.measured),
        };
        self.rows.iter().map(of).collect()
    }
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
