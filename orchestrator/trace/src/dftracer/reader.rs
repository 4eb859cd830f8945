//! Reads the lines of a trace.

use super::{
    line::{DftracerLine, json_of},
    state::{DftracerState, NameTable},
};
use crate::{
    event::Api,
    lines::{LineStep, Lines, Text, files_below, is_damage, open, unpacked},
    sink::{Sink, TextSummary, TraceError},
};
use std::{
    borrow::Cow,
    io::{self, Read},
    path::{Path, PathBuf},
};

const KIND: &str = "trace of DFTracer";
/// Maximum number of invalid lines that are reported individually.
const NAMED_LINES: u64 = 5;
/// Reading stops after this many lines without an event.
const MAX_NOISE_AT_BEGIN: u64 = 1000;

fn unreadable(path: &Path, error: io::Error) -> TraceError {
    TraceError::Read {
        path: path.to_owned(),
        error,
    }
}

/// Reads a trace from a pipe or any other text, plain or gzip-compressed, in one pass. A file whose name comes after its first use is named by its
/// hash.
///
/// `name` denotes the trace in errors and reports of missing parts.
///
/// # Errors
/// [`TraceError::Read`] if the trace cannot be read, [`TraceError::NotATrace`] if no line is an event, [`TraceError::Sink`] if the sink fails.
pub fn read_dftracer(
    text: impl Read + Send,
    name: &Path,
    sink: &mut dyn Sink,
) -> Result<TextSummary, TraceError> {
    let text = unpacked(text).map_err(|error| unreadable(name, error))?;
    let mut reader = Reader::new(DftracerState::new(sink, NameTable::default()), None);
    reader.text(text, name)?;
    reader.finish(&[name.to_owned()])
}

/// Reads a trace from its files (`.pfw` or `.pfw.gz`, one for each process), or from a directory with them.
///
/// Files are read one after another, so events are ordered by time only within a file. Names are collected from all files first, because a forked
/// process uses names that are in its parent's file.
///
/// # Errors
/// The same as for [`read_dftracer`].
pub fn read_dftracer_files(
    paths: &[PathBuf],
    sink: &mut dyn Sink,
) -> Result<TextSummary, TraceError> {
    let mut files = Vec::new();
    for path in paths {
        let below = files_below(path).map_err(|error| unreadable(path, error))?;
        let is_directory = below.first() != Some(path);
        files.extend(below.into_iter().filter(|file| {
            let name = file.as_os_str().as_encoded_bytes();
            !is_directory || name.ends_with(b".pfw") || name.ends_with(b".pfw.gz")
        }));
    }
    let (mut names, mut first) = (NameTable::default(), None);
    for path in &files {
        let text = open(path).map_err(|error| unreadable(path, error))?;
        if let Some(time) = collect(text, &mut names) {
            first = Some(first.map_or(time, |first: u64| first.min(time)));
        }
    }
    let mut reader = Reader::new(DftracerState::new(sink, names), first);
    for path in &files {
        let text = open(path).map_err(|error| unreadable(path, error))?;
        reader.text(text, path)?;
    }
    reader.finish(&files)
}

/// Collects the names in a file, and returns its first time. Damage is reported later, when the file is read again.
fn collect(text: Text<'_>, names: &mut NameTable) -> Option<u64> {
    let mut lines = Lines::new(text);
    let mut first = None;
    while let Ok(LineStep::Line | LineStep::TooLong | LineStep::Torn) = lines.advance() {
        let text = lines.line();
        let is_name = [b"\"FH\"", b"\"HH\"", b"\"SH\""]
            .iter()
            .any(|word| memchr::memmem::find(text, *word).is_some());
        if is_name || first.is_none() {
            with_line(text, |line| {
                names.learn(line);
                first = first.or(line.ts.unsigned());
            });
        }
    }
    first
}

/// Parses a line and calls `read` with it. Returns `None` if the line is not valid JSON.
fn with_line<T>(text: &[u8], read: impl FnOnce(&DftracerLine<'_>) -> T) -> Option<T> {
    let json = json_of(text)?;
    // paths may be invalid UTF-8, which JSON does not allow
    let json = match std::str::from_utf8(json) {
        Ok(json) => Cow::Borrowed(json),
        Err(_) => String::from_utf8_lossy(json),
    };
    let line: DftracerLine<'_> = serde_json::from_str(&json).ok()?;
    Some(read(&line))
}

struct Reader<'s> {
    state: DftracerState<'s>,
    /// The first time, in the unit of the trace.
    first: Option<u64>,
    lines: u64,
    events: u64,
    noise: u64,
}

impl<'s> Reader<'s> {
    fn new(state: DftracerState<'s>, first: Option<u64>) -> Self {
        Self {
            state,
            first,
            lines: 0,
            events: 0,
            noise: 0,
        }
    }

    fn text(&mut self, text: Text<'_>, path: &Path) -> Result<(), TraceError> {
        let mut lines = Lines::new(text);
        loop {
            let step = match lines.advance() {
                Ok(LineStep::End) => return Ok(()),
                Ok(step) => step,
                Err(error) if is_damage(&error) => {
                    let part = format!("{} behind line {}", path.display(), lines.number());
                    return self
                        .state
                        .miss(&part, &format!("it cannot be unpacked: {error}"))
                        .map_err(TraceError::Sink);
                }
                Err(error) => return Err(unreadable(path, error)),
            };
            self.lines += 1;
            let problem = match step {
                LineStep::TooLong => "it is longer than 16 MiB and was skipped",
                LineStep::End | LineStep::Line | LineStep::Torn => {
                    let text = lines.line();
                    if json_of(text).is_none() {
                        continue;
                    }
                    match with_line(text, |line| self.line(line)) {
                        Some(Ok(true)) => {
                            self.events += 1;
                            continue;
                        }
                        Some(Err(error)) => return Err(TraceError::Sink(error)),
                        None if step == LineStep::Torn => "the last line is cut off",
                        None | Some(Ok(false)) => "it is no event of DFTracer's",
                    }
                }
            };
            self.noise += 1;
            if self.events == 0 && self.noise >= MAX_NOISE_AT_BEGIN {
                return Err(not_a_trace(path));
            }
            if self.noise <= NAMED_LINES {
                let part = format!("line {} of {}", lines.number(), path.display());
                self.state.miss(&part, problem).map_err(TraceError::Sink)?;
            }
        }
    }

    /// Processes a line. Returns whether it is a line of DFTracer.
    fn line(&mut self, line: &DftracerLine<'_>) -> io::Result<bool> {
        let (phase, Some(category), Some(_)) = (line.ph.text(), line.cat.text(), line.name.text())
        else {
            return Ok(false);
        };
        if self.first.is_none() {
            self.first = line.ts.unsigned();
        }
        let api = match &*category {
            "POSIX" => Api::Posix,
            "STDIO" => Api::Stdio,
            "dftracer" => {
                self.state.remark(line)?;
                return Ok(true);
            }
            _ => return Ok(true),
        };
        match phase.as_deref() {
            Some("X" | "1") => {
                let base = self.first.unwrap_or(0).saturating_mul(self.state.unit_ns);
                self.state.call(line, api, base)?;
            }
            Some("A" | "C" | "2" | "3") => self.state.miss_once(
                "single calls",
                "the trace was recorded with aggregation, which sums calls",
            )?,
            Some(_) | None => {}
        }
        Ok(true)
    }

    fn finish(mut self, paths: &[PathBuf]) -> Result<TextSummary, TraceError> {
        if self.events == 0 {
            return Err(not_a_trace(
                paths.first().map_or(Path::new(""), PathBuf::as_path),
            ));
        }
        if let Some(more) = self.noise.checked_sub(NAMED_LINES).filter(|&more| more > 0) {
            self.state
                .miss(
                    "lines",
                    &format!("{more} more lines are no events of DFTracer's"),
                )
                .map_err(TraceError::Sink)?;
        }
        self.state.finish().map_err(TraceError::Sink)?;
        Ok(TextSummary {
            lines: self.lines,
            began_unix_ns: self
                .first
                .map(|first| first.saturating_mul(self.state.unit_ns)),
        })
    }
}

fn not_a_trace(path: &Path) -> TraceError {
    TraceError::NotATrace {
        path: path.to_owned(),
        kind: KIND,
        problem:
            "no line of it is an event; hint: give the .pfw or .pfw.gz files, or their directory"
                .to_owned(),
    }
}
