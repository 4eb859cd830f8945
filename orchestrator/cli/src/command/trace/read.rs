//! From files to what is said of them.

use crate::{args::TraceArgs, exit_status::ExitStatus, failure::Failure, output};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_trace::{
    EachRecord, Event, FileId, Missing, Process, ProcessId, Sink, TraceError, TraceOrigin,
    findings::{Asked, Thresholds, facts_of_profile, findings},
    profile::Profile,
    read_trace,
};
use cvc_trace_show::{Records, TraceDocument, TraceHead};
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Reads the files of one trace into a sink, and each record of counters into `each`; shows how far it is.
pub fn read(
    files: &[Utf8PathBuf],
    sink: &mut dyn Sink,
    each: EachRecord<'_>,
) -> Result<TraceOrigin, Failure> {
    let files = paths(files);
    let mut progress = Progress {
        sink,
        bar: output::bar(),
        started: Instant::now(),
        events: 0,
    };
    progress.bar.set_template("{msg}");
    let read = read_trace(&files, &mut progress, Some(each));
    progress.bar.finish_and_clear();
    read.map_err(explain)
}

/// Whether a trace has single operations, and not only counters.
pub fn has_events(files: &[Utf8PathBuf]) -> Result<bool, Failure> {
    cvc_trace::has_events(&paths(files)).map_err(explain)
}

fn paths(files: &[Utf8PathBuf]) -> Vec<PathBuf> {
    let path = |f: &Utf8PathBuf| of_run(f).into_std_path_buf();
    files.iter().map(path).collect()
}

/// A run's directory stands for the trace in it.
pub fn of_run(path: &Utf8Path) -> Utf8PathBuf {
    ["trace", "run.darshan"]
        .map(|name| path.join(name))
        .into_iter()
        .find(|inside| inside.exists())
        .unwrap_or_else(|| path.to_owned())
}

fn explain(error: TraceError) -> Failure {
    match error {
        TraceError::Sink(error) => Failure::from(error),
        error @ (TraceError::Read { .. } | TraceError::NotATrace { .. }) => {
            let text = error.to_string();
            // a reader that knows better than this says so itself
            let (message, hint) = text.split_once("; hint: ").unwrap_or((
                &text,
                "traces are logs of Darshan, files of `strace -ff -ttt -T -y`, and .pfw files of DFTracer; a run's directory stands for the trace in it",
            ));
            Failure::Other {
                status: ExitStatus::Unreadable,
                message: message.to_owned(),
                hint: Some(hint.to_owned()),
            }
        }
    }
}

pub fn cannot_write(path: &str, error: &io::Error) -> Failure {
    Failure::Other {
        status: ExitStatus::Internal,
        message: format!("cannot write {path}: {error}"),
        hint: None,
    }
}

pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Where a trace is from, as documents say it.
pub fn head(files: &[Utf8PathBuf], origin: &TraceOrigin) -> TraceHead {
    TraceHead {
        tracer: origin.kind.word().to_owned(),
        inputs: files.iter().map(ToString::to_string).collect(),
        format: origin.format.clone(),
        command: origin.command.clone(),
        ranks: origin.ranks,
        began_unix_s: origin.began_unix_ns.map(|ns| ns as f64 / 1e9),
        partial: origin.is_partial,
    }
}

/// Everything that is said of a trace. Findings of a Darshan log come from its counters, which have all operations; who wrote which places only
/// its segments tell.
pub fn document(
    args: &TraceArgs,
    origin: &TraceOrigin,
    profile: &Profile,
    records: Records,
    limits: &Thresholds,
) -> TraceDocument {
    let of_events = facts_of_profile(profile);
    let facts = match origin.counted() {
        Some(mut facts) => {
            facts.add_events(&of_events);
            facts
        }
        None => of_events,
    };
    let asked = Asked {
        aggregators: args.aggregators,
        in_campaign: args.files.iter().any(|path| of_run(path) != *path),
    };
    let found = findings(&facts, asked, limits);
    cvc_trace_show::document(
        head(&args.files, origin),
        profile,
        &found,
        args.gap.map(nanoseconds),
    )
    .with_counters(&origin.logs, records)
}

/// Counts events, and tells how many after a while.
struct Progress<'a> {
    sink: &'a mut dyn Sink,
    bar: output::Bar,
    started: Instant,
    events: u64,
}

/// Events between two looks at the clock.
const BETWEEN: u64 = 1 << 16;

impl Sink for Progress<'_> {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        self.sink.process(id, process)
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        self.sink.file(id, path)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.events += 1;
        if self.events.is_multiple_of(BETWEEN) && self.started.elapsed() > Duration::from_secs(1) {
            self.bar
                .set_message(&format!("{:.1} million events", self.events as f64 / 1e6));
        }
        self.sink.event(event)
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.sink.missing(missing)
    }
}
