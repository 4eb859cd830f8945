//! Reads the lines of one file, or of several files merged by time.

use super::{
    reader::{ParsedLine, Reader},
    run::Run,
    syntax::{CallTime, Prefix, number, prefix},
};
use crate::{
    lines::{LineStep, Lines, Text, files_below, is_damage, open, unpacked},
    sink::{Sink, TextSummary, TraceError},
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    io::{self, Read},
    path::{Path, PathBuf},
};

const KIND: &str = "trace of strace";
const HINT: &str = "record with `strace -f -ttt -T -y -o FILE`";
/// Reading stops after this many lines without a call.
const MAX_NOISE_AT_BEGIN: u64 = 1000;
/// Maximum number of invalid lines that are reported individually.
const NAMED_LINES: u64 = 5;
const DAY_NS: u64 = 86_400_000_000_000;
/// Minimum for a time that is counted from 1970 (the year 1990), nanoseconds; times of `-r` begin at zero.
const FIRST_TIME_NS: u64 = 631_152_000_000_000_000;

/// A file of a trace.
struct Source<'a> {
    name: PathBuf,
    space: u32,
    task: Option<u64>,
    lines: Option<Lines<Text<'a>>>,
    prefix: Prefix,
    /// Time of the current line or, if it has none, of the last line with a time; nanoseconds.
    time_ns: u64,
    clock: Clock,
    calls: u64,
    noise: u64,
    step: LineStep,
    /// Whether the current line is in the table that `-c` or `-C` prints, and whether such a table was found.
    table: (bool, bool),
}

/// Column headings of the table that `-c` and `-C` print.
const COLUMNS: [&str; 10] = [
    "%",
    "time",
    "seconds",
    "shortest",
    "longest",
    "usecs/call",
    "calls",
    "errors",
    "syscall",
    "",
];

/// Returns whether a line begins the table that `-c` and `-C` print.
fn is_table(line: &[u8]) -> bool {
    // most lines are calls, which begin with a digit
    if line.len() > 200 || line.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let line = String::from_utf8_lossy(line);
    line.starts_with("System call usage summary for ")
        || line.contains("syscall") && line.split(' ').all(|word| COLUMNS.contains(&word))
}

/// Converts the times in a file's lines to continuous times.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    last_ns: u64,
    days_ns: u64,
}

impl Clock {
    fn read(&mut self, time: CallTime) -> u64 {
        match time {
            CallTime::Seconds(ns) => ns,
            CallTime::OfDay(ns) => {
                // the time of day restarts at zero after midnight; lines of several tasks can be out of order, but by less than half a day
                if ns + DAY_NS / 2 < self.last_ns {
                    self.days_ns = self.days_ns.saturating_add(DAY_NS);
                }
                self.last_ns = ns;
                ns.saturating_add(self.days_ns)
            }
        }
    }
}

/// Result of advancing a source.
enum Next {
    Line,
    End,
    Damaged(io::Error),
}

impl<'a> Source<'a> {
    fn new(name: PathBuf, space: u32, task: Option<u64>, text: Option<Text<'a>>) -> Self {
        Self {
            name,
            space,
            task,
            lines: text.map(Lines::new),
            prefix: prefix(b""),
            time_ns: 0,
            clock: Clock::default(),
            calls: 0,
            noise: 0,
            step: LineStep::End,
            table: (false, false),
        }
    }

    fn failed(&self, error: io::Error) -> TraceError {
        TraceError::Read {
            path: self.name.clone(),
            error,
        }
    }

    /// Advances to the next line.
    fn advance(&mut self) -> Result<Next, TraceError> {
        let Some(lines) = &mut self.lines else {
            return Ok(Next::End);
        };
        match lines.advance() {
            Ok(LineStep::End) => return Ok(Next::End),
            Ok(step) => self.step = step,
            Err(error) if is_damage(&error) => return Ok(Next::Damaged(error)),
            Err(error) => {
                return Err(TraceError::Read {
                    path: self.name.clone(),
                    error,
                });
            }
        }
        self.prefix = prefix(lines.line());
        if is_table(lines.line()) {
            self.table = (true, true);
            self.prefix.time = None;
        }
        if let Some(time) = self.prefix.time {
            if matches!(time, CallTime::Seconds(ns) if ns < FIRST_TIME_NS) {
                // after valid lines, this is a single damaged line or a row of the table
                if self.calls > 0 || self.table.0 {
                    self.prefix.time = None;
                    return Ok(Next::Line);
                }
                return Err(TraceError::NotATrace {
                    path: self.name.clone(),
                    kind: KIND,
                    problem: format!("its times are differences, as -r alone shows them; {HINT}"),
                });
            }
            self.table.0 = false;
            self.time_ns = self.clock.read(time);
        }
        Ok(Next::Line)
    }
}

/// Reads a trace from a file, a pipe or any other text, plain or gzip-compressed. From a pipe, events are passed on as lines arrive.
///
/// `name` denotes the trace in errors and reports of missing parts. Times of day (`-tt`) are accepted, but then [`TextSummary::began_unix_ns`] is
/// `None`.
///
/// # Errors
/// [`TraceError::Read`] if the trace cannot be read, [`TraceError::NotATrace`] if no line is a line of strace with a time, [`TraceError::Sink`] if
/// the sink fails.
pub fn read_strace(
    text: impl Read + Send,
    name: &Path,
    sink: &mut dyn Sink,
) -> Result<TextSummary, TraceError> {
    let text = unpacked(text).map_err(|error| TraceError::Read {
        path: name.to_owned(),
        error,
    })?;
    let source = Source::new(
        name.to_owned(),
        0,
        task_of(name).map(|(_, task)| task),
        Some(text),
    );
    merge(vec![source], sink)
}

/// Reads a trace from its files, or a directory with them: one file of `strace -f`, or files of `strace -ff` named `NAME.PID`; plain or
/// gzip-compressed.
///
/// Files whose names differ before the number are of different runs of strace, possibly on different machines: the same number in both then denotes
/// two different processes.
///
/// # Errors
/// The same as for [`read_strace`]. A file without valid lines is skipped if other files have some.
pub fn read_strace_files(
    paths: &[PathBuf],
    sink: &mut dyn Sink,
) -> Result<TextSummary, TraceError> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(files_below(path).map_err(|error| TraceError::Read {
            path: path.clone(),
            error,
        })?);
    }
    let mut spaces: HashMap<Vec<u8>, u32> = HashMap::new();
    let mut sources = Vec::new();
    for path in files {
        let (stem, task) = match task_of(&path) {
            Some((stem, task)) => (stem, Some(task)),
            None => (path.as_os_str().as_encoded_bytes().to_vec(), None),
        };
        let next = u32::try_from(spaces.len()).unwrap_or(u32::MAX);
        let space = *spaces.entry(stem).or_insert(next);
        sources.push(Source::new(path, space, task, None));
    }
    merge(sources, sink)
}

/// Returns the task number at the end of a file name, and the part before it, for names such as `out.12`, `out.12.gz` and `out.12.strace.gz`.
fn task_of(path: &Path) -> Option<(Vec<u8>, u64)> {
    let mut name = path.as_os_str().as_encoded_bytes();
    for ending in [".gz", ".strace", ".txt", ".log"] {
        name = name.strip_suffix(ending.as_bytes()).unwrap_or(name);
    }
    let point = memchr::memrchr(b'.', name)?;
    let task = number(&name[point + 1..]).filter(|&task| task > 0)?;
    Some((name[..point].to_vec(), task))
}

/// Returns the first time in a source; `None` if no line has one.
fn first_time(source: &Source<'_>) -> Result<Option<u64>, TraceError> {
    let text = open(&source.name).map_err(|error| source.failed(error))?;
    let mut probe = Source::new(source.name.clone(), 0, None, Some(text));
    for _ in 0..MAX_NOISE_AT_BEGIN {
        match probe.advance()? {
            Next::Line if probe.prefix.time.is_some() => return Ok(Some(probe.time_ns)),
            Next::Line => {}
            Next::End | Next::Damaged(_) => break,
        }
    }
    Ok(None)
}

fn merge(mut sources: Vec<Source<'_>>, sink: &mut dyn Sink) -> Result<TextSummary, TraceError> {
    let mut merge = Merge {
        reader: Reader::new(Run::new(sink)),
        began_ns: None,
        summary: TextSummary::default(),
        noise: 0,
        named: 0,
        has_fractions: false,
    };
    // earliest line first; at equal times, a source already being read precedes one that has not begun
    let mut waiting = BinaryHeap::new();
    let alone = sources.len() == 1;
    for (index, source) in sources.iter_mut().enumerate() {
        let first = if alone { Some(0) } else { first_time(source)? };
        // a source without a time comes first, so that the error is reported
        waiting.push(Reverse((first.unwrap_or(0), 1_u8, index)));
        if let Some(first) = first.filter(|_| !alone) {
            merge.began_ns = Some(merge.began_ns.unwrap_or(first).min(first));
        }
    }
    while let Some(Reverse((_, fresh, index))) = waiting.pop() {
        let source = &mut sources[index];
        if fresh == 1 {
            if source.lines.is_none() {
                let text = open(&source.name).map_err(|error| source.failed(error))?;
                source.lines = Some(Lines::new(text));
            }
            if merge.advance(source)? == SourceState::Closed {
                continue;
            }
        }
        let until = waiting
            .peek()
            .map_or(u64::MAX, |Reverse((time, _, _))| *time);
        loop {
            merge.take(source)?;
            if merge.advance(source)? == SourceState::Closed {
                break;
            }
            if source.time_ns > until {
                waiting.push(Reverse((source.time_ns, 0, index)));
                break;
            }
        }
    }
    merge.finish(&sources)
}

/// State of a source after advancing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceState {
    AtLine,
    Closed,
}

struct Merge<'s> {
    reader: Reader<'s>,
    began_ns: Option<u64>,
    summary: TextSummary,
    noise: u64,
    /// Number of invalid lines reported individually.
    named: u64,
    /// Whether any time has a fraction of a second.
    has_fractions: bool,
}

impl Merge<'_> {
    /// Advances a source to its next line; closes the source at its end.
    fn advance(&mut self, source: &mut Source<'_>) -> Result<SourceState, TraceError> {
        match source.advance()? {
            Next::Line => Ok(SourceState::AtLine),
            Next::End => {
                source.lines = None;
                Ok(SourceState::Closed)
            }
            Next::Damaged(error) => {
                let line = source.lines.take().map_or(0, |lines| lines.number());
                let part = format!("{} after line {line}", source.name.display());
                self.reader
                    .run
                    .miss(&part, &format!("it cannot be unpacked: {error}"))
                    .map_err(TraceError::Sink)?;
                Ok(SourceState::Closed)
            }
        }
    }

    /// Processes the current line of a source.
    fn take(&mut self, source: &mut Source<'_>) -> Result<(), TraceError> {
        self.summary.lines += 1;
        let Some(lines) = &source.lines else {
            return Ok(());
        };
        if source.prefix.time.is_some() && self.began_ns.is_none() {
            self.began_ns = Some(source.time_ns);
        }
        if let Some(CallTime::Seconds(_)) = source.prefix.time
            && self.summary.began_unix_ns.is_none()
        {
            self.summary.began_unix_ns = self.began_ns;
        }
        self.has_fractions |=
            source.prefix.time.is_some() && !source.time_ns.is_multiple_of(1_000_000_000);
        if source.table.0 {
            return Ok(());
        }
        let start_ns = source.time_ns.saturating_sub(self.began_ns.unwrap_or(0));
        let problem = match source.step {
            LineStep::Line => {
                let heard = self
                    .reader
                    .line(
                        source.space,
                        source.task,
                        source.prefix,
                        lines.line(),
                        start_ns,
                    )
                    .map_err(TraceError::Sink)?;
                match heard {
                    ParsedLine::Call => {
                        source.calls += 1;
                        return Ok(());
                    }
                    ParsedLine::Remark => return Ok(()),
                    ParsedLine::Noise => {
                        "it is not a line of strace: damage, or output of the program, if both were written to one file"
                    }
                }
            }
            LineStep::TooLong => "it is longer than 16 MiB and was skipped",
            LineStep::Torn => "the last line is cut off",
            LineStep::End => return Ok(()),
        };
        source.noise += 1;
        self.noise += 1;
        if source.calls == 0 && source.noise >= MAX_NOISE_AT_BEGIN {
            return Err(not_a_trace(source));
        }
        if self.named < NAMED_LINES {
            self.named += 1;
            let part = format!("line {} of {}", lines.number(), source.name.display());
            self.reader
                .run
                .miss(&part, problem)
                .map_err(TraceError::Sink)?;
        }
        Ok(())
    }

    fn finish(mut self, sources: &[Source<'_>]) -> Result<TextSummary, TraceError> {
        let calls: u64 = sources.iter().map(|source| source.calls).sum();
        let first = sources
            .iter()
            .max_by_key(|source| (source.table.1, source.noise));
        if let Some(source) = first.filter(|_| calls == 0) {
            return Err(not_a_trace(source));
        }
        if calls > 1 && !self.has_fractions {
            let problem = "they are whole seconds, as of -t; record with -ttt to see when operations happened";
            self.reader
                .run
                .miss("times", problem)
                .map_err(TraceError::Sink)?;
        }
        self.report_gaps().map_err(TraceError::Sink)?;
        Ok(self.summary)
    }

    fn report_gaps(&mut self) -> io::Result<()> {
        self.reader.finish();
        self.noise += self.reader.cut;
        let run = &mut self.reader.run;
        run.finish()?;
        if let (0, failed @ 1..) = run.outcomes {
            run.miss(
                "calls",
                &format!("all {failed} failed: -Z leaves out those that succeed"),
            )?;
        }
        if self.noise > self.named {
            let more = self.noise - self.named;
            run.miss(
                "lines",
                &format!("{more} more lines are not of strace, or damaged"),
            )?;
        }
        let (open, ends) = run.halves;
        if open > 0 {
            run.miss("calls", &format!("{open} calls have no end in the trace"))?;
        }
        if ends > 0 {
            run.miss(
                "calls",
                &format!("of {ends} calls only the end is in the trace"),
            )?;
        }
        let mapped = run.read_mapped.len();
        if mapped > 0 {
            run.miss(
                "mappings",
                &format!(
                    "{mapped} files were mapped for reading, and the trace does not show reads through the mappings"
                ),
            )?;
        }
        if !run.durations {
            run.miss(
                "durations",
                "the trace has none: record with -T, in microseconds",
            )?;
        }
        Ok(())
    }
}

fn not_a_trace(source: &Source<'_>) -> TraceError {
    let problem = match source.table.1 {
        true => "it is the table of -c, which has sums instead of calls",
        false => "no line of it is a call with a time",
    };
    TraceError::NotATrace {
        path: source.name.clone(),
        kind: KIND,
        problem: format!("{problem}; {HINT}"),
    }
}
