//! Decides when checkpoints are requested: once the program computes, at the moments that the campaign defines, by the clock or by steps in the
//! output.

use crate::run::{GrowingFile, RunContext, RunFailure, Shepherd};
use camino::Utf8PathBuf;
use cvc_core::outcome::Cause;
use cvc_core::point::Moment;
use regex::Regex;
use std::fmt;
use std::time::{Duration, Instant};

/// Interval between checks of the program's output.
const TICK: Duration = Duration::from_millis(25);
/// Maximum length of an output line that is searched for a step, bytes. Of a longer line only the end is searched.
const MAX_LINE_BYTES: usize = 64 << 10;

/// A checkpoint that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Due {
    /// Number of the checkpoint, from 1.
    pub number: u32,
    /// Whether this is the last checkpoint.
    pub last: bool,
    /// Seconds since the program began to compute.
    pub at_s: f64,
}

/// When the checkpoints of a run are due.
pub(super) struct Moments {
    moment: Moment,
    output: Output,
    /// Time when a step or other output showed that the program computes; `None` before that.
    begin: Option<Instant>,
    next: u32,
}

impl Moments {
    /// Creates the moments of this run.
    ///
    /// # Errors
    /// The descriptor's step pattern cannot be used.
    pub fn new(moment: &Moment, run: &RunContext) -> Result<Self, RunFailure> {
        Ok(Self {
            moment: moment.clone(),
            output: Output::new(run)?,
            begin: None,
            next: 1,
        })
    }

    /// Skips the moments up to this checkpoint, which was taken `at_s` seconds after the program began to compute.
    pub fn resume_after(&mut self, number: u32, at_s: f64) {
        self.next = number + 1;
        let computed = Duration::try_from_secs_f64(at_s).unwrap_or_default();
        self.begin = Instant::now()
            .checked_sub(computed)
            .or(Some(Instant::now()));
    }

    /// Waits until the program computes: an earlier checkpoint would contain only its start.
    ///
    /// # Errors
    /// The program ends before it computes.
    async fn begin(&mut self, shepherd: &mut Shepherd) -> Result<(), RunFailure> {
        self.output
            .until(shepherd, Awaited::Begin, |o| o.computes())
            .await?;
        let begin = Instant::now();
        match &self.moment {
            Moment::AtS(_) | Moment::Series { .. } => {}
            Moment::AfterStep(step) | Moment::SizeOnlyAfterStep(step) => {
                let wanted = *step;
                self.output
                    .until(shepherd, Awaited::Step(wanted), |o| o.has_done(wanted))
                    .await?;
            }
            Moment::SizeOnly => {
                self.output
                    .until(shepherd, Awaited::FirstStep, |o| o.has_done(1))
                    .await?
            }
        }
        self.begin = Some(begin);
        Ok(())
    }

    /// Waits until the next checkpoint is due; returns `None` after the last one.
    ///
    /// # Errors
    /// The program ends before the next checkpoint is due.
    pub async fn next(&mut self, shepherd: &mut Shepherd) -> Result<Option<Due>, RunFailure> {
        if self.begin.is_none() {
            self.begin(shepherd).await?;
        }
        let (number, count) = (self.next, self.moment.count());
        let Some(begin) = self.begin.filter(|_| number <= count) else {
            return Ok(None);
        };
        let at_s = match &self.moment {
            Moment::AtS(seconds) => seconds[number as usize - 1],
            Moment::Series { every_s, .. } => every_s * f64::from(number),
            Moment::AfterStep(_) | Moment::SizeOnly | Moment::SizeOnlyAfterStep(_) => 0.0,
        };
        let at = begin + Duration::from_secs_f64(at_s);
        while Instant::now() < at {
            if !shepherd.at_work() {
                let detail = format!(
                    "the program ended before its checkpoint at {at_s} s: choose an earlier moment or a larger workload"
                );
                return Err(no_checkpoint(detail));
            }
            tokio::time::sleep(TICK.min(at.saturating_duration_since(Instant::now()))).await;
        }
        self.next += 1;
        Ok(Some(Due {
            number,
            last: number == count,
            at_s: begin.elapsed().as_secs_f64(),
        }))
    }
}

/// Returns the failure that there is no checkpoint.
pub(super) fn no_checkpoint(detail: impl Into<String>) -> RunFailure {
    RunFailure::new(Cause::Checkpoint, detail)
}

/// The condition that a moment waits for.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Begin,
    FirstStep,
    Step(u64),
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => f.write_str("it computed (its first output)"),
            Self::FirstStep => f.write_str("its first step"),
            Self::Step(step) => write!(f, "step {step}"),
        }
    }
}

/// One growing output stream of the program.
struct Stream {
    file: GrowingFile,
    /// The incomplete last line.
    line: Vec<u8>,
    last_step: Option<u64>,
    spoke: bool,
}

impl Stream {
    fn new(path: Utf8PathBuf) -> Self {
        Self {
            file: GrowingFile::new(path),
            line: Vec::new(),
            last_step: None,
            spoke: false,
        }
    }

    /// Reads new output and searches it for steps. An incomplete line is searched, too; when more of the line arrives, the line is searched again.
    fn read_new(&mut self, step: Option<&Regex>) {
        // the file appears when the program starts
        if self.file.read_new(&mut self.line).is_none() {
            return;
        }
        // a progress bar ends its lines with carriage returns
        let text = String::from_utf8_lossy(&self.line).replace('\r', "\n");
        self.spoke |= !text.trim().is_empty();
        if let Some(step) = step {
            let seen = step
                .captures_iter(&text)
                .filter_map(|c| c.get(1)?.as_str().parse().ok())
                .max();
            self.last_step = self.last_step.max(seen);
        }
        let whole = self
            .line
            .iter()
            .rposition(|b| matches!(b, b'\n' | b'\r'))
            .map_or(0, |at| at + 1);
        self.line
            .drain(..whole.max(self.line.len().saturating_sub(MAX_LINE_BYTES)));
    }
}

/// The growing output of the program. Steps count in both streams. The first output counts only in standard output, because launchers and
/// checkpointers write to standard error.
struct Output {
    stdout: Stream,
    stderr: Stream,
    step: Option<Regex>,
    limit: Duration,
}

impl Output {
    fn new(run: &RunContext) -> Result<Self, RunFailure> {
        let step = run
            .app
            .progress
            .as_ref()
            .map(|p| Regex::new(&format!("(?m){}", p.step)))
            .transpose();
        Ok(Self {
            stdout: Stream::new(run.dir.join("stdout")),
            stderr: Stream::new(run.dir.join("stderr")),
            step: step.map_err(|e| no_checkpoint(format!("progress.step: {e}")))?,
            limit: Duration::from_secs_f64(run.timeout_s),
        })
    }

    fn read_new(&mut self) {
        self.stdout.read_new(self.step.as_ref());
        self.stderr.read_new(self.step.as_ref());
    }

    fn last_step(&self) -> Option<u64> {
        self.stdout.last_step.max(self.stderr.last_step)
    }

    /// Returns whether the program computes: it has printed a step or, if it prints no steps, any output.
    fn computes(&self) -> bool {
        if self.step.is_some() {
            self.last_step().is_some()
        } else {
            self.stdout.spoke
        }
    }

    fn has_done(&self, step: u64) -> bool {
        if self.step.is_some() {
            self.last_step().is_some_and(|last| last >= step)
        } else {
            step <= 1 && self.computes()
        }
    }

    /// Describes why there is no checkpoint although the program has ended.
    fn describe_early_end(&self, awaited: Awaited) -> String {
        match (&self.step, self.stdout.spoke, self.stderr.spoke) {
            (None, false, true) => "the program printed only on its standard error, where launchers print as well, so the beginning of its computation \
                 is unknown: name the lines that count its steps (`progress.step` of its descriptor), or print to the standard output"
                .into(),
            (Some(_), true, _) | (Some(_), _, true) if self.last_step().is_none() => format!(
                "the program printed no step (`progress.step` of its descriptor) before it ended, so {awaited} was not seen: check the pattern, and whether \
                 the program flushes its output"
            ),
            _ => format!(
                "the program ended before {awaited}: choose an earlier moment or a larger workload"
            ),
        }
    }

    async fn until(
        &mut self,
        shepherd: &mut Shepherd,
        awaited: Awaited,
        there: impl Fn(&Self) -> bool,
    ) -> Result<(), RunFailure> {
        let begin = Instant::now();
        loop {
            self.read_new();
            if there(self) {
                return Ok(());
            }
            if !shepherd.at_work() {
                return Err(no_checkpoint(self.describe_early_end(awaited)));
            }
            if begin.elapsed() > self.limit {
                return Err(RunFailure::new(
                    Cause::Timeout,
                    format!("{awaited} did not happen in time"),
                ));
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a reader of a file that a program writes.
    fn output(path: &camino::Utf8Path, step: &str) -> Output {
        Output {
            stdout: Stream::new(path.to_owned()),
            stderr: Stream::new(path.with_file_name("stderr")),
            step: Some(Regex::new(&format!("(?m){step}")).expect("a pattern")),
            limit: Duration::from_secs(1),
        }
    }

    #[test]
    fn output_without_line_feeds_is_read_without_being_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"step (\d+)");
        std::fs::write(&path, "x".repeat(3 << 20)).expect("writes");
        read.read_new();
        assert!(
            read.stdout.line.len() <= MAX_LINE_BYTES,
            "{}",
            read.stdout.line.len()
        );
        // a step that arrives in two parts
        let mut text = "x".repeat(3 << 20) + "step 1";
        std::fs::write(&path, &text).expect("writes");
        read.read_new();
        text += "7 ";
        std::fs::write(&path, &text).expect("writes");
        read.read_new();
        assert_eq!(read.last_step(), Some(17));
    }

    #[test]
    fn a_progress_bar_ends_its_lines_with_carriage_returns() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"^step (\d+)$");
        std::fs::write(&path, "step 1\rstep 2\rste").expect("writes");
        read.read_new();
        assert_eq!(
            (read.last_step(), read.stdout.line.as_slice()),
            (Some(2), &b"ste"[..])
        );
    }

    #[test]
    fn steps_are_found_on_the_standard_error_as_well() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"^step (\d+)$");
        std::fs::write(dir.path().join("stderr"), "step 1\nstep 2\n").expect("writes");
        read.read_new();
        assert!(read.computes() && read.has_done(2) && !read.has_done(3));
    }

    #[test]
    fn the_output_explains_why_no_moment_came() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"^step (\d+)$");
        let silent = read.describe_early_end(Awaited::Begin);
        assert!(silent.contains("ended before it computed"), "{silent}");
        std::fs::write(dir.path().join("stderr"), "hello\n").expect("writes");
        read.read_new();
        let no_step = read.describe_early_end(Awaited::Step(3));
        assert!(no_step.contains("printed no step"), "{no_step}");
        read.step = None;
        let only = read.describe_early_end(Awaited::Begin);
        assert!(only.contains("only on its standard error"), "{only}");
    }
}
