//! Reads a trace of any supported kind.

use crate::{
    darshan::{
        DarshanCompression, DarshanLog, DarshanSummary, EachRecord, read_dxt_after, summarize_each,
        version_2,
    },
    dftracer::read_dftracer_files,
    event::{Event, FileId, ProcessId},
    findings::{TraceFacts, facts_of_summary},
    jobs::uncounted_mpi_io,
    sink::{Missing, Process, Sink, TraceError},
    strace::read_strace_files,
};
use flate2::read::MultiGzDecoder;
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The tracer that wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// Darshan.
    Darshan,
    /// strace.
    Strace,
    /// DFTracer.
    DfTracer,
}

impl TraceKind {
    /// Returns the word used in campaign files and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Darshan => "darshan",
            Self::Strace => "strace",
            Self::DfTracer => "dftracer",
        }
    }
}

/// Where a trace comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOrigin {
    /// The tracer that wrote it.
    pub kind: TraceKind,
    /// Version of the format, if it has one.
    pub format: Option<String>,
    /// The command, if the trace records it.
    pub command: Option<String>,
    /// Number of ranks, if the trace records it.
    pub ranks: Option<u64>,
    /// Start of the trace, nanoseconds since 1970, if the trace records it.
    pub began_unix_ns: Option<u64>,
    /// Whether the run did not complete.
    pub is_partial: bool,
    /// Sums of the counters, for each Darshan log.
    pub logs: Vec<DarshanSummary>,
}

/// Reads the files of a trace, or directories with them. Passes events to a sink, and each record of counters to `each`. All files must be of the
/// same tracer.
///
/// # Errors
/// A file cannot be read or is not a trace, or the sink fails.
pub fn read_trace(
    paths: &[PathBuf],
    sink: &mut dyn Sink,
    each: Option<EachRecord<'_>>,
) -> Result<TraceOrigin, TraceError> {
    let kind = kind_of(paths)?;
    match kind {
        TraceKind::Darshan => read_darshan_logs(&all_logs(paths)?, sink, each),
        TraceKind::Strace | TraceKind::DfTracer => {
            let summary = if kind == TraceKind::Strace {
                read_strace_files(paths, sink)?
            } else {
                read_dftracer_files(paths, sink)?
            };
            Ok(TraceOrigin {
                kind,
                format: None,
                command: None,
                ranks: None,
                began_unix_ns: summary.began_unix_ns,
                is_partial: false,
                logs: Vec::new(),
            })
        }
    }
}

/// Detects the tracer that wrote the files, from their names and first bytes.
///
/// # Errors
/// A file cannot be read, there are no files, or the files are of different tracers.
pub fn kind_of(paths: &[PathBuf]) -> Result<TraceKind, TraceError> {
    let mut found: Option<(TraceKind, &Path)> = None;
    for path in paths {
        let kind = kind_of_one(path)?;
        match found {
            Some((known, first)) if known != kind => {
                return Err(TraceError::NotATrace {
                    path: path.clone(),
                    kind: "trace of the same tracer",
                    problem: format!(
                        "it is of {}, and {} is of {}; read them one after the other",
                        kind.word(),
                        first.display(),
                        known.word()
                    ),
                });
            }
            Some(_) => {}
            None => found = Some((kind, path)),
        }
    }
    found
        .map(|(kind, _)| kind)
        .ok_or_else(|| TraceError::NotATrace {
            path: PathBuf::new(),
            kind: "trace",
            problem: "no file was given".into(),
        })
}

fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> TraceError + '_ {
    move |error| TraceError::Read {
        path: path.to_owned(),
        error,
    }
}

fn kind_of_one(path: &Path) -> Result<TraceKind, TraceError> {
    if path.is_dir() {
        let entries = entries(path)?;
        let of = |endings: &[&str]| {
            entries
                .iter()
                .any(|p| endings.iter().any(|end| has_ending(p, end)))
        };
        if !entries.iter().any(|entry| entry.is_file()) {
            return Err(TraceError::NotATrace {
                path: path.to_owned(),
                kind: "directory with a trace",
                problem: "it has no files".into(),
            });
        }
        return Ok(if of(&[".darshan", ".darshan_partial"]) {
            TraceKind::Darshan
        } else if of(&[".pfw", ".pfw.gz"]) {
            TraceKind::DfTracer
        } else {
            TraceKind::Strace
        });
    }
    if [".darshan", ".darshan_partial"]
        .iter()
        .any(|end| has_ending(path, end))
    {
        return Ok(TraceKind::Darshan);
    }
    if [".pfw", ".pfw.gz"].iter().any(|end| has_ending(path, end)) {
        return Ok(TraceKind::DfTracer);
    }
    let first = first_bytes(path)?;
    // the version comes first, followed by the number that shows the byte order
    if first.starts_with(b"3.") && first.get(4..8) == Some(&[0; 4]) || version_2(&first).is_some() {
        return Ok(TraceKind::Darshan);
    }
    let text = first.trim_ascii_start();
    Ok(if text.starts_with(b"{") || text.starts_with(b"[\n") {
        TraceKind::DfTracer
    } else {
        TraceKind::Strace
    })
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let mut found = Vec::new();
    for entry in directory.read_dir().map_err(cannot_read(directory))? {
        found.push(entry.map_err(cannot_read(directory))?.path());
    }
    found.sort();
    Ok(found)
}

/// Returns whether a trace has single operations, which is true except for Darshan logs without DXT.
///
/// # Errors
/// The same as for [`read_trace`].
pub fn has_events(paths: &[PathBuf]) -> Result<bool, TraceError> {
    if kind_of(paths)? != TraceKind::Darshan {
        return Ok(true);
    }
    for path in all_logs(paths)? {
        if DarshanLog::open(&path)?.header().has_events() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn all_logs(paths: &[PathBuf]) -> Result<Vec<PathBuf>, TraceError> {
    let mut logs = Vec::new();
    for path in paths {
        logs.extend(logs_of(path)?);
    }
    Ok(logs)
}

fn logs_of(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut logs = entries(path)?;
    logs.retain(|p| has_ending(p, ".darshan") || has_ending(p, ".darshan_partial"));
    Ok(logs)
}

/// Returns the first bytes of a file, decompressed if it is gzip-compressed.
fn first_bytes(path: &Path) -> Result<Vec<u8>, TraceError> {
    let mut first = Vec::new();
    let file = File::open(path).map_err(cannot_read(path))?;
    file.take(64)
        .read_to_end(&mut first)
        .map_err(cannot_read(path))?;
    if first.starts_with(&[0x1f, 0x8b]) {
        let file = File::open(path).map_err(cannot_read(path))?;
        let mut unpacked = Vec::new();
        // data that cannot be decompressed are reported later, when the file is read
        if MultiGzDecoder::new(file)
            .take(64)
            .read_to_end(&mut unpacked)
            .is_ok()
        {
            return Ok(unpacked);
        }
    }
    Ok(first)
}

fn read_darshan_logs(
    logs: &[PathBuf],
    sink: &mut dyn Sink,
    mut each: Option<EachRecord<'_>>,
) -> Result<TraceOrigin, TraceError> {
    let mut origin = TraceOrigin {
        kind: TraceKind::Darshan,
        format: None,
        command: None,
        ranks: None,
        began_unix_ns: None,
        is_partial: false,
        logs: Vec::new(),
    };
    let mut shifted = Shifted {
        sink,
        of: (0, 0),
        next: (0, 0),
    };
    for path in logs {
        shifted.of = shifted.next;
        let log = DarshanLog::open(path)?;
        #[expect(
            clippy::option_as_ref_deref,
            reason = "the lifetime of the function is shorter in each round"
        )]
        let summary = summarize_each(
            log,
            each.as_mut().map(|each| -> EachRecord<'_> { &mut **each }),
        )?;
        for missing in &summary.missing {
            shifted.missing(missing).map_err(TraceError::Sink)?;
        }
        if let Some(problem) = uncounted_mpi_io(&summary) {
            let part = "module MPI-IO".to_owned();
            shifted
                .missing(&Missing { part, problem })
                .map_err(TraceError::Sink)?;
        }
        read_dxt_after(path, &summary, &mut shifted)?;
        origin.add(summary);
    }
    Ok(origin)
}

impl TraceOrigin {
    /// Returns the facts from which findings are derived, from the counters of all logs. `None`: the trace has no counters.
    #[must_use]
    pub fn counted(&self) -> Option<TraceFacts> {
        let mut logs = self.logs.iter().map(facts_of_summary);
        let mut facts = logs.next()?;
        facts.files.extend(logs.flat_map(|log| log.files));
        Some(facts)
    }

    /// Adds the metadata of a log. If there are several logs, the trace began with the earliest.
    fn add(&mut self, log: DarshanSummary) {
        self.is_partial |= log.header.compression == DarshanCompression::None;
        self.format.get_or_insert(log.header.version.clone());
        if let Some(job) = &log.job {
            let text = String::from_utf8_lossy(&job.command).into_owned();
            self.command.get_or_insert(text);
            self.is_partial |= job.end.is_none();
            let ranks = u64::try_from(job.ranks).unwrap_or(0);
            self.ranks = Some(self.ranks.unwrap_or(0).max(ranks));
            let began = u64::try_from(job.start.0).ok().map(|s| {
                s.saturating_mul(1_000_000_000)
                    .saturating_add(u64::try_from(job.start.1).unwrap_or(0))
            });
            self.began_unix_ns = match (self.began_unix_ns, began) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        self.logs.push(log);
    }
}

/// A sink that renumbers the processes and files of one log after another, so that IDs of different logs do not collide.
struct Shifted<'a> {
    sink: &'a mut dyn Sink,
    of: (u32, u32),
    next: (u32, u32),
}

impl Sink for Shifted<'_> {
    fn process(&mut self, id: ProcessId, process: &Process) -> io::Result<()> {
        let id = id.0.saturating_add(self.of.0);
        self.next.0 = self.next.0.max(id.saturating_add(1));
        self.sink.process(ProcessId(id), process)
    }

    fn file(&mut self, id: FileId, path: &[u8]) -> io::Result<()> {
        let id = id.0.saturating_add(self.of.1);
        self.next.1 = self.next.1.max(id.saturating_add(1));
        self.sink.file(FileId(id), path)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.sink.event(&Event {
            process: ProcessId(event.process.0.saturating_add(self.of.0)),
            file: FileId(event.file.0.saturating_add(self.of.1)),
            ..*event
        })
    }

    fn missing(&mut self, missing: &Missing) -> io::Result<()> {
        self.sink.missing(missing)
    }
}
