//! An interval in which a true value is expected.

use serde::Serialize;

/// Coverage of all intervals, both of means and of predictions.
pub const LEVEL: f64 = 0.95;

/// An interval that is wider than this multiple of its value is useless.
pub(super) const WIDEST: f64 = 10.0;

/// An interval that contains the true value with probability [`LEVEL`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns whether the interval of a value is useful: at most ten times as wide as the value.
    pub(super) fn is_useful(&self, value: f64) -> bool {
        self.high - self.low <= WIDEST * value.abs()
    }

    /// Returns whether the interval contains a value.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}
