//! How far a command that reads much is.

use crate::output;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Time before progress is told: most commands are done by then.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two lines where no terminal shows a bar.
const PAUSE: Duration = Duration::from_secs(10);

/// Tells how far the reading is: a bar on a terminal, else a line now and then.
pub struct Progress {
    start: Instant,
    bar: output::Bar,
    /// When, after the start, something is to be told next.
    next: Mutex<Duration>,
}

impl Progress {
    pub fn start() -> Self {
        let bar = output::bar();
        bar.set_template("{bar:16.green/dim} {pos}/{len} {msg}");
        Self {
            start: Instant::now(),
            bar,
            next: Mutex::new(PATIENCE),
        }
    }

    /// So many of all are done; `of` says of what, as in `MiB read`.
    pub fn tell(&self, done: u64, all: u64, of: &'static str) {
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

/// Whether something is to be told at this time, and not again before a pause.
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
    fn progress_is_told_after_two_seconds_and_then_now_and_then() {
        let next = Mutex::new(PATIENCE);
        let told: Vec<u64> = (0..=30)
            .filter(|s| is_due(&next, Duration::from_secs(*s), PAUSE))
            .collect();
        assert_eq!(told, [2, 12, 22]);
    }
}
