//! Several Darshan logs: a table of jobs, their sum, and the files that several of them touch.

use super::read;
use crate::{
    args::TraceArgs,
    exit_status::ExitStatus,
    failure::Failure,
    output::{self, tell},
    text::shown,
};
use camino::Utf8Path;
use cvc_core::units::{counted, duration, size};
use cvc_os::atomic_file::{Durability, write_by};
use cvc_show::{Blocks, Table};
use cvc_trace::{
    TraceKind,
    jobs::{JobFilter, JobRow, Jobs, darshan_logs_below},
    kind_of,
};
use cvc_trace_show::{JobsDocument, write_files_csv, write_jobs_csv};
use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Jobs and files that are listed at most.
const LISTED: usize = 15;

/// The logs, if these are several logs of Darshan; `None` of one trace.
pub fn logs(args: &TraceArgs) -> Result<Option<Vec<PathBuf>>, Failure> {
    let (mut logs, mut is_deep) = (Vec::new(), false);
    for path in &args.files {
        // a run has one trace, also of several logs
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

/// Refuses what only several logs have.
fn one_trace(args: &TraceArgs) -> Result<Option<Vec<PathBuf>>, Failure> {
    let given = [
        ("--files-csv", args.files_csv.is_some()),
        ("--job", !args.job.is_empty()),
        ("--path", !args.path.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(usage(
            format!("{option} is for several logs of Darshan, and this is one trace"),
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
                "{option} is for one trace, and these are {} logs",
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
    let mut is_written = false;
    if let Some(path) = &args.csv {
        is_written |= write_csv(path, |to| write_jobs_csv(&document.jobs, to))?;
    }
    if let Some(path) = &args.files_csv {
        is_written |= write_csv(path, |to| write_files_csv(&jobs.files(), to))?;
    }
    if is_written {
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
            tell(shown(path));
        }
    }
    Ok(ExitStatus::Done)
}

/// Writes CSV. Returns whether it went to standard output, to which nothing else is written then.
fn write_csv(
    path: &Utf8Path,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<bool, Failure> {
    if path == "-" {
        let mut out = BufWriter::new(output::shown());
        write(&mut out)?;
        out.flush()?;
        return Ok(true);
    }
    write_by(path.as_ref(), Durability::Visible, |file| {
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()
    })
    .map_err(|e| read::cannot_write(path.as_str(), &e))?;
    Ok(false)
}

fn last_part(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn print(out: &mut Blocks, of: &JobsDocument<'_>, all: bool) {
    let most = if all { usize::MAX } else { LISTED };
    let sum = &of.sum;
    let text = format!(
        "{} of {}, {} of run time: {} read, {} written; {} of the time of the processes in I/O.",
        counted(sum.jobs, "job"),
        match sum.processes {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        },
        duration(sum.run_time_s),
        size(sum.read_bytes as f64),
        size(sum.written_bytes as f64),
        percent(sum.io_share)
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
        out.line(format!(
            "files of which there are too many to list: {}",
            of.more_files
        ));
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
        out.gap();
        let head = [
            "log",
            "program",
            "processes",
            "run time",
            "read",
            "written",
            "MiB/s",
            "in I/O",
        ];
        let mut rows = Table::plain(head).wrap(&["log", "program"]);
        for job in of.jobs.iter().take(most) {
            rows.row([
                last_part(&job.log),
                last_part(Path::new(&job.program)),
                job.processes.to_string(),
                job.run_time_s.map_or_else(|| "-".to_owned(), duration),
                size(job.read_bytes as f64),
                size(job.written_bytes as f64),
                job.mib_s
                    .map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}")),
                percent(job.io_share),
            ]);
        }
        out.table(rows);
        if of.jobs.len() > most {
            out.line(format!(
                "and {}; --all lists them",
                counted(of.jobs.len() - most, "more job")
            ));
        }
    }
    let several = of.files.len();
    if several > 0 {
        out.gap();
        let first = if all { "file" } else { "file of several jobs" };
        let head = [
            first, "module", "jobs", "reads", "read", "writes", "written",
        ];
        let mut rows = Table::plain(head).wrap(&[first]);
        for file in of.files.iter().take(most) {
            rows.row([
                file.file.clone(),
                file.module.to_owned(),
                file.jobs.to_string(),
                file.reads.to_string(),
                size(file.read_bytes as f64),
                file.writes.to_string(),
                size(file.written_bytes as f64),
            ]);
        }
        out.table(rows);
        if several > most {
            out.line(format!(
                "and {}; --all lists them",
                counted(several - most, "more file")
            ));
        }
    }
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
