//! A predicted number with its interval.

use crate::stats::Interval;
use serde::Serialize;

/// A predicted number. It is not a measurement and is never made into one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its prediction interval; `None` if nothing is known of the error, as when a curve goes exactly through as few points as it has parameters.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// A number of which no error is known.
    pub fn bare(value: f64) -> Self {
        Self { value, interval: None }
    }

    /// A number with the same distance to both ends.
    pub fn plus_minus(value: f64, half: f64) -> Self {
        Self { value, interval: Some(Interval { low: value - half, high: value + half }) }
    }

    /// A number with its two ends.
    pub fn between(value: f64, low: f64, high: f64) -> Self {
        Self { value, interval: Some(Interval { low, high }) }
    }

    /// Something that is counted or known exactly.
    pub fn exact(value: f64) -> Self {
        Self::plus_minus(value, 0.0)
    }

    /// The sum of two quantities with errors that have nothing to do with each other: each side's distances add up as squares. Without an
    /// interval if one of them has none.
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let interval = self.interval.zip(other.interval).map(|(a, b)| Interval {
            low: value - (self.value - a.low).hypot(other.value - b.low),
            high: value + (a.high - self.value).hypot(b.high - other.value),
        });
        Self { value, interval }
    }

    /// The sum of two quantities that err together, as files do that hold the same zones: the distances add up.
    pub fn plus_together(self, other: Self) -> Self {
        let interval = self.interval.zip(other.interval).map(|(a, b)| Interval { low: a.low + b.low, high: a.high + b.high });
        Self { value: self.value + other.value, interval }
    }

    /// As many of the same, which err together.
    pub fn times(self, factor: f64) -> Self {
        let ends = |i: Interval| {
            let (a, b) = (i.low * factor, i.high * factor);
            Interval { low: a.min(b), high: a.max(b) }
        };
        Self { value: self.value * factor, interval: self.interval.map(ends) }
    }

    /// The same, for a quantity that cannot be negative.
    pub fn not_negative(self) -> Self {
        let ends = |i: Interval| Interval { low: i.low.max(0.0), high: i.high.max(0.0) };
        Self { value: self.value.max(0.0), interval: self.interval.map(ends) }
    }

    /// Whether a measured value lies within the interval; `None` without one.
    pub fn covers(self, measured: f64) -> Option<bool> {
        self.interval.map(|i| (i.low..=i.high).contains(&measured))
    }

    /// Half the width of the interval.
    pub fn half_width(self) -> Option<f64> {
        self.interval.map(|i| (i.high - i.low) / 2.0)
    }
}

/// 100·|predicted − measured|/|measured|; `None` for a measured zero.
pub fn error_pct(predicted: f64, measured: f64) -> Option<f64> {
    (measured != 0.0).then(|| 100.0 * (predicted - measured).abs() / measured.abs())
}

#[cfg(test)]
mod tests {
    use super::{Estimate, error_pct};

    #[test]
    fn independent_errors_add_as_squares_and_shared_ones_plainly() {
        let (a, b) = (Estimate::plus_minus(10.0, 3.0), Estimate::plus_minus(20.0, 4.0));
        assert_eq!(a.plus(b), Estimate::plus_minus(30.0, 5.0));
        assert_eq!(a.plus_together(b), Estimate::plus_minus(30.0, 7.0));
        assert_eq!(a.times(4.0), Estimate::plus_minus(40.0, 12.0));
        assert_eq!(a.plus(Estimate::bare(1.0)).interval, None);
        assert_eq!(a.covers(13.0), Some(true));
        assert_eq!(a.covers(13.1), Some(false));
        assert_eq!(error_pct(102.0, 100.0), Some(2.0));
        assert_eq!(error_pct(102.0, 0.0), None);
    }
}
