//! Progress of a command that reads many files.

use crate::output;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Time before the first report of progress; shorter commands do not report any.
const FIRST_REPORT: Duration = Duration::from_secs(2);
/// Time between two lines if there is no terminal for a bar.
const PAUSE: Duration = Duration::from_secs(10);

/// Reports the progress of reading: a bar on a terminal, otherwise lines.
pub struct Progress {
    start: Instant,
    bar: output::Bar,
    /// Time of the next report, from the start.
    next: Mutex<Duration>,
}

impl Progress {
    pub fn start() -> Self {
        let bar = output::bar();
        bar.set_template("{bar:16.green/dim} {pos}/{len} {msg}");
        Self {
            start: Instant::now(),
            bar,
            next: Mutex::new(FIRST_REPORT),
        }
    }

    /// Reports that `done` of `all` units are read. `of` is the unit and the verb, such as `MiB read`.
    pub fn report(&self, done: u64, all: u64, of: &'static str) {
        if done == all {
            self.bar.finish_and_clear();
        } else if is_due(
            &self.next,
            self.start.elapsed(),
            if output::is_stderr_terminal() {
                Duration::ZERO
            } else {
                PAUSE
            },
        ) {
            if output::is_stderr_terminal() {
                self.bar.set_message(of);
                self.bar.set_length(all);
                self.bar.set_position(done);
            } else {
                output::note(format_args!("{done} of {all} {of}"));
            }
        }
    }
}

/// Returns whether a report is due at this time, and if so schedules the next one.
fn is_due(next: &Mutex<Duration>, now: Duration, pause: Duration) -> bool {
    let mut next = next.lock();
    let is_due = now >= *next;
    if is_due {
        *next = now + pause;
    }
    is_due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_after_two_seconds_and_then_at_intervals() {
        let next = Mutex::new(FIRST_REPORT);
        let reported: Vec<u64> = (0..=30)
            .filter(|s| is_due(&next, Duration::from_secs(*s), PAUSE))
            .collect();
        assert_eq!(reported, [2, 12, 22]);
    }
}
