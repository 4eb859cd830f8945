//! A predicted number with its interval.

use crate::stats::{Interval, LEVEL};
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// Relative rounding error of numbers that were written to tables and read again.
const ROUNDING: f64 = 1e-9;

/// A predicted number. It is never used as a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Prediction interval of the number; `None` if the error is unknown, for example if a curve goes through exactly as many points as it has
    /// parameters.
    pub interval: Option<Interval>,
}

impl Estimate {
    /// Returns a number whose error is unknown.
    pub fn bare(value: f64) -> Self {
        Self {
            value,
            interval: None,
        }
    }

    /// Returns a number with the same distance to both ends of its interval.
    pub fn plus_minus(value: f64, half: f64) -> Self {
        Self {
            value,
            interval: Some(Interval {
                low: value - half,
                high: value + half,
            }),
        }
    }

    /// Returns a number with the ends of its interval.
    pub fn between(value: f64, low: f64, high: f64) -> Self {
        Self {
            value,
            interval: Some(Interval { low, high }),
        }
    }

    /// Returns a number that is counted or known exactly.
    pub fn exact(value: f64) -> Self {
        Self::plus_minus(value, 0.0)
    }

    /// Adds two quantities with independent errors: on each side, the squares of the distances are added. The sum has no interval if one of the
    /// quantities has none.
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let interval = self.interval.zip(other.interval).map(|(a, b)| Interval {
            low: value - (self.value - a.low).hypot(other.value - b.low),
            high: value + (a.high - self.value).hypot(b.high - other.value),
        });
        Self { value, interval }
    }

    /// Adds two quantities whose errors are fully correlated, such as files with the same zones: the distances are added.
    pub fn plus_together(self, other: Self) -> Self {
        let interval = self.interval.zip(other.interval).map(|(a, b)| Interval {
            low: a.low + b.low,
            high: a.high + b.high,
        });
        Self {
            value: self.value + other.value,
            interval,
        }
    }

    /// Returns the sum of `factor` equal quantities, whose errors are fully correlated.
    pub fn times(self, factor: f64) -> Self {
        let ends = |i: Interval| {
            let (a, b) = (i.low * factor, i.high * factor);
            Interval {
                low: a.min(b),
                high: a.max(b),
            }
        };
        Self {
            value: self.value * factor,
            interval: self.interval.map(ends),
        }
    }

    /// Raises a negative value and negative ends of the interval to 0, for a quantity that cannot be negative.
    pub fn not_negative(self) -> Self {
        let ends = |i: Interval| Interval {
            low: i.low.max(0.0),
            high: i.high.max(0.0),
        };
        Self {
            value: self.value.max(0.0),
            interval: self.interval.map(ends),
        }
    }

    /// Returns whether the interval covers a measured value, up to rounding; `None` without an interval.
    pub fn covers(self, measured: f64) -> Option<bool> {
        let rounding = ROUNDING * measured.abs();
        self.interval
            .map(|i| (i.low - rounding..=i.high + rounding).contains(&measured))
    }

    /// Returns the interval score of a measurement: the width of the interval, plus 40 times the distance of the measurement from the interval
    /// (Winkler 1972, A decision-theoretic approach to interval estimation, J. Am. Stat. Assoc. 67). Lower is better. `None` without an interval.
    pub fn score(self, measured: f64) -> Option<f64> {
        let beyond = |i: Interval| (i.low - measured).max(measured - i.high).max(0.0);
        self.interval
            .map(|i| i.high - i.low + 2.0 / (1.0 - LEVEL) * beyond(i))
    }

    /// Returns half the width of the interval.
    pub fn half_width(self) -> Option<f64> {
        self.interval.map(|i| (i.high - i.low) / 2.0)
    }
}

/// Serialises as `{"value": …, "low": …, "high": …}`; without an interval, the ends are null.
impl Serialize for Estimate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Estimate", 3)?;
        fields.serialize_field("value", &self.value)?;
        fields.serialize_field("low", &self.interval.map(|i| i.low))?;
        fields.serialize_field("high", &self.interval.map(|i| i.high))?;
        fields.end()
    }
}

/// Returns 100·|predicted − measured|/|measured|; `None` if the measured value is 0.
pub fn error_pct(predicted: f64, measured: f64) -> Option<f64> {
    (measured != 0.0).then(|| 100.0 * (predicted - measured).abs() / measured.abs())
}

#[cfg(test)]
mod tests {
    use super::{Estimate, error_pct};

    #[test]
    fn independent_errors_add_as_squares_and_shared_ones_linearly() {
        let (a, b) = (
            Estimate::plus_minus(10.0, 3.0),
            Estimate::plus_minus(20.0, 4.0),
        );
        assert_eq!(a.plus(b), Estimate::plus_minus(30.0, 5.0));
        assert_eq!(a.plus_together(b), Estimate::plus_minus(30.0, 7.0));
        assert_eq!(a.times(4.0), Estimate::plus_minus(40.0, 12.0));
        assert_eq!(a.plus(Estimate::bare(1.0)).interval, None);
        assert_eq!(a.covers(13.0), Some(true));
        assert_eq!(a.covers(13.1), Some(false));
        // a difference in the last bits is not a miss
        assert_eq!(Estimate::exact(0.3).covers(0.1 + 0.2), Some(true));
        assert!(
            a.score(12.0).is_some_and(|s| (s - 6.0).abs() < 1e-9)
                && a.score(6.0).is_some_and(|s| (s - 46.0).abs() < 1e-9)
        );
        assert_eq!(error_pct(102.0, 100.0), Some(2.0));
        assert_eq!(error_pct(102.0, 0.0), None);
    }
}
