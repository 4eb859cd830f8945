//! `cvc phases`: a model of a program's I/O.

use super::{predict::forecast_of, trace::of_run as of_run_dir};
use crate::{
    args::{PhasesArgs, ReplayArgs},
    exit_status::ExitStatus,
    failure::Failure,
    machine::runtime,
    output,
};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_core::units::{counted, duration, size};
use cvc_engine::{kernels, tracer::MPI_IO_LOGS};
use cvc_prediction::images::planned_images;
use cvc_session::campaigns::campaign_dir;
use cvc_show::{Blocks, Table, phases_page};
use cvc_trace::phases::{
    IoFile, IoModel, Marks, PhaseError, PhaseFamily, ReplayOptions, ScaledPhase, Separation,
    checkpoint_model, io_model, planned_checkpoint, replay_program, scaled, scaled_phases,
    trace_model,
};
use std::fs;

/// Maximum number of kinds of call shown for a family of similar phases.
const MAX_ROWS: usize = 12;

pub(super) fn failed(error: PhaseError) -> Failure {
    let hint = match &error {
        PhaseError::Unreadable { .. } => {
            "`cvc phases DIR --write MODEL` makes a model from the logs of a run"
        }
        PhaseError::Io { .. } | PhaseError::Unusable(_) => {
            "`cvc phases --tracer mpicc` compiles the tracer and shows how to use it"
        }
    };
    Failure::Other {
        status: ExitStatus::Unreadable,
        message: error.to_string(),
        hint: Some(hint.to_owned()),
    }
}

impl ReplayArgs {
    pub(super) fn options(self) -> ReplayOptions {
        ReplayOptions {
            only_relevant: !self.all,
            most_phases: Some(self.most),
            think: self.think.clamp(0.0, 1.0),
        }
    }
}

pub fn phases(args: &PhasesArgs) -> Result<ExitStatus, Failure> {
    if let Some(mpicc) = &args.tracer {
        return tracer(mpicc);
    }
    let mut models = match &args.predict {
        Some(setting) => vec![predicted(args, setting)?],
        None => {
            let models = args.paths.iter().map(|path| {
                let path = traced_run(args, path)?;
                model_of(args, &path).map_err(failed)
            });
            models.collect::<Result<Vec<_>, _>>()?
        }
    };
    for model in &models {
        if args.ticks.is_some() && model.marks != Marks::Communication {
            output::note("--ticks has no effect: no communication was recorded");
        }
    }
    let (model, growth) = match args.at {
        Some(processes) => (
            scaled(&models, processes).map_err(failed)?,
            Some(scaled_phases(&models, processes).map_err(failed)?),
        ),
        None if models.len() > 1 => {
            return Err(Failure::Other {
                status: ExitStatus::Usage,
                message: "several models are given without a process count".into(),
                hint: Some("choose one with --at, as in --at 64".into()),
            });
        }
        None => (models.swap_remove(0), None),
    };
    if let Some(path) = &args.write {
        let text = serde_json::to_string_pretty(&model).unwrap_or_default() + "\n";
        write(path, &text)?;
    }
    if let Some(path) = &args.html {
        let page = phases_page(&model).map_err(|error| Failure::Other {
            status: ExitStatus::Internal,
            message: error.to_string(),
            hint: None,
        })?;
        write(path, &page)?;
    }
    if let Some(path) = &args.replay {
        write(
            path,
            &replay_program(&model, args.options.options()).map_err(failed)?,
        )?;
    }
    output::answer(args.json, &model, |out| {
        show(&model, growth.as_deref(), out);
    })?;
    Ok(ExitStatus::Done)
}

/// Returns the model of a predicted checkpoint.
fn predicted(args: &PhasesArgs, setting: &str) -> Result<IoModel, Failure> {
    let (forecasts, warnings) = forecast_of(setting, &args.paths, &args.place.campaigns)?;
    let planned = planned_images(&forecasts)?;
    let mut model = planned_checkpoint(&planned.images).map_err(failed)?;
    model.nodes = forecasts.question.setting.mapping.nodes();
    model
        .remarks
        .push(format!("predicted: {}", forecasts.label));
    model.remarks.extend(planned.notes);
    model.remarks.extend(warnings);
    model.remarks.extend(forecasts.warnings);
    Ok(model)
}

/// Returns the directory of a traced run if the path is a campaign; any other path unchanged.
fn traced_run(args: &PhasesArgs, path: &Utf8Path) -> Result<Utf8PathBuf, Failure> {
    let is_campaign = path.join("journal.jsonl").exists() || path.extension() == Some("toml");
    if args.run.is_none() && !is_campaign {
        return Ok(path.to_owned());
    }
    let dir = campaign_dir(path, None, &args.place.campaigns)?;
    let prefix = args.run.as_deref().unwrap_or("");
    let entries = dir.runs().read_dir_utf8().into_iter().flatten().flatten();
    let is_traced = |run: &Utf8PathBuf| run.join(MPI_IO_LOGS).is_dir() || of_run_dir(run) != *run;
    let mut runs: Vec<Utf8PathBuf> = entries
        .map(|entry| entry.into_path())
        .filter(|run| run.file_name().is_some_and(|n| n.starts_with(prefix)) && is_traced(run))
        .collect();
    runs.sort();
    if let [run] = runs.as_slice() {
        return Ok(run.clone());
    }
    let which = match &args.run {
        Some(run) => format!(" whose identifier begins with `{run}`"),
        None => String::new(),
    };
    let names: Vec<&str> = runs.iter().filter_map(|run| run.file_name()).collect();
    Err(Failure::Other {
        status: ExitStatus::Usage,
        message: format!("{path} has {}{which}", counted(runs.len(), "traced run")),
        hint: Some(match names.as_slice() {
            [] => "`tracer = \"mpi-io\"` in a campaign's matrix traces its runs".into(),
            names => format!("choose one with --run: {}", names.join(", ")),
        }),
    })
}

/// Reads the model from a file, or derives it from a trace: logs of the tracer for MPI-IO, images of a checkpoint, or a trace of another tracer. The
/// directory of a run is accepted in place of the trace in it.
fn model_of(args: &PhasesArgs, path: &Utf8Path) -> Result<IoModel, PhaseError> {
    let images = images_in(path);
    if !images.is_empty() {
        return checkpoint_model(&images);
    }
    if path.extension() == Some("json") || !path.exists() {
        return IoModel::read(path.as_std_path());
    }
    let of_run = path.join(MPI_IO_LOGS);
    let logs = if of_run.is_dir() { &of_run } else { path };
    let is_log = |path: &Utf8Path| path.extension() == Some("mpi-io");
    let entries = || logs.read_dir_utf8().into_iter().flatten().flatten();
    if logs.is_dir() && (entries().next().is_none() || entries().any(|e| is_log(e.path()))) {
        let separation = args.ticks.map_or(Separation::Gap, Separation::Ticks);
        return io_model(logs.as_std_path(), separation);
    }
    let trace = of_run_dir(path).into_std_path_buf();
    trace_model(&[trace], args.gap.map(|s| (s * 1e9) as u64))
}

/// Returns the path if it is an image of DMTCP, or the images in a directory.
fn images_in(path: &Utf8Path) -> Vec<Utf8PathBuf> {
    let is_image = |path: &Utf8Path| path.extension() == Some("dmtcp");
    if is_image(path) {
        return vec![path.to_owned()];
    }
    let entries = path.read_dir_utf8().into_iter().flatten().flatten();
    let mut images: Vec<Utf8PathBuf> = entries
        .map(|entry| entry.into_path())
        .filter(|path| is_image(path))
        .collect();
    images.sort();
    images
}

fn write(path: &Utf8Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::Other {
        status: ExitStatus::Host,
        message: format!("cannot write {path}: {error}"),
        hint: None,
    })
}

/// Compiles the tracer in the kernels' directory, and prints how to use it.
fn tracer(mpicc: &str) -> Result<ExitStatus, Failure> {
    let library = runtime()?
        .block_on(kernels::mpi_io_tracer(mpicc))
        .map_err(|missing| Failure::Other {
            status: ExitStatus::Installation,
            message: missing.what,
            hint: Some(missing.hint),
        })?;
    output::emit(format_args!(
        "{library}\n\nMPICH:    mpiexec -n 4 -env LD_PRELOAD {library} -env CVC_MPI_IO_TRACE DIR PROGRAM\n\
         Open MPI: mpirun -n 4 -x LD_PRELOAD={library} -x CVC_MPI_IO_TRACE=DIR PROGRAM\n\
         then:     cvc phases DIR --write model.json\n\nDIR must exist on every node; bring the logs of all nodes into one directory."
    ));
    Ok(ExitStatus::Done)
}

fn show(model: &IoModel, growth: Option<&[ScaledPhase]>, out: &mut Blocks) {
    out.say(sentence(model));
    out.gap();
    let mut files = Table::plain(["file", "how", "accesses", "written", "read"]).right_from(3);
    for file in &model.files {
        files.row([
            file.name.clone(),
            how(file),
            accesses(file),
            size(file.bytes_written as f64),
            size(file.bytes_read as f64),
        ]);
    }
    if !model.files.is_empty() {
        out.table(files);
        out.gap();
    }
    let mut rows = Table::plain([
        "phases",
        "calls of a process",
        "request",
        "each",
        "takes",
        "first byte",
    ]);
    for family in &model.phases {
        for row in rows_of(family) {
            rows.row(row);
        }
    }
    if !model.phases.is_empty() {
        out.table(rows);
        out.gap();
        out.say("first byte: rs is the request, idP the process from 0, np the number of processes, ph the phase of the row from 1");
    }
    out.say(separation(model));
    for phase in growth.into_iter().flatten() {
        out.say(format!(
            "phase {}: {} per process, {} in total",
            phase.first,
            size(phase.process_bytes),
            size(phase.weight_bytes)
        ));
    }
    for remark in &model.remarks {
        out.say(format!("note: {remark}"));
    }
}

/// Describes what separates the phases.
fn separation(model: &IoModel) -> String {
    match model.marks {
        Marks::Communication => format!(
            "a phase has at most {} between consecutive accesses (--ticks); if none were allowed, there would be {}",
            counted(model.most_ticks, "communicating call"),
            counted(model.phases_without_ticks, "phase")
        ),
        Marks::Gaps { gap_s } => {
            format!(
                "pauses of more than {} separate phases (--gap)",
                brief(gap_s)
            )
        }
        Marks::Image => "a checkpoint is one phase".to_owned(),
    }
}

fn sentence(model: &IoModel) -> String {
    let io_s = model.io_s();
    let part = if model.run_s > 0.0 {
        100.0 * io_s / model.run_s
    } else {
        0.0
    };
    format!(
        "{} of {}: {} in {}, {} of {} ({part:.1} %).",
        counted(model.phase_count(), "phase"),
        counted(model.processes, "process"),
        size(model.weight_bytes() as f64),
        counted(u32::try_from(model.files.len()).unwrap_or(u32::MAX), "file"),
        brief(io_s),
        brief(model.run_s)
    )
}

fn how(file: &IoFile) -> String {
    let shared = match (file.is_shared, file.processes <= 1) {
        (true, _) => "shared",
        (false, true) => "one process",
        (false, false) => "one of each process",
    };
    let new = if file.is_new_each_phase {
        ", several"
    } else {
        ""
    };
    format!("{shared}{new}, {}", file.access)
}

fn accesses(file: &IoFile) -> String {
    if file.interface == "posix" {
        return "POSIX".to_owned();
    }
    let collective = if file.is_collective {
        "collective"
    } else {
        "independent"
    };
    let blocking = if file.is_blocking {
        ""
    } else {
        ", non-blocking"
    };
    format!(
        "{}, {collective}{blocking}, etype {}",
        file.pointers.join(" and "),
        file.etype_bytes
    )
}

/// Returns one row for each kind of call of a family of phases; the first row also has the family's numbers.
fn rows_of(family: &PhaseFamily) -> Vec<[String; 6]> {
    let last = family.first + family.count - 1;
    let numbers = if family.count > 1 {
        format!("{} to {last}", family.first)
    } else {
        family.first.to_string()
    };
    let (mut rows, mut is_first, mut left_out) = (Vec::new(), true, 0);
    for part in &family.loops {
        for op in &part.ops {
            let calls = op.calls() * part.rounds;
            let times = if calls > 1 {
                format!("{calls} ")
            } else {
                String::new()
            };
            let head = |text: String| if is_first { text } else { String::new() };
            let request = short_size(op.request_bytes.get(0));
            if rows.len() == MAX_ROWS {
                left_out += 1;
                continue;
            }
            rows.push([
                head(numbers.clone()),
                format!("{times}{}", op.call()),
                request,
                head(short_size(family.weight_bytes as i64)),
                head(short(family)),
                op.formula.clone(),
            ]);
            is_first = false;
        }
    }
    if left_out > 0 {
        let mut row: [String; 6] = Default::default();
        row[1] = format!("{left_out} more (--json has all)");
        rows.push(row);
    }
    rows
}

/// Formats a size; below a KiB in bytes.
fn short_size(bytes: i64) -> String {
    match bytes {
        0 => "-".to_owned(),
        1..1024 => format!("{bytes} B"),
        _ => size(bytes as f64),
    }
}

fn short(family: &PhaseFamily) -> String {
    let mark = if family.is_relevant {
        ""
    } else {
        " (below 1 %)"
    };
    format!("{}{mark}", brief(family.io_s))
}

/// Formats a time in seconds, below ten in milliseconds.
fn brief(seconds: f64) -> String {
    match seconds {
        0.0..10.0 => format!("{:.1} ms", 1e3 * seconds),
        _ => duration(seconds),
    }
}
