//! `cvc estimate`: the time of a program's I/O on sites, from a replay of its phases.

mod ior;
mod place;
mod row;
mod storage;

use super::phases::failed;
use crate::{
    args::EstimateArgs,
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output::{self, versioned},
};
use camino::Utf8Path;
use cvc_core::app::replay::{ReplayWorkload, of_model};
use cvc_core::campaign::Spec;
use cvc_core::mapping::Mapping;
use cvc_core::point::CheckpointerKind;
use cvc_core::units::duration;
use cvc_model::io_phase::error_on_time_pct;
use cvc_session::campaigns::{Askable, campaign_here, load_and_ask};
use cvc_show::{Blocks, Table};
use cvc_trace::phases::{IoModel, replay_program};
use ior::{IorTest, ior};
use place::{RunEnd, TrialPlace, TrialRuns};
use row::{CLASS, Printed, ReplayTime, Row};
use serde::Serialize;
use std::path::Path;
use storage::{interpolated, measure};

/// Number of processes that measure storage.
const MEASURED_PROCESSES: u32 = 4;

/// The output of `--json`.
#[derive(Serialize)]
struct EstimateOutput {
    processes: u32,
    mapping: String,
    traced_run_s: f64,
    traced_io_s: f64,
    /// Time of the traced run in phases that each take less than 1 % and are not replayed, seconds.
    left_out_s: f64,
    sentence: String,
    rows: Vec<Row>,
    assumptions: Vec<String>,
}

pub fn estimate(args: &EstimateArgs) -> Result<ExitStatus, Failure> {
    if let Some(path) = &args.measure {
        return measure_storage(args, path);
    }
    let path = args.model.as_deref().unwrap_or(Utf8Path::new(""));
    let model = IoModel::read(path.as_std_path()).map_err(failed)?;
    // check the model before anything is started
    replay_program(&model, args.options.options()).map_err(failed)?;
    let mapping = mapping_of(args, &model)?;
    let (rows, is_interrupted, remarks) = match &args.from {
        Some(from) => {
            let (rows, remarks) = interpolated(args, &model, from)?;
            (rows, false, remarks)
        }
        None => {
            let spec = campaign_of(args, args.file.as_deref(), model.processes)?;
            let replay = Replay {
                args,
                model: &model,
                tests: IorTest::all(&model, args.options.options()),
            };
            let (rows, is_interrupted) = runtime()?.block_on(async {
                let runs = TrialRuns::of(&spec, mapping.clone(), args.timeout)?;
                replay.rows(&runs).await
            })?;
            (rows, is_interrupted, Vec::new())
        }
    };
    let mut found = EstimateOutput::of(&model, args, &mapping, rows);
    found.assumptions.extend(remarks);
    output::answer(args.json, &versioned(&found), |out| found.show(out))?;
    Ok(if is_interrupted {
        output::note("stopped: the trial under way was ended, and nothing of it is left");
        ExitStatus::Interrupted
    } else if found.rows.iter().any(|row| row.io.is_some()) {
        ExitStatus::Done
    } else {
        ExitStatus::Installation
    })
}

/// Measures the storage of a campaign's sites, or of this machine.
fn measure_storage(args: &EstimateArgs, path: &Utf8Path) -> Result<ExitStatus, Failure> {
    let mapping = args.mapping.clone();
    let mapping = mapping.unwrap_or_else(|| Mapping::one_node(MEASURED_PROCESSES));
    // without a model, the first argument is the campaign file
    let spec = campaign_of(args, args.model.as_deref(), mapping.processes())?;
    runtime()?.block_on(async {
        let runs = TrialRuns::of(&spec, mapping, args.timeout)?;
        measure(args, &runs, path).await
    })
}

fn mapping_of(args: &EstimateArgs, model: &IoModel) -> Result<Mapping, Failure> {
    let mapping = args.mapping.clone();
    let mapping = mapping.unwrap_or_else(|| Mapping::one_node(model.processes));
    if mapping.processes() == model.processes {
        return Ok(mapping);
    }
    Err(Failure::Other {
        status: ExitStatus::Usage,
        message: format!(
            "the model has {} processes, and {mapping} has {}",
            model.processes,
            mapping.processes()
        ),
        hint: Some(
            "`cvc phases MODEL MODEL… --at N --write FILE` makes a model for N processes".into(),
        ),
    })
}

/// Returns the campaign that names the sites, or a campaign for this machine.
fn campaign_of(
    args: &EstimateArgs,
    file: Option<&Utf8Path>,
    processes: u32,
) -> Result<Spec, Failure> {
    let Some(file) = file else {
        return Ok(campaign_here(
            "estimate",
            processes,
            &[CheckpointerKind::None],
        )?);
    };
    let variant = args.which.variant.as_deref();
    let note = |what: &str| output::note(what);
    Ok(load_and_ask(file, variant, Askable::All, &note)?)
}

/// The phases to replay, and the options.
struct Replay<'a> {
    args: &'a EstimateArgs,
    model: &'a IoModel,
    tests: Vec<IorTest>,
}

impl Replay<'_> {
    /// Returns a row for each place (site, library, storage area) that was tried, and whether the user stopped the trials.
    async fn rows(&self, runs: &TrialRuns<'_>) -> Result<(Vec<Row>, bool), Failure> {
        let places = runs.places(self.args);
        if places.is_empty() {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: "no combination of site, MPI library and storage area matches the options".into(),
                hint: Some("the machines of EC2 exist only while their campaign runs: there, run `app = \"replay:MODEL\"` in a campaign".into()),
            });
        }
        let mut rows = Vec::new();
        for place in &places {
            match self.row(runs, place).await? {
                Some(row) => rows.push(row),
                None => return Ok((rows, true)),
            }
        }
        Ok((rows, false))
    }

    /// Replays the phases at a place (site, library, storage area). Returns `None` if the user stopped the replay.
    async fn row(
        &self,
        runs: &TrialRuns<'_>,
        place: &TrialPlace<'_>,
    ) -> Result<Option<Row>, Failure> {
        let workload = ReplayWorkload {
            name: CLASS,
            options: self.args.options.options(),
            repeats: self.args.repeats,
            sync: self.args.sync,
        };
        let app = of_model("replay", Path::new(""), self.model, &[workload]).map_err(failed)?;
        let mut row = Row::of(place);
        match runs.run(place, (app, CLASS), Printed::of).await {
            RunEnd::Printed(printed) => row.take(printed),
            RunEnd::Failed(problem) => row.problem = Some(problem),
            RunEnd::Interrupted => return Ok(None),
        }
        if row.problem.is_some() {
            return Ok(Some(row));
        }
        let options = (self.tests.as_slice(), self.args.repeats, self.args.sync);
        match ior(runs, place, &self.args.ior, options).await {
            RunEnd::Printed(Ok(times)) => row.take_ior(&times),
            RunEnd::Printed(Err(problem)) | RunEnd::Failed(problem) => {
                row.ior_problem = Some(problem)
            }
            RunEnd::Interrupted => return Ok(None),
        }
        Ok(Some(row))
    }
}

impl EstimateOutput {
    fn of(model: &IoModel, args: &EstimateArgs, mapping: &Mapping, mut rows: Vec<Row>) -> Self {
        for phase in rows.iter_mut().flat_map(|row| &mut row.phases) {
            let traced = model.phases.iter().find(|f| f.first == phase.first);
            phase.traced_s = traced.map_or(0.0, |f| f.io_s);
            phase.error_pct = error_on_time_pct(phase.each.mean_s, phase.traced_s).ok();
        }
        let is_left_out = |relevant: bool| !args.options.all && !relevant;
        let left_out = model.phases.iter().filter(|f| is_left_out(f.is_relevant));
        let mut assumptions = vec![
            "the traced program's computation is not repeated: only the time of its I/O is estimated".to_owned(),
        ];
        if !args.sync {
            assumptions.push("written data may stay in caches, as where the program does not sync; --sync waits until they are on disk".to_owned());
        }
        assumptions.extend(model.remarks.iter().cloned());
        Self {
            processes: model.processes,
            mapping: mapping.to_string(),
            traced_run_s: model.run_s,
            traced_io_s: model.io_s(),
            left_out_s: left_out.fold(0.0, |all, f| all + f.io_s * f64::from(f.count)),
            sentence: sentence(&rows),
            rows,
            assumptions,
        }
    }

    fn show(&self, out: &mut Blocks) {
        out.say(self.sentence.clone());
        out.gap();
        let head = [
            "site",
            "MPI library",
            "storage",
            "all I/O",
            "by IOR",
            "replay took",
        ];
        let mut table = Table::plain(head).right_from(3);
        for row in &self.rows {
            table.row([
                row.site.clone(),
                row.mpi.clone(),
                row.storage.clone(),
                row.io
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ReplayTime::text),
                seconds_or_dash(row.ior_s),
                row.replay_s.map_or_else(|| "-".to_owned(), duration),
            ]);
        }
        out.table(table);
        for row in &self.rows {
            let place = format!("{} in {} of {}", row.mpi, row.storage, row.site);
            if let Some(problem) = &row.problem {
                out.say(format!("{place}: {problem}"));
            }
            if let Some(date) = &row.measured_on {
                out.say(format!(
                    "{place}: interpolated from measurements of {date}, not repeated"
                ));
            }
            if let Some(problem) = &row.ior_problem {
                out.say(format!("{place}: no time by IOR: {problem}"));
            }
        }
        out.gap();
        let mut table = Table::plain([
            "where",
            "phase",
            "of these",
            "each",
            "by IOR",
            "in the traced run",
        ])
        .right_from(1);
        for row in &self.rows {
            for phase in &row.phases {
                table.row([
                    format!("{} {} {}", row.site, row.mpi, row.storage),
                    phase.first.to_string(),
                    phase.count.to_string(),
                    phase.each.text(),
                    seconds_or_dash(phase.ior_s),
                    format!("{:.3} s", phase.traced_s),
                ]);
            }
        }
        out.table(table);
        out.say(format!(
            "traced: {} of I/O in {}; phases that were not repeated took {} of it",
            duration(self.traced_io_s),
            duration(self.traced_run_s),
            duration(self.left_out_s)
        ));
        for text in &self.assumptions {
            out.say(format!("assumed: {text}"));
        }
    }
}

fn seconds_or_dash(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |s| format!("{s:.3} s"))
}

/// Describes which place is fastest, if the intervals show a difference.
fn sentence(rows: &[Row]) -> String {
    let mut timed: Vec<(&Row, &ReplayTime)> = rows
        .iter()
        .filter_map(|r| Some((r, r.io.as_ref()?)))
        .collect();
    timed.sort_by(|a, b| a.1.mean_s.total_cmp(&b.1.mean_s));
    let place = |row: &Row| format!("{} with {} in {}", row.site, row.mpi, row.storage);
    let Some((best, time)) = timed.first() else {
        return "There is no time of any place.".to_owned();
    };
    let text = format!("All I/O takes {} on {}.", time.text(), place(best));
    let Some((second, other)) = timed.get(1) else {
        return text;
    };
    let is_apart = matches!((time.high_s, other.low_s), (Some(high), Some(low)) if high < low);
    if is_apart {
        format!(
            "{text} That is the shortest time; the next is {}, {}.",
            place(second),
            other.text()
        )
    } else {
        let hint = match best.measured_on {
            Some(_) => "interpolated times have no interval",
            None => "repeat more often (--repeats)",
        };
        format!(
            "{text} It cannot be distinguished from {}, {}: {hint}.",
            place(second),
            other.text()
        )
    }
}
