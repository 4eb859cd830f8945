//! Several Darshan logs: a table of the jobs, their sum, and the files that several jobs access.

use super::read;
use crate::{
    args::TraceArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, emit},
    text::shown,
};
use camino::Utf8Path;
use cvc_core::units::{counted, duration, size};
use cvc_os::atomic_file::{Durability, write_by};
use cvc_show::{Blocks, Table, format::percent, or_dash};
use cvc_trace::document::{JobsDocument, write_files_csv, write_jobs_csv};
use cvc_trace::{
    TraceKind,
    jobs::{JobFilter, JobRow, Jobs, darshan_logs_below},
    kind_of,
};
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Maximum number of jobs and files listed.
const LISTED: usize = 15;

/// Returns the logs if the arguments are several logs of Darshan; `None` if they are one trace.
pub fn logs(args: &TraceArgs) -> Result<Option<Vec<PathBuf>>, Failure> {
    let (mut logs, mut is_deep) = (Vec::new(), false);
    for path in &args.files {
        // a run's directory is one trace, even if it has several logs
        if read::of_run(path) != *path {
            return one_trace(args);
        }
        let below = darshan_logs_below(path.as_std_path())
            .map_err(|e| unreadable(format!("cannot read {path}: {e}"), None))?;
        is_deep |= below
            .iter()
            .any(|log| path.is_dir() && log.parent() != Some(path.as_std_path()));
        logs.extend(below);
    }
    let is_log = |log: &PathBuf| {
        let name = log.as_os_str().as_encoded_bytes();
        name.ends_with(b".darshan")
            || name.ends_with(b".darshan_partial")
            || log.is_dir()
            || matches!(kind_of(std::slice::from_ref(log)), Ok(TraceKind::Darshan))
    };
    match (logs.len() > 1 || is_deep) && logs.iter().all(is_log) {
        true => Ok(Some(logs)),
        false => one_trace(args),
    }
}

/// Refuses options that only apply to several logs; otherwise returns `None`.
fn one_trace(args: &TraceArgs) -> Result<Option<Vec<PathBuf>>, Failure> {
    let given = [
        ("--files-csv", args.files_csv.is_some()),
        ("--job", !args.job.is_empty()),
        ("--path", !args.path.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(usage(
            format!("{option} is for several logs of Darshan, but this is one trace"),
            "give a directory with logs, or several of them",
        )),
        None => Ok(None),
    }
}

pub fn show(args: &TraceArgs, logs: &[PathBuf]) -> Result<ExitStatus, Failure> {
    let refused = [
        ("--html", args.html.is_some()),
        ("--perfetto", args.perfetto.is_some()),
        ("--images", !args.images.is_empty()),
        ("--aggregators", args.aggregators.is_some()),
        ("--thresholds", args.thresholds.is_some()),
        ("--gap", args.gap.is_some()),
    ];
    if let Some((option, _)) = refused.iter().find(|(_, is_given)| *is_given) {
        return Err(usage(
            format!(
                "{option} is for one trace, but these are {} logs",
                logs.len()
            ),
            "give one of the logs",
        ));
    }
    let mut jobs = Jobs::new(JobFilter {
        logs: args.job.clone(),
        files: args.path.clone(),
    });
    for log in logs {
        jobs.add(log);
    }
    if let (0, 0, Some(first)) = (jobs.rows.len(), jobs.left_out, jobs.unread.first()) {
        let message = format!(
            "none of {} logs can be read; the first is {}: {}",
            logs.len(),
            first.log.display(),
            first.problem
        );
        return Err(unreadable(message, None));
    }
    let document = JobsDocument::new(&jobs, args.all);
    if let Some(path) = &args.csv {
        write_csv(path, |to| write_jobs_csv(&document.jobs, to))?;
    }
    if let Some(path) = &args.files_csv {
        write_csv(path, |to| write_files_csv(&jobs.files(), to))?;
    }
    let mut tables = [&args.csv, &args.files_csv].into_iter().flatten();
    // with a table on standard output, nothing else is printed there
    if tables.any(|path| path == STANDARD_OUTPUT) {
        for unread in &jobs.unread {
            output::note(format_args!(
                "not read: {}: {}",
                unread.log.display(),
                unread.problem
            ));
        }
        return Ok(ExitStatus::Done);
    }
    output::answer(args.json, &document, |out| print(out, &document, args.all))?;
    if !args.json {
        for path in [&args.csv, &args.files_csv].into_iter().flatten() {
            emit(shown(path));
        }
    }
    Ok(ExitStatus::Done)
}

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Writes CSV to a file or to standard output.
fn write_csv(
    path: &Utf8Path,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    if path == STANDARD_OUTPUT {
        let mut out = BufWriter::new(output::shown());
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    write_by(path.as_ref(), Durability::Visible, |file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    })
    .map_err(|e| read::cannot_write(path.as_str(), &e))
}

fn last_part(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn print(out: &mut Blocks, of: &JobsDocument<'_>, all: bool) {
    let most = if all { usize::MAX } else { LISTED };
    let sum = &of.sum;
    let text = format!(
        "{} of {}, {} of run time: {} read, {} written; {} of the time of the processes in I/O.",
        counted(sum.jobs, "job"),
        counted(sum.processes, "process"),
        duration(sum.run_time_s),
        size(sum.read_bytes as f64),
        size(sum.written_bytes as f64),
        or_dash(sum.io_share, percent)
    );
    out.say(text);
    for unread in of.unread {
        let text = format!("not read: {}: {}", unread.log.display(), unread.problem);
        out.say(text);
    }
    if of.left_out > 0 {
        out.line(format!(
            "left out by --job: {}",
            counted(of.left_out, "job")
        ));
    }
    if of.more_files > 0 {
        out.line(format!("files too numerous to list: {}", of.more_files));
    }
    let with_notes: Vec<&&JobRow> = of.jobs.iter().filter(|job| !job.notes.is_empty()).collect();
    for job in with_notes.iter().take(most) {
        let text = format!("missing: {}: {}", last_part(&job.log), job.notes.join("; "));
        out.say(text);
    }
    if with_notes.len() > most {
        out.line(format!(
            "missing in {}; --all lists them",
            counted(with_notes.len() - most, "more job")
        ));
    }
    if !of.jobs.is_empty() {
        let rows = Table::of(
            of.jobs.iter(),
            &[
                ("log", &|j| last_part(&j.log)),
                ("program", &|j| last_part(Path::new(&j.program))),
                ("processes", &|j| j.processes.to_string()),
                ("run time", &|j| or_dash(j.run_time_s, duration)),
                ("read", &|j| size(j.read_bytes as f64)),
                ("written", &|j| size(j.written_bytes as f64)),
                ("MiB/s", &|j| or_dash(j.mib_s, |r| format!("{r:.1}"))),
                ("in I/O", &|j| or_dash(j.io_share, percent)),
            ],
        );
        out.gap();
        let rows = rows.wrap(&["log", "program"]);
        out.first_rows(rows, most, |n| more(n, "more job"));
    }
    if !of.files.is_empty() {
        let first = if all { "file" } else { "file of several jobs" };
        let rows = Table::of(
            of.files.iter(),
            &[
                (first, &|f| f.file.clone()),
                ("module", &|f| f.module.to_owned()),
                ("jobs", &|f| f.jobs.to_string()),
                ("reads", &|f| f.reads.to_string()),
                ("read", &|f| size(f.read_bytes as f64)),
                ("writes", &|f| f.writes.to_string()),
                ("written", &|f| size(f.written_bytes as f64)),
            ],
        );
        out.gap();
        out.first_rows(rows.wrap(&[first]), most, |n| more(n, "more file"));
    }
}

fn more(n: usize, what: &str) -> String {
    format!("and {}; --all lists them", counted(n, what))
}

fn usage(message: String, hint: &str) -> Failure {
    Failure::Other {
        status: ExitStatus::Usage,
        message,
        hint: Some(hint.to_owned()),
    }
}

fn unreadable(message: String, hint: Option<&str>) -> Failure {
    Failure::Other {
        status: ExitStatus::Unreadable,
        message,
        hint: hint.map(str::to_owned),
    }
}
