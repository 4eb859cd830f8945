//! Detects when a restarted program computes again: at its first printed step or, if it prints no steps, at its first output.

use super::texts::GrowingFile;
use camino::{Utf8Path, Utf8PathBuf};
use regex::Regex;
use std::time::{Duration, Instant};

/// Minimum interval between checks.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);
/// The interval is the elapsed time divided by this number.
const PART: u32 = 200;
/// Maximum size of an incomplete line that is kept, bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

/// What showed that the program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Step,
    Output,
}

impl Sign {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Output => "output",
        }
    }
}

/// Watches the output of a started program until it shows that the program computes.
#[derive(Debug)]
pub(crate) struct FirstOutput {
    begin: Instant,
    stdout: (GrowingFile, Vec<u8>),
    stderr: (GrowingFile, Vec<u8>),
    step: Option<Regex>,
    seen: Option<Duration>,
}

impl FirstOutput {
    /// Creates a watch for a program that starts now and writes these files in `dir`.
    pub fn new(dir: &Utf8Path, stdout: &str, stderr: &str, step: Option<Regex>) -> Self {
        let of = |path: Utf8PathBuf| (GrowingFile::new(path), Vec::new());
        Self {
            begin: Instant::now(),
            stdout: of(dir.join(stdout)),
            stderr: of(dir.join(stderr)),
            step,
            seen: None,
        }
    }

    /// Checks new output.
    pub fn look(&mut self) {
        if self.seen.is_some() {
            return;
        }
        let there = match &self.step {
            // steps count in both streams; without steps only standard output counts, because launchers and checkpointers write to standard error
            Some(step) => {
                let is_step = |text: &str| step.is_match(text);
                reads(&mut self.stdout, is_step) || reads(&mut self.stderr, is_step)
            }
            None => reads(&mut self.stdout, |text| !text.trim().is_empty()),
        };
        if there {
            self.seen = Some(self.begin.elapsed());
        }
    }

    /// Waits until the program computes. After this future is dropped, the observations stay.
    pub async fn wait(&mut self) {
        loop {
            self.look();
            if self.seen.is_some() {
                return;
            }
            tokio::time::sleep((self.begin.elapsed() / PART).clamp(SHORTEST, LONGEST)).await;
        }
    }

    /// Returns when the program computed again, in seconds after its start, and what showed it; `None` if it does not compute yet.
    pub fn seen(&self) -> Option<(f64, Sign)> {
        let sign = match self.step {
            Some(_) => Sign::Step,
            None => Sign::Output,
        };
        Some((self.seen?.as_secs_f64(), sign))
    }
}

/// Returns whether new output of a file satisfies `shows`.
fn reads((file, rest): &mut (GrowingFile, Vec<u8>), shows: impl Fn(&str) -> bool) -> bool {
    // the file appears when the program starts
    if file.read_new(rest).is_none_or(|count| count == 0) {
        return false;
    }
    let text = String::from_utf8_lossy(rest).replace('\r', "\n");
    if shows(&text) {
        return true;
    }
    let whole = rest
        .iter()
        .rposition(|b| matches!(b, b'\n' | b'\r'))
        .map_or(0, |at| at + 1);
    rest.drain(..whole.max(rest.len().saturating_sub(MAX_LINE_BYTES)));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_dir(step: Option<&str>) -> (tempfile::TempDir, Utf8PathBuf, FirstOutput) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("UTF-8");
        let step = step.map(|step| Regex::new(step).expect("a pattern"));
        let first = FirstOutput::new(&path, "out", "err", step);
        (dir, path, first)
    }

    #[test]
    fn the_first_step_counts_and_not_earlier_output() {
        let (_dir, path, mut first) = in_dir(Some(r"(?m)^step (\d+)"));
        first.look();
        assert_eq!(first.seen(), None);
        std::fs::write(path.join("out"), "Restarted from file: step 4\nste").expect("writes");
        first.look();
        assert_eq!(first.seen(), None);
        std::fs::write(path.join("out"), "Restarted from file: step 4\nstep 5\n").expect("writes");
        first.look();
        assert_eq!(first.seen().map(|(_, sign)| sign), Some(Sign::Step));
        let at = first.seen();
        first.look();
        assert_eq!(first.seen(), at, "the first one counts");
    }

    #[test]
    fn without_steps_the_first_output_counts_but_no_error() {
        let (_dir, path, mut first) = in_dir(None);
        std::fs::write(path.join("err"), "[40000] NOTE at restart\n").expect("writes");
        std::fs::write(path.join("out"), "\n").expect("writes");
        first.look();
        assert_eq!(first.seen(), None);
        std::fs::write(path.join("out"), "\nhello\n").expect("writes");
        first.look();
        assert_eq!(first.seen().map(|(_, sign)| sign), Some(Sign::Output));
    }

    #[tokio::test]
    async fn waiting_ends_with_the_step() {
        let (_dir, path, mut first) = in_dir(Some(r"(?m)^step (\d+)"));
        let writing = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            std::fs::write(path.join("err"), "step 7\n").expect("writes");
        };
        tokio::join!(first.wait(), writing);
        let (after_s, _) = first.seen().expect("seen");
        assert!(after_s >= 0.06, "{after_s}");
    }
}
