//! Signals of the user: what they mean, and when they mean nothing special any more.

use nix::sys::signal::{SigHandler, Signal, signal};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};
use tokio::signal::unix::SignalKind;

/// Signals of one kind within this time are one: GNU timeout and systemd send one to a program and one more to its group.
const TOGETHER: Duration = Duration::from_millis(500);

/// Lets Ctrl-C, TERM and the end of the terminal end this program as they end any: once nothing is at stake any more, such as machines that have
/// to be given back. What was ignored from the start, as by `nohup`, stays ignored.
pub fn let_signals_end_it() {
    for of_user in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        if let Ok(SigHandler::SigIgn) = set(of_user, SigHandler::SigDfl) {
            // in the worst case it ends, now, as it would have without `nohup`
            let _ = set(of_user, SigHandler::SigIgn);
        }
    }
}

#[expect(
    unsafe_code,
    reason = "neither the default action nor none is a handler of this program"
)]
fn set(of_user: Signal, action: SigHandler) -> nix::Result<SigHandler> {
    // SAFETY: no function of this program is called
    unsafe { signal(of_user, action) }
}

/// Tells signals that somebody sent on purpose from the second half of a pair.
#[derive(Debug, Default)]
pub struct Pairs(HashMap<SignalKind, Instant>);

impl Pairs {
    /// Whether a signal that came now counts.
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
