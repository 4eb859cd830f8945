//! `cvc status`

use crate::{
    args::StatusArgs,
    command::{explain::plan_of, records::warn},
    display::duration,
    exit_status::ExitStatus,
    failure::Failure,
    output,
    text::shown,
};
use camino::Utf8PathBuf;
use cvc_core::plan::{Plan, PlannedRun};
use cvc_core::record::names;
use cvc_core::store::CampaignDir;
use cvc_core::units::{counted, size};
use cvc_index::{UnsoundRecords, unsound_records};
use cvc_journal::CampaignState;
use cvc_session::{
    campaigns::{campaign_dir, clock_warning},
    progress::{Activity, CampaignProgress, MEANS, RunCounts, output_of, percent},
    run_words::RunWords,
};
use cvc_show::{Blocks, Table, fits};
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};

pub fn status(args: &StatusArgs) -> Result<ExitStatus, Failure> {
    let Some(pause) = args.watch else {
        show_once(args, true)?;
        return Ok(ExitStatus::Done);
    };
    let mut is_first = true;
    loop {
        output::clear_screen();
        if show_once(args, is_first)?.completed {
            return Ok(ExitStatus::Done);
        }
        is_first = false;
        output::check()?;
        std::thread::sleep(Duration::from_secs_f64(pause));
    }
}

/// Prints the current progress. The first time, reads the records of all runs and reports changed ones.
fn show_once(args: &StatusArgs, is_first: bool) -> Result<CampaignState, Failure> {
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
        output::print_json(&output::versioned(as_json(
            &dir, &plan, &state, &words, &unsound,
        )))?;
    } else {
        let mut out = Blocks::default();
        StatusView::of(&dir, &plan, &state, &words).show(&mut out);
        output::print(&out)?;
    }
    Ok(state)
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

/// The data of a campaign that `cvc status` shows.
struct StatusView<'a> {
    dir: &'a CampaignDir,
    plan: &'a Plan,
    state: &'a CampaignState,
    of: CampaignProgress<'a>,
}

impl<'a> StatusView<'a> {
    fn of(
        dir: &'a CampaignDir,
        plan: &'a Plan,
        state: &'a CampaignState,
        words: &RunWords<'_>,
    ) -> Self {
        Self {
            dir,
            plan,
            state,
            of: CampaignProgress::of(dir, plan, state, words),
        }
    }

    fn show(&self, out: &mut Blocks) {
        self.show_totals(out);
        let means = self.of.means(self.dir);
        // as many quantities as fit the terminal's width
        let quantities: Vec<usize> = (0..MEANS.len())
            .filter(|q| means.iter().any(|of| of[*q].is_some()))
            .collect();
        let fitting = (0..=quantities.len())
            .rev()
            .map(|n| self.points(&means, &quantities[..n]))
            .find(fits);
        out.gap();
        out.table(fitting.unwrap_or_else(|| self.points(&means, &[])));
        let failures = self.of.points.iter().filter_map(|point| {
            let (detail, output) = point.failure.as_ref()?;
            let name = self.of.varying.show(&point.planned.point);
            Some((format!("{name}: {detail}"), output))
        });
        for (i, (failure, output)) in failures.enumerate() {
            if i == 0 {
                out.heading("the last failure of each point:");
            }
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
            totals(&self.of.total)
        ));
        if self.of.missing > 0 {
            let (their, them) = match self.of.missing {
                1 => ("its directory is", "it"),
                _ => ("their directories are", "them"),
            };
            out.line(format!(
                "{} of these succeeded, but {their} missing: `cvc run` repeats {them}",
                self.of.missing
            ));
        }
        let decided = &self.state.decided;
        if self.of.total.not_needed > 0 {
            let wide = decided.values().filter(|d| !d.is_narrow).count();
            let wide = match wide {
                0 => String::new(),
                n => format!("; {} remained wider than requested", counted(n, "point")),
            };
            out.line(format!(
                "{} not needed: the intervals of {} are known{wide}",
                counted(self.of.total.not_needed, "run"),
                counted(decided.len(), "point")
            ));
        }
        if let Some((_, last)) = self.state.span {
            let ago = match jiff::Timestamp::now().as_second() - last.as_second() {
                ..=0 => String::new(),
                seconds => format!(", {} ago", duration(seconds as f64)),
            };
            let activity = match Activity::of(self.dir, self.state) {
                Activity::Complete => String::new(),
                activity => format!("; {activity}"),
            };
            out.line(format!("last change: {last:.0}{ago}{activity}"));
        }
        if let Some(left_s) = self.of.left_s {
            out.line(format!(
                "time left: about {}, if runs are sequential",
                duration(left_s)
            ));
        }
        match report_of(self.dir) {
            Some(report) => out.line(format!("report: {}", shown(&report))),
            None if self.of.total.succeeded + self.of.total.failed > 0 => out.line(format!(
                "report: none yet in {}; `cvc report` writes one",
                report_dir(self.dir)
            )),
            None => {}
        }
    }

    /// Returns the table of the points: their runs by state, and the means of the measurements so far. Empty columns are omitted.
    fn points(&self, means: &[[Option<f64>; 3]], quantities: &[usize]) -> Table {
        let states: Vec<usize> = (0..STATES.len())
            .filter(|state| *state == 0 || counts(&self.of.total)[*state] > 0)
            .collect();
        let names = || self.of.varying.names().iter().map(String::as_str);
        let heading = |state: &usize| match STATES[*state] {
            "succeeded" => "ok",
            other => other,
        };
        let header = names().chain(states.iter().map(heading));
        let mut table = Table::plain(header.chain(quantities.iter().map(|q| HEADINGS[*q])));
        for (row, means) in self.of.points.iter().zip(means) {
            let levels = names().map(|n| row.planned.point.factor(n).unwrap_or_else(|| "-".into()));
            let of_states = counts(&row.counts);
            let numbers = states.iter().map(|state| of_states[*state].to_string());
            let means = quantities.iter().map(|q| match means[*q] {
                None => "-".to_owned(),
                Some(mean) if MEANS[*q] == names::CKPT_STORED_BYTES => size(mean),
                Some(mean) => duration(mean),
            });
            table.row(levels.chain(numbers).chain(means));
        }
        table
    }
}

/// States of runs that have a count, in the order of the table's columns.
const STATES: [&str; 4] = ["succeeded", "failed", "skipped", "left"];

/// Returns the counts in the order of [`STATES`].
const fn counts(of: &RunCounts) -> [u64; 4] {
    [of.succeeded, of.failed, of.skipped, of.left]
}

/// Headings for the quantities in [`MEANS`].
const HEADINGS: [&str; 3] = ["wall time", "checkpoint", "stored"];

/// Describes how many runs are in each state, with percentages; states without runs are omitted.
fn totals(total: &RunCounts) -> String {
    let all = total.all();
    let share =
        |count: u64| percent(count, all).map_or_else(String::new, |share| format!(" ({share} %)"));
    let others: String = STATES
        .iter()
        .zip(counts(total))
        .skip(1)
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!(", {count} {state}{}", share(count)))
        .collect();
    format!(
        "{} of {} succeeded{}{others}",
        total.succeeded,
        counted(all, "run"),
        share(total.succeeded)
    )
}

/// Returns the default directory of the report of `cvc run` and `cvc report`.
fn report_dir(dir: &CampaignDir) -> Utf8PathBuf {
    Utf8PathBuf::from("reports").join(dir.root().file_name().unwrap_or("campaign"))
}

/// Returns the main file of the report in its default directory; `None` if there is none.
fn report_of(dir: &CampaignDir) -> Option<Utf8PathBuf> {
    ["report.html", "report.md", "report.json", "report.tex"]
        .map(|name| report_dir(dir).join(name))
        .into_iter()
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::totals;
    use cvc_session::progress::RunCounts;

    #[test]
    fn shares_add_what_is_none_is_left_out_and_a_part_is_never_all() {
        let shown = |[succeeded, failed, skipped, left]: [u64; 4]| {
            totals(&RunCounts {
                succeeded,
                failed,
                skipped,
                left,
                not_needed: 0,
            })
        };
        assert_eq!(
            shown([0, 0, 0, 45]),
            "0 of 45 runs succeeded (0 %), 45 left (100 %)"
        );
        assert_eq!(
            shown([2999, 1, 0, 0]),
            "2999 of 3000 runs succeeded (99 %), 1 failed (1 %)"
        );
        assert_eq!(shown([4, 0, 0, 0]), "4 of 4 runs succeeded (100 %)");
        assert_eq!(shown([0; 4]), "0 of 0 runs succeeded");
    }
}
