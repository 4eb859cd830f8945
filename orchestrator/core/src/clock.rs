//! Time for costs and journals, which never goes back, even if the machine's clock is set back.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::{
    cell::Cell,
    sync::LazyLock,
    time::{Duration, Instant},
};

/// Difference from which a journal that is ahead of the machine's clock is reported. Synchronised clocks differ by less.
const NOTABLE: SignedDuration = SignedDuration::from_mins(1);
/// Maximum difference between two machines' times that counts as no difference.
const SAME: SignedDuration = SignedDuration::from_secs(1);

/// The clock of this process.
static CLOCK: LazyLock<Mutex<Clock>> = LazyLock::new(|| Mutex::new(Clock::after(None)));

thread_local! {
    /// Offset that a simulation adds to the machine's clock in this thread.
    static OFF: Cell<SignedDuration> = const { Cell::new(SignedDuration::ZERO) };
}

/// Returns the time of the machine's clock, which may be set at any moment.
pub fn wall() -> Timestamp {
    let now = Timestamp::now();
    now.saturating_add(OFF.get()).unwrap_or(now)
}

/// Sets the offset of this thread's wall clock from the machine's clock, and returns the previous offset. For simulations in which the clock is set.
pub fn set_off(by: SignedDuration) -> SignedDuration {
    OFF.replace(by)
}

/// Returns the current time. If the machine's clock was set back, returns the time that it would show without that.
pub fn now() -> Timestamp {
    CLOCK.lock().now()
}

/// Makes the time of this process continue from the last entry of a journal, if the machine's clock was set back since that entry. Otherwise open
/// entries of the journal would cost nothing until the clock has caught up.
pub fn go_on_from(last: Timestamp) {
    let mut clock = CLOCK.lock();
    clock.now();
    clock.go_on_from(last);
}

/// Returns how far a journal's last entry is ahead of the machine's clock; `None` if clocks may differ that much.
pub fn ahead(last: Timestamp, wall: Timestamp) -> Option<SignedDuration> {
    Some(last.duration_since(wall)).filter(|ahead| *ahead > NOTABLE)
}

/// Converts a time of this process to the machine's clock. Other machines compare some times with their own clocks, for example expiry tags in a
/// cloud. If the machine's clock was set back, these times must not include the lead of this process.
pub fn on_wall(time: Timestamp) -> Timestamp {
    on_wall_at(time, now(), wall())
}

fn on_wall_at(time: Timestamp, here: Timestamp, wall: Timestamp) -> Timestamp {
    let ahead = here.duration_since(wall);
    // so that both times are equal if the clock was never set
    if ahead < SAME {
        time
    } else {
        time.saturating_sub(ahead).unwrap_or(time)
    }
}

/// A clock that never goes back. It follows the wall clock; if the wall clock was set back, it continues with the elapsed time until the wall clock
/// has caught up.
#[derive(Debug)]
pub struct Clock {
    last: Timestamp,
    since: Instant,
}

impl Clock {
    /// Creates a clock that shows no time before `last`.
    pub fn after(last: Option<Timestamp>) -> Self {
        Self {
            last: last.unwrap_or(Timestamp::MIN),
            since: Instant::now(),
        }
    }

    fn go_on_from(&mut self, last: Timestamp) {
        self.last = self.last.max(last);
    }

    /// Returns the current time.
    pub fn now(&mut self) -> Timestamp {
        self.at(wall(), self.since.elapsed())
    }

    /// Returns the time when the wall clock shows `wall` and `passed` has elapsed since the last call.
    fn at(&mut self, wall: Timestamp, passed: Duration) -> Timestamp {
        self.since += passed;
        self.last = self
            .last
            .saturating_add(passed)
            .unwrap_or(self.last)
            .max(wall);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_does_not_turn_the_time_back() {
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        let later_of = |wall, began, passed_s| {
            Clock::after(Some(began)).at(wall, Duration::from_secs(passed_s))
        };
        assert_eq!(later_of(at(1_010), at(1_000), 10), at(1_010));
        assert_eq!(later_of(at(400), at(1_000), 10), at(1_010));
        // the monotonic clock stops while a laptop sleeps
        assert_eq!(later_of(at(9_000), at(1_000), 10), at(9_000));
    }

    #[test]
    fn a_clock_goes_on_from_a_record_that_is_later() {
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        let mut clock = Clock::after(Some(at(1_000)));
        clock.go_on_from(at(4_600));
        assert_eq!(clock.at(at(1_010), Duration::from_secs(10)), at(4_610));
        clock.go_on_from(at(2_000));
        assert_eq!(clock.at(at(1_020), Duration::from_secs(10)), at(4_620));
    }

    #[test]
    fn times_never_go_back_and_go_on_where_the_clock_was_set_back() {
        let at = |s: &str| s.parse::<Timestamp>().expect("a time");
        let second = Duration::from_secs(1);
        let mut clock = Clock::after(Some(at("2026-01-01T12:00:00Z")));
        assert_eq!(
            clock.at(at("2026-01-01T12:00:05Z"), 5 * second),
            at("2026-01-01T12:00:05Z")
        );
        // the wall clock is set back by an hour
        assert_eq!(
            clock.at(at("2026-01-01T11:00:06Z"), second),
            at("2026-01-01T12:00:06Z")
        );
        assert_eq!(
            clock.at(at("2026-01-01T11:00:07Z"), second),
            at("2026-01-01T12:00:07Z")
        );
        // and forward again
        assert_eq!(
            clock.at(at("2026-01-01T13:00:00Z"), second),
            at("2026-01-01T13:00:00Z")
        );
    }

    #[test]
    fn a_record_far_ahead_of_the_clock_is_noticed() {
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        assert_eq!(ahead(at(1_060), at(1_000)), None);
        assert_eq!(
            ahead(at(1_061), at(1_000)),
            Some(SignedDuration::from_secs(61))
        );
        assert_eq!(ahead(at(900), at(1_000)), None);
    }

    #[test]
    fn times_for_others_are_the_machines() {
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        // an hour from now, once by a clock that was ahead when it was set back, once by one that was not
        assert_eq!(on_wall_at(at(93_600), at(90_000), at(1_000)), at(4_600));
        assert_eq!(on_wall_at(at(4_600), at(1_000), at(1_000)), at(4_600));
    }
}
