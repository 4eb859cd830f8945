//! An interval in which a true value is expected.

use serde::Serialize;

/// Coverage of all intervals: of means and of predictions.
pub const LEVEL: f64 = 0.95;

/// An interval wider than this many times its value is of no use to anybody.
pub(super) const WIDEST: f64 = 10.0;

/// Where the true value is expected with probability [`LEVEL`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns whether the interval of a value says something about it: it is at most ten times as wide as the value.
    pub(super) fn is_useful(&self, value: f64) -> bool {
        self.high - self.low <= WIDEST * value.abs()
    }

    /// Returns whether a value is within.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}
