//! Goes through the lines of one file, or of several in the order of their times.

use super::{
    reader::{Heard, Reader},
    run::Run,
    syntax::{Prefix, Time, number, prefix},
};
use crate::{
    lines::{Lines, Step, Text, files_below, is_damage, open, unpacked},
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
/// Lines that say what a file is not: after so many without a call nobody reads on.
const MAX_NOISE_AT_BEGIN: u64 = 1000;
/// Lines that are named one by one if they are not strace's.
const NAMED_LINES: u64 = 5;
const DAY_NS: u64 = 86_400_000_000_000;
/// The first time, in nanoseconds since 1970, that is taken for one: those of `-r` begin at zero. 1990.
const FIRST_TIME_NS: u64 = 631_152_000_000_000_000;

/// A file of a trace.
struct Source<'a> {
    name: PathBuf,
    space: u32,
    task: Option<u64>,
    lines: Option<Lines<Text<'a>>>,
    prefix: Prefix,
    /// Time of the current line, or of the last one that had one.
    time_ns: u64,
    clock: Clock,
    calls: u64,
    noise: u64,
    step: Step,
    /// Whether the current line is in the table of `-c` or `-C`, and whether there was one.
    table: (bool, bool),
}

/// The heads of the columns of the table of `-c` and `-C`.
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

/// Whether a line begins the table of calls of `-c` and `-C`.
fn is_table(line: &[u8]) -> bool {
    // most lines are calls, which begin with a number
    if line.len() > 200 || line.first().is_some_and(u8::is_ascii_digit) {
        return false;
    }
    let line = String::from_utf8_lossy(line);
    line.starts_with("System call usage summary for ")
        || line.contains("syscall") && line.split(' ').all(|word| COLUMNS.contains(&word))
}

/// Makes one time of those of a file's lines.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    last_ns: u64,
    days_ns: u64,
}

impl Clock {
    fn read(&mut self, time: Time) -> u64 {
        match time {
            Time::Seconds(ns) => ns,
            Time::OfDay(ns) => {
                // after midnight it begins anew; lines of several tasks can be out of order by less
                if ns + DAY_NS / 2 < self.last_ns {
                    self.days_ns = self.days_ns.saturating_add(DAY_NS);
                }
                self.last_ns = ns;
                ns.saturating_add(self.days_ns)
            }
        }
    }
}

/// What happened to a source.
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
            step: Step::End,
            table: (false, false),
        }
    }

    fn failed(&self, error: io::Error) -> TraceError {
        TraceError::Read {
            path: self.name.clone(),
            error,
        }
    }

    /// Goes to the next line.
    fn advance(&mut self) -> Result<Next, TraceError> {
        let Some(lines) = &mut self.lines else {
            return Ok(Next::End);
        };
        match lines.advance() {
            Ok(Step::End) => return Ok(Next::End),
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
            if matches!(time, Time::Seconds(ns) if ns < FIRST_TIME_NS) {
                // behind good lines it is one damaged line, or a row of the table
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

/// Reads a trace from a file, a pipe or any other text, plain or gzipped; a pipe's events come as its lines do.
///
/// `name` stands for it in errors and gaps. Times of the day (`-tt`) are read, too, but the trace then has no [`TextSummary::began_unix_ns`].
///
/// # Errors
/// [`TraceError::Read`] if it cannot be read, [`TraceError::NotATrace`] if it has no line of strace's with a time, [`TraceError::Sink`] from the sink.
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

/// Reads a trace from its files: one of `strace -f`, or those of `strace -ff`, named `NAME.PID`, or a directory with them; plain or gzipped.
///
/// Files whose names differ before the number are of runs of strace that may have been on different machines: in these, a number that comes twice is
/// of two processes.
///
/// # Errors
/// As of [`read_strace`]. A file without a line is passed over if others have some.
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

/// The number of the task at the end of a name, and what stands before it, for names such as `out.12`, `out.12.gz` and `out.12.strace.gz`.
fn task_of(path: &Path) -> Option<(Vec<u8>, u64)> {
    let mut name = path.as_os_str().as_encoded_bytes();
    for ending in [".gz", ".strace", ".txt", ".log"] {
        name = name.strip_suffix(ending.as_bytes()).unwrap_or(name);
    }
    let point = memchr::memrchr(b'.', name)?;
    let task = number(&name[point + 1..]).filter(|&task| task > 0)?;
    Some((name[..point].to_vec(), task))
}

/// When the first line that has a time is; `None` of a file without one.
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
    // earliest first; at the same time one that is already read goes on before another begins
    let mut waiting = BinaryHeap::new();
    let alone = sources.len() == 1;
    for (index, source) in sources.iter_mut().enumerate() {
        let first = if alone { Some(0) } else { first_time(source)? };
        // one without a time comes first, to be told as what it is
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
            if !merge.advance(source)? {
                continue;
            }
        }
        let until = waiting
            .peek()
            .map_or(u64::MAX, |Reverse((time, _, _))| *time);
        loop {
            merge.take(source)?;
            if !merge.advance(source)? {
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

struct Merge<'s> {
    reader: Reader<'s>,
    began_ns: Option<u64>,
    summary: TextSummary,
    noise: u64,
    /// How many of these lines are named.
    named: u64,
    /// Whether a time is no whole second.
    has_fractions: bool,
}

impl Merge<'_> {
    /// Goes to the next line of a source, which is closed at its end.
    fn advance(&mut self, source: &mut Source<'_>) -> Result<bool, TraceError> {
        match source.advance()? {
            Next::Line => Ok(true),
            Next::End => {
                source.lines = None;
                Ok(false)
            }
            Next::Damaged(error) => {
                let line = source.lines.take().map_or(0, |lines| lines.number());
                let part = format!("{} behind line {line}", source.name.display());
                self.reader
                    .run
                    .miss(&part, &format!("it cannot be unpacked: {error}"))
                    .map_err(TraceError::Sink)?;
                Ok(false)
            }
        }
    }

    /// Takes the current line of a source.
    fn take(&mut self, source: &mut Source<'_>) -> Result<(), TraceError> {
        self.summary.lines += 1;
        let Some(lines) = &source.lines else {
            return Ok(());
        };
        if source.prefix.time.is_some() && self.began_ns.is_none() {
            self.began_ns = Some(source.time_ns);
        }
        if let Some(Time::Seconds(_)) = source.prefix.time
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
            Step::Line => {
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
                    Heard::Call => {
                        source.calls += 1;
                        return Ok(());
                    }
                    Heard::Remark => return Ok(()),
                    Heard::Noise => {
                        "it is not a line of strace: damage, or output of the program, if both were written to one file"
                    }
                }
            }
            Step::TooLong => "it is longer than 16 MiB and was passed over",
            Step::Torn => "the last line is cut off",
            Step::End => return Ok(()),
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
        self.tell_gaps().map_err(TraceError::Sink)?;
        Ok(self.summary)
    }

    fn tell_gaps(&mut self) -> io::Result<()> {
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
            run.miss("calls", &format!("{open} calls began and did not end"))?;
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
                    "{mapped} files were mapped to be read, and the trace does not show what was read through the mappings"
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
