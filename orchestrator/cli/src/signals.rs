//! Signals from the user: which of them count, and when their default effect is restored.

use nix::sys::signal::{SigHandler, Signal, signal};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tokio::signal::unix::SignalKind;

/// Signals of one kind within this time count as one: GNU timeout and systemd send a signal to a program and again to its process group.
const TOGETHER: Duration = Duration::from_millis(500);

/// Restores the default effect of SIGINT, SIGTERM and SIGHUP. Must be called only when nothing is left to clean up, such as machines to be released.
/// Signals that were ignored from the start, as by `nohup`, stay ignored.
pub fn let_signals_end_it() {
    for of_user in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        if let Ok(SigHandler::SigIgn) = set(of_user, SigHandler::SigDfl) {
            // a signal between the two calls ends the program, as it would have without `nohup`
            let _ = set(of_user, SigHandler::SigIgn);
        }
    }
}

#[expect(
    unsafe_code,
    reason = "neither SIG_DFL nor SIG_IGN is a handler of this program"
)]
fn set(of_user: Signal, action: SigHandler) -> nix::Result<SigHandler> {
    // SAFETY: neither action calls a function of this program
    unsafe { signal(of_user, action) }
}

/// Recognizes the second signal of a pair that was sent by one action.
#[derive(Debug, Default)]
pub struct Pairs(HashMap<SignalKind, Instant>);

impl Pairs {
    /// Returns whether a signal that arrived at this time counts.
    pub fn counts(&mut self, kind: SignalKind, now: Instant) -> bool {
        if self
            .0
            .get(&kind)
            .is_some_and(|last| now.saturating_duration_since(*last) < TOGETHER)
        {
            return false;
        }
        self.0.insert(kind, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_of_one_kind_at_once_are_one_and_later_ones_count() {
        let start = Instant::now();
        let mut pairs = Pairs::default();
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        let mut counts = |kind, ms| pairs.counts(kind, start + Duration::from_millis(ms));
        assert!(counts(terminate, 0) && !counts(terminate, 1) && !counts(terminate, 499));
        assert!(counts(interrupt, 100), "another kind is meant");
        assert!(
            counts(terminate, 500),
            "and so is one that comes later, even if some came meanwhile"
        );
        assert!(!counts(interrupt, 599) && counts(interrupt, 600));
    }
}
