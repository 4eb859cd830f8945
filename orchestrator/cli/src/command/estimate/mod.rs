//! `cvc estimate`: the time of a program's I/O on sites, from a replay of its phases.

mod by_size;
mod choice;
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
use choice::{ChoiceBy, PlaceChoice, WholeRun, sentence};
use cvc_core::app::replay::{ReplayWorkload, of_model};
use cvc_core::campaign::Spec;
use cvc_core::mapping::Mapping;
use cvc_core::point::CheckpointerKind;
use cvc_core::units::{dollars, duration};
use cvc_session::campaigns::{Askable, campaign_here, load_and_ask};
use cvc_show::{Blocks, Table, or_dash};
use cvc_trace::phases::{IoModel, replay_program};
use ior::{IorTest, ior};
use place::{RunEnd, TrialPlace, TrialRuns};
use row::{CLASS, Printed, ReplayTime, Row};
use serde::Serialize;
use std::path::Path;
use storage::{StorageProfile, interpolated, measure};

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
    /// The best places, if there are several: the fastest, and the cheapest if prices are known.
    choices: Vec<PlaceChoice>,
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
    let (found, is_interrupted) = match &args.from {
        Some(from) => (from_storage(args, &model, &mapping, from)?, false),
        None => replayed(args, &model, &mapping)?,
    };
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

/// Estimates from measured storage. A campaign file gives only the prices of its sites.
fn from_storage(
    args: &EstimateArgs,
    model: &IoModel,
    mapping: &Mapping,
    from: &Utf8Path,
) -> Result<EstimateOutput, Failure> {
    let spec = args.file.as_deref();
    let spec = spec.map(|file| campaign_of(args, Some(file), model.processes));
    let spec = spec.transpose()?;
    let whole = WholeRun::of(args, model, spec.as_ref(), mapping);
    let (rows, remarks) = interpolated(args, model, from)?;
    whole.check_sites(rows.iter().map(|row| row.site.as_str()))?;
    let mut found = EstimateOutput::of(model, &whole, (args, mapping), rows);
    found.assumptions.extend(remarks);
    Ok(found)
}

/// Estimates by replays. Also returns whether the user stopped them.
fn replayed(
    args: &EstimateArgs,
    model: &IoModel,
    mapping: &Mapping,
) -> Result<(EstimateOutput, bool), Failure> {
    let spec = campaign_of(args, args.file.as_deref(), model.processes)?;
    let whole = WholeRun::of(args, model, Some(&spec), mapping);
    whole.check_sites(spec.sites.keys().map(String::as_str))?;
    let profile = args.by_size.as_deref().map(StorageProfile::read_measured);
    let profile = profile.transpose()?;
    let replay = Replay {
        args,
        model,
        tests: IorTest::all(model, args.options.options()),
    };
    let (mut rows, is_interrupted) = runtime()?.block_on(async {
        let runs = TrialRuns::of(&spec, mapping.clone(), args.timeout)?;
        replay.rows(&runs).await
    })?;
    if let Some(profile) = &profile {
        for row in &mut rows {
            let laws = profile.laws(row, args.sync);
            row.take_by_size(model, &laws);
        }
    }
    let found = EstimateOutput::of(model, &whole, (args, mapping), rows);
    Ok((found, is_interrupted))
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
            device: true,
        };
        let app = of_model("replay", Path::new(""), self.model, &[workload]).map_err(failed)?;
        let mut row = Row::of(place.name, place.mpi, place.storage);
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
    fn of(
        model: &IoModel,
        whole: &WholeRun<'_>,
        (args, mapping): (&EstimateArgs, &Mapping),
        mut rows: Vec<Row>,
    ) -> Self {
        for row in &mut rows {
            for phase in &mut row.phases {
                phase.compare(model, row.device);
            }
            whole.complete(row);
        }
        let by_time = match rows.iter().any(|row| row.run.is_some()) {
            true => ChoiceBy::RunTime,
            false => ChoiceBy::IoTime,
        };
        let choices = [by_time, ChoiceBy::Dollars].map(|by| PlaceChoice::among(&rows, by));
        let choices: Vec<PlaceChoice> = choices.into_iter().flatten().collect();
        let mut assumptions = whole.assumptions();
        if choices.iter().any(|choice| choice.probability.is_some()) {
            assumptions.push("probabilities follow from the repeats of one replay at each place, not from other days or loads".to_owned());
        }
        let mut phases = rows.iter().flat_map(|row| &row.phases);
        if phases.any(|phase| phase.device_pct > Some(100.0)) {
            assumptions.push("phases that are faster than the device's direct writes and reads are held by caches".to_owned());
        }
        if !args.sync {
            assumptions.push("written data may stay in caches, as where the program does not sync; --sync waits until they are on disk".to_owned());
        }
        assumptions.extend(model.remarks.iter().cloned());
        Self {
            processes: model.processes,
            mapping: mapping.to_string(),
            traced_run_s: model.run_s,
            traced_io_s: model.io_s(),
            left_out_s: whole.left_out_s(),
            sentence: sentence(&rows, &choices),
            choices,
            rows,
            assumptions,
        }
    }

    fn show(&self, out: &mut Blocks) {
        out.say(self.sentence.clone());
        out.gap();
        let time = |time: &Option<ReplayTime>| or_dash(time.as_ref(), ReplayTime::text);
        let table = Table::of(
            &self.rows,
            &[
                ("site", &|row| row.site.clone()),
                ("MPI library", &|row| row.mpi.clone()),
                ("storage", &|row| row.storage.clone()),
                ("all I/O", &|row| time(&row.io)),
                ("by IOR", &|row| seconds_or_dash(row.ior_s)),
                ("by size", &|row| seconds_or_dash(row.by_size_s)),
                ("whole run", &|row| time(&row.run)),
                ("costs", &|row| or_dash(row.usd, dollars)),
                ("replay took", &|row| or_dash(row.replay_s, duration)),
            ],
        );
        out.table(table.right_from(3));
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
            if let Some(problem) = &row.by_size_problem {
                out.say(format!("{place}: no time by size: {problem}"));
            }
            if let Some(problem) = &row.ior_problem {
                out.say(format!("{place}: no time by IOR: {problem}"));
            }
        }
        self.show_devices(out);
        out.gap();
        let mut table = Table::plain([
            "where",
            "phase",
            "of these",
            "each",
            "of the device",
            "by IOR",
            "by size",
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
                    or_dash(phase.device_pct, |pct| format!("{pct:.0} %")),
                    seconds_or_dash(phase.ior_s),
                    seconds_or_dash(phase.by_size_s),
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
        let mut priced: Vec<String> = self.rows.iter().filter_map(Row::priced).collect();
        priced.dedup();
        for text in priced {
            out.say(text);
        }
        for text in &self.assumptions {
            out.say(format!("assumed: {text}"));
        }
    }

    /// Prints the rates of the devices.
    fn show_devices(&self, out: &mut Blocks) {
        for row in &self.rows {
            let place = format!("{} in {} of {}", row.mpi, row.storage, row.site);
            if let Some(rate) = &row.device {
                out.say(format!(
                    "{place}: direct writes {:.1} MiB/s, direct reads {:.1} MiB/s",
                    rate.write_mib_s, rate.read_mib_s
                ));
            }
            if let Some(problem) = &row.device_problem {
                out.say(format!("{place}: no rate of the device: {problem}"));
            }
        }
    }
}

fn seconds_or_dash(seconds: Option<f64>) -> String {
    or_dash(seconds, |s| format!("{s:.3} s"))
}
