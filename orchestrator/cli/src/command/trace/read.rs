//! Reads trace files and describes their content.

use crate::{args::TraceArgs, exit_status::ExitStatus, failure::Failure, output};
use camino::{Utf8Path, Utf8PathBuf};
use cvc_trace::document::{CounterRecords, TraceDocument, TraceHead};
use cvc_trace::{
    EachRecord, Event, FileId, Missing, Process, ProcessId, Sink, TraceError, TraceOrigin,
    findings::{RequestedSettings, Thresholds, facts_of_profile, findings},
    profile::Profile,
    read_trace,
};
use std::{
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Reads the files of one trace into a sink, passes each record of counters to `each`, and shows the progress.
pub fn read(
    files: &[Utf8PathBuf],
    sink: &mut dyn Sink,
    each: EachRecord<'_>,
) -> Result<TraceOrigin, Failure> {
    let files = paths(files);
    let mut progress = EventProgress {
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

/// Returns whether a trace contains single operations, not only counters.
pub fn has_events(files: &[Utf8PathBuf]) -> Result<bool, Failure> {
    cvc_trace::has_events(&paths(files)).map_err(explain)
}

fn paths(files: &[Utf8PathBuf]) -> Vec<PathBuf> {
    let path = |f: &Utf8PathBuf| of_run(f).into_std_path_buf();
    files.iter().map(path).collect()
}

/// Returns the path of the trace in a run's directory; any other path unchanged.
pub fn of_run(path: &Utf8Path) -> Utf8PathBuf {
    ["trace", "run.darshan", "dftracer"]
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
            // the hint of a more specific reader takes precedence
            let (message, hint) = text.split_once("; hint: ").unwrap_or((
                &text,
                "traces are logs of Darshan, files of `strace -ff -ttt -T -y`, and .pfw files of DFTracer; a run's directory gives the trace in it",
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

/// Returns the head of the JSON document: the files and the origin of a trace.
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

/// Describes a trace. For a Darshan log, findings come from its counters, which include all operations; only its segments show which process wrote
/// which range.
pub fn document(
    args: &TraceArgs,
    origin: &TraceOrigin,
    profile: &Profile,
    records: CounterRecords,
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
    let asked = RequestedSettings {
        aggregators: args.aggregators,
        in_campaign: args.files.iter().any(|path| of_run(path) != *path),
    };
    let found = findings(&facts, asked, limits);
    cvc_trace::document::document(
        head(&args.files, origin),
        profile,
        &found,
        args.gap.map(nanoseconds),
    )
    .with_counters(&origin.logs, records)
}

/// Counts the events read, and after some time shows their number.
struct EventProgress<'a> {
    sink: &'a mut dyn Sink,
    bar: output::Bar,
    started: Instant,
    events: u64,
}

/// Number of events between two reads of the clock.
const BETWEEN: u64 = 1 << 16;

impl Sink for EventProgress<'_> {
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
