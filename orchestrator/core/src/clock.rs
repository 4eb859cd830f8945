//! The time, for what costs money: it does not go back while this process lives, even if somebody sets the machine's clock back.

use jiff::{SignedDuration, Timestamp};
use std::{sync::LazyLock, time::Instant};

/// The machine's time when this was first asked, and the monotonic clock at that moment.
static BEGAN: LazyLock<(Timestamp, Instant)> = LazyLock::new(|| (Timestamp::now(), Instant::now()));

/// The machine's time, or what the time must be by now if its clock was set back meanwhile.
pub fn now() -> Timestamp {
    let (began, since) = *BEGAN;
    later_of(Timestamp::now(), began, since.elapsed().as_secs_f64())
}

/// The later one of the wall clock and of a time with the seconds that have passed since.
fn later_of(wall: Timestamp, began: Timestamp, passed_s: f64) -> Timestamp {
    let passed = SignedDuration::try_from_secs_f64(passed_s).unwrap_or_default();
    wall.max(began.checked_add(passed).unwrap_or(wall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_does_not_turn_the_time_back() {
        let at = |s: i64| Timestamp::from_second(s).expect("a time");
        assert_eq!(later_of(at(1_010), at(1_000), 10.0), at(1_010));
        assert_eq!(later_of(at(400), at(1_000), 10.0), at(1_010));
        // the monotonic clock stands still while a laptop sleeps
        assert_eq!(later_of(at(9_000), at(1_000), 10.0), at(9_000));
    }
}
