//! The time, for what costs money and for journals: it does not go back, even if somebody sets the machine's clock back.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::{
    cell::Cell,
    sync::LazyLock,
    time::{Duration, Instant},
};

/// More than clocks of one machine differ by, however they are kept.
const NOTABLE: SignedDuration = SignedDuration::from_mins(1);
/// Less than anybody who compares times of machines notices.
const SAME: SignedDuration = SignedDuration::from_secs(1);

/// The time of this process.
static CLOCK: LazyLock<Mutex<Clock>> = LazyLock::new(|| Mutex::new(Clock::after(None)));

thread_local! {
    /// How far the wall clock of this thread is set off that of the machine.
    static OFF: Cell<SignedDuration> = const { Cell::new(SignedDuration::ZERO) };
}

/// What the machine's clock shows, which somebody may set.
pub fn wall() -> Timestamp {
    let now = Timestamp::now();
    now.saturating_add(OFF.get()).unwrap_or(now)
}

/// Sets the wall clock of this thread off that of the machine, and returns how far it was: for simulations in which somebody sets it.
pub fn set_off(by: SignedDuration) -> SignedDuration {
    OFF.replace(by)
}

/// The machine's time, or what the time must be by now if its clock was set back meanwhile.
pub fn now() -> Timestamp {
    CLOCK.lock().now()
}

/// Lets the time of this process go on from the last record of a journal, if the machine's clock was set back since: what is open in the journal
/// would otherwise cost nothing for as long.
pub fn go_on_from(last: Timestamp) {
    let mut clock = CLOCK.lock();
    clock.now();
    clock.go_on_from(last);
}

/// How far a journal's last record is ahead of the machine's clock, if that is so far that one of the two was wrong.
pub fn ahead(last: Timestamp, wall: Timestamp) -> Option<SignedDuration> {
    Some(last.duration_since(wall)).filter(|ahead| *ahead > NOTABLE)
}

/// A time of this process as the machine's clock shows it: what others compare with their own clocks, such as tags in a cloud, must not go on from
/// a clock that was ahead once.
pub fn on_wall(time: Timestamp) -> Timestamp {
    on_wall_at(time, now(), wall())
}

fn on_wall_at(time: Timestamp, here: Timestamp, wall: Timestamp) -> Timestamp {
    let ahead = here.duration_since(wall);
    // so that both are the same wherever clocks were never set
    if ahead < SAME {
        time
    } else {
        time.saturating_sub(ahead).unwrap_or(time)
    }
}

/// Times that never go back: they follow the wall clock, and where that was set back, the time that has passed.
#[derive(Debug)]
pub struct Clock {
    last: Timestamp,
    since: Instant,
}

impl Clock {
    /// A clock that goes on from this time, if there is one.
    pub fn after(last: Option<Timestamp>) -> Self {
        Self {
            last: last.unwrap_or(Timestamp::MIN),
            since: Instant::now(),
        }
    }

    fn go_on_from(&mut self, last: Timestamp) {
        self.last = self.last.max(last);
    }

    /// The time now.
    pub fn now(&mut self) -> Timestamp {
        self.at(wall(), self.since.elapsed())
    }

    /// The time when the wall clock shows `wall`, and this much has passed since the last one.
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
        // the monotonic clock stands still while a laptop sleeps
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
        // an hour back
        assert_eq!(
            clock.at(at("2026-01-01T11:00:06Z"), second),
            at("2026-01-01T12:00:06Z")
        );
        assert_eq!(
            clock.at(at("2026-01-01T11:00:07Z"), second),
            at("2026-01-01T12:00:07Z")
        );
        // and on again
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
    fn what_others_read_has_the_time_of_the_machine() {
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        // an hour from now, by a clock that goes on from one that was ahead, and by one that does not
        assert_eq!(on_wall_at(at(93_600), at(90_000), at(1_000)), at(4_600));
        assert_eq!(on_wall_at(at(4_600), at(1_000), at(1_000)), at(4_600));
    }
}
