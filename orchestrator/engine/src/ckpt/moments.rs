//! When checkpoints are asked for: once the program computes, at moments of the campaign, told by the clock or by the steps in its output.

use crate::run::{GrowingFile, RunContext, RunFailure, Shepherd};
use cvc_core::outcome::Cause;
use cvc_core::point::Moment;
use regex::Regex;
use std::time::{Duration, Instant};

/// Delay between looks at what the program has printed.
const TICK: Duration = Duration::from_millis(25);
/// Maximum size of a line of output that is searched for a step, in bytes; of a longer one the end counts.
const MAX_LINE_BYTES: usize = 64 << 10;

/// A moment that has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Due {
    /// Number of the checkpoint, from 1.
    pub number: u32,
    /// No other follows.
    pub last: bool,
    /// Seconds since the program began to compute.
    pub at_s: f64,
}

/// The moments of the checkpoints of a run.
pub(super) struct Moments {
    moment: Moment,
    output: Output,
    /// When the program began to compute, once the step that is asked for is done.
    begin: Option<Instant>,
    next: u32,
}

impl Moments {
    /// Those of this run.
    ///
    /// # Errors
    /// When the descriptor's pattern of steps cannot be used.
    pub fn new(run: &RunContext) -> Result<Self, RunFailure> {
        Ok(Self {
            moment: run.checkpoint.moment.clone(),
            output: Output::new(run)?,
            begin: None,
            next: 1,
        })
    }

    /// Waits until the program computes: before that a checkpoint would only show its start.
    ///
    /// # Errors
    /// When it ends before.
    async fn begin(&mut self, shepherd: &mut Shepherd) -> Result<(), RunFailure> {
        self.output
            .until(shepherd, "it computed (its first output)", |o| o.computes())
            .await?;
        let begin = Instant::now();
        match &self.moment {
            Moment::AtS(_) | Moment::Series { .. } => {}
            Moment::AfterStep(step) | Moment::SizeOnlyAfterStep(step) => {
                let wanted = *step;
                self.output
                    .until(shepherd, &format!("step {wanted}"), |o| o.has_done(wanted))
                    .await?;
            }
            Moment::SizeOnly => {
                self.output
                    .until(shepherd, "its first step", |o| o.has_done(1))
                    .await?
            }
        }
        self.begin = Some(begin);
        Ok(())
    }

    /// Waits for the next moment; `None` after the last.
    ///
    /// # Errors
    /// When the program ends before.
    pub async fn next(&mut self, shepherd: &mut Shepherd) -> Result<Option<Due>, RunFailure> {
        if self.begin.is_none() {
            self.begin(shepherd).await?;
        }
        let (number, count) = (self.next, self.count());
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

    /// How many there are.
    fn count(&self) -> u32 {
        match &self.moment {
            Moment::AtS(seconds) => u32::try_from(seconds.len()).unwrap_or(u32::MAX),
            Moment::Series { count, .. } => *count,
            Moment::AfterStep(_) | Moment::SizeOnly | Moment::SizeOnlyAfterStep(_) => 1,
        }
    }
}

/// There is no checkpoint.
pub(super) fn no_checkpoint(detail: impl Into<String>) -> RunFailure {
    RunFailure::new(Cause::Checkpoint, detail)
}

/// The program's output as it grows.
struct Output {
    file: GrowingFile,
    step: Option<Regex>,
    limit: Duration,
    /// The beginning of the last line.
    line: Vec<u8>,
    last_step: Option<u64>,
    spoke: bool,
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
            file: GrowingFile::new(run.dir.join("stdout")),
            step: step.map_err(|e| no_checkpoint(format!("progress.step: {e}")))?,
            limit: Duration::from_secs_f64(run.timeout_s),
            line: Vec::new(),
            last_step: None,
            spoke: false,
        })
    }

    /// Reads what is new. An incomplete line is checked too, and again when it is longer.
    fn read_new(&mut self) {
        // the file appears when the program is started
        if self.file.read_new(&mut self.line).is_none() {
            return;
        }
        // a progress bar ends its lines with carriage returns
        let text = String::from_utf8_lossy(&self.line).replace('\r', "\n");
        self.spoke |= !text.trim().is_empty();
        if let Some(step) = &self.step {
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

    /// Its first step, or where it does not tell steps, its first output.
    fn computes(&self) -> bool {
        if self.step.is_some() {
            self.last_step.is_some()
        } else {
            self.spoke
        }
    }

    fn has_done(&self, step: u64) -> bool {
        if self.step.is_some() {
            self.last_step.is_some_and(|last| last >= step)
        } else {
            step <= 1 && self.computes()
        }
    }

    async fn until(
        &mut self,
        shepherd: &mut Shepherd,
        what: &str,
        there: impl Fn(&Self) -> bool,
    ) -> Result<(), RunFailure> {
        let begin = Instant::now();
        loop {
            self.read_new();
            if there(self) {
                return Ok(());
            }
            if !shepherd.at_work() {
                return Err(no_checkpoint(format!(
                    "the program ended before {what}: choose an earlier moment or a larger workload"
                )));
            }
            if begin.elapsed() > self.limit {
                return Err(RunFailure::new(
                    Cause::Timeout,
                    format!("{what} did not happen in time"),
                ));
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of a file that a program writes.
    fn output(path: &camino::Utf8Path, step: &str) -> Output {
        Output {
            file: GrowingFile::new(path.to_owned()),
            step: Some(Regex::new(&format!("(?m){step}")).expect("a pattern")),
            limit: Duration::from_secs(1),
            line: Vec::new(),
            last_step: None,
            spoke: false,
        }
    }

    #[test]
    fn output_without_line_feeds_is_read_without_being_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"step (\d+)");
        std::fs::write(&path, "x".repeat(3 << 20)).expect("writes");
        read.read_new();
        assert!(read.line.len() <= MAX_LINE_BYTES, "{}", read.line.len());
        // a step that comes in two pieces
        let mut text = "x".repeat(3 << 20) + "step 1";
        std::fs::write(&path, &text).expect("writes");
        read.read_new();
        text += "7 ";
        std::fs::write(&path, &text).expect("writes");
        read.read_new();
        assert_eq!(read.last_step, Some(17));
    }

    #[test]
    fn a_progress_bar_ends_its_lines_with_carriage_returns() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("stdout")).expect("UTF-8");
        let mut read = output(&path, r"^step (\d+)$");
        std::fs::write(&path, "step 1\rstep 2\rste").expect("writes");
        read.read_new();
        assert_eq!(
            (read.last_step, read.line.as_slice()),
            (Some(2), &b"ste"[..])
        );
    }
}
