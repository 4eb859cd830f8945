//! An interval in which a true value is expected.

use serde::Serialize;

/// Coverage of all intervals: of means and of predictions.
pub const LEVEL: f64 = 0.95;

/// Where the true value is expected with probability [`LEVEL`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}
